"""Folding observations of one device."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sickbay.model.device import DeviceKey
from sickbay.model.observation import Health, Observation, Reason, Seen, SourceRef
from sickbay.model.policy import Policy, Unknown
from sickbay.policy.evidence import LeaseAge, Moment, Track, at, covered, newer, observe, older, settle, vanish

DEVICE = DeviceKey(cluster="c", driver="gpu.example.com", pool="node-1", device="gpu-0")
START = datetime(2026, 1, 10, 10, tzinfo=UTC)
POLICY = Policy(stable=timedelta(seconds=30), staleness=timedelta(seconds=40))


def said(health: Health, *, by: str = "a", version: str = "10", terminal: bool = False, **more: object) -> Observation:
    """Build what a pod said."""
    return Observation.model_validate(
        {
            "device": DEVICE,
            "source": SourceRef(kind="Pod", namespace="team", name=by, uid=f"uid-{by}"),
            "resource_version": version,
            "health": health,
            "node": "node-1",
            "terminal": terminal,
            **more,
        }
    )


def moment(seconds: float = 0, *, lease: float = 0, version: str = "500", policy: Policy = POLICY) -> Moment:
    """``seconds`` after the start, with a Lease that moved ``lease`` seconds ago."""
    leases = {"node-1": LeaseAge(version, timedelta(seconds=lease))}
    return Moment(START + timedelta(seconds=seconds), leases, policy)


def heard(*observations: Observation, track: Track | None = None) -> Track:
    """Hear observations one second apart, on a fresh Lease."""
    track = track or Track(DEVICE)
    for n, observation in enumerate(observations):
        track = observe(track, observation, moment(n))
    return track


def health_of(track: Track) -> Health | None:
    """Fold a track."""
    return track.evidence(POLICY).health


def test_nobody_reporting_is_not_healthy() -> None:
    """A device on which nobody reports has no evidence, which is not Healthy."""
    assert health_of(Track(DEVICE)) is None
    assert Track(DEVICE).evidence(POLICY).healthy_since is None


def test_worst_voice_wins_until_it_clears_itself() -> None:
    """An Unhealthy of one pod outweighs Healthy of others, and only that pod takes it back."""
    track = heard(said(Health.UNHEALTHY, by="a"), said(Health.HEALTHY, by="b"))
    assert health_of(track) is Health.UNHEALTHY
    track = observe(track, said(Health.HEALTHY, by="a", version="11"), moment(5))
    assert health_of(track) is Health.HEALTHY


def test_milder_word_does_not_lower_severity() -> None:
    """Unknown after Unhealthy keeps the Unhealthy, at the version in which that was first seen."""
    track = heard(said(Health.UNHEALTHY, version="10"), said(Health.UNKNOWN, version="11"))
    evidence = track.evidence(POLICY)
    assert (evidence.health, evidence.sources[0].resource_version) == (Health.UNHEALTHY, "10")


def test_repetition_keeps_the_version_of_the_transition() -> None:
    """Later versions that say the same do not change which transition names the incident."""
    track = heard(said(Health.HEALTHY, version="9"), said(Health.UNHEALTHY, version="10"))
    again = heard(said(Health.UNHEALTHY, version="12", message="other words"), track=track)
    assert again.evidence(POLICY).sources[0].resource_version == "10"
    assert again.outline(POLICY) == track.outline(POLICY)


def test_older_version_of_the_same_object_is_dropped() -> None:
    """What comes out of order changes nothing; another object with a lower version does count."""
    track = heard(said(Health.HEALTHY, by="a", version="100"))
    assert observe(track, said(Health.UNHEALTHY, by="a", version="99"), moment()).voices == track.voices
    assert health_of(observe(track, said(Health.UNHEALTHY, by="b", version="99"), moment())) is Health.UNHEALTHY


def test_stale_lease_makes_any_word_unknown() -> None:
    """A Healthy on a Lease that does not move is Unknown(NodeUnreachable), counted by the Lease's version."""
    track = at(heard(said(Health.HEALTHY)), moment(60, lease=41, version="777"))
    evidence = track.evidence(POLICY)
    assert (evidence.health, evidence.reason) == (Health.UNKNOWN, Reason.NODE_UNREACHABLE)
    assert evidence.sources[0].resource_version == "777"
    back = at(track, moment(70, version="778"))
    assert health_of(back) is Health.HEALTHY


def test_lease_is_fresh_up_to_staleness() -> None:
    """Exactly at ``staleness`` a report still counts."""
    assert health_of(at(heard(said(Health.HEALTHY)), moment(60, lease=40))) is Health.HEALTHY


def test_stale_lease_neither_clears_nor_makes_unhealthy() -> None:
    """An Unhealthy said while fresh stays; one first heard on a stale Lease is only Unknown until it is fresh."""
    fresh = at(heard(said(Health.UNHEALTHY)), moment(60, lease=99))
    assert health_of(fresh) is Health.UNHEALTHY
    known = heard(said(Health.HEALTHY, by="b"))
    late = observe(known, said(Health.UNHEALTHY), moment(60, lease=99))
    assert health_of(late) is Health.UNKNOWN
    assert health_of(at(late, moment(61))) is Health.UNHEALTHY


def test_healthy_said_on_a_stale_lease_does_not_clear() -> None:
    """Clearing needs a fresh Lease, and happens when it becomes fresh."""
    track = observe(heard(said(Health.UNHEALTHY)), said(Health.HEALTHY, version="11"), moment(60, lease=99))
    assert health_of(track) is Health.UNHEALTHY
    assert health_of(at(track, moment(61))) is Health.HEALTHY


def test_unknown_counts_only_when_known_before() -> None:
    """A driver without health service says Unknown for ever, which is no evidence; policy may say otherwise."""
    never = heard(said(Health.UNKNOWN))
    assert health_of(never) is None
    eager = POLICY.model_copy(update={"unknown": Unknown(never_known=True)})
    assert never.evidence(eager).health is Health.UNKNOWN
    assert health_of(heard(said(Health.HEALTHY), said(Health.UNKNOWN, version="11"))) is Health.UNKNOWN


def test_undecodable_source_is_unknown() -> None:
    """A source that can no longer be read is in doubt, not Healthy."""
    track = heard(said(Health.HEALTHY), said(Health.UNKNOWN, version="11", reason=Reason.UNDECODABLE))
    assert track.evidence(POLICY).reason is Reason.UNDECODABLE


def test_terminal_pod_opens_nothing_and_clears_nothing() -> None:
    """A pod first seen after its end says nothing; one that ended while bad stays bad, whatever it says now."""
    assert heard(said(Health.UNHEALTHY, terminal=True)).voices == ()
    ended = heard(said(Health.UNHEALTHY), said(Health.HEALTHY, version="11", terminal=True))
    assert health_of(ended) is Health.UNHEALTHY


def test_vanished_entry_keeps_its_severity() -> None:
    """A pod that died of its device takes its report with it, not its severity; a Healthy one leaves nothing."""
    bad = vanish(heard(said(Health.UNHEALTHY)), "uid-a", moment(5))
    assert health_of(observe(bad, said(Health.HEALTHY, by="b"), moment(6))) is Health.UNHEALTHY
    assert vanish(heard(said(Health.HEALTHY)), "uid-a", moment(5)).voices == ()


def test_silent_unknown_is_answered_by_lasting_healthy() -> None:
    """Doubt left by a pod that is gone ends when others say Healthy for ``stable``."""
    doubt = vanish(heard(said(Health.HEALTHY), said(Health.UNKNOWN, version="11")), "uid-a", moment(5))
    track = observe(doubt, said(Health.HEALTHY, by="b"), moment(10))
    assert health_of(at(track, moment(39))) is Health.UNKNOWN
    answered = at(track, moment(40))
    assert (health_of(answered), answered.first_bad_at) == (Health.HEALTHY, None)


def test_silent_voices_are_bounded() -> None:
    """A crash loop makes a new pod each time; the memory of them has an end, and keeps the worst."""
    track = heard(said(Health.HEALTHY, by="known"))
    for n in range(50):
        health = Health.UNHEALTHY if n == 0 else Health.UNKNOWN
        track = vanish(observe(track, said(health, by=f"p{n}"), moment(n)), f"uid-p{n}", moment(n))
    assert len(track.voices) == 9
    assert health_of(track) is Health.UNHEALTHY


def test_first_bad_time_survives_other_reasons_and_short_healthy() -> None:
    """Only Healthy that lasts ``stable`` resets the time of the first bad sample."""
    track = heard(said(Health.HEALTHY), said(Health.UNKNOWN, version="11"))
    began = track.first_bad_at
    assert began == START + timedelta(seconds=1)
    track = observe(track, said(Health.UNHEALTHY, version="12", message="other"), moment(10))
    track = observe(track, said(Health.HEALTHY, version="13"), moment(20))
    track = observe(track, said(Health.UNHEALTHY, version="14"), moment(49))
    assert track.first_bad_at == began
    track = observe(track, said(Health.HEALTHY, version="15"), moment(60))
    track = observe(track, said(Health.UNHEALTHY, version="16"), moment(90))
    assert track.first_bad_at == START + timedelta(seconds=90)


def test_flapping_is_one_bad_time_and_never_stable() -> None:
    """Ten minutes of flips every 5 s never count as Healthy for 30 s."""
    track = heard(said(Health.HEALTHY, version="1"))
    for n in range(120):
        health = Health.UNHEALTHY if n % 2 == 0 else Health.HEALTHY
        track = observe(track, said(health, version=str(n + 2)), moment(5 * (n + 1)))
        assert track.first_bad_at == START + timedelta(seconds=5)
    assert at(track, moment(600 + 30)).first_bad_at is None


def test_time_counts_as_good_only_while_something_reports() -> None:
    """A gap in reporting starts the Healthy time anew."""
    track = vanish(heard(said(Health.HEALTHY)), "uid-a", moment(20))
    track = observe(track, said(Health.HEALTHY, by="b"), moment(25))
    assert track.evidence(POLICY).healthy_since == START + timedelta(seconds=25)


def test_plugin_restart_blip_is_one_first_bad_time_per_device() -> None:
    """A blip of 8 s leaves Healthy behind, but not yet for long enough to count."""
    track = heard(said(Health.HEALTHY, version="1"))
    track = observe(track, said(Health.UNHEALTHY, version="2"), moment(10))
    track = observe(track, said(Health.HEALTHY, version="3"), moment(18))
    assert (health_of(track), track.healthy_since) == (Health.HEALTHY, START + timedelta(seconds=18))
    assert track.first_bad_at == START + timedelta(seconds=10)


def test_settled_voice_counts_again_at_its_next_change() -> None:
    """After an incident has ended, even a milder word is news; silent voices it had not seen are forgotten."""
    track = heard(said(Health.UNHEALTHY, by="a", version="10"), said(Health.UNHEALTHY, by="b", version="11"))
    track = settle(vanish(track, "uid-b", moment(5)), ["uid-a"], ["uid-a"])
    assert [v.uid for v in track.voices] == ["uid-a"]
    milder = observe(track, said(Health.UNKNOWN, by="a", version="12"), moment(6))
    assert health_of(milder) is Health.UNKNOWN


@pytest.mark.parametrize(
    ("pods_version", "kept"),
    [("", []), ("19", ["uid-b"]), ("20", []), ("21", [])],
    ids=["no probe", "before it spoke", "as it spoke", "after it spoke"],
)
def test_what_a_pod_said_after_the_probe_outlives_the_pod(pods_version: str, kept: list[str]) -> None:
    """A pod that reports the device bad during its release, and is gone before anybody reads it, is not lost."""
    track = vanish(heard(said(Health.UNHEALTHY, by="b", version="20")), "uid-b", moment(5))
    assert [v.uid for v in settle(track, [], ["uid-a"], pods_version).voices] == kept


@pytest.mark.parametrize(
    ("version", "seen", "expected"),
    [
        ("10", Seen(uid="uid-a", resource_version="12", digest="other"), True),  # our cache is behind
        ("10", Seen(uid="uid-a", resource_version="10", digest="other"), True),
        ("13", Seen(uid="uid-a", resource_version="12", digest="other"), False),  # news
        ("13", Seen(uid="uid-a", resource_version="12", digest=said(Health.UNHEALTHY).digest), True),  # sticky
        ("10", Seen(uid="uid-b", resource_version="99"), False),  # another object, never compared
        ("x13", Seen(uid="uid-a", resource_version="x12", digest="other"), False),
        ("x12", Seen(uid="uid-a", resource_version="x12", digest="other"), True),
    ],
)
def test_what_an_ended_incident_covers(version: str, seen: Seen, expected: bool) -> None:  # noqa: FBT001 - table
    """Covered means read at or past that version, or found the same without a change since."""
    voice = heard(said(Health.UNHEALTHY, version=version)).voices[0]
    assert covered(voice, [seen]) is expected


def test_new_transition_to_the_same_word_is_not_covered() -> None:
    """A report that was outvoted counts again when it is seen to change back to bad."""
    track = heard(*(said(h, version=str(v)) for h, v in ((Health.HEALTHY, 13), (Health.UNHEALTHY, 14))))
    seen = Seen(uid="uid-a", resource_version="12", digest=said(Health.UNHEALTHY).digest)
    assert not covered(track.voices[0], [seen])


def test_stale_lease_counts_by_the_lease() -> None:
    """A Lease that moved since the incident ended and is stale again is news on an unchanged pod."""
    track = at(heard(said(Health.HEALTHY)), moment(60, lease=99, version="700"))
    seen = [Seen(uid="uid-a", resource_version="10", digest=track.voices[0].told.digest)]
    assert covered(track.voices[0], seen, "700")
    assert not covered(track.voices[0], seen, "650")
    assert not covered(track.voices[0], seen, "")


def test_after_a_history_break_versions_cover_nothing() -> None:
    """A restored cluster counts from a lower version; only what is said can then be compared."""
    voice = heard(said(Health.UNHEALTHY, version="3")).voices[0]
    assert not covered(voice, [Seen(uid="uid-a", resource_version="900", digest="other")], trusted=False)
    assert covered(voice, [Seen(uid="uid-a", resource_version="900", digest=voice.told.digest)], trusted=False)


def test_versions_compare_as_numbers_or_not_at_all() -> None:
    """Versions are opaque but for decimal ones."""
    assert older("9", "10")
    assert not older("b", "a")
    assert newer("10", "9")
    assert newer("b", "a")
    assert not newer("a", "a")


HEALTHS = st.sampled_from(Health)
VOICES = st.lists(st.tuples(st.sampled_from("abcd"), HEALTHS, st.booleans()), min_size=1, max_size=24)


def story(plan: list[tuple[str, Health, bool]]) -> list[Observation]:
    """One version per observation, rising."""
    return [said(h, by=by, version=str(10 + n), terminal=ended) for n, (by, h, ended) in enumerate(plan)]


def told_of(track: Track) -> frozenset[tuple[str, Health, bool]]:
    """Say who says what."""
    return frozenset((v.uid, v.told.health, v.silent) for v in track.voices)


@given(VOICES, st.randoms(use_true_random=False))
def test_sources_may_interleave_in_any_order(plan: list[tuple[str, Health, bool]], chance: object) -> None:
    """Only the order within one source matters."""
    events = story([(by, h, False) for by, h, _ in plan])
    queues = {by: [e for e in events if e.source.name == by] for by in "abcd"}
    shuffled = []
    while any(queues.values()):
        by = chance.choice([b for b in "abcd" if queues[b]])  # type: ignore[attr-defined]  # hypothesis gives a Random
        shuffled.append(queues[by].pop(0))
    one, other = heard(*events), heard(*shuffled)
    assert told_of(one) == told_of(other)
    assert health_of(one) == health_of(other)


@given(VOICES, st.data())
def test_duplicates_and_latecomers_change_nothing(plan: list[tuple[str, Health, bool]], data: st.DataObject) -> None:
    """Each observation may be heard again at any time after a newer one of its source."""
    track = Track(DEVICE)
    past: list[Observation] = []
    for n, event in enumerate(story([(by, h, False) for by, h, _ in plan])):
        track = observe(track, event, moment(n))
        past.append(event)
        again = data.draw(st.sampled_from(past))
        assert told_of(observe(track, again, moment(n))) == told_of(track)


@given(VOICES, st.lists(st.floats(0, 100), min_size=24, max_size=24))
def test_unhealthy_never_comes_from_nowhere_and_never_goes_unsaid(
    plan: list[tuple[str, Health, bool]], ages: list[float]
) -> None:
    """Whatever the order, endings and Leases: Unhealthy only if somebody said it, Healthy only if all do, freshly."""
    track = Track(DEVICE)
    latest: dict[str, Observation] = {}
    for n, (event, age) in enumerate(zip(story(plan), ages, strict=False)):
        track = observe(track, event, moment(n, lease=age))
        latest[event.source.uid] = event
        health = health_of(track)
        said_so_far = {h for _, h, _ in plan[: n + 1]}
        assert health is not Health.UNHEALTHY or Health.UNHEALTHY in said_so_far
        if health is Health.HEALTHY:
            assert age <= 40
            speaking = [v for v in track.voices if not v.silent]
            assert all(latest[v.uid].health is Health.HEALTHY for v in speaking)


def test_track_stays_equal_when_time_alone_passes() -> None:
    """Looking again changes nothing as long as no Lease and no deadline does."""
    track = heard(said(Health.UNHEALTHY), said(Health.HEALTHY, by="b"))
    assert at(track, moment(2)) == replace(track)
