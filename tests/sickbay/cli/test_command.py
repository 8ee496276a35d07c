"""Commands on the command line: which incident is meant, what is refused in one line, and who may what."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta
from importlib import import_module
from typing import Any

import pytest

from k8s.records import Records
from sickbay import errors
from sickbay.cli import main
from sickbay.cli.command import give
from sickbay.cli.disown import give_up
from sickbay.cli.finding import end_of, the_record
from sickbay.cli.main import COMMANDS
from sickbay.model.command import Command, CommandVerb
from sickbay.model.device import DeviceKey
from sickbay.model.observation import Health
from sickbay.model.record import AdmissionState, Closed, Phase, Record, RecordStatus
from sickbay.temporal import Temporal
from tests.builders import DEVICE, NOW
from tests.installation import BREAK_GLASS, OPERATORS, Installation, a_device, record_spec

NOWHERE = "127.0.0.1:9"


def record(key: DeviceKey = DEVICE, *, closed: bool = False) -> Record:
    """Build a record of a device, open or closed."""
    spec = record_spec(key)
    ended = RecordStatus(
        incident=spec.incident, run=1, phase=Phase.RELEASED, closed=Closed(at=NOW, outcome=Phase.RELEASED)
    )
    return Record(
        name=key.record_name, uid="u", resource_version="1", spec=spec, status=ended if closed else RecordStatus()
    )


OTHER = DEVICE.model_copy(update={"pool": "node-2"})


@pytest.mark.parametrize(
    "wanted",
    [
        DEVICE.record_name,
        f"dq/{DEVICE.record_name}",
        DEVICE.incident_id("100"),
        str(DEVICE),
        "gpu.sickbay.dev/node-1/gpu-3",
        "node-1/gpu-3",
    ],
)
def test_a_device_has_many_spellings(wanted: str) -> None:
    """Each finds the one record."""
    assert the_record([record(OTHER), record()], wanted).spec.key == DEVICE


def test_a_word_that_fits_several_or_none_is_an_error() -> None:
    """It names them, and the remedy; an open incident goes before one that has ended."""
    with pytest.raises(errors.UsageError, match=r"fits 2 devices: .*node-1/gpu-3.*name one in full"):
        the_record([record(), record(OTHER)], "gpu-3")
    with pytest.raises(
        errors.SickbayError, match=r"gpu-9: no incident of such a device.*sickbay get incidents"
    ) as none:
        the_record([record()], "gpu-9")
    assert none.value.exit_status == 1  # as explain and describe have it
    assert the_record([record(), record(OTHER, closed=True)], "gpu-3").spec.key == DEVICE


@pytest.mark.parametrize(
    ("until", "length", "why"),
    [
        ("2026-01-10T11:00:00Z", "1h", "give one of them"),
        ("tomorrow", None, "--until: 'tomorrow' is no time"),
        ("9999-12-31T23:59:59-12:00", None, "is no time"),
        (None, "soon", "--for: 'soon' is not a duration"),
        (None, "PT1H", "--for: 'PT1H' is no duration"),
    ],
)
def test_an_end_that_cannot_be_read(until: str | None, length: str | None, why: str) -> None:
    """The error names the flag and how to write it."""
    with pytest.raises(errors.UsageError, match=why):
        end_of(until, length, NOW)


def test_an_end_is_a_time_or_a_length() -> None:
    """A time without a zone is UTC."""
    assert end_of(None, "2h", NOW) == NOW + timedelta(hours=2)
    assert end_of("2026-01-10T11:00:00", None, NOW) == end_of("2026-01-10T11:00:00Z", None, NOW)
    assert str(end_of("2026-01-10T11:00:00+05:00", None, NOW)) == "2026-01-10 06:00:00+00:00"
    assert end_of(None, None, NOW) is None


@pytest.mark.parametrize("verb", ["pause", "resume", "extend", "approve", "retire", "probe-now", "quarantine"])
def test_nobody_commands_without_a_reason(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    """It is asked for before anything else."""
    assert main.run([verb, "gpu-3"]) == 2
    assert "Missing option '--reason'" in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["pause", "retire", "disown", "quarantine"])
def test_node_and_device_can_be_two_words(verb: str) -> None:
    """As `sickbay explain` takes them, and the commands of the lab."""
    command = getattr(import_module(COMMANDS[verb].module), verb)
    context = command.make_context(verb, ["node-2", "gpu-0", "--reason", "x"])
    assert "node-2/gpu-0" in {context.params.get("target"), context.params.get("device")}


def test_extend_needs_an_end(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is extended for ever."""
    assert main.run(["extend", "gpu-3", "--reason", "x"]) == 2
    assert capsys.readouterr().err.startswith("error: --until: say how long")


# --- on a real API server ---------------------------------------------------------------------------------------------


async def opened(sickbay: Installation, **status: Any) -> Record:
    """Make a held record, as the leader and its incident do."""
    key, records = a_device(), Records(sickbay.gateway)
    held = {"state": AdmissionState.HELD, "numbers": "3 of 3"}
    made = await records.create(
        key, record_spec(key, term=await sickbay.lead(), severity=Health.UNHEALTHY, admission=held)
    )
    told = {"incident": made.spec.incident, "run": 1, "phase": Phase.HELD} | status
    return await records.write_status(made, RecordStatus(**told))


async def say(sickbay: Installation, group: str | None, verb: CommandVerb, target: str) -> str:
    """Give a command as a member of a group; Temporal is away."""
    command = Command(id=uuid.uuid4().hex, verb=verb, actor="nobody", reason="room was made", at=datetime.now(UTC))
    async with sickbay.as_user("ann", group) as ann:
        return await give(ann, Temporal(NOWHERE), command, target)


async def test_approve_writes_the_condition_that_the_leader_reads(sickbay: Installation) -> None:
    """In the name that the API server knows, by the group that may, and without Temporal."""
    held = await opened(sickbay)
    assert "approved by ann" in await say(sickbay, BREAK_GLASS, CommandVerb.APPROVE, held.name)
    after = await Records(sickbay.gateway).get(held.name)
    approved = after.status.condition("Approved")
    assert approved is not None
    assert (approved.status, approved.message) == ("True", "ann: room was made")
    assert after.status.phase is Phase.HELD
    assert after.spec == held.spec


@pytest.mark.parametrize("group", [OPERATORS, None])
async def test_approve_is_for_the_group_that_may(sickbay: Installation, group: str | None) -> None:
    """Others are refused by the API server, and nothing is written."""
    held = await opened(sickbay)
    with pytest.raises(errors.Forbidden):
        await say(sickbay, group, CommandVerb.APPROVE, held.name)
    assert (await Records(sickbay.gateway).get(held.name)).status == held.status


async def test_approve_of_the_status_of_another_incident(sickbay: Installation) -> None:
    """It would be read as that one's: its sender is told to wait."""
    held = await opened(sickbay, incident="the-last-one", phase=Phase.RELEASED)
    with pytest.raises(errors.UsageError, match="has not begun yet"):
        await say(sickbay, BREAK_GLASS, CommandVerb.APPROVE, held.name)


async def test_a_closed_incident_takes_no_command(sickbay: Installation) -> None:
    """None of the six, from nobody, and each is told in one line how it ended."""
    over = await opened(sickbay, phase=Phase.RELEASED, closed=Closed(at=NOW, outcome=Phase.RELEASED))
    for verb in CommandVerb:
        with pytest.raises(errors.UsageError, match=r"already closed: .* ended as Released at 2026-01-10 10:00:00Z"):
            await say(sickbay, BREAK_GLASS, verb, over.name)
    assert await Records(sickbay.gateway).get(over.name) == over


async def test_a_device_that_was_given_up_takes_no_command(sickbay: Installation) -> None:
    """Its incident may not have read so yet, and would promise that the fence stays."""
    held = await opened(sickbay)
    async with sickbay.as_user("eve", BREAK_GLASS) as eve:
        await give_up(eve, held.name, None, "needed")
    for verb in CommandVerb:
        with pytest.raises(errors.UsageError, match=r"eve has given the device up \(needed\)"):
            await say(sickbay, BREAK_GLASS, verb, held.name)


async def test_a_temporal_that_is_away(sickbay: Installation) -> None:
    """It takes all but the approval of one that is held, and is one line that says so."""
    held = await opened(sickbay)
    for verb in set(CommandVerb) - {CommandVerb.APPROVE}:
        with pytest.raises(errors.TemporalUnavailable, match="cannot connect"):
            await say(sickbay, OPERATORS, verb, held.name)
