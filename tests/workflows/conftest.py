"""Real Temporal servers: one that skips time, and one as people have it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.testing import WorkflowEnvironment

from k8s.lab.build import say_on_stderr
from k8s.lab.tools import find_temporal, find_test_server


@pytest.fixture
async def time_skipping() -> AsyncIterator[WorkflowEnvironment]:
    """Give a time-skipping server of the test's own: its clock is one for all that runs on it. It starts in 0.3 s."""
    server = find_test_server(say_on_stderr)
    async with await WorkflowEnvironment.start_time_skipping(
        test_server_existing_path=str(server), data_converter=pydantic_data_converter
    ) as environment:
        yield environment


@pytest.fixture(scope="package")
async def dev_server() -> AsyncIterator[WorkflowEnvironment]:
    """Give a dev server, as people have it: with a real clock, and with Reset."""
    async with await WorkflowEnvironment.start_local(
        dev_server_existing_path=str(await asyncio.to_thread(find_temporal, say_on_stderr)),
        data_converter=pydantic_data_converter,
    ) as environment:
        yield environment
