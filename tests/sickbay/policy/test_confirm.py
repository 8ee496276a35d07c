"""What has to be so before a job is moved, and how long: readings in a row, folded and decided on."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from sickbay.model import contracts as c
from sickbay.model.incident import IncidentState
from sickbay.model.observation import Health
from sickbay.policy import progress, proving
from sickbay.policy.ladder import next_step
from sickbay.policy.steps import Step, Verb
from tests.builders import NOW, incident, observation, policy, reading, seconds, user


class Patient:
    """A fenced device in use, read again and again; confirm and stable take 30 s, as the builders say."""

    def __init__(self, **facts: Any) -> None:
        """Begin fenced, with one pod that may move."""
        fenced = {"fence_number": 1, "fence_allotted": True, "fence_uid": "rule-1", "fenced_at": NOW}
        self.state: IncidentState = incident(users=(user(),), users_at=NOW, **fenced, **facts)
        self._lease = 10

    def read(self, health: Health | None, at: float, version: str = "100") -> Step:
        """Read it at a second, and ask the ladder then."""
        now = self.at(at)
        self._lease += 1
        said = () if health is None else (observation(health, resource_version=version),)
        told = reading(health, observations=said, lease_version=str(self._lease))
        self.state = progress.after_read(self.state, told, now)
        return next_step(self.state, now)

    @staticmethod
    def at(second: float) -> datetime:
        """Tell the time of a second of the story."""
        return NOW + seconds(second)


def test_nobody_is_moved_on_a_reading_that_says_healthy() -> None:
    """A blip that one reading caught, then Healthy for good: confirm is over before Healthy has lasted; all wait."""
    patient = Patient()
    patient.read(Health.UNHEALTHY, 0)
    assert patient.read(Health.HEALTHY, 3, "101").reason == "Verify"
    assert patient.read(Health.HEALTHY, 31, "101").reason == "Verify"
    assert patient.read(Health.HEALTHY, 33, "101").reason == "HealthyInUse"


def test_one_that_flaps_is_moved_off_at_the_first_bad_reading_past_confirm() -> None:
    """Healthy in between does not begin the time anew, unless it lasts."""
    patient = Patient()
    patient.read(Health.UNHEALTHY, 0)
    patient.read(Health.HEALTHY, 10, "101")
    assert patient.read(Health.UNHEALTHY, 20, "102").reason == "Confirm"
    assert patient.read(Health.UNHEALTHY, 31, "102").verb is Verb.EVICT


@pytest.mark.parametrize("half", [3.0, 5.0, 8.0])
@pytest.mark.parametrize("later", [0.0, 1.5, 3.0, 4.5])
@pytest.mark.parametrize("confirm", [25, 30, 35])
def test_one_that_flaps_does_not_keep_its_job_by_being_met_in_its_good_halves(
    half: float, later: float, confirm: int
) -> None:
    """Looked at when the ladder asks for it alone, it is found bad soon after confirm, wherever that falls."""
    patient = Patient(policy=policy(confirm=f"{confirm}s"))
    now = later if later < half else 0.0
    began = now
    for _ in range(100):
        flips = int(now // half)
        step = patient.read(Health.HEALTHY if flips % 2 else Health.UNHEALTHY, now, f"{100 + flips}")
        if step.verb is Verb.EVICT:
            break
        assert step.recheck_at is not None
        now = (step.recheck_at - NOW).total_seconds() + 0.1
    assert confirm <= now - began <= confirm + 10


def test_one_that_is_well_again_is_not_looked_at_for_ever() -> None:
    """Closely for ten seconds past confirm, then when Healthy will have lasted."""
    patient = Patient()
    patient.read(Health.UNHEALTHY, 0)
    looks, now = 0, 29.0
    while (step := patient.read(Health.HEALTHY, now, "101")).reason == "Verify":
        assert step.recheck_at is not None
        now = (step.recheck_at - NOW).total_seconds()
        looks += 1
    assert (step.reason, now) == ("HealthyInUse", 59.0)
    assert looks <= 7


def test_one_that_flaps_is_looked_at_and_tried_more_seldom() -> None:
    """A Healthy that did not last, or in which a bad half was hidden, counts; one after which all was well does not."""
    patient = Patient()
    assert proving.pause_after(patient.state, 0) == seconds(60)
    patient.read(Health.UNHEALTHY, 0)
    patient.read(Health.HEALTHY, 10, "101")
    patient.read(Health.UNHEALTHY, 20, "102")
    patient.read(Health.HEALTHY, 50, "103")
    step = patient.read(Health.HEALTHY, 80, "105")
    assert (patient.state.flips, proving.pause_after(patient.state, 0)) == (2, seconds(240))
    assert step.recheck_at == patient.at(80 + 30 * 4)
    patient.read(Health.HEALTHY, 111, "105")
    patient.read(Health.UNHEALTHY, 200, "106")
    assert patient.state.flips == 2


def test_the_second_fault_has_its_own_confirm() -> None:
    """A job that has run for long beside a device that was well again does not die of one bad sample."""
    patient = Patient()
    patient.read(Health.UNHEALTHY, 0)
    patient.read(Health.HEALTHY, 10, "101")
    assert patient.read(Health.HEALTHY, 3600, "101").reason == "HealthyInUse"
    assert patient.read(Health.UNHEALTHY, 7200, "102").reason == "Confirm"
    assert patient.read(None, 7210).reason == "Confirm"  # still bad since then, though nobody says so now
    assert patient.read(Health.UNHEALTHY, 7231, "102").verb is Verb.EVICT


def test_not_knowing_after_it_was_well_moves_nobody() -> None:
    """Unknown is never by itself a reason to act."""
    patient = Patient()
    patient.read(Health.UNHEALTHY, 0)
    patient.read(Health.HEALTHY, 10, "101")
    patient.read(Health.HEALTHY, 100, "101")
    assert patient.read(Health.UNKNOWN, 10_000, "102").reason == "Confirm"
    assert patient.read(Health.UNKNOWN, 20_000, "102").reason == "Confirm"


def test_another_clock_does_not_shorten_confirm() -> None:
    """The watcher's clock may be behind: the time counts from the first reading, on the workflow's own."""
    patient = Patient(first_bad_at=NOW - seconds(3600))
    assert patient.read(Health.UNHEALTHY, 0).reason == "Confirm"
    assert patient.read(Health.UNHEALTHY, 31).verb is Verb.EVICT


@pytest.mark.parametrize("factor", [1.0, 10.0, 1e9, 1e300])
def test_pauses_between_probes_stay_in_bounds(factor: float) -> None:
    """However steep the policy, a pause is never longer than its longest, and can be computed."""
    told = policy(probe={"first": "60s", "factor": factor, "longest": "1h", "attempts": 1000})
    pauses = [proving.pause_after(incident(policy=told), n) for n in (0, 1, 2, 13, 999)]
    assert pauses == sorted(pauses)
    assert pauses[0] == seconds(60)
    assert pauses[-1] <= seconds(3600)


@pytest.mark.parametrize(
    ("faulty", "works", "left"),
    [
        (c.Activity.START_PROBE, c.Activity.WRITE_STATUS, True),
        (c.Activity.START_PROBE, c.Activity.READ_DEVICE, True),
        (c.Activity.START_PROBE, c.Activity.START_PROBE, False),
        (c.Activity.START_PROBE, c.Activity.EVICT_USER, False),
        (c.Activity.READ_DEVICE, c.Activity.READ_DEVICE, False),
        (c.Activity.WRITE_STATUS, c.Activity.WRITE_STATUS, False),
        ("", c.Activity.READ_DEVICE, True),
    ],
)
def test_to_say_that_something_failed_does_not_mend_it(faulty: str, works: c.Activity, *, left: bool) -> None:
    """A person stays asked until the step works, or another effect does."""
    state = progress.failed(incident(), faulty, "StepFailed", "see why", NOW)
    assert (progress.worked(state, works).fault is not None) is left


def test_a_signal_admits_nobody() -> None:
    """Anybody with Temporal's page can send one: the record is read, and its word counts."""
    state = progress.called(incident(admitted=False, read_at=NOW), c.Admitted(by="eve"))
    assert (state.admitted, next_step(state, NOW).verb) == (False, Verb.READ)
    refused = progress.after_read(state, reading(Health.UNHEALTHY, admitted=False), NOW)
    assert not refused.admitted
    assert progress.after_read(state, reading(Health.UNHEALTHY, admission_numbers="1 of 8"), NOW).admitted
