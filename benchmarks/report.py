"""The report: tables for people, JSON for whoever compares runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.burst import Burst
from benchmarks.figures import Spread, Target
from benchmarks.machine import Machine, Usage
from benchmarks.single import Comparison, parts
from benchmarks.timeline import Timeline

NEIGHBOURS: float = 0.05
"""Share of the machine above which neighbours are worth a warning."""


def show_machine(console: Console, machine: Machine) -> None:
    """Tell what the figures were measured on."""
    console.print(
        f"{machine.cores} cores, {machine.system}, Python {machine.python}; before the start: load {machine.load:.1f}, "
        f"pace {machine.pace:.1f} ms (CPU time of a fixed piece of work)",
        soft_wrap=True,
    )


def show_comparison(console: Console, comparison: Comparison) -> None:
    """Tell how fast single faults were fenced, and where the time went."""
    sides = {f"sickbay, {comparison.mode} mode": comparison.ours, "bare loop": comparison.bare}
    table = Table(
        title=f"Status sent → fenced, {len(comparison.ours)} single faults on a quiet lab", title_justify="left"
    )
    table.add_column("milliseconds, by the API server's clock")
    for column in ("p50", "p90", "p99", "most", "p50 from answered"):
        table.add_column(column, justify="right")
    for name, timelines in sides.items():
        spread = Spread.of([t.from_sent for t in timelines])
        answered = Spread.of([t.from_answered for t in timelines]).p50
        table.add_row(name, *(f"{ms:.1f}" for ms in (spread.p50, spread.p90, spread.p99, spread.most, answered)))
    table.add_row("ratio", f"{comparison.ratio:.2f}", "", "", "", f"{comparison.ratio_from_answered:.2f}")
    console.print(table)
    for name, timelines in sides.items():
        told = ", ".join(f"{part} {1000 * seconds:.1f}" for part, seconds in parts(timelines).items())
        console.print(f"{name}, medians in ms: {told}", soft_wrap=True)
    _show_usage(console, all_faults=comparison.usage)


def show_burst(console: Console, burst: Burst) -> None:
    """Tell what a burst took."""
    table = Table(
        title=f"Burst of {burst.devices} bad devices on {burst.nodes} nodes, {burst.mode} mode", title_justify="left"
    )
    table.add_column("seconds after the first status was sent")
    table.add_column("last", justify="right")
    rows = {
        "status written": burst.statuses,
        "record written": burst.records,
        f"device fenced ({burst.fenced} were)": burst.fences,
        f"incident past its first activity ({burst.begun} were), by Temporal's histories": burst.first_activities,
        "incident's first word in its record, by the audit log": burst.words,
    }
    for name, seconds in rows.items():
        table.add_row(name, "not all" if seconds is None else f"{seconds:.2f}")
    console.print(table)
    _show_usage(console, until_fenced=burst.until_fenced, until_begun=burst.usage)


def show_targets(console: Console, targets: Iterable[Target]) -> None:
    """Tell which targets were reached; none of them fails the run."""
    table = Table(title="Targets", title_justify="left")
    for column in ("target", "measured", "limit", ""):
        table.add_column(column, justify="left" if column in {"target", ""} else "right")
    for target in targets:
        measured = "not measured" if target.measured is None else f"{target.measured:.2f} {target.unit}".strip()
        verdict = "[green]reached[/green]" if target.reached else "[red]missed[/red]"
        table.add_row(target.what, measured, f"{target.limit:g} {target.unit}".strip(), verdict)
    console.print(table)


def _show_usage(console: Console, **usages: Usage) -> None:
    """Tell CPU seconds by process, a column for each span of time."""
    last = list(usages.values())[-1]
    if not last.cpu:
        console.print("CPU seconds: this system has no /proc to read them from")
        return
    table = Table(title="CPU seconds by process", title_justify="left")
    table.add_column("process")
    for name, usage in usages.items():
        table.add_column(f"{name.replace('_', ' ')}, {usage.elapsed:.1f} s", justify="right")
    for name in sorted(last.cpu, key=lambda name: -last.cpu[name]):
        table.add_row(name, *(f"{usage.cpu.get(name, 0):.1f}" for usage in usages.values()))
    table.add_row("everything else on this machine", *(f"{usage.others:.1f}" for usage in usages.values()))
    table.add_row("stolen by the host", *(f"{usage.stolen:.1f}" for usage in usages.values()))
    table.add_row("pace afterwards, milliseconds", *(f"{usage.pace:.1f}" for usage in usages.values()))
    console.print(table)
    if last.share_of_others > NEIGHBOURS:
        share = f"{last.share_of_others:.0%}"
        console.print(f"[yellow]Others took {share} of the machine meanwhile: repeat when it is quiet.[/yellow]")


def document(
    machine: Machine, comparisons: Sequence[Comparison], bursts: Sequence[Burst], targets: Sequence[Target]
) -> dict[str, Any]:
    """Build the JSON document: every figure, and the single measurements in milliseconds."""
    return {
        "machine": asdict(machine),
        "single": {comparison.mode: _comparison(comparison) for comparison in comparisons},
        "burst": {
            burst.mode: {**asdict(burst), "until_fenced": _usage(burst.until_fenced), "usage": _usage(burst.usage)}
            for burst in bursts
        },
        "targets": [{**asdict(target), "reached": target.reached} for target in targets],
    }


def _comparison(comparison: Comparison) -> dict[str, Any]:
    return {
        "sickbay": _side(comparison.ours),
        "bare": _side(comparison.bare),
        "ratio": comparison.ratio,
        "ratio_from_answered": comparison.ratio_from_answered,
        "usage": _usage(comparison.usage),
    }


def _side(timelines: Sequence[Timeline]) -> dict[str, Any]:
    sent, answered = [t.from_sent for t in timelines], [t.from_answered for t in timelines]
    return {
        "from_sent": asdict(Spread.of(sent)),
        "from_answered": asdict(Spread.of(answered)),
        "parts": {name: 1000 * seconds for name, seconds in parts(timelines).items()},
        "samples": [round(1000 * seconds, 3) for seconds in sent],
    }


def _usage(usage: Usage) -> dict[str, Any]:
    return {**asdict(usage), "share_of_others": usage.share_of_others}
