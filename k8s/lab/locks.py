"""A lock between processes that ends with its holder, however that ends."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from pathlib import Path
from typing import Self


class FileLock:
    """An exclusive ``flock`` on a file, which stays in place; blocks, so use it in a thread.

    Args:
        path: the lock's file; its directory must exist.
        waiting: called once if someone else holds the lock.
    """

    def __init__(self, path: Path, *, waiting: Callable[[], None] = lambda: None) -> None:
        self._path = path
        self._waiting = waiting
        self._descriptor = -1

    def try_acquire(self) -> bool:
        """Take the lock if it is free.

        Returns:
            Whether it is ours now.
        """
        if self._descriptor < 0:
            self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def release(self) -> None:
        """Give the lock up; closing the file is what frees it."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __enter__(self) -> Self:
        if not self.try_acquire():
            self._waiting()
            fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        return self

    def __exit__(self, *_: object) -> None:
        self.release()
