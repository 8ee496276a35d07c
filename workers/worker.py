"""The worker: carries incidents out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, Final

import structlog
from temporalio.client import Client
from temporalio.worker import Worker

from sickbay.model.contracts import Queue
from workers.metering import Metering
from workers.sandbox import workflow_runner
from workers.telling import Telling
from workflows.incident.workflow import DeviceIncident

log = structlog.get_logger(__name__)

CACHED: Final = 2000
"""Incidents kept in memory, about 200 KB each; beyond it they are replayed, which costs time in a burst."""

STICKY: Final = timedelta(seconds=6)
"""How long a task waits for the worker that has its incident cached; lost after kill -9. The default is 10 s; much less
makes a storm of a backlog, because late tasks are replayed and make others late (measured at 3 s)."""

THROTTLE: Final = timedelta(seconds=1)
"""Longest pause between heartbeats that are sent; it bounds how late an activity learns of its cancellation."""

EFFECTS: Final = 256
"""Short verbs at once. Most of them wait for a list that is shared and made once a second, so that fewer slots would
bound a burst; what is sent at once the gateway's connections bound."""

WAITS: Final = 100
"""Polls at once; each holds its slot only while it looks."""


def build(
    client: Client, cluster: str, activities: Sequence[Callable[..., Any]], metering: Metering, grace: timedelta
) -> list[Worker]:
    """Build one worker for each task queue.

    Args:
        client: connected, with the pydantic data converter; the one that starts incidents, for eager start.
        cluster: names the queues.
        activities: all of them; the workflow's steps choose the queue.
        metering: counts.
        grace: for running activities at a stop.
    """

    def of(queue: Queue, **settings: Any) -> Worker:
        return Worker(
            client,
            task_queue=queue.of(cluster),
            interceptors=[Telling(), metering],
            graceful_shutdown_timeout=grace,
            max_heartbeat_throttle_interval=THROTTLE,
            default_heartbeat_throttle_interval=THROTTLE,
            **settings,
        )

    incidents = of(
        Queue.INCIDENT,
        workflows=[DeviceIncident],
        workflow_runner=workflow_runner(),
        max_cached_workflows=CACHED,
        sticky_queue_schedule_to_start_timeout=STICKY,
    )
    effects = of(Queue.EFFECTS, activities=activities, max_concurrent_activities=EFFECTS)
    waits = of(Queue.WAITS, activities=activities, max_concurrent_activities=WAITS)
    return [incidents, effects, waits]


async def run(workers: Sequence[Worker], stop: asyncio.Event, on_ready: Callable[[], None]) -> None:
    """Poll until asked to stop; then let running activities end within their grace.

    Raises:
        RuntimeError: a worker cannot go on, for example because its namespace was removed.
    """
    running = [asyncio.create_task(worker.run()) for worker in workers]
    stopping = asyncio.create_task(stop.wait())
    log.info("worker_started", queues=[worker.task_queue for worker in workers])
    on_ready()
    try:
        await asyncio.wait([*running, stopping], return_when=asyncio.FIRST_COMPLETED)
        await asyncio.gather(*(worker.shutdown() for worker in workers))
        await asyncio.gather(*running)
    finally:
        stopping.cancel()
        for task in running:
            task.cancel()
