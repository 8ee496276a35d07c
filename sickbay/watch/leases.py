"""How long ago each node was heard of: by our own clock, from when we saw its Lease move.

Times in a Lease are written by another clock and are never compared with ours. While our own watch is silent no Lease
grows older: what could not have reached us proves nothing about a node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta

from k8s.store import Change
from k8s.wire import Lease
from sickbay.policy.evidence import LeaseAge


@dataclass(frozen=True, slots=True)
class _Seen:
    version: str
    at: float


class Leases(Mapping[str, LeaseAge]):
    """Age of each node's Lease at this moment, by node."""

    def __init__(self, clock: Callable[[], float], silence: Callable[[], float]) -> None:
        """Begin knowing none.

        Args:
            clock: seconds, never going back.
            silence: seconds since our watch of Leases was last known to be current.
        """
        self._clock = clock
        self._silence = silence
        self._seen: dict[str, _Seen] = {}

    def __getitem__(self, node: str) -> LeaseAge:
        seen = self._seen[node]
        age = self._clock() - self._silence() - seen.at
        return LeaseAge(seen.version, timedelta(seconds=max(0.0, age)))

    def __iter__(self) -> Iterator[str]:
        return iter(self._seen)

    def __len__(self) -> int:
        return len(self._seen)

    def on_lease(self, change: Change[Lease]) -> str | None:
        """Take a change of a Lease; give the node if it was heard of.

        A Lease that is deleted, or cannot be read, is not news of its node, and goes on ageing.
        """
        if change.new is None or change.new.undecodable:
            return None
        node = change.key[1]
        known = self._seen.get(node)
        if known is not None and known.version == change.new.version:
            return None
        self._seen[node] = _Seen(change.new.version, self._clock())
        return node

    def expect(self, node: str) -> None:
        """Count from now the absence of a Lease for a node that has devices."""
        if node and node not in self._seen:
            self._seen[node] = _Seen("", self._clock())

    def forget(self, node: str) -> None:
        """Forget a node on which nobody reports any more and whose Lease is gone."""
        self._seen.pop(node, None)
