"""The breaker for trials: it opens on what is not the devices' fault, lets one through, and closes by itself."""

from __future__ import annotations

from datetime import timedelta
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sickbay.model.breaker import Breaker
from sickbay.model.contracts import StopProbe
from sickbay.model.incident import Trial, Verdict
from sickbay.model.policy import Probe
from sickbay.policy.breaker import admitted, heard, key_of, told
from sickbay.policy.verdict import BUSY, CHANGED, REPORTED
from tests.builders import DEVICE, NOW, target

UNTIL = NOW + timedelta(minutes=10)


def ended(device: int, pool: int | None = None, **changes: Any) -> StopProbe:
    """Build a trial that proved nothing, on a device of a pool of its own unless one is named."""
    key = DEVICE.model_copy(update={"device": f"gpu-{device}", "pool": f"node-{device if pool is None else pool}"})
    base: dict[str, Any] = {
        "target": target(key),
        "number": 1,
        "verdict": Verdict.INCONCLUSIVE,
        "cause": "ImagePullBackOff",
        "message": "ImagePullBackOff: no such image",
        "settings": Probe(stuck=5),
    }
    return StopProbe(**base | changes)


def after(*trials: StopProbe, before: Breaker | None = None) -> Breaker:
    """Let trials end one after the other."""
    breaker = before or Breaker()
    for trial in trials:
        breaker = heard(breaker, trial, NOW)
    return breaker


OPEN = after(*(ended(n) for n in range(5)))


@pytest.mark.parametrize("verdict", [Verdict.INCONCLUSIVE, Verdict.WAITING])
def test_it_opens_when_so_many_devices_in_a_row_proved_nothing(verdict: Verdict) -> None:
    """Not one earlier; whether their trials could not run or had no result, and with whatever cause each."""
    trials = [ended(n, verdict=verdict, cause=f"Cause{n}") for n in range(5)]
    assert after(*trials[:4]).since is None
    assert after(*trials).since == NOW


@pytest.mark.parametrize(
    ("verdict", "cause"), [(Verdict.PASS, "ProbePassed"), (Verdict.PASS, "LoadPassed"), (Verdict.FAIL, "ProbeFailed")]
)
def test_one_that_proved_something_closes_it(verdict: Verdict, cause: str) -> None:
    """A device that is found bad was tried as well as one that is found good."""
    proof = ended(9, verdict=verdict, cause=cause)
    assert after(proof, before=OPEN) == Breaker()
    assert after(*(ended(n) for n in range(4)), proof, ended(4)).since is None


@pytest.mark.parametrize(
    "neutral",
    [
        {"verdict": None, "cause": ""},
        {"verdict": Verdict.WAITING, "cause": ""},
        {"cause": BUSY},
        {"cause": CHANGED},
        {"cause": "BusinessUnsure"},
        {"verdict": Verdict.FAIL, "cause": REPORTED},
    ],
    ids=str,
)
def test_what_is_about_one_device_alone_counts_neither_way(neutral: dict[str, Any]) -> None:
    """A person's word, somebody else on the device, another card, the driver's word, a Prometheus that is away."""
    assert after(*(ended(n, **neutral) for n in range(9))) == Breaker()
    assert after(ended(9, **neutral), before=OPEN) == OPEN


def test_one_device_counts_once() -> None:
    """However often it is tried."""
    assert after(*(ended(0, number=n) for n in range(50))).since is None
    assert after(*(ended(0, number=n) for n in range(50)), *(ended(n) for n in range(1, 5))).since == NOW


def test_one_pool_alone_does_not_open_it() -> None:
    """A node whose driver is gone must not keep all others from being tried: it counts for half."""
    bad_node = [ended(n, pool=1) for n in range(16)]
    assert after(*bad_node).since is None
    assert after(*bad_node, ended(20)).since is None
    assert after(*bad_node, ended(20), ended(21)).since == NOW


def test_while_it_is_closed_all_are_let_through() -> None:
    """And nothing is remembered of them."""
    assert admitted(Breaker(), "a", Trial.PROBE, UNTIL, NOW) == (Breaker(), "")


def test_while_it_is_open_one_is_let_through_at_a_time() -> None:
    """The same one again too; the others are told why they wait."""
    breaker, why_not = admitted(OPEN, "a", Trial.PROBE, UNTIL, NOW)
    assert (breaker.trying, why_not) == ("a", "")
    assert admitted(breaker, "a", Trial.PROBE, UNTIL, NOW) == (breaker, "")
    same, why_not = admitted(breaker, "b", Trial.PROBE, UNTIL, NOW)
    assert same == breaker
    assert why_not == (
        "ProbesSuspended: probes on 5 devices in a row proved nothing, the last one: ImagePullBackOff: no such image; "
        "another one is tried now"
    )


def test_the_next_follows_when_the_one_has_ended() -> None:
    """Or when it has surely ended, though nobody said so; the end of another changes nothing."""
    trial = ended(7)
    breaker, _ = admitted(OPEN, key_of(trial), Trial.PROBE, UNTIL, NOW)
    assert admitted(after(ended(8), before=breaker), "b", Trial.PROBE, UNTIL, NOW)[1] != ""
    assert admitted(after(trial, before=breaker), "b", Trial.PROBE, UNTIL, NOW)[1] == ""
    assert admitted(after(ended(7, cause=BUSY), before=breaker), "b", Trial.PROBE, UNTIL, NOW)[1] == ""
    assert admitted(breaker, "b", Trial.PROBE, UNTIL + timedelta(hours=1), UNTIL)[1] == ""


def test_it_stays_open_since_when_it_opened() -> None:
    """With what the last trial came to, cut and tamed, and no more devices than it takes."""
    later = NOW + timedelta(hours=1)
    breaker = heard(OPEN, ended(50, message="<b>" + "x" * 1000), later)
    assert (breaker.since, len(breaker.devices)) == (NOW, 5)
    assert len(told(breaker, Trial.CANARY)) < 300
    assert "<" not in told(breaker, Trial.CANARY)


@given(st.integers(min_value=1, max_value=12), st.randoms(use_true_random=False))
def test_it_is_open_only_on_the_word_of_several_pools(stuck: int, chance: Random) -> None:
    """Whatever comes in whatever order: what opened it are so many devices, since the last proof, of two pools."""
    breaker, since = Breaker(), list[StopProbe]()
    for _ in range(60):
        proof = chance.random() < 0.05
        changes: dict[str, Any] = {"verdict": Verdict.PASS, "cause": "ProbePassed"} if proof else {}
        pool = chance.randrange(4)
        trial = ended(chance.randrange(5) + 10 * pool, pool, settings=Probe(stuck=stuck), **changes)
        since = [] if proof else [*since, trial]
        breaker = heard(breaker, trial, NOW)
        assert len(breaker.devices) <= stuck
        if breaker.since is not None:
            assert len({t.target.device for t in since}) >= stuck
            assert len({t.target.device.pool for t in since}) > 1 or stuck == 1
        assert (breaker == Breaker()) or not proof
