"""What the result of a step changes in an incident's facts."""

from __future__ import annotations

from typing import Any

import pytest

from sickbay.model.contracts import Evicted, EvictionOutcome
from sickbay.model.incident import UserState
from sickbay.model.record import Phase
from sickbay.policy.ladder import next_step
from sickbay.policy.progress import RETRY_EVICTION, after_evicted
from sickbay.policy.steps import Verb
from tests.builders import NOW, incident, policy, seconds, user
from tests.sickbay.policy.test_ladder import FENCED

LATER = NOW + seconds(31)


@pytest.mark.parametrize(
    ("outcome", "facts"),
    [
        (EvictionOutcome.ACCEPTED, {"state": UserState.EVICTED, "evicted": True, "evicted_at": LATER, "note": ""}),
        (EvictionOutcome.GONE, {"state": UserState.EVICTED, "evicted": False, "note": "why"}),
        (EvictionOutcome.BUDGET, {"state": UserState.BLOCKED, "retry_at": LATER + RETRY_EVICTION, "stuck": False}),
        (EvictionOutcome.MANY_BUDGETS, {"state": UserState.BLOCKED, "stuck": True, "note": "why"}),
        (EvictionOutcome.DENIED, {"state": UserState.BLOCKED, "blocked_since": LATER, "tries": 1}),
        (EvictionOutcome.BUSY, {"state": UserState.BLOCKED, "stuck": False, "note": "why"}),
        (EvictionOutcome.UNMOVABLE, {"state": UserState.FOUND, "may_move": False, "note": "why"}),
    ],
)
def test_an_answer_to_an_eviction_is_noted(outcome: EvictionOutcome, facts: dict[str, Any]) -> None:
    """Each outcome by what the ladder asks of it; the others who hold the device are left as they are."""
    other = user(uid="pod-2", name="train-1")
    state = incident(users=(user(), other))
    after = after_evicted(state, Evicted(uid="pod-1", outcome=outcome, message="why"), LATER)
    assert {name: getattr(after.users[0], name) for name in facts} == facts
    assert after.users[1] == other
    assert f"{outcome}. why" in after.timeline[-1].text


@pytest.mark.parametrize("before", [UserState.FOUND, UserState.BLOCKED])
def test_a_person_is_asked_for_a_user_that_may_not_move_any_more(before: UserState) -> None:
    """And nobody evicts it, however often its budget was in the way before."""
    listed = user(state=before, note="budget quorum", retry_at=NOW)
    state = incident(**FENCED | {"users_at": NOW, "users": (listed,), "read_at": LATER, "policy": policy(confirm="0s")})
    assert next_step(state, LATER).verb is Verb.EVICT
    answer = Evicted(uid=listed.uid, outcome=EvictionOutcome.UNMOVABLE, message="delete it when that is safe")
    step = next_step(after_evicted(state, answer, LATER), LATER)
    assert (step.verb, step.phase, step.reason) == (Verb.AWAIT_USERS, Phase.NEEDS_OPERATOR, "WillNotMove")
    assert step.ask is not None
    assert step.ask.remedy == "delete it when that is safe"
