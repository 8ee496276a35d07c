"""What errors of ours mean to Temporal."""

from __future__ import annotations

from datetime import timedelta

import pytest
from temporalio.exceptions import ApplicationErrorCategory

from activities.errors import LIMITED, MENDED, SOON, translated, waiting
from k8s.reading import Undecodable
from sickbay import errors
from sickbay.model.contracts import WAITING


def cluster(kind: type[errors.ClusterError], status: int, retry_after: float | None = None) -> errors.ClusterError:
    """Build a refusal."""
    return kind(status=status, reason="X", message="m", retry_after=retry_after)


@pytest.mark.parametrize(
    ("error", "delay", "benign"),
    [
        (errors.ClusterUnavailable("m"), None, False),
        (cluster(errors.ServerFault, 503), None, False),
        (cluster(errors.Gone, 410), None, False),
        (cluster(errors.Conflict, 409), SOON, True),
        (cluster(errors.AlreadyExists, 409), SOON, True),
        (cluster(errors.TooManyRequests, 429, 7), timedelta(seconds=7), True),
        (cluster(errors.TooManyRequests, 429, 0), LIMITED, True),
        (cluster(errors.TooManyRequests, 429), LIMITED, True),
        (cluster(errors.Forbidden, 403), MENDED, True),
        (cluster(errors.Unauthorized, 401), MENDED, True),
        (cluster(errors.NotFound, 404), MENDED, True),
        (cluster(errors.Invalid, 422), MENDED, True),  # a foreign admission policy refuses so
        (cluster(errors.BadRequest, 400), MENDED, True),  # and a webhook without a code so
        (errors.UsageError("m"), MENDED, True),
        (Undecodable("m"), MENDED, True),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_what_can_pass_is_tried_again(
    error: errors.SickbayError | Undecodable, delay: timedelta | None, *, benign: bool
) -> None:
    """Weather by the step's back-off, races soon, what a person mends slowly and without noise."""
    told = translated(error)
    category = ApplicationErrorCategory.BENIGN if benign else ApplicationErrorCategory.UNSPECIFIED
    assert (told.non_retryable, told.next_retry_delay, told.category) == (False, delay, category)
    assert told.type == type(error).__name__
    assert "m" in str(told)


def test_our_own_fault_is_not() -> None:
    """The same request would fail for ever."""
    assert translated(cluster(errors.ClusterError, 415)).non_retryable


def test_waiting_is_no_failure() -> None:
    """It is benign, and says when to look again."""
    told = waiting("pod x is there", timedelta(seconds=2))
    assert (told.type, told.category) == (WAITING, ApplicationErrorCategory.BENIGN)
    assert told.next_retry_delay == timedelta(seconds=2)
