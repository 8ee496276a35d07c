"""CPU seconds by process."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchmarks.machine import Machine, Meter, process_with

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="this system has no /proc")

CHILD = "import time\ninput()\nwhile time.process_time() < 0.3: pass\nprint('done', flush=True)\ninput()"
PARENT = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", sys.argv[1]])
print(child.pid, flush=True)
child.wait()
"""


def test_a_process_counts_with_its_children_and_is_counted_once() -> None:
    """What a child burned is its parent's, unless the child is named itself."""
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdin is not None
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        alone, both = Meter({"parent": parent.pid}), Meter({"parent": parent.pid, "child": child})
        parent.stdin.write("\n")
        parent.stdin.flush()
        assert parent.stdout.readline() == "done\n"
        usage, apart = alone.read(), both.read()
        parent.communicate("\n")
    assert usage.cpu["parent"] >= 0.2
    assert apart.cpu["child"] >= 0.2
    assert apart.cpu["parent"] < apart.cpu["child"]
    assert usage.others >= 0
    assert usage.elapsed > 0


def test_a_process_that_ended_is_not_told() -> None:
    """A figure of a process that is gone would be wrong."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, text=True) as child:
        meter = Meter({"child": child.pid})
        child.communicate("\n")
    assert meter.read().cpu == {}


def test_what_burned_cpu_shows_as_ours_and_not_as_others() -> None:
    """Our own work is not blamed on neighbours."""
    meter = Meter({"us": os.getpid()})
    until = time.process_time() + 0.2
    while time.process_time() < until:
        pass
    assert meter.read().cpu["us"] >= 0.15


def test_a_process_is_found_by_its_arguments() -> None:
    """All of them must be there, each as a whole."""
    code = "print('up', flush=True)\ninput()"
    with subprocess.Popen(
        [sys.executable, "-c", code, "--bench-test=1", "serve"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "up\n"  # before that it may still be a copy of us
        assert process_with("--bench-test=1", "serve") == child.pid
        assert process_with("--bench-test", "serve") is None
        child.communicate("\n")


def test_it_knows_where_it_is() -> None:
    """Figures without their machine mean nothing."""
    assert Machine.here().cores >= 1
