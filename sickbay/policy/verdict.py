"""What a probe proved: pass, fail, or nothing. An infrastructure error is no verdict on a device."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from sickbay.model.base import UNTRUSTED_LENGTH, tamed
from sickbay.model.contracts import ProbeVerdict
from sickbay.model.device import UNKNOWN_HARDWARE, DeviceKey
from sickbay.model.incident import Trial, Verdict
from sickbay.model.observation import Health
from sickbay.model.policy import Probe

BUSY: Final = "Busy"
"""Cause: somebody else came to hold the device. Nobody is harmed for it: the trial ends."""

CHANGED: Final = "HardwareChanged"
"""Cause: the slot holds other hardware now."""

REPORTED: Final = "ReportedUnhealthy"
"""Cause: it is the driver's word, whether the trial ran or not."""

REFUSED: Final = "Refused"
"""Cause: the API server would not have the trial's claim or pod."""

REFUSAL_LENGTH: Final = 400
"""Characters kept of a refusal: a webhook names itself, the object and its policies before it comes to the point."""

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
        ready: of its container.
        other: who else holds the device, but for observers; ``""`` if nobody does.
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
    ready: bool = False
    other: str = ""


def judge(facts: ProbeFacts, device: DeviceKey, hardware_id: str, trial: Trial = Trial.PROBE) -> ProbeVerdict | None:
    """Judge a trial of this device.

    Pass and fail need proof of which device was tried: the claim's only result is this device, and the probe itself
    names the hardware. An exit code alone proves nothing.

    A canary passes by being Ready, which says that its load has: it holds exactly this device, that its claim selected
    by the identity. It does not end by itself, but for a load that failed.

    Returns:
        The verdict, or None while it runs.
    """
    if not facts.there:
        return _inconclusive("ProbeGone", "its pod was deleted before it had a verdict")
    if facts.other:
        return _inconclusive(BUSY, f"{facts.other} has come to hold the device too")
    if facts.held and facts.held != ((device.driver, device.pool, device.device),):
        return _inconclusive("OtherDevice", f"the probe was given {_listed(facts.held)}")
    if facts.held and facts.health is Health.UNHEALTHY:
        # The probe's own use of the device is the freshest witness there is.
        return ProbeVerdict(
            verdict=Verdict.FAIL, cause=REPORTED, message="the driver reported it Unhealthy during the probe"
        )
    if facts.failure:
        return _inconclusive(_cause(facts.failure), facts.detail)
    if facts.exit_code is not None:
        return _ended(facts, hardware_id, trial)
    if trial is Trial.CANARY and facts.ready and facts.held and facts.node_ready and not facts.deleted:
        return ProbeVerdict(verdict=Verdict.PASS, cause="LoadPassed", message="the canary's load passed")
    return _unfinished(facts)


def refused(kind: str, why: str) -> ProbeVerdict:
    """Judge a trial that the cluster did not let be made: nothing was tried, and no attempt is used.

    Args:
        kind: of the object that it would not have.
        why: the API server's words.
    """
    return _waiting(REFUSED, f"{kind}: {why}", REFUSAL_LENGTH)


def no_room(pending: Sequence[timedelta], there: int, settings: Probe) -> str:
    """Say why no further trial may be sent to any device now, ``""`` if one may.

    Args:
        pending: ages of those trials that do not run yet.
        there: all trials of the cluster.
        settings: the limits.
    """
    stuck = sum(age >= PATIENCE for age in pending)
    if stuck >= settings.stuck:
        return f"ProbesSuspended: {stuck} probes of the cluster cannot start: see why; no further ones are sent"
    if there >= settings.at_once:
        return f"{there} probes are under way in the cluster, and the policy's probe.atOnce is {settings.at_once}"
    return ""


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


def _ended(facts: ProbeFacts, hardware_id: str, trial: Trial) -> ProbeVerdict:
    told = parse_told(facts.message)
    if told is None:
        ended = f"exit code {facts.exit_code}, message {facts.message!r}" if facts.message else "no message"
        return _inconclusive("NoVerdict", f"its message is not a verdict: {ended}")
    if not facts.held:
        return _inconclusive("NotAllocated", "the probe's claim holds no device")
    if hardware_id == UNKNOWN_HARDWARE or told.device != hardware_id:
        return _inconclusive("OtherDevice", f"the probe tried {told.device!r}, not {hardware_id!r}")
    if not told.passed:
        return ProbeVerdict(verdict=Verdict.FAIL, cause="ProbeFailed", message="the probe found the device bad")
    if trial is Trial.CANARY:
        return _inconclusive("CanaryEnded", "the canary ended by itself: it is to keep the device busy until deleted")
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


def _waiting(cause: str, message: str, limit: int = UNTRUSTED_LENGTH) -> ProbeVerdict:
    return ProbeVerdict(verdict=Verdict.WAITING, cause=cause, message=tamed(message, limit))


def _cause(reason: str) -> str:
    """Keep a reason word of Kubernetes; anything else is not fit for a condition."""
    return reason if _CAMEL.fullmatch(reason) else "Other"


def _listed(held: tuple[tuple[str, str, str], ...]) -> str:
    return ", ".join("/".join(one) for one in held)
