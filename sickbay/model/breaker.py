"""What the cluster remembers of trials that proved nothing: the breaker for probes, and the one for canaries."""

from __future__ import annotations

from datetime import datetime

from pydantic import Field

from sickbay.model.base import Wire


class Breaker(Wire):
    """Trials of one kind that in a row proved nothing, and whether that has stopped new ones.

    Attributes:
        devices: on which they were, oldest first: its pool by its record's name.
        last: what the last one came to, for people, tamed.
        since: when it opened; None = closed.
        trying: effect key of the one trial that is let through while it is open.
        trying_until: when that one has surely ended.
    """

    devices: dict[str, str] = Field(default_factory=dict)
    last: str = ""
    since: datetime | None = None
    trying: str = ""
    trying_until: datetime | None = None
