"""``sickbay completion``: what a shell needs to complete commands, options and names."""

from __future__ import annotations

import sys
from typing import Final

import click
from click.shell_completion import ShellComplete, get_completion_class

from sickbay.cli.main import COMPLETE_VARIABLE, sickbay

SHELLS: Final = ("bash", "zsh", "fish")

NO_FILES: Final = ":4"
"""Last line of an answer to kubectl: ShellCompDirectiveNoFileComp."""


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
def completion(*, shell: str) -> None:
    """Print the completion of a shell, to be sourced.

    \b
    bash   source <(sickbay completion bash)
    zsh    source <(sickbay completion zsh)
    fish   sickbay completion fish | source
    """  # noqa: D301 - click's mark for lines that stay as they are
    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(sickbay, {}, "sickbay", COMPLETE_VARIABLE).source())


def for_kubectl() -> None:
    """Answer kubectl, which asks ``kubectl_complete-sickbay WORD… INCOMPLETE`` to complete ``kubectl sickbay``."""
    *words, incomplete = sys.argv[1:] or [""]
    found = ShellComplete(sickbay, {}, "kubectl sickbay", COMPLETE_VARIABLE).get_completions(words, incomplete)
    for item in found:
        click.echo(item.value)
    click.echo(NO_FILES)
