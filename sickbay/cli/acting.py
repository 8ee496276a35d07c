"""How commands for people come to the cluster: with ``--as`` and ``--as-group``, as kubectl has them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

import click

from k8s.gateway import Gateway
from sickbay.settings import Settings

CommandT = TypeVar("CommandT", bound=Callable[..., Any])

_USER: Final = "sickbay.as"
_GROUPS: Final = "sickbay.as_groups"


def acting_options(command: CommandT) -> CommandT:
    """Give a command ``--as`` and ``--as-group``; it does not see them: `connect` finds them in click's context.

    They are no settings: from the environment or a file they would put somebody else's name under a command unseen.
    """

    def kept(key: str) -> Callable[[click.Context, click.Parameter, Any], None]:
        def keep(ctx: click.Context, _: click.Parameter, value: Any) -> None:
            ctx.meta[key] = value

        return keep

    options = (
        click.option(
            "--as",
            "as_user",
            metavar="NAME",
            expose_value=False,
            callback=kept(_USER),
            help="Act as this user, as in kubectl: for who may impersonate.",
        ),
        click.option(
            "--as-group",
            "as_groups",
            metavar="GROUP",
            multiple=True,
            expose_value=False,
            callback=kept(_GROUPS),
            help="And as a member of this group; can be given again.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


async def connect(settings: Settings) -> Gateway:
    """Connect as the person who runs the command, or as whom they want to act; close it.

    Raises:
        UsageError: no configuration was found, or it cannot be used.
    """
    context = click.get_current_context(silent=True)
    return await connect_by(settings.kubeconfig, settings.context, context.meta if context else {})


async def connect_by(kubeconfig: str | None, context: str | None, meta: Mapping[str, Any]) -> Gateway:
    """Connect by what a command line says so far.

    Args:
        kubeconfig: file.
        context: of it.
        meta: of click's context.

    Raises:
        UsageError: as `connect`.
    """
    return await Gateway.connect(
        kubeconfig=kubeconfig, context=context, as_user=meta.get(_USER), as_groups=meta.get(_GROUPS) or ()
    )
