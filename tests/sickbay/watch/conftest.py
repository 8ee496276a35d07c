"""A lab of its own for the watcher: it acts on every record and fence of its cluster, also those of other tests."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from k8s.impersonation import SERVICE_ACCOUNT, impersonating
from k8s.install import install
from k8s.lab.lab import Lab
from k8s.lab.temporal import TemporalOptions
from k8s.resources import served
from sickbay.model.contracts import Queue
from sickbay.temporal import Temporal
from sickbay.watch import housekeeping
from tests.installation import CLUSTER, Installation
from tests.sickbay.watch.house import House, StandIn, clean


@pytest.fixture(scope="package")
async def lab(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Lab]:
    """A lab for these tests alone, with a Temporal server that survives restarts."""
    database = tmp_path_factory.mktemp("temporal") / "temporal.db"
    async with Lab.start(temporal=TemporalOptions(database=database)) as running:
        yield running


@pytest.fixture(scope="package")
async def sickbay(lab: Lab) -> AsyncIterator[Installation]:
    """Install Sickbay with the Temporal namespace that is there."""
    namespace_id = await Temporal(lab.temporal.address).namespace_id()
    await install(lab.gateway, cluster=CLUSTER, namespace_id=namespace_id)
    rules = await served(lab.gateway)
    assert rules is not None
    async with impersonating(lab.gateway, SERVICE_ACCOUNT) as gateway:
        yield Installation(lab.gateway, gateway, rules)


@pytest.fixture
async def house(lab: Lab, sickbay: Installation) -> AsyncIterator[House]:
    """A clean house, with a worker for the stand-in workflow; whatever was written is gone afterwards."""
    temporal = Temporal(lab.temporal.address)
    client = await temporal.client()
    worker = Worker(
        client,
        task_queue=Queue.INCIDENT.of(CLUSTER),
        workflows=[StandIn],
        workflow_runner=UnsandboxedWorkflowRunner(),
    )
    async with worker:
        found = House(lab, sickbay.gateway, temporal)
        yield found
        await clean(found)


@pytest.fixture(autouse=True)
def busy_housekeeping(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a leader make its rounds every second."""
    monkeypatch.setattr(housekeeping, "ROUND", housekeeping.ROUND / 10)
