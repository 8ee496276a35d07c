"""The words of the ladder: what an incident can do next."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Final

from sickbay.model.base import Payload
from sickbay.model.incident import Ask, Trial, User
from sickbay.model.record import Phase


class Verb(StrEnum):
    """One thing to do; all but OpenRelease, Wait and End are activities."""

    READ = "Read"
    WRITE = "Write"
    FENCE = "Fence"
    LIST_USERS = "ListUsers"
    EVICT = "Evict"
    AWAIT_USERS = "AwaitUsers"
    START_PROBE = "StartProbe"
    AWAIT_PROBE = "AwaitProbe"
    STOP_PROBE = "StopProbe"
    CHECK_BUSINESS = "CheckBusiness"
    RAMP = "Ramp"
    OPEN_RELEASE = "OpenRelease"
    """A decision alone: it takes a number and the phase Releasing."""
    UNLATCH = "Unlatch"
    DELETE_FENCE = "DeleteFence"
    AWAIT_FENCE_GONE = "AwaitFenceGone"
    AWAIT_GO = "AwaitGo"
    """Something outside the incident keeps it from a step that cannot be undone."""
    CLOSE = "Close"
    WAIT = "Wait"
    END = "End"

    @property
    def waits(self) -> bool:
        """Whether it may take long and is given up as soon as something is said."""
        return self in _WAITS


_WAITS: Final = frozenset(
    {Verb.AWAIT_USERS, Verb.AWAIT_PROBE, Verb.STOP_PROBE, Verb.AWAIT_FENCE_GONE, Verb.AWAIT_GO, Verb.WAIT}
)


class Step(Payload):
    """The ladder's decision.

    Attributes:
        phase: the phase that the incident is in while it does this.
        reason: CamelCase.
        message: for people: what is done or waited for, and why.
        recheck_at: when to decide again at the latest; None: only when something is said or the verb is done.
        user: whom to evict.
        trial: with StartProbe, which.
        rests: the next trial is due at `recheck_at`.
        ask: what a person is asked meanwhile.
        outcome: with OpenRelease, how the incident is to end.
    """

    verb: Verb
    phase: Phase
    reason: str
    message: str
    recheck_at: datetime | None = None
    user: User | None = None
    trial: Trial = Trial.PROBE
    rests: bool = False
    ask: Ask | None = None
    outcome: Phase | None = None
