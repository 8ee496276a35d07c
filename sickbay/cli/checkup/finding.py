"""What a check found."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from k8s.gateway import Gateway
from sickbay.model.policy import Policy
from sickbay.temporal import Temporal

SHOWN: Final = 5
"""Things of one kind that a finding names."""


class Severity(StrEnum):
    """How bad it is."""

    OK = "ok"
    WARNING = "warning"
    """Something will not work as one may expect, or could not be looked at."""
    ERROR = "error"
    """Sickbay cannot do its work, or a device that is out of service is not kept so."""


@dataclass(frozen=True)
class Finding:
    """One thing that was found.

    Attributes:
        check: name of the check, CamelCase.
        what: in one sentence.
        remedy: what to do about it; ``""`` if all is well.
    """

    check: str
    severity: Severity
    what: str
    remedy: str = ""


@dataclass(frozen=True)
class Scene:
    """What the checks look at.

    Attributes:
        policy: that Sickbay runs by; None if it was not given, and then its defaults are no promise.
        now: tells the time of this machine.
    """

    gateway: Gateway
    temporal: Temporal
    policy: Policy | None
    now: Callable[[], datetime]


def some(things: Iterable[object]) -> str:
    """Name a few of many."""
    texts = [str(thing) for thing in things]
    more = f" and {len(texts) - SHOWN} more" if len(texts) > SHOWN else ""
    return f"{', '.join(texts[:SHOWN])}{more}"
