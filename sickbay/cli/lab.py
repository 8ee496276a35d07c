"""``sickbay lab``: a real control plane on this machine, with nodes whose devices break on command."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Final

import click
import yaml

from k8s.gateway import Gateway, decode
from k8s.lab.accounts import account_kubeconfig
from k8s.lab.build import ensure_binary, say_on_stderr
from k8s.lab.control import DEFAULT_NAME, Request, Summary, ask, launch
from k8s.lab.nodes.fleet import Health
from k8s.lab.tools import find_temporal
from sickbay import errors

POLICY: Final = "docs/examples/policy.yaml"
"""A policy for a lab, in the source tree; README.md sends people there."""

_name = click.option("--name", default=DEFAULT_NAME, show_default=True, help="Which lab; several can run side by side.")


@click.group()
def lab() -> None:
    """A real control plane on this machine, to try things on."""


@lab.command()
@_name
@click.option("--nodes", type=click.IntRange(0, 1000), default=3, show_default=True, help="How many nodes.")
@click.option("--devices", type=click.IntRange(0, 128), default=4, show_default=True, help="Devices of each node.")
@click.option(
    "--database", type=click.Path(dir_okay=False, path_type=Path), help="File that keeps Temporal's histories."
)
@click.option(
    "--temporal",
    type=click.Choice(["dev", "postgres"]),
    default="dev",
    show_default=True,
    help="Its development server, or its real one on this machine's PostgreSQL, built from source once.",
)
def up(*, name: str, nodes: int, devices: int, database: Path | None, temporal: str) -> None:
    """Start a lab in the background.

    The first time, Kubernetes is built from source into your cache: some minutes.
    """
    postgres = temporal == "postgres"
    if postgres and database:
        raise errors.UsageError("--database is a file of the development server; leave it out with --temporal postgres")
    ensure_binary()
    if not postgres:
        find_temporal(say_on_stderr)
    summary = launch(name, nodes=nodes, devices=devices, database=database, postgres=postgres)
    _show(summary)
    named = "" if name == DEFAULT_NAME else f" --name {name}"
    click.echo(
        f"\n{_export(summary)}\n"
        f"  sickbay install --cluster {name}\n"
        f"  sickbay lab account{named}   # writes the kubeconfig that 'sickbay run' needs"
    )


@lab.command()
@_name
def account(*, name: str) -> None:
    """Write a kubeconfig of Sickbay's own account, valid for a day, and print a command that runs Sickbay by it.

    The account is there after 'sickbay install'. The command is for any terminal in the directory of Sickbay's sources:
    nothing has to be exported for it.
    """
    summary = _ask(name, Request("status"))
    file = asyncio.run(_write_account(summary))
    click.echo(f"  sickbay run --kubeconfig {file} --temporal-address {summary.temporal} --policy {POLICY}")


@lab.command()
@_name
def status(*, name: str) -> None:
    """Show a lab's addresses, how its devices are, and what to export in another terminal."""
    summary = _ask(name, Request("status"))
    _show(summary)
    click.echo(f"\n{_export(summary)}")


@lab.command(name="break")
@_name
@click.argument("node")
@click.argument("device")
@click.option(
    "--health",
    type=click.Choice([str(health) for health in Health], case_sensitive=False),
    metavar=f"[{'|'.join(Health)}]",
    default=str(Health.UNHEALTHY),
    show_default=True,
    help="What pod statuses say of it.",
)
@click.option("--message", default="", help="What its driver says of it.")
@click.option("--under-load", is_flag=True, help="Have it fail a canary alone: idle, it is Healthy and passes a probe.")
def break_device(*, name: str, node: str, device: str, health: str, message: str, under_load: bool) -> None:
    """Make a device ill, such as: node-0 gpu-1.

    What it is like shows in the statuses of the pods that hold it.
    """
    if under_load and health != Health.UNHEALTHY:
        raise errors.UsageError(f"--under-load: what shows under load is {Health.UNHEALTHY}; leave --health out")
    summary = _ask(name, Request("break", node, device, Health(health), message, under_load))
    _show(summary)
    if under_load:
        return
    if any(found.name == node and not found.driver for found in summary.nodes):
        click.echo(f"the driver of {node} is gone: nothing tells of {device} until it is back", err=True)
    elif not asyncio.run(_held(summary, node, device)):
        click.echo(f"no pod holds {device} of {node}: nothing tells of its health until one does", err=True)


@lab.command()
@_name
@click.argument("node")
@click.argument("device")
def heal(*, name: str, node: str, device: str) -> None:
    """Make a device well again."""
    _show(_ask(name, Request("heal", node, device)))


@lab.command()
@_name
@click.argument("node")
@click.argument("device")
def swap(*, name: str, node: str, device: str) -> None:
    """Put another card, which is well, into a device's slot."""
    summary = _ask(name, Request("swap", node, device))
    card = next(d.uuid for n in summary.nodes if n.name == node for d in n.devices if d.name == device)
    click.echo(f"{device} of {node} is another card now: {card}")
    _show(summary)


@lab.command()
@_name
@click.argument("node")
def lose_driver(*, name: str, node: str) -> None:
    """End the driver of a node's devices, such as: node-0.

    As with a real kubelet, its slices go after 30 s, and statuses say Unknown after 79 s.
    """
    _show(_ask(name, Request("lose-driver", node)))


@lab.command()
@_name
@click.argument("node")
def regain_driver(*, name: str, node: str) -> None:
    """Start the driver of a node's devices again."""
    _show(_ask(name, Request("regain-driver", node)))


@lab.command()
@_name
def down(*, name: str) -> None:
    """End a lab and remove all that it left."""
    asyncio.run(ask(name, Request("down")))
    click.echo(f"lab {name} is gone")


def _ask(name: str, request: Request) -> Summary:
    summary = asyncio.run(ask(name, request))
    assert summary is not None
    return summary


async def _write_account(summary: Summary) -> Path:
    """Write the kubeconfig beside the administrator's, whose cluster it names."""
    cluster = _cluster(summary)
    async with await Gateway.connect(kubeconfig=summary.kubeconfig) as gateway:
        try:
            return await account_kubeconfig(
                gateway,
                Path(summary.directory),
                namespace="sickbay",
                account="sickbay",
                server=cluster["server"],
                authority=Path(cluster["certificate-authority"]),
            )
        except errors.NotFound as error:
            raise errors.UsageError(
                f"Sickbay is not installed in lab {summary.name}; run 'sickbay install --cluster {summary.name}' first"
            ) from error


def _cluster(summary: Summary) -> dict[str, str]:
    content = yaml.safe_load(Path(summary.kubeconfig).read_text(encoding="utf-8"))
    cluster: dict[str, str] = content["clusters"][0]["cluster"]
    return cluster


async def _held(summary: Summary, node: str, device: str) -> bool:
    """Say whether a pod has this device: nothing but a pod's status tells of its health."""
    async with await Gateway.connect(kubeconfig=summary.kubeconfig) as gateway:
        claims = decode(await gateway.request("GET", "/apis/resource.k8s.io/v1/resourceclaims"))["items"]
    return any(_holds(claim["status"], node, device) for claim in claims if "reservedFor" in claim.get("status", {}))


def _holds(status: dict[str, Any], node: str, device: str) -> bool:
    results = status["allocation"]["devices"]["results"]
    return any((result["pool"], result["device"]) == (node, device) for result in results)


def _export(summary: Summary) -> str:
    """Spell what kubectl, Sickbay's commands and the command ``temporal`` look for."""
    address = summary.temporal
    return f"  export KUBECONFIG={summary.kubeconfig} SICKBAY_TEMPORAL_ADDRESS={address} TEMPORAL_ADDRESS={address}"


def _show(summary: Summary) -> None:
    ill = [(node.name, device) for node in summary.nodes for device in node.devices if device.health != Health.HEALTHY]
    total = sum(len(node.devices) for node in summary.nodes)
    click.echo(f"lab {summary.name}: {len(summary.nodes)} nodes, {total} devices, {len(ill)} not healthy")
    for node, device in ill:
        click.echo(f"  {node} {device.name}  {device.health}  {device.message}".rstrip())
    for found in summary.nodes:
        for device in found.devices:
            if device.fails_under_load and device.health == Health.HEALTHY:
                click.echo(f"  {found.name} {device.name}  fails under load")
        if not found.driver:
            click.echo(f"  {found.name}  its driver is gone")
    click.echo(f"  kubeconfig   {summary.kubeconfig}")
    click.echo(f"  Temporal     {summary.temporal}")
    click.echo(f"  Temporal UI  {summary.ui}")
