"""Before every effect: is the record still this incident's?

An incident whose record was taken over, ended or removed stops without a trace: its workflow may run on after a Reset,
a Terminate or a restored database, and only the record says who owns the device.
"""

from __future__ import annotations

from temporalio.exceptions import ApplicationError

from k8s.records import Records
from sickbay import errors
from sickbay.model.contracts import SUPERSEDED
from sickbay.model.incident import Target
from sickbay.model.record import Record


async def own_record(records: Records, target: Target) -> Record:
    """Read the record, past every cache, and make sure that it is this incident's and open.

    Raises:
        ApplicationError: of type `SUPERSEDED`, never retried: it is not.
        ClusterError, ClusterUnavailable: it could not be read, so nothing is known.
    """
    record = await _read(records, target)
    if record.closed:
        raise _superseded(f"it ended as {record.status.phase}")
    return record


async def own_or_closed_record(records: Records, target: Target) -> Record:
    """Read the record as `own_record`, but let it have been closed by this very run: for the closing write alone."""
    record = await _read(records, target)
    if record.closed and record.status.run != target.run:
        raise _superseded(f"run {record.status.run} closed it")
    return record


async def _read(records: Records, target: Target) -> Record:
    try:
        record = await records.get(target.device.record_name)
    except errors.NotFound as error:
        raise _superseded("there is none") from error
    if record.uid != target.record_uid:
        raise _superseded(f"it is another object, uid {record.uid}")
    if record.spec.incident != target.incident:
        raise _superseded(f"it belongs to {record.spec.incident}")
    if record.spec.run != target.run:
        raise _superseded(f"it belongs to run {record.spec.run}")
    return record


def _superseded(why: str) -> ApplicationError:
    return ApplicationError(f"the record is no longer this incident's: {why}", type=SUPERSEDED, non_retryable=True)
