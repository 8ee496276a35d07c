"""``sickbay lab``, as a person types it."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.lab

NAME = "cli-test"


def sickbay(*arguments: str) -> tuple[int, str, str]:
    """Run one command; returns exit status, output and errors."""
    command = [sys.executable, "-m", "sickbay", "lab", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


@pytest.fixture(scope="module")
def kubeconfig() -> Iterator[Path]:
    """A lab with one node of two devices; its kubeconfig."""
    status, shown, error = sickbay("up", "--name", NAME, "--nodes", "1", "--devices", "2")
    assert status == 0, error
    found = re.search(r"^  kubeconfig   (.+)$", shown, re.MULTILINE)
    assert found is not None
    yield Path(found[1])
    assert sickbay("down", "--name", NAME)[0] == 0
    assert not Path(found[1]).parent.exists()


def test_a_device_breaks_and_heals(kubeconfig: Path) -> None:
    """What was told shows in the status until it is healed."""
    assert kubeconfig.exists()
    status, shown, _ = sickbay("break", "node-0", "gpu-1", "--message", "Xid 79", "--name", NAME)
    assert status == 0
    assert "1 nodes, 2 devices, 1 not healthy\n  node-0 gpu-1  Unhealthy  Xid 79\n" in shown
    assert sickbay("status", "--name", NAME)[1] == shown
    sickbay("heal", "node-0", "gpu-1", "--name", NAME)
    assert "0 not healthy" in sickbay("status", "--name", NAME)[1]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["break", "node-7", "gpu-0"], "node 'node-7': not in this lab; it has node-0"),
        (["break", "node-0", "gpu-7"], "device 'gpu-7': not on node node-0; it has gpu-0, gpu-1"),
        (["break", "node-0", "gpu-0", "--health", "Odd"], "'Odd' is not one of"),
        (["up"], "a lab named 'cli-test' is running"),
    ],
)
def test_bad_input_is_one_line_with_a_remedy(kubeconfig: Path, arguments: list[str], told: str) -> None:
    """Exit status 2, no traceback."""
    status, _, error = sickbay(*arguments, "--name", NAME)
    assert status == 2
    assert told in error
    assert "Traceback" not in error


@pytest.mark.parametrize("command", ["status", "down"])
def test_a_lab_that_does_not_run_is_named(command: str) -> None:
    """With those that do, and how to start one."""
    status, _, error = sickbay(command, "--name", "nobody")
    assert status == 2
    assert re.search(r"no lab named 'nobody' is running \(running: .*\); start it: sickbay lab up", error)
