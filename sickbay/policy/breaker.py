"""The breaker for trials: when many in a row prove nothing on devices of several pools, it is not the devices. Pure.

It opens then, lets one trial through at a time, and closes as soon as one has proved something, good or bad. A probe
and a canary are two images, so each has its own.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from sickbay.model.base import tamed
from sickbay.model.breaker import Breaker
from sickbay.model.contracts import StartProbe, StopProbe
from sickbay.model.incident import Trial, Verdict
from sickbay.model.policy import Probe
from sickbay.policy.proving import BUSINESS_UNSURE
from sickbay.policy.verdict import BUSY, CHANGED, REPORTED

SUSPENDED: Final = "ProbesSuspended"
"""Cause: no further trial is sent anywhere."""

NEUTRAL: Final = frozenset({"", BUSY, CHANGED, REPORTED, BUSINESS_UNSURE})
"""Causes that say nothing of how trials do in general; ``""`` is a trial that a person, or bad news, cut short."""


def heard(before: Breaker, ended: StopProbe, now: datetime) -> Breaker:
    """Take into account how a trial ended.

    A device counts once, however often it is tried, and no pool for more than half of what opens it: one bad node must
    not keep the others from being tried.
    """
    after = before
    if before.trying == key_of(ended):
        after = before.model_copy(update={"trying": "", "trying_until": None})
    if ended.verdict is None or ended.cause in NEUTRAL:
        return after
    if ended.verdict in {Verdict.PASS, Verdict.FAIL}:
        return Breaker()
    device, settings = ended.target.device, ended.settings
    devices = {name: pool for name, pool in before.devices.items() if name != device.record_name}
    devices[device.record_name] = device.pool
    siblings = [name for name, pool in devices.items() if pool == device.pool]
    for name in siblings[: -_most_of_a_pool(settings)]:
        del devices[name]
    since = before.since or (now if len(devices) >= settings.stuck else None)
    kept = dict(list(devices.items())[-settings.stuck :])
    return after.model_copy(update={"devices": kept, "last": tamed(ended.message), "since": since})


def admitted(before: Breaker, key: str, trial: Trial, until: datetime, now: datetime) -> tuple[Breaker, str]:
    """Decide on one more trial.

    Args:
        before: the breaker of its kind.
        key: of the trial; who was let through before still is.
        trial: its kind.
        until: when it has surely ended.
        now: the time.

    Returns:
        The breaker after, and why the trial must wait, ``""`` if it may be sent.
    """
    if before.since is None:
        return before, ""
    if before.trying not in {"", key} and before.trying_until is not None and now < before.trying_until:
        return before, f"{SUSPENDED}: {told(before, trial)}; another one is tried now"
    return before.model_copy(update={"trying": key, "trying_until": until}), ""


def told(breaker: Breaker, trial: Trial) -> str:
    """Say for people why trials are suspended."""
    kind = "canaries" if trial is Trial.CANARY else "probes"
    return f"{kind} on {len(breaker.devices)} devices in a row proved nothing, the last one: {breaker.last}"


def key_of(trial: StartProbe | StopProbe) -> str:
    """Name a trial, the same when it is sent, when it ends, and after a restart in between."""
    return trial.target.effect_key("trial", trial.number)


def _most_of_a_pool(settings: Probe) -> int:
    return (settings.stuck + 1) // 2
