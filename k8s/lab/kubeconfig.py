"""Write kubeconfig files: one cluster, one user, one context.

Certificates are named by path, never embedded: clients copy embedded ones into temporary files, which outlive a killed
process.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from k8s.lab.pki import KeyPair


def write(path: Path, *, server: str, authority: Path, user: dict[str, str]) -> Path:
    """Write a kubeconfig that its owner alone can read.

    Args:
        path: the file; an old one is replaced.
        server: base URL of the API server.
        authority: certificate that the server's is checked against.
        user: credentials in the kubeconfig's own words, see `by_certificate` and `by_token`.
    """
    content: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "lab", "cluster": {"server": server, "certificate-authority": str(authority)}}],
        "users": [{"name": path.stem, "user": user}],
        "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": path.stem}}],
        "current-context": "lab",
    }
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
    return path


def read_user(path: Path) -> dict[str, str]:
    """Read the credentials of a kubeconfig that `write` wrote."""
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    user: dict[str, str] = content["users"][0]["user"]
    return user


def by_certificate(pair: KeyPair) -> dict[str, str]:
    """Credentials: a client certificate."""
    return {"client-certificate": str(pair.certificate), "client-key": str(pair.key)}


def by_token(token: str) -> dict[str, str]:
    """Credentials: a bearer token."""
    return {"token": token}
