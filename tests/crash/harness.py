"""A lab in which Sickbay is killed: its processes, jobs on devices that break, and what the witness is given."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from k8s.gateway import decode
from k8s.install import install
from k8s.lab.lab import Lab, default_account
from k8s.lab.nodes.fleet import NodeShape
from k8s.lab.proxy import FaultProxy
from k8s.lab.temporal import TemporalOptions
from k8s.lab.temporal_postgres import PostgresOptions
from k8s.records import Records
from sickbay import errors
from sickbay.model.policy import Policy
from sickbay.model.record import Phase, Record
from sickbay.temporal import Temporal
from tests.crash.checker import Findings, Promises, check
from tests.crash.jobs import CLUSTER, NAMESPACE, Seat, run_job
from tests.crash.process import Sickbay
from tests.crash.waiting import until
from tests.crash.watching import watching

POLICY: Final[Mapping[str, Any]] = {
    "mode": "enforce",
    "confirm": "1s",
    "stable": "2s",
    "settle": "1s",
    "guard": {"share": 1, "floor": 1, "ceiling": 1000, "perMinute": 10000},
    "migration": {"atOnce": 100, "replacement": "30s"},
    "probe": {
        "first": "1s",
        "factor": 1,
        "longest": "2s",
        "timeout": "60s",
        "attempts": 100,
        "atOnce": 1000,
        "stuck": 1000,
    },
    "soak": {"time": "1s", "check": "1s"},
    "ramp": {"time": "1s", "check": "1s"},
}
"""Incidents end in seconds, and nobody is held back."""

LEASE_INTERVAL: Final = timedelta(seconds=2)
"""Of the nodes. Kubelet's ten seconds would make most of an incident a wait for the next Lease."""

STARTS: Final = 40
"""Of one ward."""

NO_SYNC: Final = "--sqlite-pragma=synchronous=0"
"""What a killed process wrote is not lost; only a machine that loses power needs the disk to be waited for."""


class Ward:
    """The lab, and the books of what was broken and killed; make one by `Ward.open`.

    Attributes:
        database: Temporal's.
        pods: every state of every pod that the watch showed since `begin`, for the witness.
        kills: processes that were killed, or put to sleep, since then.
    """

    def __init__(self, lab: Lab, database: Path, stack: AsyncExitStack) -> None:
        self.lab = lab
        self.database = database
        self.temporal = Temporal(lab.temporal.address)
        self.pods: list[dict[str, Any]] = []
        self.kills = 0
        self._stack = stack
        self._records = Records(lab.gateway)
        self._broken: Counter[str] = Counter()
        self._sick: dict[str, Seat] = {}
        self._running: list[Sickbay] = []
        self._log_from = 0
        self._healing: list[asyncio.Task[None]] = []
        self._started = 0

    @classmethod
    @asynccontextmanager
    async def open(cls, directory: Path, temporal: PostgresOptions | None = None) -> AsyncIterator[Ward]:
        """Start a lab with Temporal on disk, and Sickbay installed.

        Args:
            directory: for the dev server's database.
            temporal: in place of the dev server.
        """
        async with AsyncExitStack() as stack:
            database = directory / "temporal.db"
            dev = TemporalOptions(database=database, flags=(NO_SYNC,))
            lab = await stack.enter_async_context(Lab.start(temporal=temporal or dev))
            ward = cls(lab, database, stack)
            await install(lab.gateway, cluster=CLUSTER, namespace_id=await ward.temporal.namespace_id())
            await lab.gateway.request("POST", "/api/v1/namespaces", body={"metadata": {"name": NAMESPACE}})
            await default_account(lab.gateway, NAMESPACE)
            stack.push_async_callback(ward.end_sickbays)
            await stack.enter_async_context(watching(lab.gateway, "/api/v1/pods", ward._take_pod))
            yield ward

    def begin(self) -> None:
        """Begin another test: what was before is not the witness's matter any more."""
        self._log_from = self.lab.audit_log.stat().st_size
        self.pods.clear()
        self._broken.clear()
        self.kills = 0

    # Sickbay, and what is done to it.

    async def sickbay(self, **policy: Any) -> Sickbay:
        """Start ``sickbay run`` by `POLICY` with these changes; it is not yet ready, and ends with its test.

        One that finds the API server too slow ends, and is started again, as a Deployment would.
        """
        while True:
            running = await self._start(policy)
            self._running.append(running)
            if await running.started():
                return running
            assert self._started < STARTS, "sickbay run does not stay"

    async def _start(self, policy: Mapping[str, Any]) -> Sickbay:
        self._started += 1
        return await Sickbay.start(
            self.lab,
            await self._stack.enter_async_context(FaultProxy.start(self.lab.control_plane)),
            account=await until("an account", lambda: self.lab.kubeconfig_for("sickbay", "sickbay"), within=120),
            policy=Policy.model_validate({**POLICY, **policy}),
            name=f"sickbay-{self._started}",
        )

    async def kill(self, sickbay: Sickbay) -> None:
        """Kill one ``sickbay run``."""
        self.kills += 1
        await sickbay.kill()

    def put_to_sleep(self, sickbay: Sickbay) -> None:
        """Stop one ``sickbay run``; others take over what it was doing, as if it had been killed."""
        self.kills += 1
        sickbay.sleep()

    async def end_sickbays(self) -> None:
        """End every ``sickbay run``: the test is over."""
        while self._running:
            await self._running.pop().stop()

    async def kill_temporal(self) -> None:
        """Kill the Temporal server."""
        self.kills += 1
        await self.lab.temporal.kill()

    async def install(self, *arguments: str) -> str:
        """Run ``sickbay install`` as an administrator and give what it wrote."""
        command = [sys.executable, "-m", "sickbay", "install", f"--kubeconfig={self.lab.kubeconfig}"]
        process = await asyncio.create_subprocess_exec(
            *(*command, f"--temporal-address={self.lab.temporal.address}", *arguments),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await asyncio.wait_for(process.communicate(), 60)
        assert process.returncode == 0, err.decode()
        return out.decode()

    # Jobs and devices.

    async def jobs(self, name: str, pods: int, *, devices: int) -> list[Seat]:
        """Run a job on devices of its own, several nodes full of them, and tell which pod holds which."""
        driver = f"{name}.example.com"
        nodes = -(-devices // 8)
        await self.lab.fleet.add(nodes, NodeShape(devices=8, driver=driver, prefix=name, lease_interval=LEASE_INTERVAL))
        return await run_job(self.lab.gateway, name, pods, driver)

    async def break_devices(self, seats: Iterable[Seat], *, for_good: bool = False) -> None:
        """Make devices ill, all at once.

        Args:
            seats: whose.
            for_good: until they are healed; else each is well as soon as the pod that suffered from it is gone.
        """
        seats = list(seats)
        self._broken.update(seat.device for seat in seats)
        self._sick.update({seat.uid: seat for seat in seats if not for_good})
        tell = self.lab.fleet.break_device
        await asyncio.gather(*(tell(s.key.pool, s.key.device, message="Xid 79", probe_fails=for_good) for s in seats))

    async def heal(self, seats: Iterable[Seat]) -> None:
        """Make devices well again."""
        await asyncio.gather(*(self.lab.fleet.heal(s.key.pool, s.key.device) for s in seats))

    # What became of it.

    async def records(self) -> dict[str, Record]:
        """Read all records, by name."""
        listing = await until("records are listed", self._records.list, within=120)
        return {record.name: record for record in listing.records}

    async def record(self, name: str) -> Record | None:
        """Read one record, None if there is none."""
        try:
            return await self._records.get(name)
        except errors.NotFound:
            return None

    async def _some(self, names: Iterable[str]) -> dict[str, Record]:
        return {name: record for name in names if (record := await self.record(name)) is not None}

    async def fences(self) -> dict[str, str]:
        """Tell uid by name of all fences that stand."""
        path = "/apis/resource.k8s.io/v1/devicetaintrules"
        answer = await until("fences are listed", lambda: self.lab.gateway.request("GET", path), within=120)
        return {rule["metadata"]["name"]: rule["metadata"]["uid"] for rule in decode(answer)["items"]}

    async def released(self, seats: Iterable[Seat], *, by: Sickbay, within: float = 240) -> None:
        """Wait until every incident of these devices has ended as Released, and has let go of its record."""
        waited_for = [seat.key.record_name for seat in seats]

        async def all_of_them() -> bool:
            """Look at one after another: to read all records at each look would take a core from who writes them."""
            by.check()
            while waited_for and not _unreleased(waited_for[-1:], await self._some([waited_for[-1]])):
                waited_for.pop()
            return not waited_for

        try:
            await until("all incidents are Released", all_of_them, within=within)
        except AssertionError as error:
            left = _unreleased(waited_for, await self._some(waited_for))
            stories = [f"{i} ({await self.temporal.headline(i)})" if i.startswith("incident/") else i for i in left]
            raise AssertionError(f"{error}; left are {stories}") from None

    def verdict(self, *, fenced_at_most: int = 1000) -> Findings:
        """Have the witness check everything that happened since `begin`."""
        promises = Promises(kills=self.kills, fenced_at_most=fenced_at_most, incidents=self._broken)
        with self.lab.audit_log.open(encoding="utf-8") as log:
            log.seek(self._log_from)
            return check((line for line in log if line.endswith("\n")), self.pods, promises)

    def _take_pod(self, event: str, pod: dict[str, Any]) -> None:
        """Keep every state of every pod; repair a device when the pod that suffered from it is gone."""
        self.pods.append(pod)
        if event == "DELETED" and (seat := self._sick.pop(pod["metadata"]["uid"], None)):
            self._healing.append(asyncio.create_task(self.heal([seat])))


def _unreleased(names: Iterable[str], records: Mapping[str, Record]) -> list[str]:
    """Name the incidents that have not ended as they should, or the records that are not there."""
    left = []
    for name in sorted(names):
        record = records.get(name)
        if record is None:
            left.append(f"no record {name}")
        elif not record.closed or record.status.phase is not Phase.RELEASED or record.finalizers:
            left.append(record.spec.incident)
    return left
