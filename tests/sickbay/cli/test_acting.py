"""``--as`` and ``--as-group``: commands for people have them, and requests carry them."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import click
import pytest

from k8s.lab.lab import Lab
from k8s.lab.nodes.fleet import NodeShape
from k8s.records import Records
from sickbay.cli.main import COMMANDS
from tests.installation import OPERATORS, Installation, a_device
from tests.k8s.scripted import says, serving
from tests.sickbay.cli.commands import sickbay as run

OURS = {"run", "watcher", "worker"}
"""They are a service account, by a credential of its own."""

ELSEWHERE = {"policy", "lab", "demo", "completion"}
"""They come to no cluster, or to one of their own."""


@pytest.mark.parametrize("name", COMMANDS)
def test_who_can_act_as_somebody_else(name: str) -> None:
    """Every command by which a person comes to a cluster, and no process."""
    command = getattr(import_module(COMMANDS[name].module), name.replace("-", "_"))
    assert isinstance(command, click.Command)
    options = {option for parameter in command.params for option in parameter.opts}
    assert ({"--as", "--as-group"} <= options) is (name not in OURS | ELSEWHERE)


@pytest.mark.parametrize(
    "words",
    [
        ["get", "devices"],
        ["explain", "gpu-0"],
        ["disown", "gpu-0", "--reason", "x"],
        ["pause", "gpu-0", "--reason", "x"],
        ["doctor"],
    ],
)
async def test_the_requests_of_a_command_carry_both(tmp_path: Path, words: list[str]) -> None:
    """From the first one on."""
    async with serving() as server:
        refused = says(403, {"kind": "Status", "message": "no"})
        server.script += [refused] * 30
        server.kubeconfig(tmp_path)
        flags = ["--as", "ann", "--as-group", "a", "--as-group", "b", "--kubeconfig", str(tmp_path / "kubeconfig")]
        shown = await run(*words, *flags, environment={"SICKBAY_TEMPORAL_ADDRESS": "127.0.0.1:9"})
    assert shown.status in {1, 2}
    assert "Traceback" not in shown.error
    assert server.asked
    for asked in server.asked:
        named = [value for name, value in asked.headers.items() if name.lower().startswith("impersonate-")]
        assert named == ["ann", "a", "b"], asked


@pytest.mark.lab
async def test_on_a_lab_the_administrator_can_be_an_operator(lab: Lab, sickbay: Installation) -> None:
    """Its kubeconfig may act as anybody; what they may is what the group may, and the record holds their name."""
    environment = {"KUBECONFIG": str(lab.kubeconfig), "SICKBAY_TEMPORAL_ADDRESS": "127.0.0.1:9"}
    (node,) = await lab.fleet.add(1, NodeShape(devices=1, prefix="acting"))
    words = ("quarantine", f"{node}/gpu-0", "--reason", "fan noise", "--as=ann")
    refused = await run(*words, environment=environment)
    assert refused.status == 2
    assert "ann" in refused.error
    taken = await run(*words, f"--as-group={OPERATORS}", environment=environment)
    assert taken.status == 0, taken.error
    record = await Records(sickbay.gateway).get(a_device(pool=node, device="gpu-0").record_name)
    assert record.spec.actor == "ann"
    await lab.fleet.remove(node)
