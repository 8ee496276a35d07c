"""``sickbay lab``, as a person types it."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from k8s.gateway import Gateway
from k8s.impersonation import SERVICE_ACCOUNT
from k8s.rights import user
from sickbay.cli.lab import _holds
from tests.sickbay.cli.commands import ROOT

pytestmark = pytest.mark.lab

NAME = "cli-test"


def sickbay(*arguments: str, command: tuple[str, ...] = ("lab",)) -> tuple[int, str, str]:
    """Run one command; returns exit status, output and errors."""
    command = (sys.executable, "-m", "sickbay", *command, *arguments)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


@pytest.fixture(scope="module")
def begun() -> Iterator[str]:
    """A lab with one node of two devices; what its start printed."""
    status, shown, error = sickbay("up", "--name", NAME, "--nodes", "1", "--devices", "2")
    assert status == 0, error
    found = re.search(r"^  kubeconfig   (.+)$", shown, re.MULTILINE)
    assert found is not None
    yield shown
    assert sickbay("down", "--name", NAME)[0] == 0
    assert not Path(found[1]).parent.exists()


@pytest.fixture(scope="module")
def kubeconfig(begun: str) -> Path:
    """The lab's kubeconfig."""
    return Path(exports(begun)["KUBECONFIG"])


def exports(shown: str) -> dict[str, str]:
    """Read the variables that a person pastes."""
    line = next(line for line in shown.splitlines() if line.startswith("  export "))
    return dict(pair.split("=", 1) for pair in line.split()[1:])


def test_a_device_breaks_and_heals(kubeconfig: Path) -> None:
    """What was told shows in the status until it is healed."""
    assert kubeconfig.exists()
    status, shown, hint = sickbay("break", "node-0", "gpu-1", "--message", "Xid 79", "--name", NAME)
    assert status == 0
    assert hint == "no pod holds gpu-1 of node-0: nothing tells of its health until one does\n"
    assert "1 nodes, 2 devices, 1 not healthy\n  node-0 gpu-1  Unhealthy  Xid 79\n" in shown
    told = sickbay("status", "--name", NAME)[1]
    assert told.startswith(shown)
    assert exports(told)["KUBECONFIG"] == str(kubeconfig)
    sickbay("heal", "node-0", "gpu-1", "--name", NAME)
    assert "0 not healthy" in sickbay("status", "--name", NAME)[1]


def test_a_driver_goes_and_comes_back(kubeconfig: Path) -> None:
    """Both show in the status; a device that breaks meanwhile cannot tell."""
    status, shown, _ = sickbay("lose-driver", "node-0", "--name", NAME)
    assert status == 0
    assert "  node-0  its driver is gone\n" in shown
    assert "its driver is gone already; regain it first" in sickbay("lose-driver", "node-0", "--name", NAME)[2]
    hint = sickbay("break", "node-0", "gpu-0", "--name", NAME)[2]
    assert hint == "the driver of node-0 is gone: nothing tells of gpu-0 until it is back\n"
    sickbay("heal", "node-0", "gpu-0", "--name", NAME)
    status, shown, _ = sickbay("regain-driver", "node-0", "--name", NAME)
    assert (status, "driver" in shown) == (0, False)
    assert "its driver is there; only one that was lost" in sickbay("regain-driver", "node-0", "--name", NAME)[2]


def test_a_card_is_swapped_for_one_that_is_well(kubeconfig: Path) -> None:
    """Its fault, which shows only under load, goes with it, and the new card is named."""
    status, shown, _ = sickbay("break", "node-0", "gpu-1", "--under-load", "--name", NAME)
    assert status == 0
    assert "0 not healthy\n  node-0 gpu-1  fails under load\n" in shown
    status, shown, _ = sickbay("swap", "node-0", "gpu-1", "--name", NAME)
    assert status == 0
    assert re.match(r"gpu-1 of node-0 is another card now: GPU-\S+\n", shown)
    assert "under load" not in shown


def test_what_a_start_prints_is_enough_to_install_and_to_run(begun: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The exports are read by Sickbay's own commands; after it the account's kubeconfig can be had, and is its own."""
    assert "Sickbay is not installed in lab cli-test; run 'sickbay install" in sickbay("account", "--name", NAME)[2]
    for variable, value in exports(begun).items():
        monkeypatch.setenv(variable, value)
    status, _, error = sickbay("--cluster", NAME, command=("install",))
    assert (status, "warning: " in error) == (0, False), error
    status, shown, error = sickbay("account", "--name", NAME)
    assert status == 0, error
    found = re.fullmatch(r"  sickbay run --kubeconfig (\S+) --temporal-address (\S+) --policy (\S+)\n", shown)
    assert found is not None
    assert found[2] == exports(begun)["SICKBAY_TEMPORAL_ADDRESS"]
    assert (ROOT / found[3]).is_file()
    assert asyncio.run(whoami(found[1])) == SERVICE_ACCOUNT


async def whoami(kubeconfig: str) -> str:
    """Ask the API server whom it takes us for."""
    async with await Gateway.connect(kubeconfig=kubeconfig) as gateway:
        return await user(gateway)


def test_a_device_that_a_pod_holds_needs_no_hint() -> None:
    """Only an allocation that somebody uses tells of a device."""
    status = {"allocation": {"devices": {"results": [{"pool": "node-0", "device": "gpu-1"}]}}}
    assert _holds(status, "node-0", "gpu-1")
    assert not _holds(status, "node-0", "gpu-0")
    assert not _holds(status, "node-1", "gpu-1")


def test_the_words_of_a_health_are_those_of_a_pods_status() -> None:
    """Help shows choices and default as a status spells them."""
    shown = " ".join(sickbay("break", "--help")[1].split())
    assert "--health [Healthy|Unhealthy|Unknown]" in shown
    assert "[default: Unhealthy]" in shown


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["break", "node-7", "gpu-0"], "node 'node-7': not in this lab; it has node-0"),
        (["break", "node-0", "gpu-7"], "device 'gpu-7': not on node node-0; it has gpu-0, gpu-1"),
        (["break", "node-0", "gpu-0", "--health", "Odd"], "'Odd' is not one of"),
        (["break", "node-0", "gpu-0", "--under-load", "--health", "Unknown"], "leave --health out"),
        (["swap", "node-0", "gpu-7"], "device 'gpu-7': not on node node-0; it has gpu-0, gpu-1"),
        (["lose-driver", "node-7"], "node 'node-7': not in this lab; it has node-0"),
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


def test_a_database_file_is_not_for_postgres() -> None:
    """The one would be forgotten without a word."""
    status, _, error = sickbay("up", "--name", NAME, "--temporal", "postgres", "--database", "temporal.db")
    assert status == 2
    assert error == "error: --database is a file of the development server; leave it out with --temporal postgres\n"
