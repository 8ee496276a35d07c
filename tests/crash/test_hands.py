"""Fences taken away by hand, wherever their incidents are: each is put back before it is gone, and nothing is lost."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import pytest

from k8s.gateway import Gateway
from k8s.impersonation import impersonating
from tests.crash.harness import Ward
from tests.crash.points import FENCE, POINTS, Parking
from tests.crash.test_kill import all_reached
from tests.crash.watching import watching
from tests.installation import BREAK_GLASS

pytestmark = [pytest.mark.lab, pytest.mark.crash]

RULES: Final = "/apis/resource.k8s.io/v1/devicetaintrules"
RECORDS: Final = "/apis/sickbay.dev/v1alpha1/devicequarantines"

FENCED: Final = POINTS[POINTS.index(FENCE.after) :]
"""From the first fence to the end."""


@dataclass
class Onlooker:
    """Sees every fence come and go, and what the record of its device said then."""

    gaps: list[str] = field(default_factory=list)
    _standing: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    _phases: dict[str, list[tuple[int, str]]] = field(default_factory=lambda: defaultdict(list))
    _bare: list[tuple[int, str]] = field(default_factory=list)

    def rule(self, event: str, rule: dict[str, Any]) -> None:
        """Take an event of a fence."""
        name = rule["metadata"]["name"]
        device = name.rpartition("-")[0]
        if event != "DELETED":
            self._standing[device].add(name)
            return
        self._standing[device].discard(name)
        if not self._standing[device]:
            self._bare.append((int(rule["metadata"]["resourceVersion"]), device))

    def record(self, _: str, record: dict[str, Any]) -> None:
        """Take an event of a record."""
        phase = record.get("status", {}).get("phase", "")
        self._phases[record["metadata"]["name"]].append((int(record["metadata"]["resourceVersion"]), phase))

    @property
    def unguarded(self) -> Iterator[str]:
        """Name the devices that stood without a fence when their record did not say that they are released."""
        for version, device in self._bare:
            said = [phase for at, phase in self._phases[device] if at < version]
            if said[-1] not in {"Releasing", "Released"}:
                yield f"{device} had no fence at {version}, when its incident was {said[-1]}"


async def take_away(gateway: Gateway, fences: Iterable[str]) -> None:
    """Delete fences as somebody who may."""
    async with impersonating(gateway, "eve", BREAK_GLASS) as eve:
        await asyncio.gather(*(eve.request("DELETE", f"{RULES}/{name}") for name in fences))


async def test_fences_taken_away_in_every_phase(ward: Ward) -> None:
    """Every incident ends well; between its fence and its release no device ever stood open."""
    onlooker, gateway = Onlooker(), ward.lab.gateway
    async with watching(gateway, RULES, onlooker.rule), watching(gateway, RECORDS, onlooker.record):
        sickbay = await ward.sickbay()
        await sickbay.ready()
        seats = await ward.jobs("robbed", len(FENCED), devices=2 * len(FENCED))
        parked = [Parking(sickbay.proxy, seat, point) for seat, point in zip(seats, FENCED, strict=True)]
        await ward.break_devices(seats)
        await all_reached(parked, sickbay)
        standing = await ward.fences()
        await take_away(gateway, standing)
        for place in parked:
            place.release()
        await ward.released(seats, by=sickbay)
        assert await ward.fences() == {}
    assert len(standing) >= len(FENCED) - 6  # those past the end of their fence have none
    assert list(onlooker.unguarded) == []
    # Half of each fence's end was somebody else's doing, which the witness of Sickbay's own requests does not see.
    assert [v for v in ward.verdict().violations if "was not lifted" not in v] == []
