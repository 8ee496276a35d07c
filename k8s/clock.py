"""The wall clock, where one is not injected."""

from __future__ import annotations

from datetime import UTC, datetime


def utc_now() -> datetime:
    """Tell the time of this machine, timezone-aware."""
    return datetime.now(UTC)
