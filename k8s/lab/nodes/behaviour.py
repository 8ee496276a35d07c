"""What a pod's containers do on a stand-in node, told by the pod's annotations."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from sickbay import errors

PREFIX: Final = "lab.sickbay.dev/"
_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


@dataclass(frozen=True)
class Behaviour:
    """What the containers do. Seconds throughout.

    Attributes:
        run_for: after which they end by themselves; None is never. Annotation ``run-for``.
        exit_code: when they do. Annotation ``exit-code``.
        stop_after: from SIGTERM to their end. Annotation ``stop-after``.
        dies_with_device: whether they end with 1 when a device they hold is Unhealthy. Annotation ``dies-with-device``.
        ready: whether they are ready while they run. Annotation ``ready``.
        pod_ip: ``""`` makes one up. Annotation ``pod-ip``.
    """

    run_for: float | None = None
    exit_code: int = 0
    stop_after: float = 0.2
    dies_with_device: bool = False
    ready: bool = True
    pod_ip: str = ""


def parse(annotations: Mapping[str, str]) -> Behaviour:
    """Read a pod's annotations.

    Raises:
        UsageError: one of ours has a value that means nothing.
    """
    told = {key.removeprefix(PREFIX): value for key, value in annotations.items() if key.startswith(PREFIX)}
    usual = Behaviour()
    return Behaviour(
        run_for=_duration("run-for", told["run-for"]) if "run-for" in told else None,
        exit_code=_number("exit-code", told.get("exit-code", "0")),
        stop_after=_duration("stop-after", told["stop-after"]) if "stop-after" in told else usual.stop_after,
        dies_with_device=_yes("dies-with-device", told.get("dies-with-device", "false")),
        ready=_yes("ready", told.get("ready", "true")),
        pod_ip=told.get("pod-ip", ""),
    )


def _duration(name: str, text: str) -> float:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(ms|s|m|h)", text)
    if match is None:
        raise errors.UsageError(f"annotation {PREFIX}{name}: {text!r} is no duration; write 200ms, 2s or 5m")
    return float(match[1]) * _UNITS[match[2]]


def _number(name: str, text: str) -> int:
    if re.fullmatch(r"\d{1,3}", text) is None:
        raise errors.UsageError(f"annotation {PREFIX}{name}: {text!r} is no exit code; write 0 to 255")
    return int(text)


def _yes(name: str, text: str) -> bool:
    if text not in {"true", "false"}:
        raise errors.UsageError(f'annotation {PREFIX}{name}: {text!r} is neither "true" nor "false"')
    return text == "true"
