"""What a probe proved: pass, fail, or nothing. An infrastructure error is no verdict on a device."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from sickbay.model.base import tamed
from sickbay.model.contracts import ProbeVerdict
from sickbay.model.device import UNKNOWN_HARDWARE, DeviceKey
from sickbay.model.incident import Verdict
from sickbay.model.observation import Health

PATIENCE: Final = timedelta(seconds=30)
"""How long a probe may be pending before what keeps it from running counts: the scheduler's view of a device that was
just given back, and the first tries for an image, lag behind."""

_CAMEL: Final = re.compile(r"[A-Z][A-Za-z0-9]{0,63}")


@dataclass(frozen=True, slots=True)
class Told:
    """A well-formed termination message."""

    passed: bool
    device: str


@dataclass(frozen=True, slots=True)
class ProbeFacts:
    """All that is known of a probe at one moment.

    Attributes:
        there: its pod exists and is the one that was created.
        phase: of the pod.
        failure: why the pod failed as a whole (``UnexpectedAdmissionError``, ``DeadlineExceeded``, …), ``""`` if its
            container decided.
        deleted: somebody is deleting the pod.
        blocked: CamelCase, what keeps a pending pod from running; ``""`` if nothing does.
        pending_for: how long ago the pod was created.
        detail: what was said about `failure` or `blocked`, untrusted.
        node_ready: the node that the pod is bound to is Ready; true while it is bound to none.
        held: the devices that its claim was allocated, as (driver, pool, device); empty before the allocation.
        exit_code: of its container; None while it has not ended.
        message: termination message, untrusted.
        health: of the pod's own entry for the device; None without one.
    """

    there: bool = True
    phase: str = "Pending"
    failure: str = ""
    deleted: bool = False
    blocked: str = ""
    pending_for: timedelta = timedelta(0)
    detail: str = ""
    node_ready: bool = True
    held: tuple[tuple[str, str, str], ...] = ()
    exit_code: int | None = None
    message: str = ""
    health: Health | None = None


def judge(facts: ProbeFacts, device: DeviceKey, hardware_id: str) -> ProbeVerdict | None:
    """Judge a probe of this device.

    Pass and fail need proof of which device was tried: the claim's only result is this device, and the probe itself
    names the hardware. An exit code alone proves nothing.

    Returns:
        The verdict, or None while it runs.
    """
    if not facts.there:
        return _inconclusive("ProbeGone", "the probe's pod was deleted before it had a verdict")
    if facts.held and facts.held != ((device.driver, device.pool, device.device),):
        return _inconclusive("OtherDevice", f"the probe was given {_listed(facts.held)}")
    if facts.held and facts.health is Health.UNHEALTHY:
        # The probe's own use of the device is the freshest witness there is.
        return ProbeVerdict(
            verdict=Verdict.FAIL, cause="ReportedUnhealthy", message="the driver reported it Unhealthy during the probe"
        )
    if facts.failure:
        return _inconclusive(_cause(facts.failure), facts.detail)
    if facts.exit_code is not None:
        return _ended(facts, hardware_id)
    return _unfinished(facts)


def _unfinished(facts: ProbeFacts) -> ProbeVerdict | None:
    if facts.phase in {"Succeeded", "Failed"}:
        return _inconclusive("NoVerdict", "the probe's container has no exit status")
    if facts.deleted:
        return _inconclusive("ProbeDeleted", "somebody deletes the probe's pod")
    if facts.phase != "Pending":
        return None if facts.node_ready else _inconclusive("NodeLost", "the node stopped reporting during the probe")
    # Not started, so nothing was tried: no attempt is used.
    if facts.pending_for < PATIENCE:
        return None
    if not facts.node_ready:
        return _waiting("NodeNotReady", "the probe's node is not Ready")
    return _waiting(_cause(facts.blocked), facts.detail) if facts.blocked else None


def _ended(facts: ProbeFacts, hardware_id: str) -> ProbeVerdict:
    told = parse_told(facts.message)
    if told is None:
        ended = f"exit code {facts.exit_code}, message {facts.message!r}" if facts.message else "no message"
        return _inconclusive("NoVerdict", f"the probe's message is not a verdict: {ended}")
    if not facts.held:
        return _inconclusive("NotAllocated", "the probe's claim holds no device")
    if hardware_id == UNKNOWN_HARDWARE or told.device != hardware_id:
        return _inconclusive("OtherDevice", f"the probe tried {told.device!r}, not {hardware_id!r}")
    if not told.passed:
        return ProbeVerdict(verdict=Verdict.FAIL, cause="ProbeFailed", message="the probe found the device bad")
    if facts.exit_code != 0:
        return _inconclusive("Contradiction", f"the probe says pass and exits with {facts.exit_code}")
    return ProbeVerdict(verdict=Verdict.PASS, cause="ProbePassed", message=f"the probe passed on {tamed(told.device)}")


def parse_told(message: str) -> Told | None:
    """Read ``{"verdict": "pass"|"fail", "device": <identity>}``.

    Returns:
        None for anything else: a further or doubled key (a pass with a warning is no pass), another word, an empty
        identity.
    """
    try:
        pairs = json.loads(message, object_pairs_hook=tuple)
    except (ValueError, RecursionError):
        return None
    if not isinstance(pairs, tuple) or sorted(key for key, _ in pairs) != ["device", "verdict"]:
        return None
    verdict, device = (dict(pairs)[key] for key in ("verdict", "device"))
    if not isinstance(verdict, str) or verdict not in {"pass", "fail"}:
        return None
    if not isinstance(device, str) or not device:
        return None
    return Told(passed=verdict == "pass", device=device)


def _inconclusive(cause: str, message: str) -> ProbeVerdict:
    return ProbeVerdict(verdict=Verdict.INCONCLUSIVE, cause=cause, message=tamed(message))


def _waiting(cause: str, message: str) -> ProbeVerdict:
    return ProbeVerdict(verdict=Verdict.WAITING, cause=cause, message=tamed(message))


def _cause(reason: str) -> str:
    """Keep a reason word of Kubernetes; anything else is not fit for a condition."""
    return reason if _CAMEL.fullmatch(reason) else "Other"


def _listed(held: tuple[tuple[str, str, str], ...]) -> str:
    return ", ".join("/".join(one) for one in held)
