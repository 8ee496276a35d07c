"""The cap on evictions at once in the cluster: who may evict next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Granted:
    """The eviction may go ahead.

    Attributes:
        holders: all holders with this one among them: effect key by pod uid.
    """

    holders: Mapping[str, str]


@dataclass(frozen=True)
class Refused:
    """The cap is reached.

    Attributes:
        holding: evictions under way.
        limit: the cap.
    """

    holding: int
    limit: int

    reason = "EvictionsAtOnce"

    @property
    def message(self) -> str:
        """Say what is counted, and what would let this one through."""
        return (
            f"{self.holding} evictions are under way in the cluster, at most {self.limit} at once "
            "(policy migration.atOnce); this one follows when a pod is gone"
        )


def grant(holders: Mapping[str, str], limit: int, pod_uid: str, effect_key: str) -> Granted | Refused:
    """Decide on one more eviction.

    Args:
        holders: effect key by pod uid of the evictions under way, in the whole cluster.
        limit: of evictions at once.
        pod_uid: whom it is about. Who holds already keeps its place, even over a limit that was lowered since: its pod
            may be going already. Two incidents that evict the same pod share its place.
        effect_key: of the eviction.
    """
    if pod_uid in holders:
        return Granted(holders)
    if len(holders) >= limit:
        return Refused(holding=len(holders), limit=limit)
    return Granted({**holders, pod_uid: effect_key})
