"""Who holds a device now, joined with who held it before."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime
from typing import Final

from k8s import claims
from k8s.clock import utc_now
from k8s.evictions import read_pod
from k8s.gateway import Gateway
from k8s.hands_off import HandsOff, unmanaged
from k8s.listings import ClaimLister, Claims
from k8s.owners import Owner, Owners, condition, facts_of
from k8s.probe_objects import PROBE_NAMESPACE
from k8s.reading import Reader
from k8s.replacements import Replacements
from k8s.resources import NODES
from k8s.wire import Node, Pod
from sickbay import errors
from sickbay.model.device import DeviceKey
from sickbay.model.incident import User, UserState
from sickbay.policy.evacuation import Move, may_move

KEPT: Final = 30
"""Users that are gone and still told of: a job that keeps coming back must not fill the incident's state."""

_NODE: Final = Reader(Node)


class UserLists:
    """Lists users, past every cache."""

    def __init__(self, gateway: Gateway, claim_lister: ClaimLister, *, now: Callable[[], datetime] = utc_now) -> None:
        self._gateway = gateway
        self._claims = claim_lister
        self._owners = Owners(gateway)
        self._replacements = Replacements(gateway, self._owners)
        self._hands_off = HandsOff(gateway)
        self._now = now

    async def users(self, device: DeviceKey, before: Iterable[User] = ()) -> tuple[User, ...]:
        """List the users of a device: those that hold it, then those that are gone, each in the order they were found.

        Pods with admin access watch and are no users, nor are Sickbay's probes.

        Args:
            device: the device.
            before: users of the last list: what the incident noted of them is kept.

        Raises:
            ClusterError, ClusterUnavailable: something could not be read, so nothing is known.
        """
        held = await self._claims.get()
        known = {user.uid: user for user in before}
        holders = {u.uid: u for u in claims.users_of(device, held.of(device)) if _is_user(u)}
        asked = {uid: (u.namespace, u.name) for uid, u in holders.items() if u.resource == "pods"}
        if held.flawed:  # a claim that cannot be read may be theirs: whoever still runs still counts
            asked |= {uid: (u.namespace, u.name) for uid, u in known.items() if u.state.holds and uid not in holders}
        found = await asyncio.gather(*(self._found(ns, name, uid, known.get(uid)) for uid, (ns, name) in asked.items()))
        holding = {user.uid: user for user in found if user is not None}
        holding |= {uid: _workload(u, known.get(uid)) for uid, u in holders.items() if u.resource != "pods"}
        gone = [user for uid, user in known.items() if uid not in holding]
        lost = known.keys() | holding.keys()
        left = await asyncio.gather(*(self._gone(user, device, held, lost) for user in gone))
        order = {uid: place for place, uid in enumerate(known)}
        staying = sorted(holding.values(), key=lambda user: order.get(user.uid, len(order)))
        return (*staying, *left[-KEPT:])

    async def holds(self, device: DeviceKey, uid: str) -> bool:
        """Say whether this pod holds the device as a user."""
        held = await self._claims.get()
        return any(u.uid == uid and _is_user(u) for u in claims.users_of(device, held.of(device)))

    async def move(self, pod: Pod) -> Move:
        """Judge by what is there now whether this pod, as just read, may be moved.

        Raises:
            ClusterError, ClusterUnavailable: something could not be read, so nothing is known.
        """
        _, move = await self._judged(pod)
        return move

    async def _judged(self, pod: Pod) -> tuple[Owner, Move]:
        owner, node_ready, marked = await asyncio.gather(
            self._owners.of(pod), self._node_ready(pod), self._hands_off.namespace(pod.metadata.namespace)
        )
        facts = facts_of(pod, owner, now=self._now(), node_ready=node_ready)
        hands_off = "it" if unmanaged(pod.metadata) else f"namespace {pod.metadata.namespace}" if marked else ""
        return owner, may_move(replace(facts, hands_off=hands_off))

    async def _found(self, namespace: str, name: str, uid: str, known: User | None) -> User | None:
        """Read a pod that holds the device; None if it is gone or has ended."""
        pod = await read_pod(self._gateway, namespace, name, uid)
        if pod is None or pod.terminal:
            return None
        owner, move = await self._judged(pod)
        changes = {
            "owner_kind": owner.kind,
            "owner_name": owner.name,
            "owner_uid": owner.uid,
            "may_move": move.may,
            "terminating": bool(pod.metadata.deletion_timestamp),
        }
        if known is None:
            return User(namespace=namespace, name=name, uid=uid, note=move.note).model_copy(update=changes)
        if known.state is UserState.BLOCKED and not move.may:
            # Its eviction is not tried again: a person is to read why it stays, not what blocked it.
            changes["state"] = UserState.FOUND
        if changes.get("state", known.state) is UserState.FOUND:
            changes["note"] = move.note
        return known.model_copy(update=changes)

    async def _gone(self, user: User, device: DeviceKey, held: Claims, lost: Iterable[str]) -> User:
        if user.state.holds:
            went = {"state": UserState.GONE, "gone_at": self._now(), "terminating": False, "retry_at": None, "note": ""}
            user = user.model_copy(update=went)
        if user.state is UserState.GONE:
            note = await self._replacements.note(user, device, held, frozenset(lost))
            if note:
                return user.model_copy(update={"state": UserState.REPLACED, "note": note})
        return user

    async def _node_ready(self, pod: Pod) -> bool:
        """Whether the pod's node can be heard: else the pod's own readiness says nothing of the pod."""
        if not pod.spec.node_name:
            return False
        try:
            data = await self._gateway.request("GET", NODES.path(name=pod.spec.node_name))
        except errors.NotFound:
            return False
        ready = condition(_NODE(data).value.status.conditions, "Ready")
        return ready is not None and ready.status == "True"


def _is_user(user: claims.User) -> bool:
    return not user.observer and user.namespace != PROBE_NAMESPACE


def _workload(user: claims.User, known: User | None) -> User:
    """Tell of a consumer that is no pod: a workload as a whole, which Sickbay cannot move."""
    if known is not None:
        return known
    note = f"{user.resource} {user.namespace}/{user.name} holds the device as a whole; move it yourself"
    return User(
        namespace=user.namespace,
        name=user.name,
        uid=user.uid,
        owner_kind=user.resource,
        owner_name=user.name,
        owner_uid=user.uid,
        note=f"{note}; Sickbay goes on by itself when it has gone",
    )


def changed(before: Iterable[User], after: Iterable[User]) -> bool:
    """Say whether a list of users tells anything that an incident would act on."""
    return _movable(before) != _movable(after) or _outline(before) != _outline(after)


def _movable(users: Iterable[User]) -> frozenset[str]:
    """Tell who could be moved; of those on their way out nobody asks."""
    return frozenset(u.uid for u in users if u.may_move and u.state.holds and not u.terminating)


def _outline(users: Iterable[User]) -> frozenset[tuple[str, bool, bool, bool]]:
    return frozenset((u.uid, u.state.holds, u.state is UserState.REPLACED, u.terminating) for u in users)
