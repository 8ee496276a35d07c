"""Fixtures that need something running: one lab for the whole session, and what a test takes from it.

A test that kills or restarts a part of the lab starts one of its own by ``Lab.start``.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Final

import pytest

from k8s.lab.lab import Lab, default_account
from k8s.lab.nodes.fleet import NodeShape
from k8s.lab.temporal import TemporalOptions
from tests.installation import sickbay

__all__ = ["sickbay"]  # a fixture that is written elsewhere

AddNodes = Callable[[int, NodeShape], Awaitable[list[str]]]

HERE: Final = Path(__file__).parent

ALONE: Final = HERE / "crash"
"""The tier that measures patience: it kills what others wait for, so that never two of its tests run at once."""

LONG: Final = (ALONE, HERE / "stories")
"""Folders of files that take minutes."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Have workers that run side by side take whole files, the long ones first, and one of them the crash tier.

    So none is left alone with a long file at the end, and what a file sets up is set up once.
    """
    for item in items:
        group = ALONE if ALONE in item.path.parents else item.path
        item.add_marker(pytest.mark.xdist_group(str(group.relative_to(HERE))))
    items.sort(key=lambda item: next((n for n, tier in enumerate(LONG) if tier in item.path.parents), len(LONG)))


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
