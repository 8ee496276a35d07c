"""A hand-made audit log: one incident as it should go, for tests to spoil."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

SICKBAY = "system:serviceaccount:sickbay:sickbay"
DEVICE = {"driver": "gpu.example.com", "pool": "node-1", "device": "gpu-0"}
KEY = "east/gpu.example.com/node-1/gpu-0/100"
NAME = "sickbay-0123456789abcdef"
POD = "pod-uid-1"


class Log:
    """Writes lines as the API server does."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.pods: list[dict[str, Any]] = []
        self._version = 100

    def say(
        self,
        verb: str,
        resource: str,
        name: str,
        *,
        sent: Mapping[str, Any] | None = None,
        answer: Mapping[str, Any] | None = None,
        code: int = 200,
        namespace: str = "",
        user: str = SICKBAY,
        uri: str = "",
    ) -> None:
        """Write one line."""
        kind, _, sub = resource.partition("/")
        event = {
            "stage": "ResponseComplete",
            "verb": verb,
            "user": {"username": user},
            "objectRef": {"resource": kind, "subresource": sub, "name": name, "namespace": namespace},
            "responseStatus": {"code": code},
            "requestObject": sent,
            "responseObject": answer,
            "requestURI": uri,
        }
        self.lines.append(json.dumps(event))

    def version(self) -> str:
        """Take the next resourceVersion."""
        self._version += 1
        return str(self._version)

    def record(self, *, term: int = 1, run: int = 1, code: int = 201, version: str = "") -> None:
        """Create the record, admitted."""
        sent = {"metadata": {"annotations": {"sickbay.dev/effect": f"{KEY}/record/{run}"}}, "spec": spec(term=term)}
        answer = {**sent, "metadata": {"resourceVersion": version or self.version()}} if code < 300 else None
        self.say("create", "devicequarantines", NAME, sent=sent, answer=answer, code=code)

    def fence(self, number: int = 1, *, term: int = 1, code: int = 201, **selector: str) -> None:
        """Put a fence."""
        annotations = {
            "sickbay.dev/effect": f"{KEY}/fence/{number}",
            "sickbay.dev/incident": f"incident/{KEY}",
            "sickbay.dev/term": str(term),
        }
        sent = {"metadata": {"annotations": annotations}, "spec": {"deviceSelector": {**DEVICE, **selector}}}
        metadata = {"uid": f"fence-{number}", "resourceVersion": self.version(), "finalizers": ["sickbay.dev/incident"]}
        answer = {**sent, "metadata": metadata} if code < 300 else None
        self.say("create", "devicetaintrules", f"{NAME}-{number}", sent=sent, answer=answer, code=code)

    def phase(self, phase: str, *, release: int = 0, changes: bool = True, version: str = "") -> None:
        """Write the status."""
        before = version or str(self._version)
        after = self.version() if changes else before
        status = {"incident": f"incident/{KEY}", "phase": phase, "counters": {"release": release}}
        sent = {"metadata": {"resourceVersion": before}, "status": {"phase": phase}}
        answer = {"metadata": {"resourceVersion": after}, "spec": spec(), "status": status}
        self.say("patch", "devicequarantines/status", NAME, sent=sent, answer=answer)

    def let_go(self) -> None:
        """Take the record's finalizer off."""
        annotations = {"sickbay.dev/effect": f"{KEY}/close/1"}
        sent = {"metadata": {"resourceVersion": str(self._version), "annotations": annotations, "finalizers": []}}
        status = {"incident": f"incident/{KEY}", "phase": "Released"}
        answer = {"metadata": {"resourceVersion": self.version()}, "spec": spec(), "status": status}
        self.say("patch", "devicequarantines", NAME, sent=sent, answer=answer)

    def evict(self, *, code: int = 201, uid: str = POD) -> None:
        """Evict the pod; an accepted eviction shows in the watch once."""
        sent = {"deleteOptions": {"preconditions": {"uid": uid}}}
        self.say("create", "pods/eviction", "job-1", namespace="jobs", sent=sent, code=code)

    def goes(self, at: str = "2026-01-01T00:00:30Z", grace: int = 30, uid: str = POD) -> None:
        """Show in the watch that the pod is being deleted."""
        self.pods.append({"metadata": {"uid": uid, "deletionTimestamp": at, "deletionGracePeriodSeconds": grace}})

    def probe(self, what: str, *, code: int = 201) -> None:
        """Create pod or claim of the probe."""
        answer = {"metadata": {"resourceVersion": self.version()}} if what == "resourceclaims" and code < 300 else None
        self.say("create", what, f"{NAME}-1", namespace="sickbay-probe", answer=answer, code=code)

    def stop(self, what: str, *, uid: str = "probe-1", code: int = 200, namespace: str = "sickbay-probe") -> None:
        """Delete pod or claim of the probe."""
        sent = {"preconditions": {"uid": uid}} if uid else {}
        self.say("delete", what, f"{NAME}-1", namespace=namespace, sent=sent, code=code)

    def unlatch(self, number: int = 1, *, changes: bool = True) -> None:
        """Take the fence's finalizer off."""
        before = str(self._version)
        annotations = {"sickbay.dev/effect": f"{KEY}/release/{number}/unlatch"}
        sent = {"metadata": {"resourceVersion": before, "annotations": annotations, "finalizers": []}}
        answer = {"metadata": {"resourceVersion": self.version() if changes else before}}
        self.say("patch", "devicetaintrules", f"{NAME}-{number}", sent=sent, answer=answer)

    def lift(self, number: int = 1, *, code: int = 200) -> None:
        """Delete the fence."""
        sent = {"preconditions": {"uid": f"fence-{number}", "resourceVersion": str(self._version)}}
        answer = {"kind": "Status", "details": {"uid": f"fence-{number}"}} if code == 200 else {"kind": "Status"}
        self.say("delete", "devicetaintrules", f"{NAME}-{number}", sent=sent, answer=answer, code=code)


def spec(*, term: int = 1) -> dict[str, Any]:
    """Build the spec of the record."""
    return {"incident": f"incident/{KEY}", "device": DEVICE, "term": term, "admission": {"state": "Admitted"}}


def opened() -> Log:
    """Tell an incident up to its probe's end."""
    log = Log()
    log.record()
    log.fence()
    log.phase("Quarantined")
    log.evict()
    log.goes()
    log.phase("Probing")
    for what in ("resourceclaims", "pods"):
        log.probe(what)
    for what in ("pods", "resourceclaims"):
        log.stop(what, uid=f"probe-{what}")
    return log


def released() -> Log:
    """Tell an incident to its end."""
    log = opened()
    log.phase("Releasing", release=1)
    log.unlatch()
    log.lift()
    log.phase("Released", release=1)
    log.let_go()
    return log
