"""When a process is ready to be shown a fault, and when it is ready to stand by."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from k8s.gateway import Gateway
from k8s.install import LEADER_LEASE, install
from k8s.lab.lab import Lab
from k8s.lab.proxy import FaultProxy
from k8s.lab.sickbay_process import SickbayProcess
from k8s.lab.temporal import TemporalOptions
from sickbay.cli.demo import scene
from sickbay.telemetry.metrics import Metrics
from sickbay.temporal import Temporal
from sickbay.watch.watcher import Watcher
from tests.installation import CLUSTER
from tests.k8s.cluster import until

pytestmark = pytest.mark.lab


@pytest.fixture(scope="module")
async def own() -> AsyncIterator[Lab]:
    """Start a lab that has Sickbay, and nobody who leads."""
    async with Lab.start(temporal=TemporalOptions()) as lab:
        namespace_id = await Temporal(lab.temporal.address).namespace_id()
        await install(lab.gateway, cluster=CLUSTER, namespace_id=namespace_id)
        yield lab


async def test_who_acts_has_begun_its_term_and_another_is_ready_as_soon_as_it_knows_of_it(own: Lab) -> None:
    """A stand-by that has not yet seen a leader says that nobody leads; one that has is ready, and leads not."""
    leader = await SickbayProcess.start(own, policy=scene.POLICY)
    try:
        await leader.acts()
        assert '"term_began"' in leader.process.log.read_text(encoding="utf-8")
        account = await own.kubeconfig_for("sickbay", "sickbay")
        async with (
            FaultProxy.start(own.control_plane) as proxy,
            await Gateway.connect(kubeconfig=str(account)) as gateway,
            await Gateway.connect(kubeconfig=str(proxy.kubeconfig(account))) as election,
        ):
            looks = proxy.hold("GET", f"/{LEADER_LEASE}$", executed=False)
            watcher = Watcher(
                gateway,
                Temporal(own.temporal.address),
                scene.POLICY,
                CLUSTER,
                meter=Metrics(),
                election=election,
            )
            stop = asyncio.Event()
            standing_by = asyncio.create_task(watcher.run(stop))
            try:
                await looks.until(1)
                assert watcher.missing == "nobody leads yet"
                looks.release()

                async def ready() -> bool:
                    return not watcher.missing

                await until(ready)
                assert not watcher.leading
            finally:
                stop.set()
                await standing_by
    finally:
        await leader.process.stop()
