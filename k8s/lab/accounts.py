"""Act in a lab as a ServiceAccount does: by a token of its own, not as the administrator."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from k8s.gateway import Gateway, decode
from k8s.lab import kubeconfig

TOKEN_SECONDS: Final = 24 * 3600
"""How long a written kubeconfig works."""


async def account_kubeconfig(
    gateway: Gateway, directory: Path, *, namespace: str, account: str, server: str, authority: Path
) -> Path:
    """Write a kubeconfig with a token of a ServiceAccount, valid for a day.

    Args:
        gateway: as administrator.
        directory: of the lab.
        namespace: of the account.
        account: its name.
        server: URL of the API server.
        authority: certificate of the lab's authority.

    Raises:
        NotFound: there is no such account.
    """
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
    answer = await gateway.request("POST", path, body={"spec": {"expirationSeconds": TOKEN_SECONDS}})
    return kubeconfig.write(
        directory / f"{namespace}.{account}.kubeconfig",
        server=server,
        authority=authority,
        user=kubeconfig.by_token(decode(answer)["status"]["token"]),
    )
