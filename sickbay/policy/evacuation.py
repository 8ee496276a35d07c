"""Whether one pod may be moved off a bad device: who owns it decides (design 4.5, the defaults without annotations)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

STALLED_AFTER: Final = timedelta(minutes=5)
"""A pod that has not been Ready for so long makes no progress: moving it loses nothing that is not lost already."""

REBUILDS: Final = frozenset({"Deployment", "ReplicaSet", "ReplicationController"})
"""Owners that rebuild a pod anywhere, and whose pods promise no identity or state."""

REBUILDS_IF_STALLED: Final = REBUILDS | {"StatefulSet"}
"""Owners that rebuild a pod which made no progress; a StatefulSet's pod is otherwise a person's to move."""


@dataclass(frozen=True, slots=True)
class PodFacts:
    """What is to know of one pod before it is moved.

    Attributes:
        owner_kind: of its topmost controller, ``Pod`` for a pod without one, ``Node`` for a mirror pod.
        owner_gone: the controller that the pod names no longer exists: nothing rebuilds the pod.
        stalled: why it makes no progress on this device (a few words), ``""`` if it may be making some.
        retries_left: pods that a Job may still lose before it fails for good.
        hands_off: what is marked as not Sickbay's to touch, the pod or its namespace; ``""`` if neither is.
        ignores_disruption: the Job's first failure rule that an eviction meets ignores ``DisruptionTarget``.
    """

    namespace: str
    name: str
    owner_kind: str
    owner_name: str = ""
    owner_gone: bool = False
    stalled: str = ""
    retries_left: int = 0
    ignores_disruption: bool = False
    hands_off: str = ""


@dataclass(frozen=True, slots=True)
class Move:
    """The answer.

    Attributes:
        may: one eviction makes the pod start again elsewhere without losing more than it already lost.
        reason: CamelCase, a closed set.
        note: why, for people; with the remedy where a person is needed.
    """

    may: bool
    reason: str
    note: str


def may_move(pod: PodFacts) -> Move:
    """Decide whether Sickbay may evict this pod, which holds a bad device and has not ended.

    Whether it is on its way out already is another question: it is asked right before an eviction.
    """
    if pod.hands_off:
        why = f"{pod.hands_off} is marked sickbay.dev/managed=false"
        return _ask(pod, "HandsOff", why, f"remove the mark, or {_delete(pod)}")
    if pod.owner_kind == "Node":
        # The API server deletes only the mirror; kubelet runs the pod on.
        return _ask(pod, "MirrorPod", "kubelet runs it from a file on its node", "remove that file from the node")
    if pod.owner_kind == "Pod":
        return _ask(pod, "NobodyRebuilds", "no controller would start it again", _delete(pod))
    if pod.owner_gone:
        return _ask(pod, "NobodyRebuilds", f"its {pod.owner_kind} {pod.owner_name} no longer exists", _delete(pod))
    return _by_owner(pod)


def _by_owner(pod: PodFacts) -> Move:
    if pod.owner_kind == "Job":
        return _job(pod)
    if pod.stalled and pod.owner_kind in REBUILDS_IF_STALLED:
        return Move(may=True, reason="NoProgress", note=f"loses nothing by a move: {pod.stalled}")
    if pod.owner_kind in REBUILDS:
        return Move(may=True, reason="Rebuilt", note=f"its {pod.owner_kind} starts it again elsewhere")
    if pod.owner_kind == "StatefulSet":
        return _ask(pod, "Stateful", "a StatefulSet's pod may hold state that a move loses", _delete(pod))
    if pod.owner_kind == "DaemonSet":
        return _ask(pod, "ReturnsToNode", "its DaemonSet starts it on the same node again", _stop(pod))
    # Part of a gang, perhaps: one pod out may fail all of them.
    return _ask(pod, "UnknownOwner", f"Sickbay does not know how a {pod.owner_kind} moves its pods", _stop(pod))


def _job(pod: PodFacts) -> Move:
    if pod.retries_left <= 0:
        return _ask(pod, "NoRetries", "its Job has no retry left and would fail for good", _stop(pod))
    if pod.ignores_disruption:
        return Move(
            may=True, reason="Rebuilt", note="its Job starts it again and does not count an eviction as a failure"
        )
    if pod.stalled:
        return Move(may=True, reason="NoProgress", note=f"loses nothing by a move: {pod.stalled}")
    return _ask(pod, "CountsAsFailure", "its Job has no podFailurePolicy that ignores DisruptionTarget", _stop(pod))


def _ask(pod: PodFacts, reason: str, why: str, remedy: str) -> Move:
    note = f"pod {pod.namespace}/{pod.name}: {why}; {remedy}; Sickbay goes on by itself when it has gone"
    return Move(may=False, reason=reason, note=note)


def _delete(pod: PodFacts) -> str:
    return f"delete pod {pod.namespace}/{pod.name} when that is safe"


def _stop(pod: PodFacts) -> str:
    return f"delete pod {pod.namespace}/{pod.name} or stop {pod.owner_kind} {pod.namespace}/{pod.owner_name}"
