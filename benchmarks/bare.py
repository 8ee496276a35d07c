"""The baseline: the least program that fences a device, as a process of its own.

It watches pods and posts a DeviceTaintRule when a status says Unhealthy. It keeps no record, asks no guard, elects no
leader, remembers nothing, and forgets the device if it or the API server goes away.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Final

import click
import msgspec

from k8s.gateway import Gateway
from k8s.resources import DEVICETAINTRULES, PODS
from k8s.wire import Page, Pod

WATCHING: Final = "watching"
"""Printed once the watch is open."""

TAINT: Final = "bench.example/unhealthy"
_IDLE: Final = 3600.0


class Event(msgspec.Struct):
    """An event of the watch."""

    type: str
    object: Pod


_EVENT: Final = msgspec.json.Decoder(Event)
_PAGE: Final = msgspec.json.Decoder(Page)


async def watch(gateway: Gateway, driver: str) -> None:
    """Fence each device of a driver the first time that a pod's status calls it Unhealthy, until the watch ends."""
    listed = _PAGE.decode(await gateway.request("GET", PODS.path(), params={"limit": "1"}))
    fenced: set[str] = set()
    query = {"watch": "true", "resourceVersion": listed.metadata.resource_version or ""}
    print(WATCHING, flush=True)
    async with aclosing(gateway.stream(PODS.path(), query, idle=_IDLE)) as lines:
        async for line in lines:
            for device in unhealthy(_EVENT.decode(line).object, driver):
                if device not in fenced:
                    fenced.add(device)
                    await gateway.request("POST", DEVICETAINTRULES.path(), body=rule(device, len(fenced)))


def unhealthy(pod: Pod, driver: str) -> list[str]:
    """Name the devices of a driver that a pod's status calls Unhealthy, as ``driver/pool/device``."""
    return [
        device.resource_id
        for container in pod.status.container_statuses
        for claim in container.allocated_resources_status
        for device in claim.resources
        if device.health == "Unhealthy" and device.resource_id.startswith(f"{driver}/")
    ]


def rule(device: str, number: int) -> dict[str, object]:
    """Build the rule that fences a device."""
    driver, pool, name = device.split("/")
    return {
        "apiVersion": DEVICETAINTRULES.api_version,
        "kind": "DeviceTaintRule",
        "metadata": {"name": f"bare-{number}"},
        "spec": {
            "deviceSelector": {"driver": driver, "pool": pool, "device": name},
            "taint": {"key": TAINT, "effect": "NoSchedule"},
        },
    }


@click.command()
@click.option("--kubeconfig", required=True)
@click.option("--driver", required=True)
def main(kubeconfig: str, driver: str) -> None:
    """Run the bare loop."""

    async def run() -> None:
        async with await Gateway.connect(kubeconfig=kubeconfig) as gateway:
            await watch(gateway, driver)

    asyncio.run(run())


if __name__ == "__main__":
    main()
