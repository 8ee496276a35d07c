"""The business check of an incident on a real control plane, by a real Prometheus."""

from __future__ import annotations

from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, Gauge
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from activities.business import BusinessActivities
from activities.prometheus import Prometheus
from k8s.records import Records
from sickbay.model.business import Business
from sickbay.model.contracts import SUPERSEDED, BusinessVerdict, CheckBusiness
from sickbay.model.incident import Verdict
from tests.activities.incidents import Incident, open_incident
from tests.crash.waiting import until
from tests.installation import Installation, a_device
from tests.prometheus import needs_prometheus, scraped

pytestmark = pytest.mark.lab

QUERY = 'images_per_second{device="$device", pool="$pool", driver="$driver", node="$node", uuid="$hardware"}'


async def checked(incident: Incident, address: str, **bounds: float) -> BusinessVerdict:
    """Ask about the incident's device."""
    step = CheckBusiness(
        target=incident.target,
        node="node-1",
        hardware_id="GPU-1",
        settings=Business.model_validate({"prometheus": address, "query": QUERY, **bounds}),
    )
    verbs = BusinessActivities(Records(incident.gateway), Prometheus())
    return await ActivityEnvironment().run(verbs.check_business, step)


@pytest.fixture
async def incident(sickbay: Installation) -> Incident:
    """Open an incident of a device that needs no node."""
    return await open_incident(sickbay, a_device(), "node-1")


@needs_prometheus
async def test_the_number_of_this_device_decides(incident: Incident, tmp_path: Path) -> None:
    """By everything that it is known by; its neighbour's number is another."""
    registry, device = CollectorRegistry(), incident.device
    gauge = Gauge("images_per_second", "Work.", ["device", "pool", "driver", "node", "uuid"], registry=registry)
    gauge.labels(device.device, device.pool, device.driver, "node-1", "GPU-1").set(950)
    gauge.labels("gpu-other", device.pool, device.driver, "node-1", "GPU-2").set(10)
    async with scraped(registry, tmp_path) as prometheus:

        async def good() -> bool:
            return (await checked(incident, prometheus.address, min=900)).verdict is Verdict.PASS

        await until("the first scrape", good, within=30)
        bad = await checked(incident, prometheus.address, min=900, max=949.5)
        assert (bad.verdict, bad.cause, bad.value) == (Verdict.FAIL, "OutOfBounds", 950)
        assert bad.message == "950, good is at least 900 and at most 949.5"
        gauge.remove(device.device, device.pool, device.driver, "node-1", "GPU-1")

        async def nothing() -> bool:
            return (await checked(incident, prometheus.address, min=0)).cause == "NoData"

        await until("it is no longer scraped", nothing, within=30)


async def test_an_incident_that_lost_its_record_asks_nothing(incident: Incident) -> None:
    """Another run decides now."""
    await incident.end()
    with pytest.raises(ApplicationError) as raised:
        await checked(incident, "http://127.0.0.1:1", min=0)
    assert (raised.value.type, raised.value.non_retryable) == (SUPERSEDED, True)
