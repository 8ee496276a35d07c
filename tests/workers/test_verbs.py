"""A worker serves every activity that the contracts name."""

from __future__ import annotations

from kubernetes.aio.client import ApiClient
from temporalio import activity

from activities.prometheus import Prometheus
from k8s.gateway import Gateway
from sickbay.model.contracts import Activity
from workers.verbs import verbs


async def test_a_worker_serves_every_activity() -> None:
    """An activity without a worker would wait for its time-out, each time."""
    async with Gateway(ApiClient()) as gateway:
        names = [activity._Definition.must_from_callable(verb).name for verb in verbs(gateway, Prometheus())]
    assert sorted(map(str, names)) == sorted(Activity)
