"""Two `sickbay run` side by side: one acts. When it is killed, or sleeps, the other follows; no share is exceeded."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, Final

import pytest

from k8s.lab.audit import AuditLog, Entry
from tests.crash.harness import Ward
from tests.crash.jobs import Seat
from tests.crash.process import Sickbay
from tests.crash.waiting import never, until

pytestmark = [pytest.mark.lab, pytest.mark.crash]

BURST: Final = 24
DEVICES: Final = 48
ALLOWED: Final = 12
SHARE: Final[dict[str, Any]] = {"share": 0.25, "floor": 1, "ceiling": 1000, "perMinute": 10000}
"""A quarter of a job's devices may be fenced: half of the burst."""

FOLLOWS_WITHIN: Final = 12.0
ASLEEP: Final = 30.0
"""Seconds."""


async def pair(ward: Ward) -> tuple[Sickbay, Sickbay]:
    """Start two: the first leads, the second stands by."""
    leader = await ward.sickbay(guard=SHARE)
    await leader.says("term_began")
    follower = await ward.sickbay(guard=SHARE)
    for one in (leader, follower):
        await one.ready()
    return leader, follower


async def test_one_acts_and_when_it_is_killed_in_a_burst_the_other_follows(ward: Ward) -> None:
    """The follower opens what the leader did not come to within 12 s, and finishes what it began."""
    leader, follower = await pair(ward)
    seats = await ward.jobs("follow", BURST, devices=DEVICES)
    await ward.break_devices(seats[:ALLOWED])

    async def half_is_fenced() -> bool:
        return {seat.key.numbered(1) for seat in seats[:ALLOWED]} <= set(await ward.fences())

    await until("the first half is fenced", half_is_fenced, within=30)
    records = leader.proxy.hold("POST", "/devicequarantines$", executed=False)
    await ward.break_devices(seats[ALLOWED:])
    await records.until(6)
    await ward.kill(leader)
    assert not follower.said("term_began")
    await follower.says("incident_opened", within=FOLLOWS_WITHIN)
    await ward.released(seats, by=follower)
    findings = ward.verdict(fenced_at_most=ALLOWED)
    assert findings.violations == [], findings
    assert findings.fenced == ALLOWED


async def test_a_leader_that_sleeps_in_a_burst_is_followed_and_refused(ward: Ward) -> None:
    """Its records and fences that were on their way bear an old term; when it wakes up it stands by."""
    leader, follower = await pair(ward)
    seats = await ward.jobs("sleep", BURST, devices=DEVICES)
    fences = leader.proxy.hold("POST", "/devicetaintrules$", executed=False, when=_of_a_leader)
    records = leader.proxy.hold("POST", "/devicequarantines$", executed=False, when=_of_none(seats[:6]))
    await ward.break_devices(seats[:6])
    await ward.break_devices(seats[6:])
    await fences.until(6)
    await records.until(6)
    ward.put_to_sleep(leader)
    fell_asleep = time.monotonic()
    await follower.says("incident_opened", within=FOLLOWS_WITHIN)

    log = AuditLog(ward.lab.audit_log, from_end=True)
    refused: Counter[str] = Counter()

    async def both_refused() -> bool:
        refused.update(entry.resource for entry in log.read() if _refused(entry))
        return refused.keys() >= {"devicequarantines", "devicetaintrules"}

    for hold in (fences, records):
        hold.release()
    try:
        await until("the API server refuses the sleeper's records and fences", both_refused, within=10)
    except AssertionError as error:
        raise AssertionError(f"{error}: {dict(refused)}, of {records.waiting} and {fences.waiting}") from None

    async def too_many() -> bool:
        follower.check()
        return len(await ward.fences()) > ALLOWED

    await never("more are fenced than allowed", too_many, during=fell_asleep + ASLEEP - time.monotonic())
    leader.wake()
    await leader.says("leadership_lost")
    assert len(leader.said("term_began")) == 1
    await leader.ready()
    await ward.released(seats, by=follower)
    findings = ward.verdict(fenced_at_most=ALLOWED)
    assert findings.violations == [], findings
    assert findings.fenced == ALLOWED


def _of_a_leader(body: Any) -> bool:
    """A fence that is put on sight carries the leader's term; those of incidents carry none."""
    return "sickbay.dev/term" in body["metadata"]["annotations"]


def _of_none(seats: Iterable[Seat]) -> Callable[[Any], bool]:
    """Records of other devices than these."""
    names = {seat.key.record_name for seat in seats}
    return lambda body: body["metadata"]["name"] not in names


def _refused(entry: Entry) -> bool:
    return entry.verb == "create" and entry.code == 403 and "dryRun" not in entry.request_uri
