"""Act as somebody else, as ``kubectl --as`` does: to try beforehand what an account may do."""

from __future__ import annotations

from typing import Final

from kubernetes.aio.client import ApiClient

from k8s.acting import ActingAs
from k8s.gateway import Gateway

SERVICE_ACCOUNT: Final = "system:serviceaccount:sickbay:sickbay"
"""User name of Sickbay's own account; the admission policies name it."""


def impersonating(gateway: Gateway, user: str, group: str | None = None) -> Gateway:
    """Give a second door to the same API server, through which every request is made as `user`.

    Args:
        gateway: whose credentials are used; they need the right to impersonate.
        user: full user name.
        group: one group besides those that every such user is in.

    Returns:
        A gateway of its own: close it.
    """
    client = ApiClient(configuration=gateway._client.configuration)  # noqa: SLF001 - the same server and credentials
    client.user_agent = gateway._client.user_agent  # noqa: SLF001
    return Gateway(client, acting=ActingAs(user, () if group is None else (group,)))
