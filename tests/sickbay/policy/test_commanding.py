"""Commands: what each changes, what is refused and why, and that nothing is applied twice."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from sickbay.model.command import REMEMBERED, Answer, Command, CommandVerb, Halt, Hindrance, Orders, Outcome
from sickbay.model.incident import (
    TIMELINE_LENGTH,
    Ask,
    IncidentState,
    ProbeStage,
    ReleaseStage,
    Teller,
    UserState,
    Verdict,
)
from sickbay.model.record import Phase
from sickbay.policy.commanding import begun, halted, obey, refused
from sickbay.policy.ladder import next_step
from sickbay.policy.progress import enter, failed
from sickbay.policy.restraint import settle
from sickbay.policy.steps import Verb
from sickbay.policy.story import KEPT, left_out, note
from tests.builders import NOW, incident, policy, seconds, user

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)


def command(verb: CommandVerb, **changes: Any) -> Command:
    """Build a command of ann's."""
    return Command(**{"id": f"c-{verb}", "verb": verb, "actor": "ann", "reason": "firmware", **changes})


def quarantined(**facts: Any) -> IncidentState:
    """Build the state of an incident whose device is fenced and free, an hour ago, and about to be probed."""
    base: dict[str, Any] = {
        "fenced_at": NOW - HOUR,
        "fence_number": 1,
        "fence_allotted": True,
        "fence_uid": "rule-1",
        "users_at": NOW - HOUR,
        "read_at": NOW,
        "verified": True,
        "phase": Phase.RECOVERING,
        "next_probe_at": NOW + HOUR,
    }
    return incident(**base | facts)


def told(
    state: IncidentState, verb: CommandVerb, *, at: datetime = NOW, verified: bool = True, **changes: Any
) -> tuple[IncidentState, Answer]:
    """Give one command."""
    return obey(state, command(verb, **changes), at, verified=verified)


def test_the_same_id_is_applied_once() -> None:
    """The second one changes nothing and is answered so; another id is another command."""
    state, first = told(quarantined(), CommandVerb.EXTEND_QUARANTINE, until=NOW + HOUR)
    again, second = told(state, CommandVerb.EXTEND_QUARANTINE, until=NOW + DAY)
    assert (first.outcome, second.outcome) == (Outcome.APPLIED, Outcome.ALREADY_APPLIED)
    assert again == state
    longer, third = told(state, CommandVerb.EXTEND_QUARANTINE, id="another", until=NOW + DAY)
    assert (third.outcome, longer.orders.kept_until) == (Outcome.APPLIED, NOW + DAY)


def test_only_the_last_ids_are_kept() -> None:
    """An incident's state is bounded, whoever sends how much."""
    state = quarantined()
    for n in range(REMEMBERED + 5):
        state, _ = told(state, CommandVerb.PAUSE, id=f"p{n}")
    assert len(state.orders.applied) == REMEMBERED
    assert state.orders.applied[-1] == f"p{REMEMBERED + 4}"


def test_a_quarantine_is_not_extended_for_ever() -> None:
    """The policy's bound counts from the first extension; a later one does not push it on."""
    state = quarantined(policy=policy(quarantine={"longest": "2d"}))
    state, _ = told(state, CommandVerb.EXTEND_QUARANTINE, id="1", until=NOW + HOUR)
    state, capped = told(state, CommandVerb.EXTEND_QUARANTINE, id="2", at=NOW + HOUR, until=NOW + 30 * DAY)
    assert (state.orders.kept_until, "beyond" in capped.message) == (NOW + 2 * DAY, True)
    state, answer = told(state, CommandVerb.EXTEND_QUARANTINE, id="3", at=NOW + DAY, until=NOW + 30 * DAY)
    assert (answer.outcome, state.orders.kept_until) == (Outcome.REFUSED, NOW + 2 * DAY)


@pytest.mark.parametrize("verb", [CommandVerb.RESUME, CommandVerb.APPROVE, CommandVerb.RETIRE, CommandVerb.PROBE_NOW])
def test_nobody_unknown_does_more_than_pause_or_extend(verb: CommandVerb) -> None:
    """A signal is refused and written down, and its id is not used up."""
    state, answer = told(quarantined(ask=Ask(reason="ProbesFailed")), verb, verified=False)
    assert (answer.outcome, "command line" in answer.message) == (Outcome.REFUSED, True)
    assert "refused" in state.timeline[-1].text
    assert state.orders == Orders()


@pytest.mark.parametrize(
    ("verb", "facts", "changes", "why"),
    [
        (CommandVerb.PAUSE, {}, {"until": NOW - HOUR}, "has passed"),
        (CommandVerb.RESUME, {}, {}, "not paused"),
        (CommandVerb.EXTEND_QUARANTINE, {}, {}, "until: missing"),
        (CommandVerb.EXTEND_QUARANTINE, {}, {"until": NOW}, "has passed"),
        (CommandVerb.EXTEND_QUARANTINE, {"admitted": False}, {"until": NOW + HOUR}, "not admitted"),
        (CommandVerb.APPROVE, {}, {}, "nobody is asked"),
        (CommandVerb.RETIRE, {}, {"reason": ""}, "reason: missing"),
        (CommandVerb.RETIRE, {"fence_number": 0}, {}, "no fence"),
        (CommandVerb.PROBE_NOW, {"probe": ProbeStage.STARTED}, {}, "under way"),
        (CommandVerb.PROBE_NOW, {"users": (user(),)}, {}, "somebody holds"),
        (CommandVerb.PAUSE, {"release": ReleaseStage.DELETED}, {}, "too late"),
        (CommandVerb.PAUSE, {"closed": True, "phase": Phase.RELEASED}, {}, "already closed"),
    ],
)
def test_what_makes_no_sense_is_refused(
    verb: CommandVerb, facts: dict[str, Any], changes: dict[str, Any], why: str
) -> None:
    """The answer says why, and the story too."""
    state, answer = told(quarantined(**facts), verb, **changes)
    assert answer.outcome is Outcome.REFUSED
    assert why in answer.message
    assert why in state.timeline[-1].text


def test_a_command_of_an_earlier_run_is_ignored() -> None:
    """Who paused an incident that has ended, or was terminated, did not pause the next run of it."""
    state = begun(quarantined(), NOW)
    assert begun(state, NOW + HOUR) == state
    _, answer = told(state, CommandVerb.PAUSE, at=NOW + HOUR)
    assert answer.outcome is Outcome.APPLIED
    late = command(CommandVerb.PAUSE).model_copy(update={"at": NOW - HOUR})
    _, answer = obey(state, late, NOW + HOUR)
    assert (answer.outcome, "before this run" in answer.message) == (Outcome.REFUSED, True)


def test_a_flood_of_refusals_is_one_line() -> None:
    """What happened before stays readable."""
    state = quarantined()
    for _ in range(500):
        state = refused(state, "signal force_release refused: there is no such signal", NOW)
    assert len(state.timeline) == 1
    assert state.timeline[0].text.endswith("(times 500)")


def test_a_flood_of_signals_pushes_out_nothing_but_signals() -> None:
    """Each of them is accepted and another; what the incident did and what people told it stays, and it says so."""
    state = note(quarantined(), "keeps new allocations off the device", NOW)
    state, _ = told(state, CommandVerb.EXTEND_QUARANTINE, id="e", actor="ann", until=NOW + HOUR)
    for n in range(500):
        state, answer = told(state, CommandVerb.PAUSE, verified=False, id=f"s{n}", actor="unverified", reason=f"no {n}")
        assert answer.outcome is Outcome.APPLIED
        state = refused(state, f"signal x{n} refused: there is no such signal", NOW)
    lines = [line.text for line in state.timeline]
    assert lines[0] == "keeps new allocations off the device"
    assert lines[1].startswith("extend_quarantine by ann")
    assert (len(lines), "no 499" in lines[-2]) == (2 + KEPT[Teller.ANYBODY], True)
    assert left_out(state.left_out) == "990 signals"


def test_a_flood_of_commands_pushes_out_no_step() -> None:
    """Nor does one step more than are kept push out a command; in order they stay."""
    state = quarantined()
    for n in range(TIMELINE_LENGTH):
        state = note(state, f"step {n}", NOW)
    for n in range(100):
        state, _ = told(state, CommandVerb.PAUSE, id=f"p{n}", actor="ann", reason=f"no {n}")
    state = note(state, "one step more", NOW)
    lines = [line.text for line in state.timeline]
    assert [line for line in lines if "step" in line] == [*(f"step {n}" for n in range(1, 40)), "one step more"]
    assert len(lines) == TIMELINE_LENGTH + KEPT[Teller.PERSON]
    assert left_out(state.left_out) == "1 step, 85 commands"


def test_a_pause_stands_still_and_ends() -> None:
    """It waits until its end, keeps the fence, and then reads before it decides."""
    state, _ = told(quarantined(), CommandVerb.PAUSE, until=NOW + HOUR)
    step = next_step(settle(state, NOW), NOW)
    assert (step.verb, step.phase, step.recheck_at) == (Verb.WAIT, Phase.QUARANTINED, NOW + HOUR)
    after = settle(state, NOW + HOUR)
    assert after.orders.pause is None
    assert next_step(after, NOW + HOUR).verb is Verb.READ


def test_a_pause_without_an_end_calls_itself_to_mind_every_day() -> None:
    """Nobody is asked on the first day; then a person is, and every day is a line of the story."""
    state, _ = told(quarantined(), CommandVerb.PAUSE)
    assert next_step(settle(state, NOW), NOW).ask is None
    for day in range(1, 8):
        now = NOW + day * DAY
        state = settle(state, now)
        step = next_step(state, now)
        assert step.ask is not None
        assert (step.ask.reason, step.recheck_at) == ("StillPaused", now + DAY)
    assert [line.text for line in state.timeline if "still paused" in line.text][-1].startswith("still paused, for 7d")
    state, _ = told(state, CommandVerb.RESUME, at=NOW + 8 * DAY)
    assert next_step(settle(state, NOW + 8 * DAY), NOW + 8 * DAY).verb is Verb.READ


def test_a_pause_puts_back_a_fence() -> None:
    """That is the one thing it does not stop."""
    state, _ = told(quarantined(), CommandVerb.PAUSE)
    assert next_step(settle(state.model_copy(update={"fenced_at": None, "reread": False}), NOW), NOW).verb is Verb.FENCE


@pytest.mark.parametrize("stage", [ReleaseStage.OPENED, ReleaseStage.READ, ReleaseStage.UNLATCHED])
def test_a_pause_calls_a_release_back(stage: ReleaseStage) -> None:
    """The fence is made sure of, and a probe has to pass anew afterwards."""
    state = quarantined(release=stage, outcome=Phase.RELEASED, verdict=Verdict.PASS)
    state, answer = told(state, CommandVerb.PAUSE, until=NOW + HOUR)
    assert answer.outcome is Outcome.APPLIED
    settled = settle(state, NOW)
    assert (settled.release, settled.outcome, settled.verdict) == (ReleaseStage.NONE, None, None)
    assert next_step(settled.model_copy(update={"reread": False}), NOW).verb is Verb.FENCE


def test_the_end_of_a_pause_is_told_in_utc() -> None:
    """Wherever who gave it is: the letter behind it says so."""
    east = (NOW + HOUR).astimezone(timezone(timedelta(hours=5)))
    state, _ = told(quarantined(), CommandVerb.PAUSE, until=east)
    rests = next_step(state.model_copy(update={"reread": False}), NOW)
    assert f"until {NOW + HOUR:%Y-%m-%d %H:%M:%SZ}" in rests.message
    with pytest.raises(ValueError, match="too far away"):
        command(CommandVerb.PAUSE, until="9999-12-31T23:59:59-12:00")


@pytest.mark.parametrize("verb", [CommandVerb.PAUSE, CommandVerb.EXTEND_QUARANTINE, CommandVerb.RETIRE])
def test_nobody_is_promised_a_fence_that_is_being_deleted(verb: CommandVerb) -> None:
    """From the request on, and not from its answer; one that failed is called back."""
    state = quarantined(release=ReleaseStage.UNLATCHED, outcome=Phase.RELEASED)
    until = None if verb is CommandVerb.RETIRE else NOW + HOUR
    assert told(state, verb, until=until)[1].outcome is Outcome.APPLIED
    step = next_step(state, NOW)
    assert step.verb is Verb.DELETE_FENCE
    asked = enter(state, step, NOW)
    answer = told(asked, verb, until=until)[1]
    assert (answer.outcome, "too late" in answer.message) == (Outcome.REFUSED, True)
    lost = failed(asked, "delete_fence", "StepFailed", "away", NOW)
    state, answer = told(lost, verb, until=until)
    assert (answer.outcome, settle(state, NOW).release) == (Outcome.APPLIED, ReleaseStage.NONE)
    halt = Halt(reason=Hindrance.PAUSED, message="paused")
    assert told(halted(asked, halt, NOW), verb, until=until)[1].outcome is Outcome.APPLIED


def test_a_pause_stops_a_probe_and_uses_no_attempt() -> None:
    """What runs on the device is removed."""
    state, _ = told(quarantined(probe=ProbeStage.STARTED, probe_number=1, attempts=2), CommandVerb.PAUSE)
    state = settle(state, NOW)
    assert next_step(state, NOW).verb is Verb.STOP_PROBE
    assert (state.verdict, state.attempts) == (Verdict.WAITING, 2)


def test_an_extended_quarantine_is_waited_out() -> None:
    """No probe and no release before its end, however healthy the device says it is."""
    healthy = {"healthy_since": NOW - HOUR, "verified": False}
    state, _ = told(quarantined(**healthy), CommandVerb.EXTEND_QUARANTINE, until=NOW + HOUR)
    state = settle(state.model_copy(update={"reread": False}), NOW)
    step = next_step(state, NOW)
    assert (step.verb, step.reason, step.recheck_at) == (Verb.WAIT, "Extended", NOW + HOUR)
    later = NOW + HOUR
    assert next_step(settle(state, later), later).reason != "Extended"


def test_approve_tries_again_what_a_person_was_asked_for() -> None:
    """The rest after hand edits, a fault's pause and a blocked eviction end; nothing is proved by it."""
    blocked = user(state=UserState.BLOCKED, stuck=True, retry_at=NOW + HOUR, blocked_since=NOW - HOUR)
    asked = Ask(reason="HandEdited", remedy="…")
    state = quarantined(ask=asked, fault=asked, hand_edits=2, users=(blocked,), attempts=5)
    state, answer = told(state, CommandVerb.APPROVE)
    assert (answer.outcome, state.hand_edits, state.retrying, state.attempts) == (Outcome.APPLIED, 0, True, 5)
    assert (state.users[0].retry_at, state.users[0].stuck, state.next_probe_at) == (NOW, False, NOW)
    assert state.verdict is None


def test_who_is_asked_stays_asked_while_the_device_is_read() -> None:
    """Whatever is said meanwhile: an approval in that moment counts, and the record is not written for it."""
    asked = Ask(reason="WillNotMove", remedy="move it", since=NOW - HOUR)
    state = quarantined(ask=asked, users=(user(may_move=False),), reread=True, unsaid=False, phase=Phase.NEEDS_OPERATOR)
    step = next_step(state, NOW)
    entered = enter(state, step, NOW)
    assert (step.verb, entered.ask, entered.unsaid) == (Verb.READ, asked, False)
    assert told(entered, CommandVerb.APPROVE)[1].outcome is Outcome.APPLIED


def test_probe_now_brings_the_next_probe_forward() -> None:
    """The back-off stays what it was for those after it."""
    state, _ = told(quarantined(attempts=3), CommandVerb.PROBE_NOW)
    step = next_step(state.model_copy(update={"reread": False}), NOW)
    assert (step.verb, state.attempts) == (Verb.START_PROBE, 3)


def test_a_retired_device_ends_with_its_fence() -> None:
    """First its users leave; the record is closed as Retired and no fence is touched."""
    state, _ = told(quarantined(users=(user(),), bad_since=NOW - HOUR), CommandVerb.RETIRE)
    calm = state.model_copy(update={"reread": False})
    assert next_step(settle(calm, NOW), NOW).verb is Verb.EVICT
    step = next_step(settle(calm.model_copy(update={"users": ()}), NOW), NOW)
    assert (step.verb, step.phase) == (Verb.CLOSE, Phase.RETIRED)


@pytest.mark.parametrize(("hardware", "ends"), [("GPU-3", "until other hardware"), ("unknown", "deletes its record")])
def test_who_retires_a_device_is_told_how_that_ends(hardware: str, ends: str) -> None:
    """By other hardware, where one can be told from the other."""
    _, answer = told(quarantined(hardware_id=hardware), CommandVerb.RETIRE)
    assert (answer.outcome, ends in answer.message) == (Outcome.APPLIED, True)


def test_a_pause_does_not_wait_for_the_guard_either() -> None:
    """A held incident that is paused reads what the leader tells it, and otherwise rests."""
    state, _ = told(quarantined(admitted=False, fenced_at=None), CommandVerb.PAUSE, until=NOW + HOUR)
    assert next_step(state, NOW).verb is Verb.READ
    rested = next_step(state.model_copy(update={"reread": False}), NOW + seconds(1))
    assert (rested.verb, rested.phase) == (Verb.WAIT, Phase.HELD)


def test_times_in_answers_are_whole_seconds() -> None:
    """Of a pause, of an end that is set, and of one that is refused."""
    until = NOW + HOUR + timedelta(microseconds=217)
    _, paused = told(quarantined(), CommandVerb.PAUSE, until=until)
    assert paused.message == "paused until 2026-01-10 11:00:00Z; the fence stays"
    state, kept = told(quarantined(), CommandVerb.EXTEND_QUARANTINE, id="1", until=until)
    assert kept.message == "out of service until 2026-01-10 11:00:00Z at least"
    assert state.timeline[-1].text.endswith(kept.message)
    _, shorter = told(state, CommandVerb.EXTEND_QUARANTINE, id="2", until=until)
    assert shorter.message == "it is kept until 2026-01-10 11:00:00Z already; this only lengthens"
    _, past = told(state, CommandVerb.PAUSE, id="3", until=NOW - timedelta(microseconds=1))
    assert past.message == "until: 2026-01-10 09:59:59Z has passed; name a time that is to come"
