"""What a process looks at before it starts, so that what is missing is one line and not a stream of failures."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from k8s.control import ControlMap
from k8s.gateway import Gateway
from k8s.impersonation import SERVICE_ACCOUNT
from k8s.resources import DEVICEQUARANTINES
from k8s.rights import held_to_the_term, missing, user
from sickbay import errors

if TYPE_CHECKING:  # commands that only ask the API server do not wait for the SDK
    from sickbay.temporal import Temporal

SHOWN: Final = 5
"""Missing rights that are listed."""


async def look_around(gateway: Gateway, cluster: str | None) -> str:
    """Check that the cluster answers, knows our records and lets us work; return the cluster's name.

    Args:
        gateway: to the cluster.
        cluster: its name by settings; None = what the installation says.

    Raises:
        ClusterUnavailable: it does not answer.
        UsageError: it is not prepared for us, by whatever a person can mend; the text says how.
    """
    with remedies(gateway):
        await _require_records(gateway)
        await _require_rights(gateway)
        installed = await installed_name(gateway)
        if cluster not in {None, installed}:
            raise errors.UsageError(
                f"--cluster: this cluster is installed as {installed!r}, and its records carry that name; leave the "
                f"setting out, or give {installed!r} instead of {cluster!r}"
            )
        return installed


async def installed_name(gateway: Gateway) -> str:
    """Read the name that the installation gave this cluster.

    Raises:
        UsageError: nothing is installed, or no name was given.
    """
    name = (await ControlMap(gateway).read()).cluster
    if not name:
        raise errors.UsageError(
            "ConfigMap sickbay/sickbay-control names no cluster; run 'sickbay install' again, or give --cluster"
        )
    return name


async def require_temporal(temporal: Temporal) -> str:
    """Make sure that Temporal answers; return the id of its namespace.

    Raises:
        TemporalUnavailable: it does not; the text says what to do.
    """
    try:
        return await temporal.namespace_id()
    except errors.TemporalUnavailable as error:
        raise errors.TemporalUnavailable(
            f"{error}; start it, or name another with --temporal-address and --temporal-namespace"
        ) from error


@contextmanager
def remedies(gateway: Gateway, *, forbidden: str = "") -> Iterator[None]:
    """Add to errors of the cluster what a person can do about them.

    Args:
        gateway: to the cluster.
        forbidden: remedy of a missing right; ``""`` = act as Sickbay's service account.

    Raises:
        ClusterUnavailable, UsageError: in place of what was raised inside.
    """
    elsewhere = "name another cluster or user with --kubeconfig or --context"
    try:
        yield
    except errors.ClusterUnavailable as error:
        raise errors.ClusterUnavailable(
            f"the cluster does not answer: {error}; see that it runs, or {elsewhere}"
        ) from error
    except errors.Unauthorized as error:
        raise errors.UsageError(
            f"{gateway.server} does not accept our credentials; log in again, or {elsewhere}"
        ) from error
    except errors.Forbidden as error:
        raise errors.UsageError(f"{error.message or error}; {forbidden or _ACCOUNT}") from error


_ACCOUNT: Final = (
    "act as the service account that 'sickbay install' makes: in a pod by serviceAccountName: sickbay, elsewhere with a"
    " kubeconfig that holds the token of 'kubectl create token sickbay -n sickbay'"
)


async def _require_records(gateway: Gateway) -> None:
    try:
        await gateway.request("GET", DEVICEQUARANTINES.root)
    except errors.NotFound as error:
        raise errors.UsageError(
            f"{gateway.server} has no {DEVICEQUARANTINES.plural}.{DEVICEQUARANTINES.group}; run 'sickbay install'"
        ) from error


async def _require_rights(gateway: Gateway) -> None:
    """Rights alone are not enough: the admission policies let nobody but our service account write records.

    And without them two watchers could act at once, so there is no work without them.
    """
    name = await user(gateway)
    if name != SERVICE_ACCOUNT:
        raise errors.UsageError(f"we are {name}, and nobody but {SERVICE_ACCOUNT} may write records; {_ACCOUNT}")
    lacking = [str(right) for right in await missing(gateway)]
    if lacking:
        more = f" and {len(lacking) - SHOWN} more" if len(lacking) > SHOWN else ""
        raise errors.UsageError(
            f"{name} may not {', '.join(lacking[:SHOWN])}{more}; run 'sickbay install' again, which gives it its roles"
        )
    if not await held_to_the_term(gateway):
        raise errors.UsageError(
            f"{gateway.server} does not hold a leader to its term: Sickbay's admission policies are missing; run"
            " 'sickbay install' again"
        )
