"""One leader among several processes, by a coordination Lease that is also a fencing token.

The official client's leader election does not serve: it writes no transition count to fence with, ages the lock by
comparing wall clocks, and does not bound its requests.

- `term` is the Lease's ``leaseTransitions``, plus one at every change of holder, from 1: the API server's admission
  policies compare what a leader writes with the Lease itself, so that one that slept is refused whatever it believes.
- A Lease of ours with another number than our term (a hand, a restored object) ends the leadership: everything that we
  wrote would be refused. The next term is above every number that this process has seen, lest one be given twice.
- A Lease is taken over when it is released, or has not changed for its duration *since we first saw it so*, on our own
  clock. Clocks of different machines are never compared; the times in the Lease are for people.
- A leader counts its deadline from *before* it sent the renewal that succeeded, so that it stops before anyone can
  follow: duration 6 s - deadline 4 s leave 2 s for slow answers.
- `leading` reads the clock each time, and so is false right after SIGCONT, before any task of ours has run. The clock
  is CLOCK_BOOTTIME where there is one: CLOCK_MONOTONIC stands still while the machine is suspended. A clock that was
  paused with its virtual machine fools both; then only the term protects.
- An `Election` is one candidacy with an identity of its own: lost is lost, and who wants to lead again starts another.
"""

from __future__ import annotations

import asyncio
import os
import socket
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Self
from weakref import WeakKeyDictionary

import structlog

from k8s.gateway import MERGE_PATCH, Gateway
from k8s.reading import Reader, Undecodable
from k8s.resources import LEASES
from k8s.wire import Lease
from sickbay import errors

log = structlog.get_logger(__name__)

_LEASE: Final = Reader(Lease)
_STOPPED: Final = "stopped"
_TERMS: Final[WeakKeyDictionary[Gateway, dict[str, int]]] = WeakKeyDictionary()
"""By API server and path of a Lease, the highest term seen: the next candidacy must not forget it."""


def boot_clock() -> float:
    """Seconds since boot, suspension included where the system can tell."""
    with_suspension: int | None = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if with_suspension is None else time.clock_gettime(with_suspension)


@dataclass(frozen=True)
class Timing:
    """How fast a lost leader is followed; takeover after kill -9 needs at most ``duration`` plus two ``retry``.

    Attributes:
        duration: a Lease that has not changed for so long is free.
        deadline: a leader that could not renew for so long stops.
        retry: between two looks at the Lease.
    """

    duration: timedelta = timedelta(seconds=6)
    deadline: timedelta = timedelta(seconds=4)
    retry: timedelta = timedelta(seconds=1)

    def __post_init__(self) -> None:
        """Refuse an order in which two could lead at once."""
        if not self.retry < self.deadline < self.duration:
            raise errors.UsageError(f"election: retry < deadline < duration must hold, not {self}")


class Election:
    """One candidacy; use as an async context manager: it competes while open, and releases the Lease when left.

    Attributes:
        identity: of this candidacy, fresh each time.
        lost: set once leadership ended, for whatever reason; never cleared.
        problem: why the last look at the Lease failed, None if it did not.
    """

    def __init__(
        self,
        gateway: Gateway,
        *,
        namespace: str,
        name: str,
        timing: Timing | None = None,
        clock: Callable[[], float] = boot_clock,
    ) -> None:
        """Prepare; nothing is sent before the context is entered.

        Args:
            gateway: the API server; one that nothing else uses, lest a burst of other requests delays a renewal.
            namespace: of the Lease; it must exist.
            name: of the Lease.
            timing: see `Timing`.
            clock: seconds, never going back.
        """
        self.identity = f"{socket.gethostname()}_{os.getpid()}_{uuid.uuid4().hex[:8]}"
        self.lost = asyncio.Event()
        self.problem: errors.SickbayError | None = None
        self._gateway = gateway
        self._path = LEASES.path(namespace, name)
        self._collection = LEASES.path(namespace)
        self._name = name
        self._timing = timing or Timing()
        self._clock = clock
        self._acquired = asyncio.Event()
        self._term = 0
        self._until = 0.0  # we lead until this moment
        self._lease: Lease | None = None  # as we wrote it
        self._seen_version = ""
        self._holder = ""  # in the Lease as seen
        self._free_at = 0.0  # when the Lease expires if it stays as seen
        self._renumbered = False  # lost by its number alone, the Lease still has our name and is ours to empty
        self._terms = _TERMS.setdefault(gateway, {})
        self._task: asyncio.Task[None] | None = None
        self._log = log.bind(lease=name, identity=self.identity)

    @property
    def leading(self) -> bool:
        """Whether we may act at this very moment."""
        return self._acquired.is_set() and not self.lost.is_set() and self._clock() < self._until

    @property
    def term(self) -> int:
        """The Lease's transitions while we lead or led, 0 before that."""
        return self._term

    @property
    def holder(self) -> str:
        """Identity of who holds the Lease as far as we know, ourselves included; ``""`` if we know of nobody."""
        return "" if self._expired() else self._holder

    async def acquired(self) -> None:
        """Wait until we lead. Forbidden or unreachable is waited out too: see `problem`."""
        await self._acquired.wait()

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._compete(), name=f"election-{self._name}")
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop leading first, then let others know."""
        assert self._task is not None
        ours = self.leading or self._renumbered
        self._lose(_STOPPED)
        self._task.cancel()
        await asyncio.wait([self._task])
        if ours:
            await self._release()
        if not self._task.cancelled():
            self._task.result()  # a bug in the competing task is the caller's to see

    async def _compete(self) -> None:
        try:
            while not self.lost.is_set():
                if self._acquired.is_set() and not self.leading:
                    return self._lose("not renewed in time")
                await self._try_step()
                await asyncio.sleep(self._bounded(self._timing.retry.total_seconds()))
        finally:
            self._lose(_STOPPED)

    async def _try_step(self) -> None:
        try:
            await self._step()
        except errors.Conflict:
            self._lease = None  # somebody was faster: read again
        except (errors.ClusterError, errors.ClusterUnavailable) as error:
            self._lease = None  # whether our write happened is not known: read before the next one
            if type(error) is not type(self.problem):
                self._log.warning("lease_not_reached", error=str(error))
            self.problem = error
        else:
            self.problem = None

    async def _step(self) -> None:
        """Look at the Lease, and create, renew or take it over where that is ours to do."""
        leads = self._acquired.is_set()
        lease = self._lease if leads and self._lease else await self._read()
        if lease is None:
            # Never there, or deleted by hand: then its holder may still lead, and its term must not fall back.
            if leads or self._expired():
                await self._write(None, self._term if leads else self._last_term + 1)
        elif leads:
            if lease.spec.holder_identity != self.identity:
                self._lose(f"taken over by {lease.spec.holder_identity!r}")
            elif lease.spec.lease_transitions != self._term:
                self._renumbered = True
                self._lose(f"somebody set leaseTransitions to {lease.spec.lease_transitions}")
            else:
                await self._write(lease, self._term)
        elif lease.spec.holder_identity == self.identity and lease.spec.lease_transitions == self._last_term:
            await self._write(lease, self._last_term)  # our takeover, whose answer was lost
        elif lease.spec.holder_identity in ("", self.identity) or self._expired():
            await self._write(lease, self._last_term + 1)

    async def _read(self) -> Lease | None:
        try:
            data = await self._gateway.request("GET", self._path, wait=self._request_wait())
        except errors.NotFound:
            return None
        lease = self._decode(data)
        if lease.metadata.resource_version != self._seen_version:
            self._saw(lease)
        return lease

    async def _write(self, lease: Lease | None, term: int) -> None:
        """Create the Lease, or renew or take over the one we read: refused with Conflict if it has changed since."""
        began = self._clock()
        now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        spec = {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": max(1, round(self._timing.duration.total_seconds())),
            "leaseTransitions": term,
            "renewTime": now,
        }
        if lease is None or lease.spec.holder_identity != self.identity:
            spec["acquireTime"] = now
        self._hold(await self._send(lease, spec, self._request_wait()), began)

    async def _send(self, lease: Lease | None, spec: dict[str, Any], wait: float) -> Lease:
        if lease is None:
            body = {
                "apiVersion": LEASES.api_version,
                "kind": "Lease",
                "metadata": {"name": self._name},
                "spec": spec,
            }
            return self._decode(await self._gateway.request("POST", self._collection, body=body, wait=wait))
        # A patch leaves labels of others alone; the resourceVersion in it is the precondition.
        body = {"metadata": {"resourceVersion": lease.metadata.resource_version}, "spec": spec}
        return self._decode(
            await self._gateway.request("PATCH", self._path, body=body, content_type=MERGE_PATCH, wait=wait)
        )

    def _hold(self, lease: Lease, began: float) -> None:
        """Lead until the deadline, counted from before the write that the API server has just confirmed."""
        self._saw(lease)
        self._lease = lease
        if self._acquired.is_set() and not self.leading:
            return  # confirmed too late; a leadership that has paused does not go on
        self._until = began + self._timing.deadline.total_seconds()
        if not self._acquired.is_set():
            self._term = lease.spec.lease_transitions
            self._acquired.set()
            self._log.info("leadership_acquired", term=self._term)

    def _lose(self, why: str) -> None:
        if self.lost.is_set():
            return
        if self._acquired.is_set():
            say = self._log.info if why == _STOPPED else self._log.warning
            say("leadership_lost", term=self._term, why=why)
        self.lost.set()

    async def _release(self) -> None:
        """Empty the Lease, so that another need not wait for it to expire; a renewal in flight costs one more try.

        The highest term goes with it: another process may not have seen what stood there before somebody changed it.
        """
        wait = self._timing.retry.total_seconds()
        for _ in range(2):
            try:
                lease = await self._read()
                if lease is not None and lease.spec.holder_identity == self.identity:
                    spec = {"holderIdentity": "", "leaseTransitions": self._last_term}
                    await self._send(lease, spec, wait)
            except errors.Conflict:
                continue
            except (errors.ClusterError, errors.ClusterUnavailable) as error:
                self._log.warning("lease_not_released", error=str(error))
            return

    def _decode(self, data: bytes) -> Lease:
        try:
            decoded = _LEASE(data)
        except Undecodable as error:
            raise errors.ClusterUnavailable(f"{self._path}: not a Lease: {error}") from error
        if decoded.flaws:  # a term that cannot be read is not 0
            raise errors.ClusterUnavailable(f"{self._path}: odd field {decoded.flaws[0].path}")
        return decoded.value

    def _saw(self, lease: Lease) -> None:
        self._seen_version = lease.metadata.resource_version
        self._holder = lease.spec.holder_identity
        self._free_at = self._clock() + max(
            self._timing.duration.total_seconds(), float(lease.spec.lease_duration_seconds)
        )
        self._terms[self._path] = max(self._last_term, lease.spec.lease_transitions)

    @property
    def _last_term(self) -> int:
        return self._terms.get(self._path, 0)

    def _expired(self) -> bool:
        return self._clock() >= self._free_at

    def _request_wait(self) -> float:
        return self._bounded(self._timing.deadline.total_seconds() / 2)

    def _bounded(self, seconds: float) -> float:
        """Cut a wait so that a leader is back at its deadline."""
        if not self._acquired.is_set() or self.lost.is_set():
            return seconds
        return min(seconds, max(0.01, self._until - self._clock()))
