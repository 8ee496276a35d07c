"""Options that the commands share which look and change nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

import click
from click.shell_completion import CompletionItem

from sickbay.cli.look.table import Output

CommandT = TypeVar("CommandT", bound=Callable[..., Any])

PHASES: Final = "PHASE"


def output_option(*outputs: Output) -> Callable[[CommandT], CommandT]:
    """Give a command ``-o``; it passes an `Output`."""

    def read(_: click.Context, __: click.Parameter, value: str) -> Output:
        return Output(value)

    return click.option(
        "-o",
        "--output",
        type=click.Choice([str(output) for output in outputs or tuple(Output)]),
        default=str(Output.TABLE),
        callback=read,
        help="Form of the output.",
    )


def complete_names(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Offer what there is in the cluster; nothing if it does not answer at once."""
    from sickbay.cli.look.complete import names  # noqa: PLC0415 - only a shell that completes waits for it

    return [CompletionItem(name) for name in names(ctx.params, ctx.meta) if name.startswith(incomplete)]


def complete_devices(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Offer every device and record; after a slice pool as a word of its own, its devices alone."""
    from sickbay.cli.look.complete import after, names  # noqa: PLC0415 - as above

    found = after(ctx.params.get("names") or (), names(ctx.params, ctx.meta, published=True))
    return [CompletionItem(name) for name in found if name.startswith(incomplete)]
