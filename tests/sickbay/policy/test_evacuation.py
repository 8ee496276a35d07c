"""Which pods may be moved."""

from __future__ import annotations

import pytest

from sickbay.policy.evacuation import PodFacts, may_move


def pod(owner_kind: str, **facts: object) -> PodFacts:
    """Build a pod ``a/b`` of an owner ``o``."""
    known = {"namespace": "a", "name": "b", "owner_kind": owner_kind, "owner_name": "o", **facts}
    return PodFacts(**known)  # type: ignore[arg-type]  # the table below is checked by running it


TABLE = [
    # What an eviction cannot do.
    ("mirror", pod("Node"), False, "MirrorPod"),
    ("mirror that crashes", pod("Node", stalled="CrashLoopBackOff"), False, "MirrorPod"),
    # Nobody rebuilds it.
    ("bare", pod("Pod"), False, "NobodyRebuilds"),
    ("bare that crashes", pod("Pod", stalled="CrashLoopBackOff"), False, "NobodyRebuilds"),
    ("owner deleted", pod("ReplicaSet", owner_gone=True), False, "NobodyRebuilds"),
    # Rebuilt anywhere.
    ("deployment", pod("Deployment"), True, "Rebuilt"),
    ("bare replica set", pod("ReplicaSet"), True, "Rebuilt"),
    ("deployment that crashes", pod("Deployment", stalled="CrashLoopBackOff"), True, "NoProgress"),
    # Jobs: an eviction must neither fail them for good nor use up what they have.
    ("job that ignores evictions", pod("Job", retries_left=6, ignores_disruption=True), True, "Rebuilt"),
    ("job that counts evictions", pod("Job", retries_left=6), False, "CountsAsFailure"),
    ("job that crashes", pod("Job", retries_left=3, stalled="CrashLoopBackOff"), True, "NoProgress"),
    ("job without a retry", pod("Job", retries_left=0), False, "NoRetries"),
    ("crashing job without a retry", pod("Job", retries_left=0, stalled="CrashLoopBackOff"), False, "NoRetries"),
    # State, places and gangs are a person's to judge.
    ("stateful", pod("StatefulSet"), False, "Stateful"),
    ("stateful, no progress", pod("StatefulSet", stalled="not Ready for 6m"), True, "NoProgress"),
    ("daemon set", pod("DaemonSet"), False, "ReturnsToNode"),
    ("daemon set that crashes", pod("DaemonSet", stalled="CrashLoopBackOff"), False, "ReturnsToNode"),
    ("gang of eight", pod("MPIJob"), False, "UnknownOwner"),
    ("gang that crashes", pod("MPIJob", stalled="CrashLoopBackOff"), False, "UnknownOwner"),
]


@pytest.mark.parametrize(("facts", "may", "reason"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
def test_the_owner_decides(facts: PodFacts, *, may: bool, reason: str) -> None:
    """Each kind of owner has its own answer, with a reason from a closed set."""
    move = may_move(facts)
    assert (move.may, move.reason) == (may, reason)


@pytest.mark.parametrize("facts", [row[1] for row in TABLE if not row[2]])
def test_a_person_is_told_what_to_do(facts: PodFacts) -> None:
    """A pod that Sickbay leaves alone is named, with what to do and what happens then."""
    note = may_move(facts).note
    assert "pod a/b" in note
    assert "goes on by itself" in note
