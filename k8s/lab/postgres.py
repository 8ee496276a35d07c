"""PostgreSQL from the machine's own package, as a process on loopback with data of its own that ends with the lab."""

from __future__ import annotations

import asyncio
import os
import pwd
import re
import secrets
import shutil
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from k8s.lab.directory import LabDirectory
from k8s.lab.process import Process, free_ports, retry_ports
from sickbay import errors

_INSTALLED: Final = ("/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/opt/homebrew/opt/postgresql@*/bin")
"""Where Debian, Red Hat and Homebrew keep what they leave off the PATH."""

_UNPRIVILEGED: Final = ("postgres", "nobody")
"""PostgreSQL refuses to run as root; the first of these users that is there runs it then."""

_READY_WITHIN: Final = 60.0

_CHILDREN_WITHIN: Final = 30.0
"""Seconds for the children of a killed postmaster to find out; a busy machine takes some."""

_TUNING: Final = ("listen_addresses=127.0.0.1", "unix_socket_directories=", "fsync=off", "full_page_writes=off")
"""What a killed process wrote is not lost; only a machine that loses power needs the disk to be waited for."""


def find_postgres() -> Path:
    """Find the directory of PostgreSQL's programs, the newest if there are several.

    Raises:
        UnavailableError: there is none.
    """
    on_path = shutil.which("initdb")
    found = [Path(on_path).resolve().parent] if on_path else []
    for pattern in _INSTALLED:
        found += sorted(Path("/").glob(pattern.lstrip("/")), key=_version, reverse=True)
    for directory in found:
        if all((directory / program).exists() for program in ("initdb", "postgres", "pg_isready")):
            return directory
    raise errors.UnavailableError(
        "PostgreSQL is not on this machine: no initdb on the PATH or in /usr/lib/postgresql/*/bin; install it"
        " (on Debian: apt-get install postgresql)"
    )


def _version(directory: Path) -> float:
    """Read the version in a path; 0 if there is none."""
    numbers = re.findall(r"\d+(?:\.\d+)?", str(directory))
    return float(numbers[-1]) if numbers else 0.0


@dataclass(frozen=True)
class Login:
    """Who owns the databases."""

    user: str
    password: str


class Postgres:
    """One PostgreSQL server, which can be killed and started again on its old port with its old data.

    Attributes:
        port: on loopback; 0 before the first start.
    """

    def __init__(self, *, programs: Path, lifeline: Path, directory: Path, login: Login) -> None:
        """Nothing runs yet: call `start`.

        Args:
            programs: directory of ``initdb`` and the others.
            lifeline: the control plane's binary, which ends the server when we end.
            directory: for the log, and for the data unless we are root.
            login: who may do everything.
        """
        self.port = 0
        self._programs = programs
        self._lifeline = lifeline
        self._directory = directory
        self._login = login
        self._owner = _owner()
        self._elsewhere: LabDirectory | None = None
        self._home = directory
        self._process: Process | None = None

    @property
    def running(self) -> bool:
        """Whether the server's process is there."""
        return self._process is not None and self._process.running

    async def start(self) -> None:
        """Start, with new data the first time, and wait until connections are accepted.

        After a kill it refuses to start as long as a child of the killed one is left, so it is tried again.

        Raises:
            UnavailableError: it ended, or was not ready in time; the text names its log.
        """
        if not self._data.exists():
            await asyncio.to_thread(self._make)
        deadline = time.monotonic() + _CHILDREN_WITHIN
        while True:
            try:
                return await retry_ports(self._start)
            except errors.UnavailableError:
                if not self.port or time.monotonic() > deadline:
                    raise

    async def kill(self) -> None:
        """End the postmaster as a crash would; its children find out and end by themselves."""
        if self._process is not None:
            await self._process.kill()

    async def remove(self) -> None:
        """End it and remove its data."""
        await self.kill()
        if self._elsewhere is not None:
            await asyncio.to_thread(self._elsewhere.remove)
            self._elsewhere = None
        await asyncio.to_thread(shutil.rmtree, self._data, ignore_errors=True)

    def _make(self) -> None:
        """Make the data. Root's labs are closed to other users, so then it lives in a directory of its own."""
        if self._owner is not None:
            name = f"{os.getpid()}-{secrets.token_hex(3)}"
            self._elsewhere = LabDirectory.claim(name, _open_root())
            self._elsewhere.path.chmod(0o711)
            self._home = self._elsewhere.path
        self._data.mkdir(mode=0o700)
        secret = self._home / "postgres-password"
        secret.write_text(self._login.password, encoding="utf-8")
        secret.chmod(0o600)
        if self._owner is not None:
            for path in (self._data, secret):
                os.chown(path, self._owner.pw_uid, self._owner.pw_gid)
        options = ("--auth=scram-sha-256", "--encoding=UTF8", "--locale=C", "--no-sync")
        with self._log.open("ab") as log:
            done = subprocess.run(  # noqa: S603 - a program that we found, fixed arguments
                [
                    *(self._programs / "initdb", f"--pgdata={self._data}", f"--username={self._login.user}"),
                    *(f"--pwfile={secret}", *options),
                ],
                cwd=self._home,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                check=False,
                **self._as_owner(),
            )
        secret.unlink()
        if done.returncode != 0:
            raise errors.UnavailableError(f"initdb ended with status {done.returncode}; see {self._log}")

    @property
    def _data(self) -> Path:
        return self._home / "postgres"

    @property
    def _log(self) -> Path:
        return self._directory / "postgres.log"

    def _as_owner(self) -> dict[str, Any]:
        if self._owner is None:
            return {}
        return {"user": self._owner.pw_uid, "group": self._owner.pw_gid, "extra_groups": []}

    async def _start(self) -> None:
        port = self.port or free_ports(1)[0]
        command: list[str | Path] = [self._lifeline, "lifeline", "--", *_become(self._owner)]
        command += [self._programs / "postgres", "-D", self._data, f"--port={port}"]
        command += [f"--{setting}" for setting in _TUNING]
        self._process = await Process.start("postgres", command, log=self._log)
        try:
            await self._process.until(lambda: self._accepts(port), within=_READY_WITHIN)
        except BaseException:
            await self._process.kill()
            raise
        self.port = port

    async def _accepts(self, port: int) -> bool:
        asked = await asyncio.create_subprocess_exec(
            *(str(self._programs / "pg_isready"), "--quiet", "--host=127.0.0.1", f"--port={port}"), cwd="/"
        )
        return await asked.wait() == 0


def _owner() -> pwd.struct_passwd | None:
    """Tell who runs it; None = we ourselves.

    Raises:
        UnavailableError: we are root, and there is nobody else.
    """
    if os.getuid() != 0:
        return None
    for entry in (entry for name in _UNPRIVILEGED for entry in pwd.getpwall() if entry.pw_name == name):
        return entry
    raise errors.UnavailableError(f"PostgreSQL does not run as root, and no user is named {' or '.join(_UNPRIVILEGED)}")


def _become(owner: pwd.struct_passwd | None) -> Iterable[str]:
    """Give the command that changes to a user in the same process; the lifeline itself stays with us."""
    if owner is None:
        return ()
    return ("setpriv", f"--reuid={owner.pw_uid}", f"--regid={owner.pw_gid}", "--clear-groups")


def _open_root() -> Path:
    """Give root's own directory of databases: others may pass through, and do no more.

    Raises:
        UsageError: someone else owns it, or others may write to it.
    """
    root = Path(tempfile.gettempdir()) / f"sickbay-postgres-{os.getuid()}"
    root.mkdir(mode=0o711, exist_ok=True)
    found = root.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
        raise errors.UsageError(f"{root}: must be a directory that only you can write to; remove it, or set TMPDIR")
    return root
