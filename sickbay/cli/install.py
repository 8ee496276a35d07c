"""``sickbay install``: prepare a cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import click

from k8s.gateway import Gateway
from k8s.install import install as put
from sickbay import errors
from sickbay.cli import shared
from sickbay.cli.acting import acting_options, connect
from sickbay.model.searching import SearchAttribute
from sickbay.settings import Settings
from sickbay.temporal import Temporal
from workers.checks import installed_name, remedies, require_temporal
from workers.run import temporal_of


@click.command()
@acting_options
@shared.settings_options(*shared.CLUSTER, *shared.TEMPORAL, *shared.LOG)
@click.option(
    "--adopt-namespace",
    is_flag=True,
    help="Go on with another Temporal namespace than before: the incidents of the old one will not run again.",
)
def install(*, adopt_namespace: bool, **flags: Any) -> None:
    """Put Sickbay's objects into a cluster: record type, roles, admission policies, probe namespace.

    And its search attributes into Temporal's namespace: a warning, no failure, where they are not to be had.

    Needs the rights of a cluster administrator, and Temporal. Safe to repeat; the first time give --cluster NAME.
    """
    settings = shared.settings_from(flags)
    click.echo(asyncio.run(_install(settings, adopt=adopt_namespace)))


async def _install(settings: Settings, *, adopt: bool) -> str:
    temporal = temporal_of(settings)
    namespace_id = await require_temporal(temporal)
    async with await connect(settings) as gateway:
        with remedies(gateway):
            cluster = settings.cluster or await _recorded(gateway)
            await put(gateway, cluster=cluster, namespace_id=namespace_id, adopt_namespace=adopt)
        if refused := await _refused(temporal):
            click.echo(_warning(refused, settings.temporal_namespace), err=True)
        return f"Sickbay is installed in {gateway.server} as cluster {cluster!r}."


async def _refused(temporal: Temporal) -> dict[SearchAttribute, str]:
    """Register the search attributes; say which cannot be had, for whatever reason, and why."""
    try:
        return await temporal.register_attributes()
    except (errors.TemporalUnavailable, errors.TemporalRefused) as error:
        return dict.fromkeys(SearchAttribute, str(error))


def _warning(refused: Mapping[SearchAttribute, str], namespace: str) -> str:
    """Say what is lacking, why, and how somebody else can register it."""
    why = next(iter(refused.values()))
    names = " ".join(f"--name {name} --type Keyword" for name in refused)
    return (
        f"warning: Temporal's namespace {namespace!r} does not take {', '.join(refused)}: {why}. Sickbay works without,"
        " but incidents are not found by them in Temporal's list. Have an administrator of Temporal run 'temporal"
        f" operator search-attribute create --namespace {namespace} {names}', or on Temporal Cloud add them in the"
        " namespace's settings; then restart Sickbay."
    )


async def _recorded(gateway: Gateway) -> str:
    try:
        return await installed_name(gateway)
    except errors.UsageError as error:
        raise errors.UsageError("this cluster has no name yet; give it one for ever with --cluster NAME") from error
