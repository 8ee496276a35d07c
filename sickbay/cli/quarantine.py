"""``sickbay quarantine``: take a device out of service because a person says so."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from typing import Any

import click

from k8s.control import ControlMap
from k8s.gateway import Gateway
from k8s.records import Records
from k8s.rights import user
from sickbay import errors
from sickbay.cli import shared
from sickbay.cli.acting import acting_options
from sickbay.cli.finding import NODE, REASON, the_device, words_of
from sickbay.cli.ordering import carry_out
from sickbay.model.record import Record
from sickbay.policy.opening import quarantined_by


@click.command()
@words_of("device", "DEVICE")
@REASON
@NODE
@acting_options
@shared.settings_options(*shared.CLUSTER, *shared.LOG)
def quarantine(*, device: str, reason: str, node: str | None, **flags: Any) -> None:
    """Take DEVICE out of service: the guard admits it, it is fenced, and comes back when a probe has passed.

    Jobs on it move only if the device is bad, or end by themselves. 'sickbay extend' keeps it out for longer.
    """
    carry_out(take_out, device, node, reason, flags)


async def take_out(gateway: Gateway, device: str, node: str | None, reason: str) -> str:
    """Create the device's record in the name of whoever asks, or take over the one that is left; say what comes next.

    Raises:
        SickbayError: no such device.
        UsageError: it has an incident; the text says what to do.
        Forbidden: the API server refuses.
    """
    control, records = await ControlMap(gateway).read(), Records(gateway)
    key, where = await the_device(gateway, control.cluster, device, node)
    try:
        before: Record | None = await records.get(key.record_name)
    except errors.NotFound:
        before = None
    if before is not None:
        _free(before)
    spec = quarantined_by(
        await user(gateway),
        reason,
        key,
        before,
        node=where,
        namespace_id=control.namespace_id,
        version=f"person-{uuid.uuid4().hex[:12]}",
        now=datetime.now(UTC),
    )
    try:
        written = await records.create(key, spec) if before is None else await records.write_spec(before, spec)
    except errors.Conflict as error:
        raise errors.UsageError(f"{key}: somebody wrote its record at the same moment; look, and try again") from error
    return f"{written.spec.incident}: the guard admits it next; kubectl get dq {written.name}"


def _free(record: Record) -> None:
    """Make sure that a record has no incident.

    Raises:
        UsageError: it has, or the device was retired; the text says what to do.
    """
    spec = record.spec
    if not record.closed:
        raise errors.UsageError(
            f"{spec.key} has an open incident, {spec.incident}; 'sickbay extend' keeps it out of service for longer"
        )
    if record.retired:
        raise errors.UsageError(
            f"{spec.key} is retired: it is fenced until other hardware is in its slot; to have it tried all the same, a"
            f" member of sickbay:break-glass deletes record {record.name}"
        )
    if record.deleting:
        raise errors.UsageError(f"record {record.name} is being deleted; try again when it is gone")
