"""Who we are to the API server: kubeconfig or service account, kept fresh.

The official client reads a kubeconfig once, so that tokens of credential plugins, OIDC and token files end after
minutes; here its loader runs again when a request finds the last load older than `REFRESH`. The loader itself decides
whether a credential has expired. Client certificates are loaded once: a plugin that hands out short-lived ones needs a
restart.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import yaml
from kubernetes.aio import config as kube_config
from kubernetes.aio.client import ApiClient, Configuration
from kubernetes.aio.config.config_exception import ConfigException

from k8s.acting import ActingAs, acting_as
from sickbay import errors

REFRESH: Final = 60.0
"""Seconds after which a kubeconfig's credentials are looked at again; client-go re-reads token files as often."""

_UNUSABLE: Final = (ConfigException, yaml.YAMLError, OSError, ValueError, TypeError, KeyError, AttributeError)
"""What the client's loader raises on a kubeconfig that is missing, malformed or of another shape."""

_REMEDY: Final = "give one with --kubeconfig or KUBECONFIG, or run inside a cluster"


async def load(
    *,
    kubeconfig: str | None,
    context: str | None,
    connections: int,
    as_user: str | None = None,
    as_groups: Sequence[str] = (),
) -> tuple[ApiClient, ActingAs | None]:
    """Find the configuration as kubectl does, and build the client that uses it; and say whom to act as, if anybody.

    Args:
        kubeconfig: a file; else the files of KUBECONFIG, else ``~/.kube/config``, else the pod's service account.
        context: of the kubeconfig; its current one if None.
        connections: open connections at most.
        as_user: whom to act as, before what the kubeconfig says.
        as_groups: likewise.

    Raises:
        UsageError: none was found, or it cannot be used.
    """
    settings = Configuration()
    settings.connection_pool_maxsize = connections
    # kubectl accepts certificate authorities without the extensions that Python 3.13 began to insist on.
    settings.disable_strict_ssl_verification = True
    files, found = _files(kubeconfig)
    where = f"kubeconfig {files!r}"
    user: Mapping[str, Any] = {}
    try:
        if found or kubeconfig or context:
            if not found:
                raise ConfigException("no such file")
            loader = await kube_config.load_kube_config(  # type: ignore[no-untyped-call]  # the client has no types
                config_file=files, context=context, client_configuration=settings, persist_config=False
            )
            _require_credentials(loader, settings)
            user = _user(loader)
            settings.refresh_api_key_hook = _Refresh(loader)  # type: ignore[assignment]  # inferred from its None
        else:
            where = f"no {where}, and no service account"
            if "KUBERNETES_SERVICE_HOST" not in os.environ:
                raise ConfigException("this is no pod of a cluster")
            kube_config.load_incluster_config(  # type: ignore[no-untyped-call]  # the client has no types
                client_configuration=settings
            )
        if _is_loopback(str(settings.host)):
            # As in Go, HTTPS_PROXY never applies to this machine itself: a lab works behind a company's proxy.
            settings.client_session_kwargs = {"trust_env": False}
        return ApiClient(settings), acting_as(user, as_user, as_groups)
    except _UNUSABLE as error:
        raise errors.UsageError(f"{where}: {_why(error)}; {_REMEDY}") from error


def _files(kubeconfig: str | None) -> tuple[str, bool]:
    """Name the kubeconfig files (a path list, as in KUBECONFIG), and tell whether one of them is there."""
    files = kubeconfig or os.environ.get("KUBECONFIG") or str(Path.home() / ".kube" / "config")
    return files, any(Path(file).expanduser().is_file() for file in files.split(os.pathsep) if file)


def _is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _why(error: Exception) -> str:
    """Say in one line what is wrong; what Python says of a value of another type helps nobody."""
    if isinstance(error, (TypeError, KeyError, AttributeError)):
        return "a part of it is missing or of another type than a kubeconfig's"
    return " ".join(str(error).split()).rstrip(".")


@contextmanager
def translated() -> Iterator[None]:
    """Translate what a failed refresh raises: the service account's token is gone, a login has ended.

    Raises:
        ClusterUnavailable: in place of it.
    """
    try:
        yield
    except (ConfigException, OSError, ValueError, KeyError) as error:
        raise errors.ClusterUnavailable(
            f"credentials: {' '.join(str(error).split()) or type(error).__name__}"
        ) from error


def _user(loader: Any) -> Mapping[str, Any]:
    """Give what the kubeconfig says of the user: the client knows nothing of impersonation."""
    user = loader._user  # noqa: SLF001 - as below
    return user.value if user else {}


def _require_credentials(loader: Any, settings: Configuration) -> None:
    """Refuse a credential plugin that gave nothing: the loader only logs why, and would go on as anonymous."""
    user = loader._user  # noqa: SLF001 - the client's own refresh_token() reads it too; there is no accessor
    if user and "exec" in user and not settings.api_key and not settings.cert_file:
        raise ConfigException(f"credential plugin {user['exec'].safe_get('command')!r} gave no credentials")


class _Refresh:
    """Hook that the client awaits before each request: one load at a time, at most one per `REFRESH`."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader
        self._at = time.monotonic()
        self._running: asyncio.Task[None] | None = None

    async def __call__(self, settings: Configuration) -> None:
        if self._running is None and time.monotonic() - self._at >= REFRESH:
            self._running = asyncio.create_task(self._load(settings))
        if self._running is not None:
            # A request that runs out of time gives up waiting; the load goes on for the others.
            await asyncio.shield(self._running)

    async def _load(self, settings: Configuration) -> None:
        try:
            await self._loader.load_and_set(settings)
        finally:
            self._at = time.monotonic()
            self._running = None
