"""What an error of ours means to Temporal: tried again, when, or never. The only place that decides it.

By the step's own back-off:
    `ClusterUnavailable`, `ServerFault`, `Gone`: it passes.
After `SOON`:
    `Conflict`, `AlreadyExists`: somebody wrote in between, read again.
When the server says:
    `TooManyRequests`: a matter of rate.
After `MENDED`, benign:
    `Forbidden`, `Unauthorized`, `NotFound`, `UsageError`, `Undecodable`: a person can mend it, for example by
    ``sickbay install``. `Invalid` and `BadRequest` too: webhooks and admission policies of others refuse so.
Never:
    any other 4xx: our own fault, the same request fails for ever.

An activity to which one of these is an ordinary outcome (NotFound on delete) answers it itself.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from k8s.reading import Undecodable
from sickbay import errors
from sickbay.model.contracts import WAITING

SOON: Final = timedelta(milliseconds=200)
"""After a lost race."""

MENDED: Final = timedelta(seconds=30)
"""While a person is needed; short enough that an incident goes on soon after."""

LIMITED: Final = timedelta(seconds=1)
"""After 429 without Retry-After, which is what priority and fairness sends at least."""

_BY_BACK_OFF: Final = (errors.UnavailableError, errors.ServerFault, errors.Gone)
_BY_A_PERSON: Final = (
    errors.Forbidden,
    errors.Unauthorized,
    errors.NotFound,
    errors.Invalid,
    errors.BadRequest,
    errors.UsageError,
    Undecodable,
)

EXPECTED: Final = (errors.SickbayError, Undecodable)
"""What `translated` takes; anything else is a bug, which Temporal retries and reports by itself."""


def translated(error: errors.SickbayError | Undecodable) -> ApplicationError:
    """Give the error that Temporal is told, its type the name of ours."""
    if isinstance(error, _BY_BACK_OFF):
        return _again(error, None)
    if isinstance(error, errors.Conflict):
        return _again(error, SOON, benign=True)
    if isinstance(error, errors.TooManyRequests):
        wait = LIMITED if error.retry_after is None else max(LIMITED, timedelta(seconds=error.retry_after))
        return _again(error, wait, benign=True)
    if isinstance(error, _BY_A_PERSON):
        return _again(error, MENDED, benign=True)
    return ApplicationError(str(error), type=type(error).__name__, non_retryable=True)


def waiting(message: str, delay: timedelta) -> ApplicationError:
    """Say that nothing has changed yet: raise it in an activity of the ``waits`` queue to be called again later.

    Args:
        message: what is waited for, for people.
        delay: until the next call; no slot is held meanwhile.
    """
    return ApplicationError(message, type=WAITING, category=ApplicationErrorCategory.BENIGN, next_retry_delay=delay)


def _again(error: Exception, delay: timedelta | None, *, benign: bool = False) -> ApplicationError:
    category = ApplicationErrorCategory.BENIGN if benign else ApplicationErrorCategory.UNSPECIFIED
    return ApplicationError(str(error), type=type(error).__name__, category=category, next_retry_delay=delay)
