"""The house itself: layers, sizes, what the wheel holds, what the lock says."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("sickbay", "workflows", "activities", "workers", "k8s")
LONGEST = 500


def project() -> dict[str, Any]:
    """Read pyproject.toml."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def run(*command: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """Run one of this environment's tools."""
    return subprocess.run([sys.executable, *command], cwd=cwd, capture_output=True, text=True, check=False)


def sources(suffix: str) -> list[Path]:
    """Find our own source files."""
    folders = (*PACKAGES, "tests", "benchmarks")
    return [file for folder in folders for file in (ROOT / folder).rglob(f"*{suffix}")]


def test_imports_only_go_down() -> None:
    """The layers of pyproject.toml hold."""
    checked = run("-c", "from importlinter.cli import lint_imports_command; lint_imports_command()")
    assert checked.returncode == 0, checked.stdout
    assert "0 broken" in checked.stdout


@pytest.mark.parametrize("suffix", [".py", ".go"])
def test_no_file_is_longer_than_a_reader_bears(suffix: str) -> None:
    """One idea a file, and never past 500 lines."""
    lengths = {file.relative_to(ROOT): len(file.read_text(encoding="utf-8").splitlines()) for file in sources(suffix)}
    assert {file: n for file, n in lengths.items() if n > LONGEST} == {}


def test_commands_are_imported_when_they_are_called() -> None:
    """`sickbay --help` waits for neither the Temporal SDK nor the Kubernetes client."""
    heavy = ("temporalio", "kubernetes", "aiohttp", "pydantic", "prometheus_client", "rich")
    shown = run("-c", f"import sys, sickbay.cli.main; print([m for m in {heavy} if m in sys.modules])")
    assert shown.stdout.strip() == "[]", shown.stderr


def test_the_wheel_holds_our_packages_and_their_data_alone(tmp_path: Path) -> None:
    """Top-level names such as `tests` never ship; manifests and the lab's Go sources do."""
    built = run("-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path))
    assert built.returncode == 0, built.stderr
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as wheel:
        names = wheel.namelist()
    top = {name.partition("/")[0] for name in names}
    version = project()["project"]["version"]
    assert top == {*PACKAGES, f"sickbay-{version}.dist-info"}
    data = {"sickbay/py.typed", "k8s/manifests/crd.yaml", "k8s/lab/tools.lock"}
    modules = {f"k8s/lab/{name}/go.mod" for name in ("controlplane", "temporalserver", "temporalui")}
    assert data | modules <= set(names)
    assert f"sickbay-{version}.dist-info/licenses/LICENSE" in names


@pytest.mark.parametrize("lock", ["requirements.lock", "k8s/lab/tools.lock"])
def test_the_lock_names_no_place_to_fetch_from(lock: str) -> None:
    """Whoever installs chooses the index; what comes from it is held by hashes."""
    text = (ROOT / lock).read_text(encoding="utf-8")
    assert not re.search(r"https?:|--(extra-)?index-url|--find-links", text)
    pins = re.findall(r"^([a-z0-9][\w.-]*)==", text, re.MULTILINE)
    assert pins
    assert len(re.findall(r"--hash=sha256:[0-9a-f]{64}", text)) >= len(pins)


def test_the_lock_has_every_dependency() -> None:
    """What pyproject.toml asks for is pinned; `make lock` mends it."""
    asked = [*project()["project"]["dependencies"], *project()["dependency-groups"]["dev"]]
    names = {re.split(r"[<>=~!\s\[;]", line)[0].lower().replace("_", "-") for line in asked}
    text = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    assert names <= set(re.findall(r"^([a-z0-9][\w.-]*)==", text, re.MULTILINE))
