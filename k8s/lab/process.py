"""One process of a lab, which cannot outlive us.

Its standard input is a pipe whose other end only we hold: when we end, in whatever way, the process reads the end of it
and ends too (see ``controlplane/lifeline.go``).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import socket
from asyncio.subprocess import PIPE
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from sickbay import errors

POLL: Final = 0.02
"""Seconds between two readiness checks. Loopback answers in a millisecond."""

GO: Final[Mapping[str, str]] = {"GOGC": "200"}
"""For programs in Go: percent of new heap before garbage is collected (usually 100). A lab lives for minutes, and
memory costs less than the fifth of all CPU time that this saves."""

_PORTS: Final = range(20_000, 32_000)
"""Below the ephemeral range of Linux and macOS: no outgoing connection sits on a port that we start again on."""


class PortTaken(errors.UnavailableError):
    """The process could not listen: someone took its port between our choice and its start. Choose again."""


class Process:
    """A started process, its log, and its end."""

    def __init__(self, name: str, process: asyncio.subprocess.Process, log: Path, written_before: int) -> None:
        self.name = name
        self.log = log
        self._process = process
        self._written_before = written_before

    @classmethod
    async def start(
        cls, name: str, command: Sequence[str | Path], *, log: Path, environment: Mapping[str, str] | None = None
    ) -> Process:
        """Start a command that watches its lifeline, in a process group of its own.

        Args:
            name: for messages.
            command: program and arguments.
            log: file that its output is appended to.
            environment: added to ours.
        """
        with log.open("ab") as output:
            written_before = output.tell()
            process = await asyncio.create_subprocess_exec(
                *map(str, command),
                stdin=PIPE,
                stdout=output,
                stderr=output,
                env={**os.environ, **(environment or {}), "SICKBAY_LAB_LIFELINE": "1"},
                start_new_session=True,  # Ctrl-C in our terminal is for us to handle, in order
            )
        return cls(name, process, log, written_before)

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether it has not ended yet."""
        return self._process.returncode is None

    async def until(self, ready: Callable[[], Awaitable[bool]], *, within: float) -> None:
        """Ask again and again until it is ready.

        Args:
            ready: tells whether it is; must not raise while the process is still starting.
            within: seconds after which we give up.

        Raises:
            PortTaken: it ended because its port was taken.
            UnavailableError: it ended, or was not ready in time; the text names its log.
        """
        try:
            async with asyncio.timeout(within):
                while not await ready():
                    if not self.running:
                        raise self._ended()
                    await asyncio.sleep(POLL)
        except TimeoutError as error:
            raise errors.UnavailableError(f"{self.name} was not ready within {within:.0f} s; see {self.log}") from error

    async def stop(self, *, grace: float = 5.0) -> None:
        """End it by SIGTERM, after ``grace`` seconds by SIGKILL, and wait until it is gone."""
        if self.running:
            self._process.send_signal(signal.SIGTERM)  # not to its group: it passes the signal on itself
        try:
            async with asyncio.timeout(grace):
                await self._process.wait()
        except TimeoutError:
            await self.kill()
        self._kill_group()  # whoever is left of it

    async def kill(self) -> None:
        """End it and its children by SIGKILL, as a crash would, and wait until it is gone."""
        self._kill_group()
        await self._process.wait()

    def _kill_group(self) -> None:
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):  # gone; macOS says "not permitted" of a zombie's group
            return

    def _ended(self) -> errors.UnavailableError:
        with self.log.open("rb") as log:
            log.seek(self._written_before)
            output = log.read().decode(errors="replace")
        if "address already in use" in output.lower():
            return PortTaken(f"{self.name}: its port was taken; see {self.log}")
        last = next((line for line in reversed(output.splitlines()) if line.strip()), "no output")
        return errors.UnavailableError(
            f"{self.name} ended with status {self._process.returncode}: {last[:300]}; see {self.log}"
        )


async def together(*work: Coroutine[Any, Any, None]) -> None:
    """Do all of it at once; if one part fails, end the others and raise its error as it is."""
    try:
        async with asyncio.TaskGroup() as tasks:
            for part in work:
                tasks.create_task(part)
    except ExceptionGroup as group:
        # Not `except*`: before Python 3.11.4 what that raises comes out in a group again.
        ours = group.subgroup(errors.SickbayError)
        if ours is None:
            raise
        raise ours.exceptions[0] from None


def free_ports(count: int) -> list[int]:
    """Choose ports on loopback that nobody listens on right now, all different."""
    ports: list[int] = []
    held: list[socket.socket] = []
    for port in random.sample(_PORTS, len(_PORTS)):
        candidate = socket.socket()
        held.append(candidate)
        try:
            candidate.bind(("127.0.0.1", port))
        except OSError:
            continue
        ports.append(port)
        if len(ports) == count:
            break
    for opened in held:
        opened.close()
    if len(ports) < count:
        raise errors.UnavailableError(f"fewer than {count} of the ports {_PORTS.start}-{_PORTS.stop - 1} are free")
    return ports


async def retry_ports(start: Callable[[], Awaitable[None]], *, attempts: int = 5) -> None:
    """Start something on ports that it chooses, again if one of them was taken meanwhile.

    Raises:
        UnavailableError: it failed for another reason, or its ports were taken every time.
    """
    for _ in range(attempts - 1):
        with contextlib.suppress(PortTaken):
            return await start()
    return await start()
