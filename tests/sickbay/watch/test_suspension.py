"""Suspended probes are told to people by the leader, on a real control plane."""

from __future__ import annotations

from datetime import timedelta

import pytest

from k8s.breaker import ProbeBreaker
from sickbay.model.contracts import StopProbe
from sickbay.model.incident import Trial, Verdict
from sickbay.model.policy import Probe
from sickbay.telemetry.alert import Alert
from sickbay.watch import suspension
from sickbay.watch.watcher import Watcher
from tests.builders import target
from tests.installation import a_device
from tests.k8s import cluster
from tests.sickbay.watch.house import House, policy, sample


def ended(verdict: Verdict, trial: Trial) -> StopProbe:
    """End a trial of some device."""
    return StopProbe(
        target=target(a_device()), number=1, trial=trial, verdict=verdict, cause="NoVerdict", settings=Probe(stuck=1)
    )


def told(watcher: Watcher) -> tuple[float, float, float]:
    """Say how many of these alerts stand, and what the gauges of probes and canaries say."""
    standing = sample(watcher, "sickbay_alerts_standing", alert=Alert.PROBES_SUSPENDED)
    probes, canaries = (sample(watcher, "sickbay_probes_suspended", trial=trial) for trial in Trial)
    return standing, probes, canaries


async def test_a_person_is_told_as_long_as_trials_are_suspended(
    house: House, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of probes and of canaries each, until one of that kind has proved something; who leads no more says nothing."""
    monkeypatch.setattr(suspension, "ROUND", timedelta(milliseconds=100))
    breaker = ProbeBreaker(house.gateway)
    async with house.watching(policy(namespace)) as watcher:
        await house.leading(watcher)

        async def becomes(*expected: float) -> None:
            async def look() -> bool:
                return told(watcher) == expected

            await cluster.until(look)

        await becomes(0, 0, 0)
        await breaker.heard(ended(Verdict.INCONCLUSIVE, Trial.CANARY))
        await becomes(1, 0, 1)
        await breaker.heard(ended(Verdict.WAITING, Trial.PROBE))
        await becomes(2, 1, 1)
        await breaker.heard(ended(Verdict.PASS, Trial.CANARY))
        await becomes(1, 1, 0)
    assert told(watcher) == (0, 0, 0)
    await breaker.heard(ended(Verdict.PASS, Trial.PROBE))
