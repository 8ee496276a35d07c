"""``sickbay doctor``: what keeps Sickbay from its work, and how to mend it."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from dataclasses import asdict
from typing import Any, Final

import click
import yaml

from k8s.clock import utc_now
from sickbay.cli import shared
from sickbay.cli.acting import acting_options, connect
from sickbay.cli.checkup.all import examine
from sickbay.cli.checkup.finding import Finding, Scene, Severity
from sickbay.cli.look.options import output_option
from sickbay.cli.look.table import Output
from sickbay.model.policy import Policy
from sickbay.policy.loading import load_policy
from sickbay.settings import Settings, read_text
from workers.run import temporal_of

LONGEST: Final = 1000
"""Characters kept of a finding."""

_COLOURS: Final = {Severity.OK: "green", Severity.WARNING: "yellow", Severity.ERROR: "red"}


@click.command(epilog="Exit status 1 if anything is an error; warnings alone are 0.")
@output_option(Output.TABLE, Output.JSON, Output.YAML)
@acting_options
@shared.settings_options("kubeconfig", "context", "policy", *shared.TEMPORAL, *shared.LOG)
def doctor(*, output: Output, **flags: Any) -> int:
    """Look for what keeps Sickbay from its work, and say how to mend it. Changes nothing.

    Best as a cluster administrator: what may not be looked at is a warning. With --policy it knows which drivers and
    which probe are meant.
    """
    settings = shared.settings_from(flags)
    findings = asyncio.run(_examine(settings))
    for line in report(findings, output):
        click.echo(line)
    return int(any(finding.severity is Severity.ERROR for finding in findings))


def report(findings: list[Finding], output: Output) -> list[str]:
    """Write findings as lines, or as one document."""
    if output is not Output.TABLE:
        items = {"findings": [asdict(finding) | {"severity": str(finding.severity)} for finding in findings]}
        return [
            json.dumps(items, indent=2) if output is Output.JSON else yaml.safe_dump(items, sort_keys=False).rstrip()
        ]
    width = max(len(finding.check) for finding in findings)
    lines = []
    for finding in findings:
        severity = click.style(f"{finding.severity:<7}", fg=_COLOURS[finding.severity])
        lines.append(f"{severity}   {finding.check:<{width}}   {_line(finding.what)}")
        if finding.remedy:
            lines.append(f"{'':<{width + 13}}remedy: {finding.remedy}")
    counts = Counter(finding.severity for finding in findings)
    return [*lines, ", ".join(_counted(counts[severity], severity) for severity in (Severity.ERROR, Severity.WARNING))]


async def _examine(settings: Settings) -> list[Finding]:
    async with await connect(settings) as gateway:
        return await examine(Scene(gateway, temporal_of(settings), _policy(settings), utc_now))


def _counted(count: int, severity: Severity) -> str:
    return f"{count} {severity}{'' if count == 1 else 's'}"


def _line(text: str) -> str:
    """Keep a text with words from the cluster on its line."""
    return "".join(c if c.isprintable() else " " for c in text)[:LONGEST]


def _policy(settings: Settings) -> Policy | None:
    if settings.policy is None:
        return None
    file = str(settings.policy)
    return load_policy(read_text(file, "--policy"), file)
