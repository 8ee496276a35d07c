"""The end of the demo: what was done, what should have been and was not, and what is left to look at."""

from __future__ import annotations

import asyncio
import signal
from datetime import timedelta
from typing import Final

from rich.console import Console
from rich.table import Table

from k8s.lab.lab import Lab
from k8s.lab.sickbay_process import SickbayProcess
from sickbay.cli.demo.witness import Act, Check

AGAIN: Final = "make demo ARGS=--keep"


def requests(acts: list[Act]) -> Table:
    """Draw every request that changed something."""
    table = Table(title="What Sickbay changed, request by request", title_justify="left")
    for column in ("time", "request", "object"):
        table.add_column(column)
    for act in acts:
        table.add_row(act.at, act.verb, act.what)
    return table


def summary(checks: list[Check]) -> Table:
    """Draw what must have happened, and how often it did."""
    title = "What Sickbay did, by the audit log"
    table = Table(title=title, title_justify="left", show_header=False)
    for check in checks:
        mark = "[green]✓[/green]" if check.ok else "[red]✗[/red]"
        table.add_row(mark, check.step, str(check.seen))
    return table


def verdict(console: Console, problems: list[str], fenced_after: timedelta | None, story: str) -> bool:
    """Say whether every step happened; True if so.

    Args:
        console: to write to.
        problems: what did not happen.
        fenced_after: from the bad status to the fence, None if it was not seen.
        story: what happened if everything did.
    """
    if fenced_after is not None:
        console.print(f"fenced {fenced_after / timedelta(milliseconds=1):.0f} ms after the status")
    for problem in problems:
        console.print(f"[red]missing:[/red] {problem}")
    if not problems:
        console.print(f"[green]Every step happened.[/green] {story}")
    return not problems


def hint(console: Console, link: str) -> None:
    """Name the incident again, and how to get to see it: this lab ends now."""
    _facts(console, {"incident": link, "to look at it": f"{AGAIN} (the link ends with this lab)"})


def invite(console: Console, lab: Lab, sickbay: SickbayProcess, link: str) -> None:
    """Say what can be looked at now."""
    console.print("\nEverything is left running until Ctrl-C:")
    _facts(
        console,
        {
            "cluster": f"export KUBECONFIG={lab.kubeconfig}; kubectl get dq",
            "incident": link,
            "health": f"{sickbay.health}/readyz",
            "metrics": f"{sickbay.health}/metrics",
            "log": str(sickbay.process.log),
        },
    )


async def interrupted() -> None:
    """Wait for Ctrl-C; from then on another one disturbs nobody, until the event loop ends."""
    asked = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, asked.set)
    await asked.wait()


def _facts(console: Console, facts: dict[str, str]) -> None:
    for name, fact in facts.items():
        console.print(f"  {name:14}{fact}", soft_wrap=True, markup=False, highlight=False)
