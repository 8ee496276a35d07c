"""What Sickbay's own images do on a stand-in node: they try the devices that they hold."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Final

from k8s.lab.nodes.devices import Device
from k8s.lab.nodes.wire import Pod

PROBE_RUNS_FOR: Final = 0.05
"""Seconds."""


class Trial(StrEnum):
    """An image of ours, without its tag."""

    PROBE = "sickbay.dev/probe"
    """Ends soon, with a verdict on an idle device."""
    CANARY = "sickbay.dev/canary"
    """Loads its device. It is ready once the device has borne that for the load time, and goes on until it is deleted;
    on a device that does not bear it, it ends."""


def trial_of(pod: Pod) -> Trial | None:
    """Tell which of them a pod runs; None for other people's pods."""
    images = {container.image.partition(":")[0] for container in pod.spec.containers}
    return next((trial for trial in Trial if trial in images), None)


def probe_passes(devices: Sequence[Device]) -> bool:
    """Whether a probe ends well: that depends on the devices alone, not on the word for their health."""
    return bool(devices) and not any(device.probe_fails for device in devices)


def message(devices: Iterable[Device], *, passed: bool) -> str:
    """What a trial leaves at its terminationMessagePath."""
    first = next((device.uuid for device in devices), "")
    return json.dumps({"verdict": "pass" if passed else "fail", "device": first})
