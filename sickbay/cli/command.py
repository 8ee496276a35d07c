"""``sickbay pause``, ``resume``, ``extend``, ``approve``, ``retire``, ``probe-now``: tell one incident what to do."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

import click

from k8s.gateway import Gateway
from k8s.records import Records
from sickbay import errors
from sickbay.cli import shared
from sickbay.cli.acting import acting_options
from sickbay.cli.finding import NODE, REASON, actor, cluster, end_of, the_record, words_of
from sickbay.model.base import tamed
from sickbay.model.command import Command, CommandVerb, Outcome
from sickbay.model.record import APPROVED, NEEDS_OPERATOR, Condition, Record
from sickbay.settings import Settings
from sickbay.temporal import Temporal
from workers.run import temporal_of

_Body = Callable[..., None]
_Option = Callable[[_Body], _Body]

_TARGET: Final = words_of("target", "INCIDENT|DEVICE")
_SETTINGS: Final = shared.settings_options(*shared.CLUSTER, *shared.TEMPORAL, *shared.LOG)
_UNTIL: Final = click.option("--until", metavar="TIME", help="When it ends, like 2026-11-30T18:00:00Z.")
_FOR: Final = click.option("--for", "length", metavar="LENGTH", help="How long it lasts, like 2h or 7d.")


def _telling(*more: _Option, name: str | None = None) -> Callable[[_Body], click.Command]:
    """Make a function a command that tells one incident something: which one, why, and what these options give."""

    def decorate(body: _Body) -> click.Command:
        options: tuple[_Option, ...] = (_TARGET, REASON, *more, NODE, acting_options, _SETTINGS)
        for option in reversed(options):
            body = option(body)
        return click.command(name)(body)

    return decorate


@_telling(_UNTIL, _FOR)
def pause(**flags: Any) -> None:
    """Stop one incident: nobody is moved, nothing is probed or released; the fence stays. Without an end it reminds."""
    _give(CommandVerb.PAUSE, flags)


@_telling()
def resume(**flags: Any) -> None:
    """End the pause of one incident."""
    _give(CommandVerb.RESUME, flags)


@_telling(_UNTIL, _FOR)
def extend(**flags: Any) -> None:
    """Keep a device out of service until a time at least; the policy's quarantine.longest bounds it."""
    if not (flags["until"] or flags["length"]):
        raise errors.UsageError("--until: say how long the device is to stay out of service, by --until or --for")
    _give(CommandVerb.EXTEND_QUARANTINE, flags)


@_telling()
def approve(**flags: Any) -> None:
    """Let a held incident act; or, where a person was asked for something, have it try again now."""
    _give(CommandVerb.APPROVE, flags)


@_telling()
def retire(**flags: Any) -> None:
    """End an incident and leave its device fenced until other hardware is in the slot."""
    _give(CommandVerb.RETIRE, flags)


@_telling(name="probe-now")
def probe_now(**flags: Any) -> None:
    """Send the next probe as soon as the device is free, without letting it rest any longer."""
    _give(CommandVerb.PROBE_NOW, flags)


def _give(verb: CommandVerb, flags: dict[str, Any]) -> None:
    target, reason, node = flags.pop("target"), flags.pop("reason"), flags.pop("node")
    now = datetime.now(UTC)
    until = end_of(flags.pop("until", None), flags.pop("length", None), now)
    settings = shared.settings_from(flags)
    command = Command(id=uuid.uuid4().hex, verb=verb, actor="nobody", reason=tamed(reason, 400), until=until, at=now)
    click.echo(asyncio.run(_sent(settings, command, target, node)))


async def _sent(settings: Settings, command: Command, target: str, node: str | None) -> str:
    async with cluster(settings) as gateway:
        return await give(gateway, temporal_of(settings), command, target, node)


async def give(gateway: Gateway, temporal: Temporal, command: Command, target: str, node: str | None = None) -> str:
    """Give a command to the incident that a word names, in the name of whoever asks, and say what became of it.

    Raises:
        SickbayError: there is no such incident.
        UsageError: it has ended, or it refuses; the text says why.
        TemporalUnavailable: no answer.
    """
    records = Records(gateway)
    record = the_record((await records.list()).records, target, node)
    incident = record.spec.incident
    if record.closed:
        closed = record.status.closed
        when = f" at {closed.at:%Y-%m-%d %H:%M:%SZ}" if closed else ""
        raise errors.UsageError(f"already closed: {incident} ended as {record.status.phase}{when}")
    if (word := record.disowned) is not None:
        raise errors.UsageError(
            f"{word.by} has given the device up ({word.reason}): {incident} takes no order any more"
        )
    command = command.model_copy(update={"actor": await actor(gateway)})
    if command.verb is CommandVerb.APPROVE:
        if not record.admitted:
            await _admit(records, record, command)
            return f"{incident}: approved by {command.actor}; the leader fences it next"
        if not _asks(record):
            raise errors.UsageError(f"{incident} waits for nobody: it is {record.status.phase or 'beginning'}")
    return await tell(temporal, incident, command)


async def tell(temporal: Temporal, incident: str, command: Command) -> str:
    """Give the command and say what became of it.

    Raises:
        UsageError: it is refused, or the incident does not run.
        TemporalUnavailable: no answer.
    """
    answer = await temporal.command(incident, command)
    if answer is None:
        raise errors.UsageError(
            f"{incident} does not run now: it has just ended, or is about to be started; look again"
        )
    if answer.outcome is Outcome.REFUSED:
        raise errors.UsageError(f"refused: {answer.message}")
    return f"{incident}: {answer.message}"


def _asks(record: Record) -> bool:
    asked = record.status.condition(NEEDS_OPERATOR)
    return asked is not None and asked.status == "True"


async def _admit(records: Records, record: Record, command: Command) -> None:
    """Write the condition by which a person approves; the leader decides on it as on one written by kubectl."""
    status = record.status
    if status.incident not in {"", record.spec.incident}:
        raise errors.UsageError(
            f"{record.spec.incident} has not begun yet: see that Temporal and a worker run, then again"
        )
    message = tamed(f"{command.actor}: {command.reason}")
    now = datetime.now(UTC)
    approved = Condition(type=APPROVED, status="True", reason="ByAPerson", message=message, last_transition_time=now)
    others = tuple(c for c in status.conditions if c.type != APPROVED)
    await records.write_status(record, status.model_copy(update={"conditions": (*others, approved)}))
