"""``sickbay lab``: a real control plane on this machine, with nodes whose devices break on command."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from k8s.lab.build import ensure_binary, say_on_stderr
from k8s.lab.control import DEFAULT_NAME, Request, Summary, ask, launch
from k8s.lab.nodes.fleet import Health
from k8s.lab.tools import find_temporal

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
def up(*, name: str, nodes: int, devices: int, database: Path | None) -> None:
    """Start a lab in the background.

    The first time, Kubernetes is built from source into your cache: some minutes.
    """
    ensure_binary()
    find_temporal(say_on_stderr)
    summary = launch(name, nodes=nodes, devices=devices, database=database)
    _show(summary)
    click.echo(f"\n  export KUBECONFIG={summary.kubeconfig} TEMPORAL_ADDRESS={summary.temporal}")


@lab.command()
@_name
def status(*, name: str) -> None:
    """Show a lab's addresses, and how its devices are."""
    _show(_ask(name, Request("status")))


@lab.command(name="break")
@_name
@click.argument("node")
@click.argument("device")
@click.option(
    "--health",
    type=click.Choice(list(Health), case_sensitive=False),
    default=Health.UNHEALTHY,
    show_default=True,
    help="What pod statuses say of it.",
)
@click.option("--message", default="", help="What its driver says of it.")
def break_device(*, name: str, node: str, device: str, health: Health, message: str) -> None:
    """Make a device ill, such as: node-0 gpu-1."""
    _show(_ask(name, Request("break", node, device, Health(health), message)))


@lab.command()
@_name
@click.argument("node")
@click.argument("device")
def heal(*, name: str, node: str, device: str) -> None:
    """Make a device well again."""
    _show(_ask(name, Request("heal", node, device)))


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


def _show(summary: Summary) -> None:
    ill = [(node.name, device) for node in summary.nodes for device in node.devices if device.health != Health.HEALTHY]
    total = sum(len(node.devices) for node in summary.nodes)
    click.echo(f"lab {summary.name}: {len(summary.nodes)} nodes, {total} devices, {len(ill)} not healthy")
    for node, device in ill:
        click.echo(f"  {node} {device.name}  {device.health}  {device.message}".rstrip())
    click.echo(f"  kubeconfig   {summary.kubeconfig}")
    click.echo(f"  Temporal     {summary.temporal}")
    click.echo(f"  Temporal UI  {summary.ui}")
