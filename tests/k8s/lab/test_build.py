"""Building the control plane: once, by one, visibly."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from pathlib import Path

import pytest

from k8s.lab import build
from sickbay import errors

START = '#!/bin/sh\n[ "$1" = env ] && echo go1.27.3 && exit\n'
GOOD = (
    START
    + 'echo built >> "$HOME/builds"\necho k8s.io/a >&2\nwhile [ "$1" != -o ]; do shift; done\necho binary > "$2"\n'
)
BAD = START + "echo 'go: downloading a.example v1' >&2\necho 'main.go:1: no such thing' >&2\nexit 1\n"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache and a home of its own."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "sickbay"


def put_go(monkeypatch: pytest.MonkeyPatch, directory: Path, script: str) -> None:
    """Build with a script instead of Go: the real build is what every other test of the lab runs on."""
    command = directory / "go"
    command.write_text(script)
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{directory}{os.pathsep}/usr/bin{os.pathsep}/bin")


def test_builders_wait_for_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three at once get one path from one build, and tell what they do."""
    put_go(monkeypatch, tmp_path, GOOD)
    code = "from k8s.lab.build import ensure_binary; print(ensure_binary().read_text())"
    builders = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    ends = [builder.communicate() for builder in builders]
    assert [result.strip() for result, _ in ends] == ["binary"] * 3
    assert (tmp_path / "builds").read_text() == "built\n"
    assert "".join(told for _, told in ends).count("s, 1 packages compiled") == 1


def test_a_failed_build_is_one_line_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    """The compiler's last word and the log; no half binary."""
    put_go(monkeypatch, tmp_path, BAD)
    with pytest.raises(errors.UnavailableError, match=r"failed: main.go:1: no such thing; the log is .*build\.log"):
        build.ensure_binary()
    assert not list(cache.glob("controlplane-*"))
    assert "downloading" in (cache / "build.log").read_text()


def test_the_name_changes_with_the_sources(tmp_path: Path) -> None:
    """Whatever changes the binary changes its name; nothing else does."""
    (tmp_path / "main.go").write_text("package main")
    source = dataclasses.replace(build.CONTROL_PLANE, folder=tmp_path)
    before = build._digest(source)
    (tmp_path / "README.md").write_text("words")
    assert build._digest(source) == before
    (tmp_path / "main.go").write_text("package main // changed")
    assert build._digest(source) != before
    assert build._digest(dataclasses.replace(source, packages=("./a", "./b"))) != build._digest(
        dataclasses.replace(source, packages=("./a", "./c"))
    )
