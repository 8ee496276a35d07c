"""``sickbay policy``: look at policy files without a cluster."""

from __future__ import annotations

import click

from sickbay.policy.loading import load_policy
from sickbay.settings import read_text


@click.group()
def policy() -> None:
    """Check policy files."""


@policy.command()
@click.argument("file")
def check(file: str) -> None:
    """Say whether FILE is a valid policy, and name every problem if it is not."""
    checked = load_policy(read_text(file, "FILE"), file)
    click.echo(f"{file}: valid, mode {checked.mode}, content {checked.digest}")
