"""The compose file, as its own loader reads it: variables filled in, short forms written out."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from k8s.lab.build import say_on_stderr
from k8s.lab.tools import find_compose
from tests.test_house import ROOT

FILE = ROOT / "docker-compose.yml"


def load(*arguments: str, file: Path = FILE) -> subprocess.CompletedProcess[str]:
    """Have the loader read a file; no container engine is asked."""
    command: list[str | Path] = [
        find_compose(say_on_stderr),
        "--project-directory",
        ROOT,
        "--file",
        file,
        "config",
        *arguments,
    ]
    return subprocess.run(command, capture_output=True, text=True, check=False, env={"HOME": "/nonexistent"})


def services() -> dict[str, Any]:
    """Give all services by name."""
    loaded = load("--format", "json")
    assert loaded.returncode == 0, loaded.stderr
    found: dict[str, Any] = json.loads(loaded.stdout)["services"]
    return found


def environment(service: str) -> dict[str, str]:
    """Give the variables of a service."""
    found: dict[str, str] = services()[service]["environment"]
    return found
