"""``sickbay run``, ``watcher`` and ``worker``: the processes."""

from __future__ import annotations

from functools import partial
from typing import Any

import click

from sickbay.cli import shared
from workers.process import serve
from workers.run import run as process


@click.command()
@shared.settings_options(*shared.PROCESS, "policy", "prometheus_token_file")
def run(**flags: Any) -> int:
    """Run watcher and worker in one process: the normal way. Several side by side elect one leader."""
    return _process(flags, watches=True, works=True)


@click.command()
@shared.settings_options(*shared.PROCESS, "policy")
def watcher(**flags: Any) -> int:
    """Detect, admit, record and fence; start incidents, which workers carry out."""
    return _process(flags, watches=True, works=False)


@click.command()
@shared.settings_options(*shared.PROCESS, "prometheus_token_file")
def worker(**flags: Any) -> int:
    """Carry incidents out. Needs Temporal: exits with status 3 without it."""
    return _process(flags, watches=False, works=True)


def _process(flags: dict[str, Any], *, watches: bool, works: bool) -> int:
    settings = shared.settings_from(flags)
    policy = shared.read_policy(settings) if watches else None
    return serve(partial(process, settings, policy, works=works), settings.grace)
