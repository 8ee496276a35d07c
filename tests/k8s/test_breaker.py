"""The breakers for probes and canaries, held by compare-and-swap on a real API server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest

from k8s.breaker import BREAKERS, MARGIN, ProbeBreaker
from k8s.gateway import MERGE_PATCH
from k8s.resources import CONFIGMAPS
from sickbay.model.breaker import Breaker
from sickbay.model.contracts import StartProbe, StopProbe
from sickbay.model.incident import Trial, Verdict
from sickbay.model.policy import Probe
from tests.builders import target
from tests.installation import Installation, a_device

SETTINGS = Probe(stuck=3)
PATH = CONFIGMAPS.path("sickbay", BREAKERS)


async def write(sickbay: Installation, **entries: str | None) -> None:
    """Write entries by hand, None removes one."""
    await sickbay.admin.request("PATCH", PATH, body={"data": entries}, content_type=MERGE_PATCH)


@pytest.fixture(autouse=True)
async def breaker(sickbay: Installation) -> AsyncIterator[ProbeBreaker]:
    """Give breakers that are closed before and after."""
    closed = dict.fromkeys(Trial)
    await write(sickbay, **closed)
    yield ProbeBreaker(sickbay.gateway)
    await write(sickbay, **closed)


def order(trial: Trial = Trial.PROBE) -> StartProbe:
    """Order a trial of a device that no other test knows."""
    return StartProbe(target=target(a_device()), number=1, hardware_id="GPU-1", trial=trial, settings=SETTINGS)


def ended(of: StartProbe | None = None, verdict: Verdict = Verdict.INCONCLUSIVE, pool: str = "node-1") -> StopProbe:
    """End a trial."""
    aim = of.target if of else target(a_device(pool=pool))
    trial = of.trial if of else Trial.PROBE
    return StopProbe(
        target=aim, number=1, trial=trial, verdict=verdict, cause="NoVerdict", message="no message", settings=SETTINGS
    )


async def open_it(breaker: ProbeBreaker) -> None:
    """Let so many probes prove nothing."""
    for pool in ("node-1", "node-2", "node-3"):
        await breaker.heard(ended(pool=pool))


async def test_workers_that_end_trials_at_once_miss_none(sickbay: Installation) -> None:
    """Each has its own connection to the books."""
    ends = (ProbeBreaker(sickbay.gateway).heard(ended(pool=f"node-{n}")) for n in range(3))
    await asyncio.gather(*ends)
    found = (await ProbeBreaker(sickbay.gateway).read())[Trial.PROBE]
    assert len(found.devices) == 3
    assert found.since is not None


async def test_of_many_that_ask_at_once_one_is_let_through(sickbay: Installation, breaker: ProbeBreaker) -> None:
    """The others are told why; canaries are another matter."""
    await open_it(breaker)
    orders = [order() for _ in range(8)]
    answers = await asyncio.gather(*(ProbeBreaker(sickbay.gateway).admit(o) for o in orders))
    assert answers.count("") == 1
    assert {answer.partition(":")[0] for answer in answers if answer} == {"ProbesSuspended"}
    admitted = orders[answers.index("")]
    assert await breaker.admit(admitted) == ""
    assert await breaker.admit(order(Trial.CANARY)) == ""
    await breaker.heard(ended(admitted, Verdict.PASS))
    assert await asyncio.gather(*(breaker.admit(o) for o in orders)) == [""] * 8
    assert (await breaker.read())[Trial.PROBE] == Breaker()


async def test_a_trial_that_nobody_ended_blocks_no_other_for_ever(sickbay: Installation, breaker: ProbeBreaker) -> None:
    """Its worker may have died, and its incident been terminated."""
    await open_it(breaker)
    lost = order()
    assert await breaker.admit(lost) == ""
    assert await breaker.admit(order()) != ""
    later = datetime.now(UTC) + lost.lasts + MARGIN + timedelta(seconds=1)
    assert await ProbeBreaker(sickbay.gateway, now=lambda: later).admit(order()) == ""


async def test_while_all_is_well_nothing_is_written(sickbay: Installation, breaker: ProbeBreaker) -> None:
    """A pass costs one read."""
    before = await sickbay.admin.request("GET", PATH)
    assert await breaker.admit(order()) == ""
    await breaker.heard(ended(verdict=Verdict.PASS))
    assert await sickbay.admin.request("GET", PATH) == before


async def test_what_cannot_be_read_is_closed(sickbay: Installation, breaker: ProbeBreaker) -> None:
    """Somebody edited it by hand: it opens again if it must."""
    await write(sickbay, probe="{", canary='{"since": 7000000000000000000000}')
    assert list((await breaker.read()).values()) == [Breaker(), Breaker()]
    assert await breaker.admit(order()) == ""
    await open_it(breaker)
    assert await breaker.admit(order()) == ""
    assert await breaker.admit(order()) != ""
