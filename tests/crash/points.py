"""Where incidents are parked when something is killed: before an effect, and between an effect and its result.

A request that is held times out in its client after a few seconds and is tried again. So each place holds the effect's
request every time it comes; or, once the effect has happened, all that its incident reads before it could go on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from k8s.lab.proxy import FaultProxy
from tests.crash.jobs import Seat


@dataclass(frozen=True)
class Effect:
    """One kind of request, of one device.

    Attributes:
        path: pattern with ``{record}`` for the name of the device's record and ``{pod}`` for its pod; one without them
            is a create, whose body names the device.
        body: what the body must be like besides.
        follows: an effect that must have happened before; the path of one request alone does not tell a canary's pod
            from a probe's, for both are numbered as they come.
    """

    name: str
    method: str
    path: str
    body: Callable[[dict[str, Any]], bool] = lambda _: True
    follows: Effect | None = None

    @property
    def before(self) -> Point:
        """The place before it happens."""
        return Point(self, happened=False)

    @property
    def after(self) -> Point:
        """The place where it has happened, and nobody has been told."""
        return Point(self, happened=True)

    def of(self, record: str) -> Callable[[Any], bool]:
        """Tell the bodies of this device's requests from those of others."""

        def matches(body: Any) -> bool:
            body = body or {}
            ours = "{" in self.path or body["metadata"]["name"].startswith(record)
            return ours and self.body(body)

        return matches


@dataclass(frozen=True)
class Point:
    """A place beside an effect."""

    effect: Effect
    happened: bool

    def __str__(self) -> str:
        """Name it."""
        return f"{'after' if self.happened else 'before'} {self.effect.name}"


def _says(phase: str) -> Effect:
    def body(body: dict[str, Any]) -> bool:
        return bool(body["status"].get("phase") == phase)

    return Effect(f"status {phase}", "PATCH", "/devicequarantines/{record}/status$", body)


def _keyed(part: str) -> Callable[[dict[str, Any]], bool]:
    """Tell by its effect key what a request is for."""

    def body(body: dict[str, Any]) -> bool:
        return part in body["metadata"].get("annotations", {}).get("sickbay.dev/effect", "")

    return body


FENCE: Final = Effect("fence", "POST", "/devicetaintrules$")

VERIFICATION: Final = Effect("verification", "GET", "/devicequarantines/{record}$")
"""No effect, but the first thing that a started incident reads."""

CANARY: Final = Effect("canary's pod", "POST", "/namespaces/sickbay-probe/pods$", _keyed("/canary/"))

PROBE_REMOVED: Final = Effect("probe's pod deleted", "DELETE", "/namespaces/sickbay-probe/pods/{record}-")

EFFECTS: Final = (
    Effect("record", "POST", "/devicequarantines$"),
    FENCE,
    _says("Quarantined"),
    _says("Evacuating"),
    Effect("eviction", "POST", "/pods/{pod}/eviction$"),
    _says("Recovering"),
    _says("Probing"),
    Effect("probe's claim", "POST", "/namespaces/sickbay-probe/resourceclaims$"),
    Effect("probe's pod", "POST", "/namespaces/sickbay-probe/pods$"),
    PROBE_REMOVED,
    Effect("probe's claim deleted", "DELETE", "/namespaces/sickbay-probe/resourceclaims/{record}-"),
    _says("Canary"),
    Effect("canary's claim", "POST", "/namespaces/sickbay-probe/resourceclaims$", _keyed("/canary-claim/")),
    CANARY,
    _says("Soaking"),
    Effect("canary's pod deleted", "DELETE", "/namespaces/sickbay-probe/pods/{record}-", follows=CANARY),
    _says("Ramping"),
    Effect("fence ramped", "PATCH", "/devicetaintrules/{record}-", _keyed("/ramp/")),
    _says("Releasing"),
    Effect("fence unlatched", "PATCH", "/devicetaintrules/{record}-", _keyed("/unlatch")),
    Effect("fence deleted", "DELETE", "/devicetaintrules/{record}-"),
    _says("Released"),
    Effect("record let go", "PATCH", "/devicequarantines/{record}$", lambda body: "finalizers" in body["metadata"]),
)
"""Every effect of an incident, in its order."""

POINTS: Final = tuple(point for effect in EFFECTS for point in (effect.before, effect.after))


class Parking:
    """One incident, held at one point until `release`; make it before the device breaks."""

    def __init__(self, proxy: FaultProxy, seat: Seat, point: Point) -> None:
        self.point = point
        effect, record = point.effect, seat.key.record_name
        path = effect.path.format(record=record, pod=seat.pod)
        ours, earlier = effect.of(record), None
        if effect.follows is not None:
            earlier = proxy.note(effect.follows.method, effect.follows.path, when=effect.follows.of(record))

        def when(body: Any) -> bool:
            return ours(body) and (earlier is None or earlier.hits > 0)

        self._effect = proxy.hold(effect.method, path, executed=point.happened, when=when)
        self._holds = [self._effect]
        if point.happened:
            reading = f"/devicequarantines/{record}$"
            self._holds.append(proxy.hold("GET", reading, executed=False, when=lambda _: self.reached))

    @property
    def reached(self) -> bool:
        """Whether the incident is there."""
        return self._effect.arrived.is_set()

    def release(self) -> None:
        """Let it go on."""
        for hold in self._holds:
            hold.release()
