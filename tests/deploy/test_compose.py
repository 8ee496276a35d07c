"""The compose file: read by its own loader, and held against what it configures."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from k8s.lab.build import TEMPORAL
from sickbay.settings import PREFIX, Settings
from tests.deploy import compose
from tests.test_house import ROOT, project

ONCE = {"temporal-schema", "temporal-namespace"}
"""Services that do their work and end."""


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    """Load the file once."""
    return compose.services()


def test_the_loader_takes_the_file() -> None:
    """No word of complaint."""
    loaded = compose.load("--quiet")
    assert (loaded.returncode, loaded.stderr) == (0, "")


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("      temporal-schema: {condition", "      schema: {condition", "depends on undefined service"),
        ("    read_only: true", "    readonly: true", "readonly"),
        ("networks: [database]", "networks: [databases]", "undefined network"),
    ],
)
def test_the_loader_would_not_take_a_wrong_one(tmp_path: Path, old: str, new: str, told: str) -> None:
    """A check that passes everything would prove nothing."""
    text = compose.FILE.read_text(encoding="utf-8")
    assert old in text
    (tmp_path / "compose.yml").write_text(text.replace(old, new), encoding="utf-8")
    loaded = compose.load("--quiet", file=tmp_path / "compose.yml")
    assert loaded.returncode != 0
    assert told in loaded.stderr


def test_sickbay_runs_as_nobody_in_particular_and_writes_nowhere(services: dict[str, Any]) -> None:
    """Not root, no capabilities, no way to more; a root file system and mounts that are read-only."""
    sickbay = services["sickbay"]
    assert sickbay["user"] == "10001:10001"
    assert sickbay["read_only"]
    assert sickbay["cap_drop"] == ["ALL"]
    assert sickbay["security_opt"] == ["no-new-privileges:true"]
    assert {mount["target"]: mount["read_only"] for mount in sickbay["volumes"]} == {
        "/etc/sickbay/kubeconfig": True,
        "/etc/sickbay/policy.yaml": True,
    }
    # A mistyped name would otherwise become an empty directory.
    assert not any(mount["bind"].get("create_host_path") for mount in sickbay["volumes"])


def test_sickbay_is_told_what_there_is_to_tell(services: dict[str, Any]) -> None:
    """Each of its variables is a setting; addresses name services."""
    told = services["sickbay"]["environment"]
    known = {f"{PREFIX}{name.upper()}" for name in Settings.model_fields}
    assert {name for name in told if name.startswith(PREFIX)} <= known
    assert told["SICKBAY_TEMPORAL_ADDRESS"].partition(":")[0] in services
    assert told["SICKBAY_TEMPORAL_NAMESPACE"] == services["temporal-namespace"]["environment"]["TEMPORAL_NAMESPACE"]
    (version,) = re.findall(r"^sickbay:(.+)$", services["sickbay"]["image"])
    assert version == project()["project"]["version"]


def test_nothing_is_published_beyond_this_machine(services: dict[str, Any]) -> None:
    """None of it asks for a password."""
    published = {name: {port["host_ip"] for port in service.get("ports", [])} for name, service in services.items()}
    assert set.union(*published.values()) == {"127.0.0.1"}
    assert not published["postgres"]


def test_everything_comes_up_again(services: dict[str, Any]) -> None:
    """After a crash and after a start of the machine; what does its work once is not repeated for ever."""
    restart = {name: service["restart"] for name, service in services.items()}
    assert {name for name, policy in restart.items() if policy != "unless-stopped"} == ONCE


def test_images_have_fixed_versions(services: dict[str, Any]) -> None:
    """The Temporal server is the one that the lab runs on PostgreSQL, with tools of the same version."""
    images = {name: service["image"] for name, service in services.items()}
    assert [image for image in images.values() if not re.search(r":v?\d+", image)] == []
    assert images["temporal"] == f"temporalio/server:{TEMPORAL}"
    assert images["temporal-schema"] == images["temporal-namespace"] == f"temporalio/admin-tools:{TEMPORAL}"


def test_mounted_files_are_there(services: dict[str, Any]) -> None:
    """All but the two that a person brings."""
    sources = {
        Path(mount["source"]).relative_to(ROOT)
        for service in services.values()
        for mount in service.get("volumes", [])
        if mount["type"] == "bind"
    }
    brought = {Path("sickbay.kubeconfig"), Path("policy.yaml")}
    assert brought <= sources
    assert [source for source in sources - brought if not (ROOT / source).exists()] == []
