"""``make bench``: how fast Sickbay is, always beside a baseline of the same run."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click
from rich.console import Console

from benchmarks import report
from benchmarks.actors import Mode
from benchmarks.burst import Burst, burst
from benchmarks.machine import Machine
from benchmarks.single import Comparison, compare
from sickbay import errors
from sickbay.telemetry import logging

BURST: Final = "burst"
MODES: Final = tuple(mode.value for mode in Mode)
PARTS: Final = (*MODES, BURST)
COUNT: Final = click.IntRange(min=1)


@dataclass(frozen=True)
class Plan:
    """What to measure.

    Attributes:
        wanted: parts.
        faults: single ones of each program, in each mode.
        devices: that turn bad in the burst.
        nodes: of the burst.
        burst_mode: Sickbay's processes in the burst.
        logs: directory to keep the logs in, one directory for each part.
    """

    wanted: Sequence[str]
    faults: int
    devices: int
    nodes: int
    burst_mode: Mode
    logs: Path | None

    def logs_of(self, part: str) -> Path | None:
        """Give the directory for the logs of one part."""
        return None if self.logs is None else self.logs / part


@click.command()
@click.option("--json", "file", type=click.Path(dir_okay=False, path_type=Path), help="Write all figures here.")
@click.option(
    "--faults", type=COUNT, default=200, show_default=True, help="Single faults of each program, in each mode."
)
@click.option("--devices", type=COUNT, default=1000, show_default=True, help="Devices that turn bad in the burst.")
@click.option(
    "--nodes", type=COUNT, default=200, show_default=True, help="Nodes of the burst, with eight devices each."
)
@click.option("--burst-mode", type=click.Choice(MODES), default=Mode.RUN.value, show_default=True)
@click.option("--only", type=click.Choice(PARTS), multiple=True, help="Leave the rest out; may be repeated.")
@click.option("--logs", type=click.Path(file_okay=False, path_type=Path), help="Keep the logs of all processes here.")
def main(
    file: Path | None, faults: int, devices: int, nodes: int, burst_mode: str, only: tuple[str, ...], logs: Path | None
) -> None:
    """Measure how fast Sickbay is, on labs of its own.

    Takes about twenty minutes, and means something only on a machine that has nothing else to do. Targets are told as
    reached or missed; a missed one is no failure.
    """
    if file is not None and not file.parent.is_dir():
        raise click.BadParameter(f"there is no directory {file.parent}; make it first", param_hint="--json")
    logging.configure(logging.Level.WARNING, None)
    console = Console()
    machine = Machine.here()
    report.show_machine(console, machine)
    plan = Plan(only or PARTS, faults, devices, nodes, Mode(burst_mode), logs)
    try:
        comparisons, bursts = asyncio.run(measure(plan, console))
    except errors.SickbayError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(1)
    measured: list[Comparison | Burst] = [*comparisons, *bursts]
    targets = [target for result in measured for target in result.targets]
    report.show_targets(console, targets)
    if file is not None:
        file.write_text(json.dumps(report.document(machine, comparisons, bursts, targets), indent=2), encoding="utf-8")
        console.print(f"all figures: {file}")


async def measure(plan: Plan, console: Console) -> tuple[list[Comparison], list[Burst]]:
    """Measure what is wanted, one after the other, and tell each result when it is there."""
    comparisons: list[Comparison] = []
    for mode in Mode:
        if mode in plan.wanted:
            comparisons.append(await compare(mode, plan.faults, plan.logs_of(mode)))
            report.show_comparison(console, comparisons[-1])
    bursts: list[Burst] = []
    if BURST in plan.wanted:
        bursts.append(await burst(plan.burst_mode, plan.devices, plan.nodes, plan.logs_of(BURST)))
        report.show_burst(console, bursts[-1])
    return comparisons, bursts


if __name__ == "__main__":
    main()
