"""The documentation: its tables, its links, and the examples that people copy from it."""

from __future__ import annotations

import json
import os
import re
import runpy
import shutil
import subprocess
import sys
import zipfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from k8s.configmaps import NAMESPACE
from k8s.control import CONTROL, ControlMap
from k8s.gateway import JSON_PATCH, MERGE_PATCH
from k8s.lab.lab import Lab
from k8s.lab.nodes.fleet import DRIVER, NodeShape
from k8s.owners import Owners, facts_of
from k8s.records import Records
from k8s.resources import CONFIGMAPS, DEVICEQUARANTINES, JOBS, RESOURCECLAIMTEMPLATES
from sickbay.model.policy import Mode
from sickbay.model.record import Condition, Phase, RecordStatus
from sickbay.policy.evacuation import may_move
from sickbay.policy.loading import load_policy
from sickbay.policy.verdict import Told, parse_told
from sickbay.telemetry.alert import Alert
from tests.conftest import AddNodes
from tests.installation import BREAK_GLASS, OPERATORS, Installation, a_device, record_spec
from tests.k8s import cluster
from tests.test_house import PACKAGES, ROOT, run

DOCS = ROOT / "docs"
TABLES = runpy.run_path(str(DOCS / "tables.py"))


def text(name: str) -> str:
    """Read a page."""
    return (ROOT / name).read_text(encoding="utf-8")


def patches(page: str) -> list[Any]:
    """Find the bodies of the patches that a page has people send, in order."""
    return [json.loads(body) for body in re.findall(r"-p '(.*?)'(?= |\n|`)", text(page))]


@pytest.mark.parametrize(("page", "table"), TABLES["TABLES"])
def test_a_generated_table_is_up_to_date(page: str, table: Any) -> None:
    """`make docs` would change nothing."""
    assert table() in text(f"docs/{page}")


def test_the_table_of_alerts_explains_each() -> None:
    """An alert without a text under it in the enumeration would be missing."""
    assert re.findall(r"^\| `(\w+)` \| \S", TABLES["alerts"](), re.MULTILINE) == list(Alert)


def test_a_table_takes_the_place_of_the_one_with_its_head() -> None:
    """Other tables on a page stay, and a page that has lost its table is not passed over."""
    page = "| a | b |\n|---|---|\n| 1 | 2 |\n\n| c |\n|---|\n| 3 |\n"
    assert TABLES["replaced"](page, "| c |\n|---|\n| 4 |\n") == page.replace("3", "4")
    with pytest.raises(ValueError, match="0 tables begin with"):
        TABLES["replaced"](page, "| d |\n|---|\n")


@pytest.mark.parametrize(
    "page", ["README.md", "CONTRIBUTING.md", "deploy/README.md", *(f"docs/{p.name}" for p in DOCS.glob("*.md"))]
)
def test_links_between_pages_lead_somewhere(page: str) -> None:
    """Files exist, and so do the headings that links name."""
    for link in re.findall(r"\]\(([^)]+)\)", text(page)):
        if link.startswith(("http:", "https:")):
            continue
        file, _, heading = link.partition("#")
        target = ((ROOT / page).parent / file).resolve() if file else ROOT / page
        assert target.exists(), link
        if heading:
            headings = re.findall(r"^#+ (.*)$", target.read_text(encoding="utf-8"), re.MULTILINE)
            assert heading in {re.sub(r"[^\w -]", "", h.lower()).replace(" ", "-") for h in headings}, link


def test_the_example_of_a_policy_acts() -> None:
    """It is read by the loader that reads everybody's, and as it says every time on the way back is short."""
    name = "docs/examples/policy.yaml"
    policy = load_policy(text(name), name)
    assert policy.mode is Mode.ENFORCE
    given = yaml.safe_load(text(name))
    assert {"confirm", "stable", "settle", "probe", "canary", "soak", "ramp"} <= given.keys()
    times = (policy.confirm, policy.stable, policy.settle, policy.probe.longest, policy.probe.timeout)
    later = (policy.canary.timeout, policy.soak.time, policy.soak.check, policy.ramp.time, policy.ramp.check)
    assert max(*times, *later) <= timedelta(seconds=30)


def test_the_readme_names_the_phases_of_a_healed_device() -> None:
    """What a person sees after healing it, in the order in which they come."""
    (told,) = re.findall(r"the next probe passes: ([\w, ]+)$", text("README.md"), re.MULTILINE)
    order = list(Phase)
    assert [Phase(word) for word in told.split(", ")] == order[
        order.index(Phase.PROBING) : order.index(Phase.RELEASED) + 1
    ]


async def test_the_example_of_a_job_runs_and_may_be_moved(lab: Lab, namespace: str, add_nodes: AddNodes) -> None:
    """Its pod gets a device of the lab's usual driver, and its failure rule lets Sickbay evict it."""
    await add_nodes(1, NodeShape(devices=1, prefix="example"))
    template, job = yaml.safe_load_all(text("docs/examples/job.yaml"))
    await cluster.create(lab.gateway, RESOURCECLAIMTEMPLATES, namespace, template)
    await cluster.create(lab.gateway, JOBS, namespace, job)
    pod = await cluster.running(lab.gateway, namespace, job["metadata"]["name"])
    assert (await cluster.device_of(lab.gateway, pod)).driver == DRIVER
    facts = facts_of(pod, await Owners(lab.gateway).of(pod), now=datetime.now(UTC), node_ready=True)
    assert may_move(facts).may


async def test_the_approval_of_the_docs_is_one(sickbay: Installation) -> None:
    """A member of the group that the page names adds the condition, whether there are others yet or not."""
    add, merge = [p for p in patches("docs/operating.md") if "Approved" in json.dumps(p)]
    for patch, content_type, before in ((add, JSON_PATCH, (Condition(type="Other"),)), (merge, MERGE_PATCH, ())):
        key = a_device()
        records = Records(sickbay.gateway)
        record = await records.create(key, record_spec(key, term=await sickbay.lead()))
        await records.write_status(record, RecordStatus(incident=record.spec.incident, conditions=before))
        async with sickbay.as_user("ann", BREAK_GLASS) as ann:
            path = DEVICEQUARANTINES.path(name=key.record_name, subresource="status")
            await ann.request("PATCH", path, body=patch, content_type=content_type)
        status = (await records.get(key.record_name)).status
        approved = status.condition("Approved")
        assert approved is not None
        assert (approved.status, approved.message, len(status.conditions)) == ("True", "ann", len(before) + 1)


async def test_the_pause_of_the_docs_begins_and_ends(sickbay: Installation) -> None:
    """A member of the group that the page names may, and what is left is what was there."""
    control = ControlMap(sickbay.admin)
    before = await control.read()
    pause, resume = [p for p in patches("docs/operating.md") if "paused" in json.dumps(p)]
    async with sickbay.as_user("ann", OPERATORS) as ann:
        path = CONFIGMAPS.path(NAMESPACE, CONTROL)
        await ann.request("PATCH", path, body=pause, content_type=MERGE_PATCH)
        paused = await control.read()
        await ann.request("PATCH", path, body=resume, content_type=MERGE_PATCH)
    assert (paused.paused, paused.who, paused.until) == (True, "ann", datetime(2026, 11, 30, 18, tzinfo=UTC))
    assert await control.read() == before


@pytest.mark.parametrize(
    ("found", "tested", "told"),
    [
        ("GPU-1", 0, Told(passed=True, device="GPU-1")),
        ("GPU-1", 1, Told(passed=False, device="GPU-1")),
        ("GPU-1", 7, None),
        ("GPU-1\nGPU-2", 0, None),
    ],
)
def test_the_sample_of_a_probe_keeps_the_contract(tmp_path: Path, found: str, tested: int, told: Told | None) -> None:
    """What it leaves is a verdict that is understood, or nothing; a pass ends with 0."""
    (script,) = re.findall(r"```sh\n(#!/bin/sh\n.*?)```", text("docs/probe.md"), re.DOTALL)
    message = tmp_path / "termination-log"
    test = tmp_path / "test"
    for command, body in (("nvidia-smi", f"printf '%s\\n' '{found}'"), ("test", f"exit {tested}")):
        (tmp_path / command).write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
        (tmp_path / command).chmod(0o755)
    here = script.replace("/dev/termination-log", str(message)).replace("/probe/test", str(test))
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    ended = subprocess.run(["/bin/sh", "-c", here], env={"PATH": path}, check=False)
    left = message.read_text(encoding="utf-8") if message.exists() else ""
    assert parse_told(left) == told
    assert ended.returncode == (0 if told else 2)


def test_an_image_is_made_of_our_packages_and_nothing_that_lies_beside(tmp_path: Path) -> None:
    """.dockerignore lets through what the wheel needs, all of it, and no other top-level name."""
    lines = [line for line in text(".dockerignore").splitlines() if line and not line.startswith("#")]
    assert lines[0] == "*"
    through = [line.removeprefix("!") for line in lines if line.startswith("!")]
    assert set(PACKAGES) <= set(through)
    assert not [name for name in through if not (ROOT / name).exists()]
    for name in through:
        (shutil.copytree if (ROOT / name).is_dir() else shutil.copy)(ROOT / name, tmp_path / name)
    built = run("-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path), cwd=tmp_path)
    assert built.returncode == 0, built.stderr
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as wheel:
        names = wheel.namelist()
    assert {name.partition("/")[0] for name in names} >= set(PACKAGES)
    assert [name for name in names if name.endswith("/licenses/LICENSE")]


def test_the_commands_of_the_readme_exist() -> None:
    """Each `sickbay …` line of the README names a command that there is."""
    named = set(re.findall(r"^sickbay ((?:lab|policy) \w+|\w+)", text("README.md"), re.MULTILINE))
    assert {"lab up", "lab account", "install", "run"} <= named
    for words in named:
        shown = subprocess.run(
            [sys.executable, "-m", "sickbay", *words.split(), "--help"], cwd=ROOT, capture_output=True, check=False
        )
        assert shown.returncode == 0, words
