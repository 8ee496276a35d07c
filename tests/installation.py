"""Sickbay installed in the lab: its own account, other people, and the leader's term."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest

from k8s.gateway import MERGE_PATCH, Gateway, decode
from k8s.impersonation import SERVICE_ACCOUNT, impersonating
from k8s.install import LEADER_LEASE, install
from k8s.lab.lab import Lab
from k8s.resources import DEVICEQUARANTINES, LEASES, Resource, served
from sickbay import errors
from sickbay.model.device import DeviceKey
from sickbay.model.record import RecordDevice, RecordSpec
from tests.builders import NOW

CLUSTER = "lab"
NAMESPACE_ID = "temporal-1"
OPERATORS = "sickbay:operators"
BREAK_GLASS = "sickbay:break-glass"
_LEASE = LEASES.path("sickbay", LEADER_LEASE)


class Installation:
    """Sickbay in the lab's cluster.

    Attributes:
        admin: requests as administrator, whom the admission policies bind all the same.
        gateway: requests as Sickbay's own account.
        rules: the served version of device taint rules.
    """

    def __init__(self, admin: Gateway, gateway: Gateway, rules: Resource) -> None:
        self.admin = admin
        self.gateway = gateway
        self.rules = rules

    def as_user(self, user: str, group: str | None = None) -> Gateway:
        """Make requests as somebody else; close it."""
        return impersonating(self.admin, user, group)

    async def term(self) -> int:
        """Read the term in force."""
        lease = decode(await self.admin.request("GET", _LEASE))
        return int(lease["spec"].get("leaseTransitions", 0))

    async def lead(self, term: int | None = None) -> int:
        """Begin a term, the next one if none is named, and wait until the API server knows."""
        term = await self.term() + 1 if term is None else term
        await self.admin.request("PATCH", _LEASE, body={"spec": {"leaseTransitions": term}}, content_type=MERGE_PATCH)
        spec = record_spec(a_device(), term=term).model_dump(mode="json", by_alias=True, exclude_none=True)
        body = {
            "apiVersion": DEVICEQUARANTINES.api_version,
            "kind": "DeviceQuarantine",
            "metadata": {"name": "none"},
            "spec": spec,
        }
        async with asyncio.timeout(10):
            while not await self._takes(body):
                pass
        return term

    async def settled(self, name: str) -> None:
        """Wait for the one status that Kubernetes writes on a new rule, which moves its resourceVersion."""
        async with asyncio.timeout(30):
            while True:
                rule = decode(await self.admin.request("GET", self.rules.path(name=name)))
                if "conditions" in rule.get("status", {}):
                    return

    async def _takes(self, body: dict[str, Any]) -> bool:
        try:
            await self.gateway.request("POST", DEVICEQUARANTINES.path(), body=body, params={"dryRun": "All"})
        except errors.Forbidden:
            return False
        return True


@pytest.fixture(scope="session")
async def sickbay(lab: Lab) -> AsyncIterator[Installation]:
    """Install Sickbay once."""
    await install(lab.gateway, cluster=CLUSTER, namespace_id=NAMESPACE_ID)
    rules = await served(lab.gateway)
    assert rules is not None
    async with impersonating(lab.gateway, SERVICE_ACCOUNT) as gateway:
        yield Installation(lab.gateway, gateway, rules)


def a_device(**changes: str) -> DeviceKey:
    """Name a device that no other test knows; it needs no node."""
    base = {"cluster": CLUSTER, "driver": "gpu.sickbay.dev", "pool": "node-1", "device": f"gpu-{uuid.uuid4().hex[:8]}"}
    return DeviceKey(**base | changes)


def record_spec(key: DeviceKey, **changes: Any) -> RecordSpec:
    """Build what a leader writes of an Unhealthy device, in term 1."""
    base: dict[str, Any] = {
        "cluster": key.cluster,
        "device": RecordDevice(driver=key.driver, pool=key.pool, device=key.device),
        "node": "node-1",
        "first_bad_at": NOW,
        "incident": key.incident_id("100"),
        "status_version": "100",
        "term": 1,
    }
    return RecordSpec(**base | changes)
