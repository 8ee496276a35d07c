"""Which incident, which device, and who asks: what people write on the command line, looked up in the cluster."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeVar

import click
import structlog

from k8s.gateway import Gateway
from k8s.listings import list_all
from k8s.reading import Reader
from k8s.resources import RESOURCESLICES
from k8s.rights import user
from k8s.wire import ResourceSlice
from sickbay import errors
from sickbay.cli.acting import connect
from sickbay.model.base import parse_duration, tamed
from sickbay.model.device import DeviceKey
from sickbay.model.record import Record
from sickbay.settings import Settings

CommandT = TypeVar("CommandT", bound=Callable[..., Any])

log = structlog.get_logger(__name__)

SHOWN: Final = 5
"""Candidates that are named where a word fits several."""

_SLICE: Final = Reader(ResourceSlice)


@asynccontextmanager
async def cluster(settings: Settings) -> AsyncIterator[Gateway]:
    """Connect as the person who runs the command; missing rights are one line with a remedy.

    Raises:
        UsageError: refused; the text says which group may.
    """
    async with await connect(settings) as gateway:
        try:
            yield gateway
        except errors.Unauthorized as error:
            raise errors.UsageError(f"{gateway.server} does not accept your credentials; log in again") from error
        except errors.Forbidden as error:
            raise errors.UsageError(f"{error.message or error}; docs/operating.md says which group may") from error


async def actor(gateway: Gateway) -> str:
    """Name who runs the command: as the cluster knows them, else as their machine does."""
    try:
        return await user(gateway)
    except (errors.ClusterError, errors.ClusterUnavailable) as error:
        name = os.environ.get("USER") or "somebody"
        log.warning("user_not_asked", taken=name, error=str(error))
        return name


def the_record(records: Iterable[Record], wanted: str, node: str | None = None) -> Record:
    """Find the record that a word names: an incident id, a record's name, a device with as much before it as it takes.

    An open incident goes before those that have ended.

    Raises:
        SickbayError: there is none.
        UsageError: there are several; the text names them.
    """
    found = [r for r in records if _names(r, wanted) and node in {None, r.spec.node}]
    among = [r for r in found if not r.closed] or found
    if not among:
        where = f" on node {node}" if node else ""
        raise errors.SickbayError(
            f"{tamed(wanted)}: no incident of such a device{where}; see sickbay get incidents --all"
        )
    if len(among) > 1:
        names = ", ".join(str(r.spec.key) for r in among[:SHOWN])
        raise errors.UsageError(f"{tamed(wanted)}: fits {len(among)} devices: {names}; name one in full, or its --node")
    return among[0]


def _names(record: Record, wanted: str) -> bool:
    device = record.spec.key
    plain = (device.driver, device.pool, device.device)
    spelled = {"/".join(plain[n:]) for n in range(3)}
    return wanted in {record.name, f"dq/{record.name}", record.spec.incident, str(device), *spelled}


async def the_device(gateway: Gateway, cluster: str, wanted: str, node: str | None) -> tuple[DeviceKey, str]:
    """Find a published device, and its node.

    Args:
        gateway: to the cluster.
        cluster: its name.
        wanted: the device's name, with pool, or driver and pool, before it where that takes it.
        node: where it is.

    Raises:
        SickbayError: there is none.
        UsageError: there are several; the text names them.
    """
    found: dict[DeviceKey, str] = {}
    for published in (await list_all(gateway, RESOURCESLICES, _SLICE)).items:
        spec = published.spec
        if node not in {None, spec.node_name}:
            continue
        for device in spec.devices:
            plain = (spec.driver, spec.pool.name, device.name)
            key = DeviceKey(cluster=cluster, driver=spec.driver, pool=spec.pool.name, device=device.name)
            if wanted in {str(key), *("/".join(plain[n:]) for n in range(3))}:
                found[key] = spec.node_name
    if not found:
        where = f" on node {node}" if node else ""
        raise errors.SickbayError(f"{tamed(wanted)}: no driver publishes such a device{where}; see sickbay get devices")
    if len(found) > 1:
        names = ", ".join(str(key) for key in list(found)[:SHOWN])
        raise errors.UsageError(f"{tamed(wanted)}: fits {len(found)} devices: {names}; name one in full, or its --node")
    return found.popitem()


def end_of(until: str | None, length: str | None, now: datetime) -> datetime | None:
    """Read when something ends, given as a time or as a length.

    Raises:
        UsageError: both are given, or one cannot be read.
    """
    if until and length:
        raise errors.UsageError("--until and --for: give one of them")
    if length:
        try:
            span = parse_duration(length)
        except ValueError as error:
            raise errors.UsageError(f"--for: {error}") from error
        if not isinstance(span, timedelta):
            raise errors.UsageError(f"--for: {length!r} is no duration; write it like 45s, 10m, 1h30m or 7d")
        return now + span
    if not until:
        return None
    try:
        time = datetime.fromisoformat(until)
        return time.astimezone(UTC) if time.tzinfo else time.replace(tzinfo=UTC)
    except (ValueError, OverflowError) as error:
        raise errors.UsageError(f"--until: {until!r} is no time; write it like 2026-11-30T18:00:00Z") from error


def words_of(name: str, metavar: str) -> Callable[[CommandT], CommandT]:
    """Give a command an argument of one word or several, as people copy them: ``node-2 gpu-0`` is ``node-2/gpu-0``."""

    def joined(_: click.Context, __: click.Parameter, words: tuple[str, ...]) -> str:
        return "/".join(words)

    return click.argument(name, metavar=metavar, nargs=-1, required=True, callback=joined)


REASON: Final = click.option("--reason", required=True, metavar="TEXT", help="Why, for people; it is kept.")
NODE: Final = click.option("--node", metavar="NAME", help="Node of the device, where its name fits several.")
