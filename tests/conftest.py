"""Fixtures that need something running: one lab for the whole session, and what a test takes from it.

A test that kills or restarts a part of the lab starts one of its own by ``Lab.start``.
"""

from __future__ import annotations

import secrets
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from itertools import zip_longest
from pathlib import Path
from typing import Final

import pytest

from k8s.lab.lab import Lab, default_account
from k8s.lab.nodes.fleet import NodeShape
from k8s.lab.temporal import TemporalOptions
from tests.installation import sickbay

__all__ = ["sickbay"]  # a fixture that is written elsewhere

AddNodes = Callable[[int, NodeShape], Awaitable[list[str]]]

SLOW_TIERS: Final = ("crash", "stories")
"""Folders of files that take minutes: the first of them works, the second waits."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the slow tiers, a file of each in turn.

    Workers that run side by side take file after file: so none is left alone with a long one at the end, and those that
    need the processor run beside those that wait.
    """
    here = Path(__file__).parent
    files: dict[Path, list[pytest.Item]] = defaultdict(list)
    for item in items:
        files[item.path].append(item)
    tiers = [[file for file in files if file.parent == here / tier] for tier in SLOW_TIERS]
    first = [file for turn in zip_longest(*tiers) for file in turn if file is not None]
    order = [*first, *(file for file in files if file not in first)]
    items[:] = [item for file in order for item in files[file]]


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
