"""The command line: one line for an error, a telling exit status, no traceback unless asked for."""

from __future__ import annotations

import subprocess
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path

import click
import pytest

from sickbay import errors
from sickbay.cli import main, origin

ROOT = Path(__file__).parents[3]


def fail_with(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make `sickbay policy` raise."""

    @click.command()
    def command() -> None:
        raise error

    monkeypatch.setattr("sickbay.cli.policy.policy", command)


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    """The list is there without importing any of them."""
    assert main.run(["--help"]) == 0
    shown = capsys.readouterr().out
    assert all(f"\n  {name} " in shown for name in main.COMMANDS)


def test_python_dash_m_is_the_same_command() -> None:
    """`python -m sickbay` works where scripts are not on the PATH."""
    shown = subprocess.run(
        [sys.executable, "-m", "sickbay", "policy", "check", "missing.yaml"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (shown.returncode, shown.stdout) == (2, "")
    assert shown.stderr == "error: FILE: cannot read missing.yaml: No such file or directory; give a file that exists\n"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [(["frobnicate"], "No such command 'frobnicate'"), (["policy", "check"], "Missing argument 'FILE'")],
)
def test_wrong_usage_is_status_2(arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A slip on the command line says what is known."""
    assert main.run(arguments) == 2
    assert told in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (errors.UsageError("x: wrong"), 2),
        (errors.ClusterUnavailable("x: wrong"), 3),
        (errors.TemporalUnavailable("x: wrong"), 3),
        (errors.SickbayError("x: wrong"), 1),
    ],
)
def test_our_errors_are_one_line_and_their_status(
    error: errors.SickbayError, status: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each kind of error has the exit status of its class."""
    fail_with(error, monkeypatch)
    assert main.run(["policy"]) == status
    assert capsys.readouterr().err == "error: x: wrong\n"


def test_several_problems_are_several_lines(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each of them is an error of its own."""
    fail_with(errors.UsageError("a: wrong\nb: wrong"), monkeypatch)
    main.run(["policy"])
    assert capsys.readouterr().err == "error: a: wrong\nerror: b: wrong\n"


def test_a_bug_is_a_line_too_and_a_traceback_when_asked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What was not meant to happen says so; --debug shows where."""
    fail_with(KeyError("x"), monkeypatch)
    assert main.run(["policy"]) == main.BUG
    told = capsys.readouterr().err
    assert told.startswith("error: this is a bug, please report it: KeyError: 'x'")
    assert "Traceback" not in told
    main.run(["--debug", "policy"])
    assert "Traceback" in capsys.readouterr().err


def test_a_valid_policy_is_named_with_its_content(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`policy check` says what it found."""
    file = tmp_path / "policy.yaml"
    file.write_text("apiVersion: sickbay.dev/v1alpha1\nkind: RemediationPolicy\nmode: shadow\n", encoding="utf-8")
    assert main.run(["policy", "check", str(file)]) == 0
    assert capsys.readouterr().out.startswith(f"{file}: valid, mode shadow, content ")


def test_a_foreign_package_that_shadows_ours_is_refused(tmp_path: Path) -> None:
    """Started where another `workflows` is found first, Sickbay says whose it is and does nothing."""
    foreign = tmp_path / "workflows"
    foreign.mkdir()
    (foreign / "__init__.py").write_text("raise SystemExit('imported')\n", encoding="utf-8")
    code = f"import sys; sys.path[:0] = [{str(tmp_path)!r}, {str(ROOT)!r}]; from sickbay.cli.main import main; main()"
    started = subprocess.run(
        [sys.executable, "-c", code, "run"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert started.returncode == 2
    assert started.stderr.startswith(f"error: the package 'workflows' is not Sickbay's: it is found in {foreign}")
    assert len(started.stderr.splitlines()) == 1


def test_what_took_the_place_of_a_package_is_told(tmp_path: Path) -> None:
    """Another distribution in the same directory overwrites files, or leaves a folder behind."""
    replaced = tmp_path / "k8s" / "__init__.py"
    replaced.parent.mkdir()
    replaced.write_text("", encoding="utf-8")
    spec = ModuleSpec("k8s", None, origin=str(replaced), is_package=True)
    assert origin.problem_of(spec, tmp_path) == f"was replaced by another distribution: {replaced}"
    folder = ModuleSpec("k8s", None, is_package=True)
    folder.submodule_search_locations = ["/x/k8s"]
    assert origin.problem_of(folder, tmp_path) == "is not Sickbay's but a plain folder: /x/k8s"
    assert origin.problem_of(None, tmp_path) == "is missing"


def test_our_own_packages_are_ours() -> None:
    """Here nothing shadows them."""
    origin.refuse_foreign_packages()
