"""The machine: what it is, and whose CPU time a measurement took."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final

_PROC: Final = Path("/proc")
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_PARENT, _USER, _SYSTEM = 1, 11, 12
"""Fields of ``/proc/<pid>/stat``, counted after the command in parentheses; see proc_pid_stat(5)."""

_IDLE, _IOWAIT, _STOLEN = 3, 4, 7
"""Fields of the first line of ``/proc/stat``; of the rest, guest time is counted in user time already."""


@dataclass(frozen=True)
class Machine:
    """What figures depend on.

    Attributes:
        load: processes that wanted to run in the last minute, before anything was started.
        pace: see `pace`, before anything was started.
    """

    cores: int
    python: str
    system: str
    load: float
    pace: float

    @classmethod
    def here(cls) -> Machine:
        """Describe this machine."""
        return cls(_cores(), platform.python_version(), platform.platform(), os.getloadavg()[0], pace())


def pace() -> float:
    """Measure how fast a core is now: CPU milliseconds of a piece of work that is always the same.

    On a machine whose host is shared the same work takes up to twice the CPU time when neighbours are busy, without any
    of it showing as stolen: figures of two runs compare only as far as this one does.
    """
    taken = []
    for _ in range(5):
        began = time.thread_time()
        text = json.dumps([{"name": f"device-{number}", "numbers": list(range(20))} for number in range(1000)])
        json.loads(text)
        taken.append(time.thread_time() - began)
    return 1000 * median(taken)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclass(frozen=True)
class Usage:
    """Who used the machine during a measurement.

    Attributes:
        elapsed: seconds.
        cpu: CPU seconds by process, children included; empty where the system does not tell.
        others: CPU seconds of everything else on this machine: neighbours that disturb the measurement.
        stolen: seconds in which the host gave our CPUs to somebody else.
        pace: see `pace`, at the end.
    """

    elapsed: float
    cpu: Mapping[str, float]
    others: float
    stolen: float
    pace: float

    @property
    def share_of_others(self) -> float:
        """Share of the machine that everything else took."""
        return (self.others + self.stolen) / (self.elapsed * _cores())


class Meter:
    """Takes the CPU seconds of named processes, from its making to `read`.

    Args:
        processes: process id by name; one that ends in between is not told.
    """

    def __init__(self, processes: Mapping[str, int]) -> None:
        self._processes = dict(processes)
        self._began = time.monotonic()
        self._before = self._by_name()
        self._busy, self._stolen = _machine_seconds()

    def read(self) -> Usage:
        """Tell what was used so far."""
        elapsed = time.monotonic() - self._began
        busy, stolen = _machine_seconds()
        now = self._by_name()
        used = {name: now[name] - seconds for name, seconds in self._before.items() if name in now}
        others = max(0.0, busy - self._busy - sum(used.values()))
        return Usage(elapsed, used, others if used else 0.0, stolen - self._stolen, pace())

    def _by_name(self) -> dict[str, float]:
        """A process that is named itself does not count to its parent."""
        stats = _stats()
        named = set(self._processes.values())
        children: dict[int, list[int]] = {}
        for pid, (parent, _) in stats.items():
            children.setdefault(parent, []).append(pid)

        def seconds(pid: int) -> float:
            return stats[pid][1] + sum(seconds(child) for child in children.get(pid, ()) if child not in named)

        return {name: seconds(pid) for name, pid in self._processes.items() if pid in stats}


def process_with(*words: str) -> int | None:
    """Find the process whose command line has all these arguments; None if there is none, or no way to tell."""
    for directory in _PROC.glob("[0-9]*"):
        try:
            command = (directory / "cmdline").read_bytes().decode(errors="replace").split("\0")
        except OSError:  # it ended meanwhile
            continue
        if all(word in command for word in words):
            return int(directory.name)
    return None


def _stats() -> dict[int, tuple[int, float]]:
    """Give parent and CPU seconds of all processes; those of children that ended are not in them."""
    found = {}
    for directory in _PROC.glob("[0-9]*"):
        try:
            fields = (directory / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        except OSError:  # it ended meanwhile
            continue
        found[int(directory.name)] = (int(fields[_PARENT]), (int(fields[_USER]) + int(fields[_SYSTEM])) / _TICKS)
    return found


def _machine_seconds() -> tuple[float, float]:
    """Give the seconds in which CPUs were busy with our system's own work, and those that were stolen from it."""
    try:
        first = (_PROC / "stat").read_text(encoding="utf-8").splitlines()[0]
    except OSError:
        return 0.0, 0.0
    ticks = [int(field) for field in first.split()[1:9]]
    stolen = ticks[_STOLEN]
    return (sum(ticks) - ticks[_IDLE] - ticks[_IOWAIT] - stolen) / _TICKS, stolen / _TICKS
