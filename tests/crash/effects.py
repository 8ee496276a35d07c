"""Which effect a request is meant to have: the key that stays the same however often the request is repeated."""

from __future__ import annotations

from typing import Final, NamedTuple

from tests.crash.testimony import Json, Request, notes

EFFECT: Final = "sickbay.dev/effect"
"""Annotation that names the effect of a write."""

FINAL: Final = frozenset({"Released", "Cleared", "Superseded"})
"""Phases in which an incident has ended."""


class Effect(NamedTuple):
    """One effect: what kind, and which one."""

    kind: str
    key: str


def effect(request: Request) -> Effect | None:
    """Name the effect of a request; None for what is no effect of its own, such as most writes of a status."""
    key = notes(request.sent).get(EFFECT, "")
    name, uid = request.name, request.uid
    found: Effect | None
    match request.verb, request.resource:
        case "create", "devicequarantines":
            found = Effect("record", key)
        case "patch", "devicequarantines":
            found = _spec_effect(request, key)
        case "patch", "devicequarantines/status":
            found = _status_effect(request)
        case "create", "devicetaintrules":
            found = Effect("fence", name)
        case "patch", "devicetaintrules":
            found = Effect("fence unlatched" if key.endswith("/unlatch") else "fence changed", key)
        case "delete", "devicetaintrules":
            found = Effect("fence deleted", f"{name}/{uid}")
        case "create", ("pods" | "resourceclaims") as made:
            found = Effect(f"probe {made}", name)
        case "delete", ("pods" | "resourceclaims") as made:
            found = Effect(f"probe {made} deleted", f"{name}/{uid}")
        case _:
            found = None
    return found


def _spec_effect(request: Request, key: str) -> Effect | None:
    """A record is taken over, let go of when its incident is closed, or its incident is admitted."""
    if key:
        return Effect("record let go" if "/close/" in key else "record", key)
    admission = (request.sent.get("spec") or {}).get("admission") or {}
    if admission.get("state") == "Admitted":
        return Effect("admission", f"{incident_of(request)}/admitted")
    return None


def _status_effect(request: Request) -> Effect | None:
    """Only two writes of a status are effects of their own: that a release begins, and the closing one."""
    phase = (request.sent.get("status") or {}).get("phase")
    if phase in FINAL:
        return Effect("closing", f"{incident_of(request)}/closed")
    if phase == "Releasing":
        number = status_of(request).get("counters", {}).get("release", 0)
        return Effect("releasing", f"{incident_of(request)}/releasing/{number}")
    return None


def incident_of(request: Request) -> str:
    """Name the incident of the record that was answered."""
    return str((request.answer.get("spec") or {}).get("incident", ""))


def status_of(request: Request) -> Json:
    """Give the status of the record that was answered."""
    return request.answer.get("status") or {}


def closed(request: Request) -> bool:
    """Say whether the record that was answered is closed."""
    status = status_of(request)
    return status.get("incident") == incident_of(request) and status.get("phase") in FINAL


def device_of(names: Json) -> str:
    """Give ``driver/pool/device``, as records and fences name a device."""
    return "/".join(str(names.get(part) or "") for part in ("driver", "pool", "device"))
