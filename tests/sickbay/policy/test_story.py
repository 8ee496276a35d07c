"""Whole stories of incidents: random words, readings and verdicts, through ladder and progress alone."""

from __future__ import annotations

import os
from concurrent.futures import ProcessPoolExecutor
from datetime import datetime
from multiprocessing import get_context
from random import Random
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sickbay.model import contracts as c
from sickbay.model.command import Command, CommandVerb, Halt, Hindrance, Outcome
from sickbay.model.device import UNKNOWN_HARDWARE
from sickbay.model.incident import IncidentState, ProbeStage, ReleaseStage, Trial, User, UserState, Verdict
from sickbay.model.observation import Health
from sickbay.model.record import Disowning, Phase
from sickbay.policy import progress, proving
from sickbay.policy.business import after_business
from sickbay.policy.commanding import after_go, halted, obey
from sickbay.policy.ladder import next_step
from sickbay.policy.restraint import settle
from sickbay.policy.steps import Step, Verb
from sickbay.policy.verdict import refused
from tests.builders import NOW, UUID, incident, observation, policy, reading, seconds, user

OFTEN: Final = 0.3
"""Chance that something bad happens where it may."""

LONGEST: Final = 2000
"""Steps within which every story must have ended once the world is kind."""

NOT_YET: Final = (c.ProbeStarted(waiting="held"), c.ProbeStarted(verdict=refused("Pod", "exceeded quota")))
"""Why a trial is not there: it waits, or the cluster would not have it."""

STORIES: Final = 20_000
MANY_STORIES: Final = 1_000_000
BATCH: Final = 1_000


class Story:
    """One incident in a world that answers as it is told; the chaos comes from ``chance``."""

    def __init__(self, chance: Random, **facts: Any) -> None:
        self.chance = chance
        self.kind = False
        self.now: datetime = NOW
        self.state: IncidentState = incident(**facts)
        self.version = 100
        self.lease = 1
        self.fences: set[int] = set()
        self.probed = False
        self.soaked = False
        self.soaked_since: datetime | None = None
        self.checked = False
        self.answers = [chance.choice(list(Verdict)) for _ in range(chance.randint(0, 3))]
        self.bad = False
        self.sticky = False
        self.released_proved: bool | None = None
        self.word: Disowning | None = None
        self.disowned = False
        self.last: Step | None = None
        self.users: list[User] = [user(may_move=_either(chance))] if _either(chance) else []

    def maybe(self) -> bool:
        """Something bad happens, unless the world has become kind."""
        return not self.kind and self.chance.random() < OFTEN

    def turn(self) -> bool:
        """Run one turn as the workflow does; say whether the story has ended."""
        if self.maybe() and self.chance.randint(0, 3) == 0:
            self.say()
        self.state = settle(self.state, self.now)
        step = next_step(self.state, self.now)
        self.last = step
        if step.verb is Verb.END:
            return True
        self.state = progress.enter(self.state, step, self.now)
        self.now += seconds(0.1)
        if self.state.unsaid and step.verb not in {Verb.READ, Verb.OPEN_RELEASE, Verb.CLOSE}:
            self.state = self.state.model_copy(update={"unsaid": False})
            return False
        getattr(self, f"do_{step.verb.name.lower()}")(step)
        return False

    def say(self) -> None:
        """Let the watcher or the leader say something."""
        if _either(self.chance) and not self.state.admitted:
            self.state = progress.admitted(self.state, "1 of 8", self.now)
            return
        if _either(self.chance):
            self.command()
            return
        if self.chance.randint(0, 9) == 0:
            self.give_up()
            return
        health = self.chance.choice(list(Health))
        lost = _either(self.chance) and bool(self.fences)
        if lost:
            self.fences.clear()
        self.state = progress.heard(self.state, c.Observed(health=health, fence_lost=lost), self.now)

    def command(self) -> None:
        """Let a person say something, known or not; nobody retires the device here."""
        verb = self.chance.choice([v for v in CommandVerb if v is not CommandVerb.RETIRE])
        until = self.now + seconds(self.chance.randint(1, 100_000))
        name = f"{self.chance.randint(0, 1000)}"
        given = Command(id=name, verb=verb, actor="ann", until=until if _either(self.chance) else None)
        before = self.state
        self.state, answer = obey(self.state, given, self.now, verified=_either(self.chance))
        assert (self.state.fence_number, self.state.release) == (before.fence_number, before.release)
        assert answer.outcome is not Outcome.ALREADY_APPLIED or self.state == before

    def give_up(self) -> None:
        """Let a person who may give the device up, or take that back; the leader mostly tells that there is a word."""
        word = Disowning(by="eve", reason="needed", incident=self.state.target.incident)
        self.word = word if self.word is None else None
        if _either(self.chance):
            told = c.Observed(health=self.state.severity, disowned=True)
            self.state = progress.heard(self.state, told, self.now)

    def hindered(self) -> bool:
        """Let the installation be paused, or the node be marked, right before a step that cannot be undone."""
        if not (self.maybe() and self.chance.randint(0, 3) == 0):
            return False
        self.state = halted(self.state, Halt(reason=self.chance.choice(list(Hindrance)), message="not now"), self.now)
        return True

    def do_await_go(self, step: Step) -> None:
        """Wait for the word; while there is none, the time runs out."""
        if self.maybe():
            self.do_wait(step)
            return
        self.state = after_go(self.state, self.now)

    def do_read(self, _: Step) -> None:
        """Read something."""
        self.lease += 1
        soaking = self.state.probe is ProbeStage.SOAKING
        health = self.chance.choice([None, *Health]) if self.maybe() else Health.HEALTHY if soaking else None
        if health is not Health.UNHEALTHY:
            self.sticky = False
        elif not self.sticky:
            self.lose()
        self.bad = health is Health.UNHEALTHY
        written = self.maybe()
        self.version += written
        said = () if health is None else (observation(health, resource_version=str(self.version)),)
        admitted = self.kind or self.state.admitted
        gone = self.maybe() and self.chance.randint(0, 9) == 0
        ended = self.chance.choice(list(Verdict)) if soaking and self.maybe() else Verdict.PASS
        read = reading(
            health,
            observations=said,
            lease_version=str(self.lease),
            admitted=admitted,
            hardware_id=UNKNOWN_HARDWARE if gone else UUID,
            canary=None if ended is Verdict.PASS else c.ProbeVerdict(verdict=ended),
            disowned=self.word,
        )
        self.disowned = self.word is not None
        if soaking:
            self.soak(well=health is Health.HEALTHY and not gone, ended=ended, written=bool(written))
        self.state = progress.after_read(self.state, read, self.now)

    def soak(self, *, well: bool, ended: Verdict, written: bool) -> None:
        """Keep the soak's clock, apart from the incident's own."""
        if ended in {Verdict.FAIL, Verdict.INCONCLUSIVE}:
            self.lose()
        if not well or ended is not Verdict.PASS:
            self.soaked_since = None
        elif self.soaked_since is None or written:
            self.soaked_since = self.now
        since = self.soaked_since
        self.soaked = since is not None and self.now - since >= self.state.policy.soak.time
        self.checked &= self.soaked

    @property
    def proved(self) -> bool:
        """Whether the device may come back, by what this world has seen alone."""
        return self.probed and self.soaked and (self.checked or not self.state.policy.business.wanted)

    def lose(self) -> None:
        """Forget what was proved."""
        self.probed = self.soaked = self.checked = False
        self.soaked_since = None

    def do_fence(self, _: Step) -> None:
        """Put the fence, or find it gone."""
        number = self.state.fence_number
        if self.state.fence_uid == f"rule-{number}" and number not in self.fences:
            self.state = progress.after_fenced(self.state, c.Fenced(lost=True), self.now)
            return
        self.fences.add(number)
        self.state = progress.after_fenced(self.state, c.Fenced(uid=f"rule-{number}"), self.now)

    def do_list_users(self, _: Step) -> None:
        """List the users: those that were known, and those that are there."""
        here = {u.uid for u in self.users}
        known = [u if u.uid in here else u.model_copy(update={"state": UserState.REPLACED}) for u in self.state.users]
        new = [u for u in self.users if u.uid not in {k.uid for k in known}]
        self.state = progress.after_users(self.state, c.Users(users=(*known, *new)), self.now)

    def do_await_users(self, step: Step) -> None:
        """Wait: who has gone is told, and a kind world lets all users go; otherwise the time runs out."""
        if self.kind:
            self.users = []
        here = {u.uid for u in self.users}
        if any(u.state.holds and u.uid not in here for u in self.state.users):
            self.do_list_users(step)
            return
        self.do_wait(step)

    def do_evict(self, step: Step) -> None:
        """Evict, with any answer."""
        if self.hindered():
            return
        assert step.user is not None
        assert self.state.fenced_at is not None
        assert self.state.orders.pause is None
        outcome = self.chance.choice(list(c.EvictionOutcome)) if self.maybe() else c.EvictionOutcome.ACCEPTED
        if outcome is c.EvictionOutcome.ACCEPTED:
            self.users = []
        answer = c.Evicted(uid=step.user.uid, outcome=outcome)
        self.state = progress.after_evicted(self.state, answer, self.now)

    def do_start_probe(self, _: Step) -> None:
        """Send a probe; its fence must stand."""
        if self.hindered():
            return
        assert self.state.fence_number in self.fences or not self.kind
        self.sticky = self.bad
        started = self.chance.choice(NOT_YET) if self.maybe() else c.ProbeStarted()
        self.state = proving.after_probe_started(self.state, started, self.now)

    def do_await_probe(self, _: Step) -> None:
        """Judge it."""
        verdict = self.chance.choice(list(Verdict)) if self.maybe() else Verdict.PASS
        if verdict in {Verdict.FAIL, Verdict.INCONCLUSIVE}:
            self.lose()
        elif verdict is Verdict.WAITING:
            pass  # nothing was tried
        elif self.state.trial is Trial.PROBE:
            self.probed = True
        else:
            assert self.probed, "a canary follows a probe that passed"
            self.soaked_since = None
        self.state = proving.after_verdict(self.state, c.ProbeVerdict(verdict=verdict), self.now)

    def do_stop_probe(self, _: Step) -> None:
        """Remove it."""
        self.state = proving.after_probe_stopped(self.state, self.now)

    def do_check_business(self, _: Step) -> None:
        """Ask Prometheus; its first answers are any, also in a kind world: few stories come so far in another."""
        assert self.state.policy.business.wanted
        assert self.probed
        assert self.soaked, "asked of a device that has not soaked"
        verdict = self.answers.pop() if self.answers else Verdict.PASS
        if verdict is Verdict.FAIL:
            self.lose()
        self.checked = verdict is Verdict.PASS
        self.state = after_business(self.state, c.BusinessVerdict(verdict=verdict), self.now)

    def do_ramp(self, _: Step) -> None:
        """Let in who opted in, or find the fence gone."""
        assert self.proved
        lost = self.state.fence_number not in self.fences
        self.state = proving.after_ramped(self.state, c.Fenced(uid=self.state.fence_uid, lost=lost), self.now)

    def do_open_release(self, _: Step) -> None:
        """Remember on what ground the release began."""
        self.released_proved = self.proved
        self.check_given_up()

    def check_given_up(self) -> None:
        """Nothing is given up but by the word of the last reading, and nothing of ours runs on it then."""
        if self.state.outcome is Phase.DISOWNED:
            assert self.disowned
            assert self.state.probe is ProbeStage.NONE

    def do_unlatch(self, step: Step) -> None:
        """Take the finalizer off."""
        if self.hindered():
            return
        self.state = proving.after_release_step(self.state, step.verb)

    def do_delete_fence(self, step: Step) -> None:
        """Delete the fence."""
        assert self.state.orders.pause is None or self.disowned
        if self.hindered():
            return
        self.check_given_up()
        self.fences.discard(self.state.fence_number)
        self.state = proving.after_release_step(self.state, step.verb)

    def do_await_fence_gone(self, step: Step) -> None:
        """See it gone."""
        self.state = proving.after_release_step(self.state, step.verb)

    def do_close(self, _: Step) -> None:
        """Close the record."""
        if self.state.release is ReleaseStage.NONE:  # else the fence is gone: too late to take the word back
            self.check_given_up()
        self.state = self.state.model_copy(update={"closed": True})

    def do_wait(self, step: Step) -> None:
        """Let the deadline pass."""
        assert step.recheck_at is not None, "a wait without a deadline never ends by itself"
        self.now = max(self.now + seconds(1), step.recheck_at)
        self.state = progress.after_timeout(self.state, step.verb, self.now)


def _either(chance: Random) -> bool:
    return chance.random() < 0.5


def tell(chance: Random) -> None:
    """Tell one story and check its end."""
    asks = {"business": {"prometheus": "http://p", "query": "up", "min": 1.0}} if _either(chance) else {}
    facts = {"admitted": _either(chance), "severity": chance.choice(list(Health)[1:])}
    story = Story(chance, policy=policy(**asks), **facts)
    for _ in range(chance.randint(0, 60)):
        if story.turn():
            break
    story.kind = True
    # A person has done what was asked.
    orders = story.state.orders.model_copy(update={"pause": None, "kept_until": None})
    story.state = story.state.model_copy(update={"attempts": 0, "inconclusive": 0, "orders": orders, "reread": True})
    for _ in range(LONGEST):
        if story.turn():
            break
    else:
        raise AssertionError(f"still {story.last} after {LONGEST} steps")
    outcome = story.state.outcome
    assert outcome in {Phase.RELEASED, Phase.CLEARED, Phase.DISOWNED}
    assert story.fences == set()
    if outcome is Phase.RELEASED:
        assert story.released_proved
    if outcome is Phase.CLEARED:
        assert not story.state.verified or story.state.fence_number == 0
    assert story.state.probe is not ProbeStage.STARTED
    assert story.state.release in {ReleaseStage.NONE, ReleaseStage.GONE}


def tell_batch(first: int) -> None:
    """Tell the stories of so many seeds from this one on."""
    for seed in range(first, first + BATCH):
        try:
            tell(Random(seed))  # noqa: S311 - chaos that can be had again
        except Exception as error:
            raise AssertionError(f"the story of seed {seed}: {error!r}") from error


def tell_all(stories: int) -> None:
    """Tell so many stories, on all processors: from a fresh interpreter each, so that no thread of ours is copied."""
    processes = os.cpu_count() or 1
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        for _ in pool.map(tell_batch, range(0, stories, BATCH)):
            pass


@settings(max_examples=200, deadline=None)
@given(st.randoms(use_true_random=False))
def test_no_story_goes_wrong(chance: Random) -> None:
    """No device comes back unproved but by who may, none is left fenced at the end, every kind world ends the story.

    These are few, and of what goes wrong the shortest is shown.
    """
    tell(chance)


def test_no_story_of_thousands_goes_wrong() -> None:
    """The same, each by its seed."""
    tell_all(STORIES)


@pytest.mark.soak
def test_no_story_of_a_million_goes_wrong() -> None:
    """The same, for as many as half an hour has room for."""
    tell_all(MANY_STORIES)
