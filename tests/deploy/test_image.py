"""The image: the Dockerfile's own steps, carried out by buildah on a stand-in for the base image.

No registry is asked: the base is made of Debian's packages, so the steps are proved and the real base is not. It needs
root, buildah and mmdebstrap, and a package index: `make soak` runs it.
"""

from __future__ import annotations

import asyncio
import base64
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import pytest
import yaml

from k8s.install import install
from k8s.lab.build import ensure_binary
from k8s.lab.lab import Lab
from k8s.lab.process import Process, free_ports
from k8s.lab.temporal import TemporalOptions
from sickbay.temporal import Temporal
from tests.deploy import compose
from tests.test_house import ROOT, project

pytestmark = pytest.mark.soak

BASE = """
FROM scratch
ADD rootfs.tar /
RUN ln -s python3 /usr/bin/python && rm -f /usr/lib/python3*/EXTERNALLY-MANAGED
"""
"""What the steps need of python:…-slim: `python` with venv and pip, and useradd."""

DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
PACKAGES = "python3,python3-pip,python3-venv,ca-certificates,passwd"
MACHINES_OWN = (Path("/etc/ssl/certs/ca-certificates.crt"), Path("/etc/pip.conf"))


class Buildah:
    """Buildah with a store of its own."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._store = ("--root", str(directory / "store"), "--runroot", str(directory / "run"))

    def command(self, *arguments: str) -> list[str]:
        """Spell one of its commands."""
        return ["/usr/bin/env", "BUILDAH_ISOLATION=chroot", "buildah", *self._store, *arguments]

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run one of them; what it writes comes in one piece."""
        return subprocess.run(
            self.command(*arguments),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )

    def must(self, *arguments: str) -> str:
        """Run one that must not fail."""
        done = self.run(*arguments)
        assert done.returncode == 0, done.stdout[-3000:]
        return done.stdout.strip()


@pytest.fixture(scope="module")
def buildah(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Buildah]:
    """Make the stand-in base and build the image on it, once."""
    missing = [tool for tool in ("buildah", "mmdebstrap") if shutil.which(tool) is None]
    if missing:
        pytest.skip(f"no {' and no '.join(missing)} on the PATH; on Debian: apt-get install {' '.join(missing)}")
    if os.getuid() != 0:
        pytest.skip("buildah carries out RUN steps here as root only; run it as root")
    directory = tmp_path_factory.mktemp("image")
    rootfs = directory / "rootfs.tar"
    command = ["/usr/bin/env", "mmdebstrap", "--quiet", "--variant=minbase", f"--include={PACKAGES}", "bookworm"]
    subprocess.run([*command, rootfs], check=True)
    (directory / "Base").write_text(BASE, encoding="utf-8")
    tool = Buildah(directory)
    version = "3.11"
    (base,) = {line.split()[1] for line in DOCKERFILE.splitlines() if line.startswith("FROM ")}
    base = base.replace("${PYTHON}", version)
    tool.must("bud", "--pull-never", "--tag", base, "--file", str(directory / "Base"), str(directory))
    # The index that this machine uses, and that it may have an authority of its own, are no matter of the Dockerfile.
    given = [f"--volume={file}:{file}:ro" for file in MACHINES_OWN if file.exists()]
    arguments = ["--pull-never", f"--build-arg=PYTHON={version}", "--tag", "sickbay", *given]
    tool.must("bud", *arguments, str(ROOT))
    yield tool
    tool.run("rm", "--all")
    tool.run("rmi", "--all", "--force")


@pytest.fixture(scope="module")
def container(buildah: Buildah) -> str:
    """Name a container of the image."""
    return buildah.must("from", "--pull-never", "localhost/sickbay")


def test_the_command_runs_as_an_ordinary_user(buildah: Buildah, container: str) -> None:
    """By number, and it cannot write into what it runs from."""
    version = project()["project"]["version"]
    assert buildah.must("run", container, "--", "sickbay", "--version") == f"sickbay {version}"
    assert buildah.must("run", container, "--", "id", "-u") == "10001"
    refused = buildah.run("run", container, "--", "touch", "/opt/sickbay/anything")
    assert refused.returncode != 0
    assert "Permission denied" in refused.stdout


def test_what_it_starts_is_sickbay_run(buildah: Buildah) -> None:
    """The entry point takes a command, and has one."""
    wanted = "{{.OCIv1.Config.Entrypoint}} {{.OCIv1.Config.Cmd}}"
    shown = buildah.must("inspect", "--type", "image", "--format", wanted, "localhost/sickbay")
    assert shown == "[sickbay] [run]"


def test_nothing_of_the_tree_but_the_packages_is_in_it(buildah: Buildah, container: str) -> None:
    """No sources, no tests, no credentials; everything is compiled, for it will not be able to."""
    look = "ls / /opt; find / -xdev -name '*.kubeconfig' -o -name test_house.py 2>/dev/null || true"
    found = buildah.must("run", container, "--", "sh", "-c", look)
    assert not {"src", "test_house.py"} & set(found.replace("/", "\n").split())
    assert "kubeconfig" not in found
    look = "ls /opt/sickbay/lib/python3*/site-packages/sickbay/__pycache__"
    assert "settings." in buildah.must("run", container, "--", "sh", "-c", look)


def flattened(kubeconfig: Path, directory: Path) -> Path:
    """Write a kubeconfig with the authority's certificate inside, as docs/configuration.md does, for user 10001."""
    content = yaml.safe_load(kubeconfig.read_text(encoding="utf-8"))
    (cluster,) = content["clusters"]
    authority = Path(cluster["cluster"].pop("certificate-authority"))
    cluster["cluster"]["certificate-authority-data"] = base64.b64encode(authority.read_bytes()).decode()
    written = directory / "sickbay.kubeconfig"
    written.write_text(yaml.safe_dump(content), encoding="utf-8")
    written.chmod(0o600)
    os.chown(written, 10001, 10001)
    return written


@pytest.mark.lab
async def test_it_acts_by_a_mounted_kubeconfig(buildah: Buildah, container: str, tmp_path: Path) -> None:
    """With the compose file's variables and mounts it comes to lead in a real cluster."""
    async with Lab.start(temporal=TemporalOptions()) as lab:
        temporal = Temporal(lab.temporal.address)
        await install(lab.gateway, cluster="image", namespace_id=await temporal.namespace_id())
        shutil.copy(ROOT / "docs" / "examples" / "policy.yaml", tmp_path)
        mounted = {
            "/etc/sickbay/kubeconfig": flattened(await lab.kubeconfig_for("sickbay", "sickbay"), tmp_path),
            "/etc/sickbay/policy.yaml": tmp_path / "policy.yaml",
        }
        told = compose.services()["sickbay"]
        assert {mount["target"] for mount in told["volumes"]} == set(mounted)
        address = f"127.0.0.1:{free_ports(1)[0]}"
        here = {"SICKBAY_TEMPORAL_ADDRESS": lab.temporal.address, "SICKBAY_LISTEN": address}
        variables = {**told["environment"], **here, "SICKBAY_OTLP_ENDPOINT": ""}
        process = await Process.start(
            "image",
            [
                *(await asyncio.to_thread(ensure_binary), "lifeline", "--"),
                *buildah.command(
                    "run",
                    *(f"--volume={source}:{target}:ro" for target, source in mounted.items()),
                    *(f"--env={name}={value}" for name, value in variables.items()),
                    *(container, "--", "sickbay", *told["command"]),
                ),
            ],
            log=tmp_path / "image.log",
        )

        async def leads() -> bool:
            try:
                async with aiohttp.ClientSession() as session, session.get(f"http://{address}/readyz") as answer:
                    return answer.ok
            except aiohttp.ClientError:
                return False

        try:
            await process.until(leads, within=60)
        finally:
            await process.stop(grace=20)
