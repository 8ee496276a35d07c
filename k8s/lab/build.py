"""Build the control plane once into the user's cache, with visible progress.

The first build compiles all of Kubernetes: some minutes and about 3 GB of Go's own caches. Whatever changes the result
is in the name of the file, so a file that is there is the right one.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Final

from k8s.lab.locks import FileLock
from k8s.lab.tools import GO_VERSION, Go, Say, cache_directory, find_go
from sickbay import errors

KUBERNETES: Final = "1.37.2"
_SOURCES: Final = Path(__file__).with_name("controlplane")
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

_LDFLAGS: Final = "-s -w " + " ".join(f"-X k8s.io/component-base/version.{k}={v}" for k, v in _VERSION.items())
_ARGUMENTS: Final = ("build", "-v", "-mod=readonly", "-trimpath", "-buildvcs=false", "-ldflags", _LDFLAGS)
_PACKAGES: Final = 2556
"""What a build compiles when Go's own cache is empty; it compiles fewer when it is not."""

_REPORT_EVERY: Final = 15.0
"""Seconds between two progress lines where the output is no terminal."""


def say_on_stderr(line: str) -> None:
    """Tell a person what is going on."""
    print(f"lab: {line}", file=sys.stderr, flush=True)  # noqa: T201 - progress is for people, not for the log


def ensure_binary(say: Say = say_on_stderr) -> Path:
    """Return the control plane's binary, built now if it is not in the cache. Blocks: call it in a thread.

    Two builders wait for each other; the file appears complete or not at all.

    Raises:
        UnavailableError: Go is not to be had, or the build failed; the text names the log.
    """
    target = cache_directory() / f"controlplane-{KUBERNETES}-{_digest()}"
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(target.with_name("build.lock"), waiting=lambda: say("waiting for another process to build")):
        if not target.exists():
            _build(target, find_go(say), say)
    return target


def _digest() -> str:
    digest = hashlib.sha256("\0".join((GO_VERSION, *_ARGUMENTS)).encode())
    for path in sorted(p for p in _SOURCES.iterdir() if p.suffix in {".go", ".mod", ".sum"}):
        digest.update(f"\0{path.name}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:12]


def _build(target: Path, go: Go, say: Say) -> None:
    partial = target.with_name(f"{target.name}.{os.getpid()}")
    log = target.with_name("build.log")
    say(f"building the control plane (Kubernetes {KUBERNETES}) once into {target}: some minutes")
    environment = {**os.environ, **go.environment, "CGO_ENABLED": "0", "GOFLAGS": "", "GOWORK": "off"}
    command = [str(go.command), *_ARGUMENTS, "-o", str(partial), "."]
    started = time.monotonic()
    try:
        with subprocess.Popen(  # noqa: S603 - Go, with fixed arguments
            command, cwd=_SOURCES, env=environment, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        ) as process:
            progress = _Progress(process, log)
            while process.poll() is None:
                progress.show(time.monotonic() - started)
                progress.ended.wait(1)
            packages = progress.finish()
        if process.returncode != 0:
            raise errors.UnavailableError(
                f"building the control plane failed: {progress.last}; the log is {log}; "
                "it needs the Go module proxy and about 5 GB of disk the first time"
            )
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)
    say(f"control plane built in {time.monotonic() - started:.0f} s, {packages} packages compiled")


class _Progress:
    """Counts what ``go build -v`` tells, in a thread, and shows it: in place on a terminal, else in lines."""

    def __init__(self, process: subprocess.Popen[str], log: Path) -> None:
        self.last = "no output"
        self.ended = threading.Event()
        self._process = process
        self._log = log
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
        text = (
            f"lab: {elapsed:4.0f} s  {self._modules} modules fetched, {self._packages} of {_PACKAGES} packages compiled"
        )
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
