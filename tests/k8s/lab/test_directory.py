"""Directories of labs: one each, and none of the dead."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from k8s.lab.directory import LabDirectory, labs_root, running_labs
from sickbay import errors

CLAIM_AND_DIE = """
import os, sys
from k8s.lab.directory import LabDirectory
print(LabDirectory.claim(sys.argv[1]).path, flush=True)
os.kill(os.getpid(), 9)
"""


@pytest.fixture(autouse=True)
def labs_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep these labs away from those that run."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)


def test_a_name_is_taken_while_its_lab_runs() -> None:
    """A second lab of one name is refused; after the end of the first it is not."""
    first = LabDirectory.claim("one")
    with pytest.raises(errors.UsageError, match="'one' is running"):
        LabDirectory.claim("one")
    assert running_labs() == [first.path]
    first.remove()
    second = LabDirectory.claim("one")
    assert second.path == first.path
    second.remove()
    assert running_labs() == []


def test_what_a_killed_lab_left_is_swept() -> None:
    """The directory of a launcher that was killed does not count as running, and the next lab removes it."""
    done = subprocess.run([sys.executable, "-c", CLAIM_AND_DIE, "dead"], capture_output=True, text=True, check=False)
    left = Path(done.stdout.strip())
    assert left.is_dir()
    assert running_labs() == []
    LabDirectory.claim("other").remove()
    assert not left.exists()


@pytest.mark.parametrize("name", ["", "Upper", "a/b", "..", "-a", "a" * 33])
def test_odd_names_are_refused(name: str) -> None:
    """A name becomes a path, so only plain ones pass."""
    with pytest.raises(errors.UsageError, match="lab name"):
        LabDirectory.claim(name)


def test_a_root_that_others_may_use_is_refused() -> None:
    """Private keys go there."""
    labs_root().chmod(0o755)
    with pytest.raises(errors.UsageError, match="only you"):
        labs_root()
