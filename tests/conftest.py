"""Fixtures that need something running: one lab for the whole session, and what a test takes from it.

A test that kills or restarts a part of the lab starts one of its own by ``Lab.start``.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final

import pytest
from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped] # it tells no types

from k8s.lab.lab import Lab, default_account
from k8s.lab.nodes.fleet import NodeShape
from k8s.lab.temporal import TemporalOptions
from tests.installation import sickbay

__all__ = ["sickbay"]  # a fixture that is written elsewhere

AddNodes = Callable[[int, NodeShape], Awaitable[list[str]]]

LONG: Final = "tests/stories/"
"""Folder of files that take minutes, and wait most of the time."""

ALONE: Final = ("tests/crash/", "tests/browser/")
"""Folders whose tests want a quiet machine: they kill what others wait for, or draw pages without a graphics card."""


class ByFile(LoadFileScheduling):  # type: ignore[misc] # nor does its base
    """Give each worker whole files, so that what a file sets up is set up once; and one of them all that runs alone."""

    def _split_scope(self, nodeid: str) -> str:
        return "alone" if nodeid.startswith(ALONE) else str(super()._split_scope(nodeid))


@pytest.hookimpl(optionalhook=True)  # without workers nobody asks
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByFile:
    """Spread the tests over workers."""
    return ByFile(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the long files, so that no worker is left over with one, and end with those that run alone."""
    items.sort(key=lambda item: (item.nodeid.startswith(ALONE), not item.nodeid.startswith(LONG)))


@pytest.fixture(scope="session")
async def lab() -> AsyncIterator[Lab]:
    """The session's lab: a real control plane and a Temporal server that keeps everything in memory."""
    async with Lab.start(temporal=TemporalOptions()) as running:
        yield running


@pytest.fixture
async def namespace(lab: Lab) -> AsyncIterator[str]:
    """A fresh namespace that admits pods, deleted after the test."""
    name = f"test-{secrets.token_hex(4)}"
    await lab.gateway.request("POST", "/api/v1/namespaces", body={"metadata": {"name": name}})
    await default_account(lab.gateway, name)
    yield name
    await lab.gateway.request("DELETE", f"/api/v1/namespaces/{name}")


@pytest.fixture
async def add_nodes(lab: Lab) -> AsyncIterator[AddNodes]:
    """Add nodes that are removed after the test. A driver of its own keeps other tests' pods off its devices."""
    added: list[str] = []

    async def add(count: int, shape: NodeShape) -> list[str]:
        names = await lab.fleet.add(count, shape)
        added.extend(names)
        return names

    yield add
    for name in added:
        await lab.fleet.remove(name)
