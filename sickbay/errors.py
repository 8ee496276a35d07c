"""Every error that Sickbay raises on purpose, in one tree.

::

    SickbayError
    ├── UsageError              what a person gave us is wrong: flag, file, environment (exit status 2)
    ├── UnavailableError        a part we need does not answer (exit status 3)
    │   ├── ClusterUnavailable  connection refused, TLS, time-out, cut stream
    │   └── TemporalUnavailable
    ├── TemporalRefused         the Temporal frontend answered about one workflow, and the answer was not success
    └── ClusterError            the API server answered, and the answer was not success
        ├── BadRequest          400
        ├── Unauthorized        401
        ├── Forbidden           403
        ├── NotFound            404
        ├── Conflict            409
        │   └── AlreadyExists   409, reason AlreadyExists
        ├── Gone                410, as a status or inside a stream
        ├── Invalid             422
        ├── TooManyRequests     429
        └── ServerFault         5xx

Only ``k8s/`` raises the Kubernetes part and only ``sickbay.temporal`` the Temporal part; both translate once, at
their door.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


class SickbayError(Exception):
    """Anything Sickbay raises on purpose. Its text is one line that names the remedy where there is one."""

    exit_status = 1


class UsageError(SickbayError):
    """A person's input is wrong; the text names the field and the remedy."""

    exit_status = 2


class UnavailableError(SickbayError):
    """A part that we need does not answer; trying again later can help."""

    exit_status = 3


class ClusterUnavailable(UnavailableError):
    """The API server could not be reached, or the answer was cut off: whether a write happened is not known."""


class TemporalUnavailable(UnavailableError):
    """The Temporal frontend could not be reached, or did not answer in time."""


class TemporalRefused(SickbayError):
    """The Temporal frontend does not take this very call (too large, one too many), which says nothing of others."""


@dataclass(frozen=True)
class Cause:
    """One entry of ``details.causes`` in a Kubernetes Status object."""

    reason: str = ""
    message: str = ""
    field: str = ""


class ClusterError(SickbayError):
    """The API server refused a request.

    Attributes:
        status: the HTTP status code.
        reason: machine-readable reason of the Status object, ``""`` if the answer had none.
        message: the server's own text, cut to 1,000 characters.
        causes: ``details.causes`` of the Status object.
        retry_after: seconds the server asks to wait, or None.
        request: ``"VERB path"`` of what was refused.
        name: of the object that the answer is about; ``""`` for a NotFound means that the whole type is not served.
    """

    def __init__(
        self,
        *,
        status: int,
        reason: str = "",
        message: str = "",
        causes: Sequence[Cause] = (),
        retry_after: float | None = None,
        request: str = "",
        name: str = "",
    ) -> None:
        super().__init__(f"{request}: {status} {reason}: {message}" if request else f"{status} {reason}: {message}")
        self.status = status
        self.reason = reason
        self.message = message[:1000]
        self.causes = tuple(causes)
        self.retry_after = retry_after
        self.request = request
        self.name = name


class BadRequest(ClusterError):
    """400: the request is malformed, which is our own fault."""


class Unauthorized(ClusterError):
    """401: the credentials are missing, wrong or expired."""


class Forbidden(ClusterError):
    """403: missing rights, or an admission policy refused."""


class NotFound(ClusterError):
    """404: no such object, or no such resource type."""


class Conflict(ClusterError):
    """409: a uid or resourceVersion precondition failed."""


class AlreadyExists(Conflict):
    """409 with reason AlreadyExists: an object of that name is there, or still terminating."""


class Gone(ClusterError):
    """410: the resourceVersion is too old; list again."""


class Invalid(ClusterError):
    """422: the object failed validation."""


class TooManyRequests(ClusterError):
    """429: a disruption budget blocks an eviction, or the server limits our rate."""


class ServerFault(ClusterError):
    """5xx: the server, or a webhook behind it, failed."""
