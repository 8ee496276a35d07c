"""What an operator reads of an incident in the Temporal UI."""

from __future__ import annotations

import re

import pytest

from sickbay.model.business import Checking
from sickbay.model.incident import IncidentState, Teller, TimelineEntry, UserState, Verdict
from sickbay.model.observation import Health, Reason
from sickbay.model.policy import Policy
from sickbay.model.record import Phase
from sickbay.policy.steps import Step, Verb
from tests.builders import NOW, incident, observation, policy, seconds, user
from workflows.incident import present

HOSTILE = "x\\ | <img src=x> [go](javascript:1) ![i](http://e/x) **b** _i_ `c` www.evil.example a@evil.example\n# head"


def shown(state: IncidentState, message: str = "waits for a probe", after: float = 90) -> str:
    """Render a state that waits, some seconds after the incident began."""
    step = Step(
        verb=Verb.WAIT, phase=state.phase, reason="Waits", message=message, recheck_at=NOW + seconds(after + 60)
    )
    return present.details(state, step, NOW + seconds(after))


def story(*entries: tuple[float, Phase, str]) -> tuple[TimelineEntry, ...]:
    """Build lines of a story."""
    return tuple(TimelineEntry(at=NOW + seconds(at), phase=phase, text=text) for at, phase, text in entries)


def test_the_first_line_says_where_it_stands_why_and_until_when() -> None:
    """Phase, what is waited for, and by when the incident looks again."""
    first = shown(incident(phase=Phase.RECOVERING)).splitlines()[0]
    assert first == "## Recovering: waits for a probe (looks again by 2026-01-10 10:02:30Z)"


def test_phases_with_since_when_and_for_how_long() -> None:
    """Lines of the story within a phase do not begin it anew; the last one goes on."""
    lines = story(
        (0, Phase.QUARANTINED, "fenced"),
        (5, Phase.QUARANTINED, "admitted: 1 of 8"),
        (20, Phase.EVACUATING, "moves team/train-0"),
        (80, Phase.RECOVERING, "nobody holds it"),
    )
    table = shown(incident(phase=Phase.RECOVERING, timeline=lines))
    assert "| Quarantined | 2026-01-10 10:00:00Z | 20s |\n" in table
    assert "| Evacuating | 2026-01-10 10:00:20Z | 1m |\n" in table
    assert "| **Recovering** | 2026-01-10 10:01:20Z | goes on |\n" in table
    assert "| 2026-01-10 10:00:05Z | Quarantined | admitted: 1 of 8 |\n" in table


def test_a_flood_of_signals_hides_no_phase() -> None:
    """Of what is shown they take a third at most, unless there is nothing else; the rest is counted."""
    step = TimelineEntry(at=NOW, phase=Phase.QUARANTINED, text="fenced")
    signal = TimelineEntry(at=NOW, phase=Phase.QUARANTINED, text="paused", teller=Teller.ANYBODY)
    state = incident(timeline=(step,) * 12 + (signal,) * 10, left_out={Teller.ANYBODY: 90, Teller.PERSON: 1})
    table = shown(state)
    assert (table.count("| fenced |"), table.count("| paused |")) == (10, 5)
    assert "Left out here: 2 steps, 1 command, 95 signals.\n" in table
    few = shown(incident(timeline=(step, *(signal,) * 10)))
    assert (few.count("| fenced |"), few.count("| paused |"), "Left out" in few) == (1, 10, False)


def test_evidence_names_each_source_and_what_it_said() -> None:
    """Of the last live reading; nothing is claimed before it, and nobody is an answer too."""
    assert "Said at" not in shown(incident())
    read = incident(read_at=NOW, observations=(observation(message="Xid 79"), observation(Health.HEALTHY)))
    assert "Said at 2026-01-10 10:00:00Z:\n\n| by | health | reason | message |\n" in shown(read)
    assert "| Pod team/train-0 | Unhealthy | Reported | Xid 79 |" in shown(read)
    assert "| Pod team/train-0 | Healthy | Reported |  |" in shown(read)
    assert "| nobody | | | |" in shown(incident(read_at=NOW))
    many = incident(read_at=NOW, observations=(observation(),) * 11)
    assert "| and 3 more | | | |" in shown(many)


def test_what_a_person_took_out_was_not_said_of_the_device() -> None:
    """Nobody reported it."""
    by_hand = shown(incident(reason=Reason.PERSON, message="fan noise"))
    assert "| taken out | by a person: fan noise |" in by_hand
    assert "(Person)" not in by_hand
    assert "| said | Unhealthy (Reported) Xid 79 |" in shown(incident(message="Xid 79"))


def test_that_it_flaps() -> None:
    """Beside what was read, and not of a device that does not."""
    assert "| read live | Healthy; it flaps: Healthy did not last, 3 times |" in shown(
        incident(health=Health.HEALTHY, flips=3)
    )
    assert "flaps" not in shown(incident(health=Health.HEALTHY))


def test_numbers_users_verdict_and_links() -> None:
    """The guard's count, who is waited for and why, what the last probe proved, and where to go from here."""
    blocked = user(state=UserState.BLOCKED, note="budget keep allows 0")
    state = incident(
        admission_numbers="1 of 8 fenced",
        users=(blocked, user(state=UserState.GONE, note="old news")),
        users_at=NOW,
        verdict=Verdict.FAIL,
        verdict_note="matmul differs",
        attempts=1,
    )
    details = shown(state)
    assert "| admission | 1 of 8 fenced |" in details
    assert "team/train-0 Blocked (budget keep allows 0), team/train-0 Gone |" in details
    assert "1 of 5 attempts failed; last verdict fail: matmul differs |" in details
    assert f"`kubectl get dq {state.target.device.record_name} -o yaml`" in details
    assert f"| runbook | {present.RUNBOOK} |" in details
    ours = incident(policy=policy(runbook="https://wiki.example/gpu?p=1#bad"))
    assert "| runbook | [open](https://wiki.example/gpu?p=1#bad) |" in shown(ours)


@pytest.mark.parametrize(
    "address", ["javascript:alert(1)", "https://x/) [y](z", "ftp://x", "https://x/ y", "https://a|b"]
)
def test_a_runbook_is_an_address_and_nothing_else(address: str) -> None:
    """It becomes a link."""
    with pytest.raises(ValueError, match="runbook"):
        Policy.model_validate({"runbook": address})


def test_texts_of_others_forge_nothing() -> None:
    """No link, image, HTML, heading, emphasis or table cell comes of what a driver wrote, wherever it is shown."""
    state = incident(
        message=HOSTILE,
        node=HOSTILE,
        hardware_id=HOSTILE,
        admission_numbers=HOSTILE,
        read_at=NOW,
        observations=(observation(message=HOSTILE),),
        users=(user(note=HOSTILE),),
        users_at=NOW,
        verdict=Verdict.FAIL,
        verdict_note=HOSTILE,
        timeline=story((0, Phase.QUARANTINED, HOSTILE)),
    )
    for line in shown(state, HOSTILE).splitlines():
        bare = re.sub(r"\\.", "", line)  # what a backslash takes the meaning of
        assert "evil" not in bare or not re.search(r"[<\[\]*_~@]|www\.|://", bare.replace("**Quarantined**", "")), line
        if line.startswith("|"):
            assert bare.count("|") in {3, 4, 5}, line
        assert not line.startswith("# ")


def test_details_stay_small() -> None:
    """However much was said: Temporal keeps them with every change."""
    state = incident(
        message="m" * 4000,
        read_at=NOW,
        observations=(observation(message="m" * 4000),) * 500,
        users=(user(note="n" * 4000),) * 500,
        users_at=NOW,
        timeline=story(*((i, Phase.QUARANTINED, "t" * 4000) for i in range(40))),
    )
    assert len(shown(state, "m" * 4000).encode()) < 10_000


def test_the_business_check_is_shown_where_there_is_one() -> None:
    """With its last answer, which is the server's word and tamed."""
    assert "business check" not in shown(incident())
    asks = policy(business={"prometheus": "http://p:9090", "query": "up", "min": 1.0})
    assert "| business check | not asked yet |" in shown(incident(policy=asks))
    checking = Checking(asked_at=NOW, cause="QueryRefused", note=HOSTILE)
    table = shown(incident(policy=asks, checking=checking))
    assert "| business check | QueryRefused; " in table
    assert "<img" not in table
    assert " at 2026-01-10 10:00:00Z |" in table
