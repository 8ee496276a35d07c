"""What `explain`, `describe` and `events` say, to the letter."""

from __future__ import annotations

from datetime import timedelta

import pytest

from k8s.control import Control
from sickbay import errors
from sickbay.cli.look import facts, timeline
from sickbay.cli.look.subject import find
from sickbay.cli.look.table import Printer
from sickbay.cli.look.told import Told
from sickbay.model.business import Checking
from sickbay.model.incident import IncidentReport, Teller, TimelineEntry, User, UserState
from sickbay.model.record import Phase
from tests.builders import NOW, incident, policy, target
from tests.sickbay.cli.look.golden import golden
from tests.sickbay.cli.look.sights import ENDED, LATER, WARD, iso, key, record, rule, sight

STORY = (
    TimelineEntry(at=NOW, phase=Phase.QUARANTINED, text="keeps new allocations off the device"),
    TimelineEntry(at=NOW + timedelta(seconds=3), phase=Phase.EVACUATING, text="moves team/train-0 (Job train)"),
)
RUNNING = Told(
    headline="Evacuating: waits for team/train-0 to run elsewhere (looks again by 2026-01-10 10:14:00Z)",
    state=incident(
        target=target(key("gpu-0")),
        users=(
            User(
                namespace="team",
                name="train-0",
                uid="u",
                owner_kind="Job",
                owner_name="train",
                state=UserState.EVICTED,
                note="eviction accepted",
            ),
        ),
        timeline=STORY,
    ),
)
AWAY = Told(problem="Temporal at 127.0.0.1:7233, namespace 'default': cannot connect: connection refused")


def explained(name: str, told: Told, control: Control | None = None) -> str:
    """Explain a device of the ward."""
    return "\n".join(facts.lay_out(facts.explanation(find(WARD, name), control, told, LATER))) + "\n"


@pytest.mark.parametrize(
    ("name", "told", "control"),
    [
        ("gpu-0", RUNNING, None),
        ("gpu-1", AWAY, Control(paused=True, who="ann", why="firmware", until=LATER + timedelta(hours=1))),
        ("gpu-2", Told(), Control()),
        ("gpu-3", Told(), Control()),
        ("gpu-4", Told(), Control()),
    ],
)
def test_an_explanation_is_this(name: str, told: Told, control: Control | None) -> None:
    """With and without Temporal: where it is, what it waits for and until when, the numbers, the fence."""
    assert explained(name, told, control) == golden(f"explain-{name}", explained(name, told, control))


def test_a_described_incident_is_this() -> None:
    """It adds what only the incident knows: users, readings, probes, the story."""
    subject = find(WARD, "gpu-0")
    assert subject.record is not None
    said = "\n".join(facts.lay_out(facts.incident(subject.record, RUNNING))) + "\n"
    said = said.replace(policy().digest, "…")
    assert said == golden("describe-incident", said)


def test_a_described_incident_says_what_prometheus_said() -> None:
    """Where the policy has a business check."""
    asks = policy(business={"prometheus": "http://p:9090", "query": "up", "min": 1.0})
    subject = find(WARD, "gpu-0")
    assert subject.record is not None
    said = []
    for checking in (Checking(), Checking(asked_at=NOW, cause="NoData", note="no series")):
        state = incident(target=target(key("gpu-0")), policy=asks, checking=checking)
        lines = facts.lay_out(facts.incident(subject.record, Told(state=state)))
        said += [line.partition("Business check")[2].strip() for line in lines if line.startswith("Business check")]
    assert said == ["not asked yet", "NoData: no series at 2026-01-10 10:00:00Z"]


@pytest.mark.parametrize(("digest", "told"), [("70c0bb3b1275", ["content 70c0bb3b1275"]), ("", [])])
def test_the_policy_of_an_ended_incident_is_told_where_the_record_names_it(digest: str, told: list[str]) -> None:
    """A record that a person made names none."""
    seen = sight([record("gpu-0", spec={"policyHash": digest})], [], "gpu-0")
    of = find(seen, "gpu-0").record
    assert of is not None
    lines = facts.lay_out(facts.incident(of, Told()))
    assert [line.removeprefix("Policy").strip() for line in lines if line.startswith("Policy")] == told


def test_a_described_past_incident_is_of_itself() -> None:
    """Nothing of the device's last incident is told as if it were of that one."""
    name = key("gpu-2").incident_id("40")
    subject = find(WARD, name)
    past = subject.past(name)
    assert past is not None
    report = IncidentReport(incident=name, device="d", moved=("team/train-0",), fences=1, timeline=STORY)
    said = "\n".join(facts.lay_out(facts.past_incident(subject, past, Told(report=report)))) + "\n"
    assert said == golden("describe-past", said)
    assert subject.past(key("gpu-2").incident_id("100")) is None


def test_lines_that_made_room_are_counted() -> None:
    """A story that is not whole says so."""
    subject = find(WARD, "gpu-0")
    assert subject.record is not None
    report = IncidentReport(incident="i", device="d", timeline=STORY, left_out={Teller.ANYBODY: 490})
    said = facts.lay_out(facts.incident(subject.record, Told(report=report)))
    assert any(line.split() == ["Left", "out", "490", "signals"] for line in said)


@pytest.mark.parametrize("name", ["gpu-1", "gpu-2", "gpu-4"])
def test_a_described_quarantine_is_this(name: str) -> None:
    """All of a record, or why it cannot be read."""
    entry = find(WARD, name).entry
    assert entry is not None
    said = "\n".join(facts.lay_out(facts.quarantine(entry))) + "\n"
    assert said == golden(f"describe-quarantine-{name}", said)


def test_a_held_incident_says_whom_it_waits_for() -> None:
    """Without Temporal the record knows that much."""
    held = record(
        "gpu-0",
        spec={"admission": {"state": "Held", "by": "guard", "numbers": "6 of 12 fenced, 6 allowed"}},
        status={"phase": "Held"},
    )
    lines = facts.lay_out(facts.explanation(find(sight([held], [], "gpu-0"), "gpu-0"), None, Told(), LATER))
    assert "Waits for    the guard, which admits it when there is room, or a person's approval" in lines
    assert "Admission    Held by guard: 6 of 12 fenced, 6 allowed" in lines
    held["spec"]["admission"]["numbers"] = "6 of 12 fenced, 6 allowed; mode approve waits for a person"
    lines = facts.lay_out(facts.explanation(find(sight([held], [], "gpu-0"), "gpu-0"), None, Told(), LATER))
    assert f"Asks         a person (Approve): sickbay approve {key('gpu-0').record_name} lets it act" in lines
    assert not any(line.startswith("Waits for") for line in lines)


def test_what_a_person_took_out_is_told_as_such() -> None:
    """Nothing was reported; without a name it was a person all the same."""
    for actor, by in (("ann", "ann"), ("", "a person")):
        spec = {"reason": "Person", "message": "fan noise", "actor": actor}
        subject = find(sight([record("gpu-0", spec=spec)], [], "gpu-0"), "gpu-0")
        assert subject.record is not None
        lines = facts.lay_out(facts.explanation(subject, None, Told(), LATER))
        assert f"Taken out    by {by}: fan noise" in lines
        assert not any("(Person)" in line for line in lines)
        assert timeline.of_record(subject.record)[0].text == f"taken out by {by}: fan noise"


def test_conditions_that_do_not_hold_explain_nothing() -> None:
    """They are in the description of the record alone."""
    conditions = [
        {"type": "NeedsOperator", "status": "False", "reason": "Resolved"},
        {"type": "WantsAdmission", "status": "True", "reason": "Held"},
    ]
    subject = find(sight([record("gpu-0", status={"conditions": conditions})], [], "gpu-0"), "gpu-0")
    assert subject.entry is not None
    explained_ = "\n".join(facts.lay_out(facts.explanation(subject, None, Told(), LATER)))
    assert "Conditions   WantsAdmission=True Held" in explained_
    assert "NeedsOperator" not in explained_
    assert "NeedsOperator=False Resolved" in "\n".join(facts.lay_out(facts.quarantine(subject.entry)))


@pytest.mark.parametrize(("effect", "state"), [("NoSchedule", "Tainted"), ("None", "InService")])
def test_a_device_that_came_back_and_is_kept_by_others_is_not_in_service(effect: str, state: str) -> None:
    """Its incident has ended well all the same, and who keeps it is named."""
    taint = {"key": "vendor.example/hold", "effect": effect}
    now = sight([ENDED], [rule("gpu-2", ours=False, name="human-hold", taint=taint)], "gpu-2")
    lines = facts.lay_out(facts.explanation(find(now, "gpu-2"), None, Told(), LATER))
    (said,) = (line for line in lines if line.startswith("State"))
    assert said.startswith(f"State        {state}: its last incident ended 7m ago as Released")
    assert f"Taints       vendor.example/hold:{effect} by DeviceTaintRule human-hold" in lines


@pytest.mark.parametrize("name", ["gpu-1", "node-0/gpu-1", "gpu.sickbay.dev/node-0/gpu-1", key("gpu-1").record_name])
def test_a_device_has_many_names(name: str) -> None:
    """Each finds the same one."""
    assert find(WARD, name).place == ("gpu.sickbay.dev", "node-0", "gpu-1")


def test_a_past_incident_finds_its_device() -> None:
    """By the history of the record."""
    assert find(WARD, key("gpu-2").incident_id("40")).place[2] == "gpu-2"


def test_a_name_of_several_devices_is_refused_with_all_of_them() -> None:
    """A guess could explain the wrong one."""
    other = record("gpu-0", spec={"device": {"driver": "gpu.sickbay.dev", "pool": "node-1", "device": "gpu-0"}})
    two = sight([record("gpu-0"), other])
    with pytest.raises(
        errors.UsageError, match=r"'gpu-0' names 2 devices; write one of .*/node-0/gpu-0, .*/node-1/gpu-0"
    ):
        find(two, "gpu-0")


def test_a_name_of_nothing_is_refused_with_where_to_look() -> None:
    """Exit status 1: the command line was right, the thing is not there."""
    with pytest.raises(errors.SickbayError, match="nothing is named 'gpu-9'; see sickbay get devices") as told:
        find(WARD, "gpu-9")
    assert told.value.exit_status == 1


def test_the_record_alone_tells_a_shorter_story() -> None:
    """First word, admission, what was asked, how it ended."""
    for name in ("gpu-1", "gpu-2"):
        subject = find(WARD, name)
        assert subject.record is not None
        rows = timeline.rows(timeline.of_record(subject.record))
        said = "\n".join(Printer(timeline.COLUMNS).table(rows)) + "\n"
        assert said == golden(f"events-{name}", said)


def test_a_condition_is_told_without_the_phase_it_came_in() -> None:
    """The record knows the present phase alone; as JSON the key is left out."""
    subject = find(WARD, "gpu-1")
    assert subject.record is not None
    (row,) = (row for row in timeline.rows(timeline.of_record(subject.record)) if "ProbeCannotRun" in row.cells[2])
    assert row.cells[1] == ""
    assert "phase" not in row.data
    (told,) = timeline.rows(timeline.of_incident(STORY[1:]))
    assert told.data["phase"] == "Evacuating"


def test_who_gave_a_device_up_is_told() -> None:
    """While its incident runs, and ever after."""
    word = {"sickbay.dev/disowned-by": "eve", "sickbay.dev/disown-reason": "needed"}
    given_up = record("gpu-0")
    given_up["metadata"]["annotations"] = word | {"sickbay.dev/disown-incident": given_up["spec"]["incident"]}
    seen = find(sight([given_up], [rule("gpu-0")], "gpu-0"), "gpu-0")
    lines = facts.lay_out(facts.explanation(seen, None, Told(), LATER))
    assert "Given up     by eve: needed" in lines
    past = {"incident": "incident/x", "outcome": "Disowned", "openedAt": iso(NOW), "closedAt": iso(NOW), "by": "eve"}
    ended = record("gpu-0", status={"phase": "Disowned", "history": [past | {"why": "needed"}]})
    text = "\n".join(facts.lay_out(facts.explanation(find(sight([ended]), "gpu-0"), None, Told(), LATER)))
    assert "Disowned (Reported)  incident/x by eve: needed" in text
