"""The ids of an incident's trace: they follow from the incident, so that nobody has to pass them on.

Watcher, worker and whoever comes after a crash find the same trace without asking each other.
"""

from __future__ import annotations

import hashlib
from typing import Final

TRACE_ANNOTATION: Final = "sickbay.dev/trace"
"""On the record: id of the trace of its incident, in hex."""

PLACE: Final = "{trace_id}"
"""In a template of an address: where the id goes."""


def trace_number(incident: str) -> int:
    """Give the id of an incident's trace; 128 bits, never zero."""
    return _number(f"trace of {incident}", 16)


def root_number(incident: str) -> int:
    """Give the id of its root span; 64 bits, never zero."""
    return span_number(incident, "root")


def span_number(incident: str, key: str) -> int:
    """Give the id of the span of an incident that has this key; 64 bits, never zero."""
    return _number(f"span {key} of {incident}", 8)


def trace_id(incident: str) -> str:
    """Write the id of an incident's trace as people and tools do: 32 hex digits."""
    return f"{trace_number(incident):032x}"


def trace_link(template: str, incident: str) -> str:
    """Give the address of an incident's trace, ``""`` without a template."""
    return template.replace(PLACE, trace_id(incident))


def _number(text: str, size: int) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:size], "big") or 1
