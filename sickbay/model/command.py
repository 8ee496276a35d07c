"""What a person tells one incident, what it answers, and what it keeps of it."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Final

from pydantic import AfterValidator, AwareDatetime, Field

from sickbay.model.base import Name, Payload
from sickbay.model.record import Disowning

COMMAND_UPDATE: Final = "command"
"""Update, `Command` to `Answer`: answered at once, whatever the incident is waiting for."""

UNVERIFIED: Final = "unverified"
"""Actor of a command that came as a signal: whoever sent it, nobody asked who it was."""

REMEMBERED: Final = 100
"""Ids of commands that are kept, so that each is applied once."""


class CommandVerb(StrEnum):
    """What an incident can be told; also the names of the signals."""

    PAUSE = "pause"
    """Move nobody, probe nothing, release nothing; the fence stays."""
    RESUME = "resume"
    EXTEND_QUARANTINE = "extend_quarantine"
    """Keep the device out of service until a time at least."""
    APPROVE = "approve"
    """What a person was asked for has been looked after: try again now."""
    RETIRE = "retire"
    """End, and leave the fence until other hardware is in the slot."""
    PROBE_NOW = "probe_now"
    """Do not let the device rest any longer before the next probe."""


def _utc(time: datetime) -> datetime:
    """Turn a time into UTC, as which it is told to people, whatever zone its sender is in."""
    try:
        return time.astimezone(UTC)
    except OverflowError as error:
        raise ValueError("too far away") from error


class Command(Payload):
    """One command.

    Attributes:
        id: chosen by the sender; the same one is applied once.
        actor: who it is, as the sender says.
        reason: why, for people.
        until: end of a pause, or of the quarantine.
        at: when it was given, by the sender's clock; None = not said.
    """

    id: Annotated[str, Field(min_length=1, max_length=64)]
    verb: CommandVerb
    actor: Annotated[str, Field(min_length=1, max_length=200)]
    reason: Annotated[str, Field(max_length=1000)] = ""
    until: Annotated[AwareDatetime, AfterValidator(_utc)] | None = None
    at: AwareDatetime | None = None


class Outcome(StrEnum):
    """What became of a command."""

    APPLIED = "Applied"
    ALREADY_APPLIED = "AlreadyApplied"
    REFUSED = "Refused"


class Answer(Payload):
    """What became of a command, and in one sentence what that means."""

    outcome: Outcome
    message: Name


class Pause(Payload):
    """A pause that holds.

    Attributes:
        until: None = until somebody resumes; a person is reminded every day.
        reminded: days on which that was done.
    """

    actor: str = ""
    reason: str = ""
    since: datetime
    until: datetime | None = None
    reminded: int = 0


class Hindrance(StrEnum):
    """What keeps an incident from a step that cannot be undone, outside of it."""

    PAUSED = "Paused"
    """The whole installation is paused."""
    HANDS_OFF = "HandsOff"
    """The node is marked as not Sickbay's to touch."""


class Halt(Payload):
    """A step that was not carried out, because of a word that is not this incident's."""

    reason: Hindrance
    message: str = ""


class Orders(Payload):
    """What an incident keeps of what it was told.

    Attributes:
        applied: ids of the last commands.
        begun_at: of this run; older commands were given to another.
        kept_until: earliest end of the quarantine, as a person set it.
        kept_from: when a person first set one; the policy's bound counts from here.
        retiring: who retires the device and why; ``""`` = nobody.
        halt: holds until a look finds it gone.
        disowned: who gives the device up, as the record said at the last reading.
        summoned: to read the record, also in a pause: somebody wrote there what goes over it.
    """

    applied: tuple[str, ...] = ()
    begun_at: datetime | None = None
    pause: Pause | None = None
    kept_until: datetime | None = None
    kept_from: datetime | None = None
    retiring: str = ""
    halt: Halt | None = None
    disowned: Disowning | None = None
    summoned: bool = False
