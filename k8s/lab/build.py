"""Build what the lab runs from Go modules, once, into the user's cache, with visible progress.

The first build of the control plane compiles all of Kubernetes: some minutes and about 3 GB of Go's own caches.
Whatever changes the result is in its name, so what is there is the right one.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from k8s.lab.locks import FileLock
from k8s.lab.tools import GO_VERSION, Go, Say, cache_directory, find_go
from sickbay import errors

KUBERNETES: Final = "1.37.2"
TEMPORAL: Final = "1.32.2"
_HERE: Final = Path(__file__).parent
_VERSION: Final = {
    "gitVersion": f"v{KUBERNETES}",
    "gitMajor": "1",
    "gitMinor": "37",
    "gitCommit": "sickbay-lab",
    "gitTreeState": "clean",
    "buildDate": "1970-01-01T00:00:00Z",
}
"""What ``/version`` tells. Without it the components call themselves v0.0.0-master. The date is fixed: the same sources
give the same binary."""


@dataclass(frozen=True)
class Source:
    """Something that is built.

    Attributes:
        name: of the result, without version and digest.
        version: of what it is made of.
        title: for people.
        folder: with its ``go.mod``.
        ldflags: for the linker.
        packages: to build; several give a directory with a program of each, one gives a file.
        count: packages that are compiled when Go's own cache is empty; fewer when it is not.
    """

    name: str
    version: str
    title: str
    folder: Path
    ldflags: str
    packages: tuple[str, ...]
    count: int

    @property
    def arguments(self) -> tuple[str, ...]:
        """What Go is told, but for the target and the packages."""
        return ("build", "-v", "-mod=readonly", "-trimpath", "-buildvcs=false", "-ldflags", self.ldflags)


CONTROL_PLANE: Final = Source(
    name="controlplane",
    version=KUBERNETES,
    title=f"the control plane (Kubernetes {KUBERNETES})",
    folder=_HERE / "controlplane",
    ldflags="-s -w " + " ".join(f"-X k8s.io/component-base/version.{k}={v}" for k, v in _VERSION.items()),
    packages=(".",),
    count=2556,
)

TEMPORAL_SERVER: Final = Source(
    name="temporal",
    version=TEMPORAL,
    title=f"the Temporal server {TEMPORAL}",
    folder=_HERE / "temporalserver",
    ldflags="-s -w",
    packages=("go.temporal.io/server/cmd/server", "go.temporal.io/server/cmd/tools/sql"),
    count=1451,
)
"""The server as it runs on a database, and the tool that makes its tables; programs ``server`` and ``sql``."""

TEMPORAL_UI: Final = Source(
    name="temporal-ui",
    version="2.54.1",
    title="the Temporal UI 2.54.1",
    folder=_HERE / "temporalui",
    ldflags="-s -w",
    packages=("github.com/temporalio/ui-server/v2/cmd/server",),
    count=443,
)

_REPORT_EVERY: Final = 15.0
"""Seconds between two progress lines where the output is no terminal."""


def say_on_stderr(line: str) -> None:
    """Tell a person what is going on."""
    print(f"lab: {line}", file=sys.stderr, flush=True)  # noqa: T201 - progress is for people, not for the log


def ensure_binary(say: Say = say_on_stderr) -> Path:
    """Return the control plane's binary, built now if it is not in the cache. Blocks: call it in a thread.

    Raises:
        UnavailableError: as `ensure_built`.
    """
    return ensure_built(CONTROL_PLANE, say)


def ensure_built(source: Source, say: Say = say_on_stderr) -> Path:
    """Return what a source is built to, built now if it is not in the cache. Blocks: call it in a thread.

    Two builders wait for each other; the result appears complete or not at all.

    Raises:
        UnavailableError: Go is not to be had, or the build failed; the text names the log.
    """
    target = cache_directory() / f"{source.name}-{source.version}-{_digest(source)}"
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(target.with_name("build.lock"), waiting=lambda: say("waiting for another process to build")):
        if not target.exists():
            _build(source, target, find_go(say), say)
    return target


def _digest(source: Source) -> str:
    others = tuple(package for package in source.packages if package != ".")
    digest = hashlib.sha256("\0".join((GO_VERSION, *source.arguments, *others)).encode())
    for path in sorted(p for p in source.folder.iterdir() if p.suffix in {".go", ".mod", ".sum"}):
        digest.update(f"\0{path.name}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:12]


def _build(source: Source, target: Path, go: Go, say: Say) -> None:
    partial = target.with_name(f"{target.name}.{os.getpid()}")
    log = target.with_name("build.log")
    say(f"building {source.title} once into {target}: some minutes")
    environment = {**os.environ, **go.environment, "CGO_ENABLED": "0", "GOFLAGS": "", "GOWORK": "off"}
    if len(source.packages) > 1:
        partial.mkdir()  # Go writes one program of each package into a directory that is there
    command = [str(go.command), *source.arguments, "-o", str(partial), *source.packages]
    started = time.monotonic()
    try:
        with subprocess.Popen(  # noqa: S603 - Go, with fixed arguments
            command, cwd=source.folder, env=environment, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        ) as process:
            progress = _Progress(process, log, source.count)
            while process.poll() is None:
                progress.show(time.monotonic() - started)
                progress.ended.wait(1)
            packages = progress.finish()
        if process.returncode != 0:
            raise errors.UnavailableError(
                f"building {source.title} failed: {progress.last}; the log is {log}; "
                "it needs the Go module proxy and about 5 GB of disk the first time"
            )
        partial.replace(target)
    finally:
        if partial.is_dir():
            shutil.rmtree(partial)
        partial.unlink(missing_ok=True)
    say(f"{source.title} built in {time.monotonic() - started:.0f} s, {packages} packages compiled")


class _Progress:
    """Counts what ``go build -v`` tells, in a thread, and shows it: in place on a terminal, else in lines."""

    def __init__(self, process: subprocess.Popen[str], log: Path, count: int) -> None:
        self.last = "no output"
        self.ended = threading.Event()
        self._process = process
        self._log = log
        self._count = count
        self._modules = 0
        self._packages = 0
        self._shown_at = -_REPORT_EVERY
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def show(self, elapsed: float) -> None:
        terminal = sys.stderr.isatty()
        if not terminal and elapsed < self._shown_at + _REPORT_EVERY:
            return
        self._shown_at = elapsed
        compiled = f"{self._packages} of {self._count} packages compiled"
        text = f"lab: {elapsed:4.0f} s  {self._modules} modules fetched, {compiled}"
        sys.stderr.write(f"\r{text}" if terminal else f"{text}\n")
        sys.stderr.flush()

    def finish(self) -> int:
        self._thread.join()
        if sys.stderr.isatty():
            sys.stderr.write("\n")
        return self._packages

    def _read(self) -> None:
        assert self._process.stderr is not None
        with self._log.open("w", encoding="utf-8") as log:
            for line in self._process.stderr:
                log.write(line)
                self.last = line.strip() or self.last
                if line.startswith("go: downloading"):
                    self._modules += 1
                elif not line.startswith(("go: ", "#")):
                    self._packages += 1
        self.ended.set()
