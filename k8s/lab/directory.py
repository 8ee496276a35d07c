"""Where a lab lives while it runs: one directory each, and none left of those that are gone.

A running lab holds the lock of its directory. The kernel frees it whatever ends the launcher, so a lock that can be had
tells that the lab is dead.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import tempfile
from pathlib import Path

from k8s.lab.locks import FileLock
from sickbay import errors

_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?")


def labs_root() -> Path:
    """The user's own directory of all labs, inside the system's temporary directory.

    Raises:
        UsageError: someone else owns it, or others may write to it: it will hold private keys.
    """
    root = Path(tempfile.gettempdir()) / f"sickbay-labs-{os.getuid()}"
    root.mkdir(mode=0o700, exist_ok=True)
    found = root.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise errors.UsageError(f"{root}: must be a directory that only you can use; remove it, or set TMPDIR")
    return root


class LabDirectory:
    """One lab's directory, ours as long as we run.

    Attributes:
        path: the directory, mode 0700.
    """

    def __init__(self, path: Path, lock: FileLock) -> None:
        self.path = path
        self._lock = lock

    @classmethod
    def claim(cls, name: str, root: Path | None = None) -> LabDirectory:
        """Remove what dead labs left, and make a fresh directory. Blocks: call it in a thread.

        Args:
            name: small letters, digits and dashes, at most 32.
            root: to make it in; None for `labs_root`.

        Raises:
            UsageError: the name cannot be used, or a lab of this name is running.
        """
        if _NAME.fullmatch(name) is None:
            raise errors.UsageError(f"lab name {name!r}: use 1 to 32 small letters, digits or dashes")
        root = root or labs_root()
        with FileLock(root / ".lock"):  # between a directory's creation and its lock nobody may sweep
            for path in root.iterdir():
                if path.is_dir():
                    _sweep(path)
            path = root / name
            try:
                path.mkdir(mode=0o700)
            except FileExistsError:
                raise errors.UsageError(
                    f"a lab named {name!r} is running; take another name, or end it first"
                ) from None
            lock = FileLock(path / "lock")
            lock.try_acquire()
        return cls(path, lock)

    def remove(self) -> None:
        """Remove the directory with all that is in it. Blocks: call it in a thread."""
        shutil.rmtree(self.path, ignore_errors=True)
        self._lock.release()


def running_labs() -> list[Path]:
    """Directories of the labs that run now. Blocks: call it in a thread."""
    root = labs_root()
    with FileLock(root / ".lock"):
        return sorted(path for path in root.iterdir() if path.is_dir() and not _dead(path))


def _dead(path: Path) -> bool:
    lock = FileLock(path / "lock")
    try:
        return lock.try_acquire()
    finally:
        lock.release()


def _sweep(path: Path) -> None:
    if _dead(path):
        shutil.rmtree(path, ignore_errors=True)
