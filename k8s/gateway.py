"""The one HTTP door to the API server.

The official client keeps configuration, authentication, TLS and connection pool; bodies pass by its deserialiser, which
raises on a single odd object and costs 30 times as much as decoding only the fields that are needed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from datetime import datetime
from email.utils import parsedate_to_datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final, Self
from urllib.parse import urlencode

import aiohttp
import msgspec
from kubernetes.aio.client import ApiClient
from multidict import CIMultiDict

from k8s import credentials
from k8s.acting import ActingAs
from k8s.paths import kind_of
from sickbay import errors
from sickbay.telemetry import tracing

FIELD_MANAGER: Final = "sickbay"
MERGE_PATCH: Final = "application/merge-patch+json"
JSON_PATCH: Final = "application/json-patch+json"

REQUEST_TIMEOUT: Final = 4.0
"""Seconds for one short request: below the 5 s start-to-close of the activities that make them."""

CONNECTIONS: Final = 128
"""Open connections at most. Client-side rate limits decide a burst, so there is none: this bound and the API server's
own priority and fairness are the limits."""

OK: Final = "Ok"
"""Outcome of a request that was carried out; of any other it is the class of its error."""

ANSWERS: Final = (errors.NotFound, errors.Conflict, errors.Gone, errors.TooManyRequests)
"""Refusals that are answers, and by themselves no sign that anything is wrong."""

Told = Callable[[str, str, float], None]
"""Hears of a request that is over: method, outcome, seconds."""

_CLASSES: Final[Mapping[int, type[errors.ClusterError]]] = {
    400: errors.BadRequest,
    401: errors.Unauthorized,
    403: errors.Forbidden,
    404: errors.NotFound,
    409: errors.Conflict,
    410: errors.Gone,
    422: errors.Invalid,
    429: errors.TooManyRequests,
}


class _Cause(msgspec.Struct):
    reason: str | None = None
    message: str | None = None
    field: str | None = None


class _Details(msgspec.Struct):
    name: str | None = None
    causes: list[_Cause] | None = None
    retryAfterSeconds: float | None = None  # noqa: N815 - the name on the wire


class _Status(msgspec.Struct):
    message: str | None = None
    reason: str | None = None
    code: int | None = None
    details: _Details | None = None


def error_from(status: int, body: bytes, *, request: str = "", retry_after: str | None = None) -> errors.ClusterError:
    """Translate a refusal into our tree: the only place that knows the Status object.

    Args:
        status: HTTP status, or the ``code`` of an in-stream ERROR object.
        body: the answer, a Status object or anything else (a proxy's HTML page).
        request: ``"VERB path"``, for the message.
        retry_after: the Retry-After header in seconds; its date form is ignored.
    """
    try:
        answer = msgspec.json.decode(body, type=_Status)
    except (msgspec.DecodeError, RecursionError):
        answer = _Status(message=body[:200].decode(errors="replace"))
    details = answer.details or _Details()
    wait = details.retryAfterSeconds
    if retry_after is not None and retry_after.isdecimal():
        wait = float(retry_after)
    kind = _CLASSES.get(status, errors.ServerFault if status >= 500 else errors.ClusterError)  # noqa: PLR2004
    if kind is errors.Conflict and answer.reason == "AlreadyExists":
        kind = errors.AlreadyExists
    return kind(
        status=status,
        reason=answer.reason or "",
        message=" ".join((answer.message or "").split())[:1000],
        causes=[errors.Cause(c.reason or "", c.message or "", c.field or "") for c in details.causes or ()],
        retry_after=wait,
        request=request,
        name=details.name or "",
    )


def stream_error(body: bytes, *, request: str = "") -> errors.ClusterError:
    """Translate the object of an ERROR event, a Status whose code stands in for the HTTP status."""
    try:
        answer = msgspec.json.decode(body, type=_Status)
    except (msgspec.DecodeError, RecursionError):
        answer = _Status()
    expired = answer.reason in {"Expired", "Gone"}
    return error_from(answer.code or (410 if expired else 500), body, request=request)


class Gateway:
    """Raw requests to one API server; every error is translated into ``sickbay.errors``.

    Use as an async context manager, or call `close`. Safe for concurrent use within one event loop.
    """

    def __init__(self, client: ApiClient, told: Told = lambda *_: None, acting: ActingAs | None = None) -> None:
        self._client: Any = client  # half of its methods have no types
        self._told = told
        self._acting = acting

    @classmethod
    async def connect(
        cls,
        *,
        kubeconfig: str | None = None,
        context: str | None = None,
        told: Told = lambda *_: None,
        as_user: str | None = None,
        as_groups: Sequence[str] = (),
    ) -> Self:
        """Load credentials as kubectl does (flag, KUBECONFIG, ~/.kube/config), or those of the pod we run in.

        No request is made yet; ``told`` hears of each that was. Requests are made as ``as_user`` in ``as_groups``, else
        as whom the kubeconfig names by ``as`` and ``as-groups``, else as the one whose credentials these are.

        Raises:
            UsageError: no configuration was found, or it cannot be used.
        """
        client, acting = await credentials.load(
            kubeconfig=kubeconfig, context=context, connections=CONNECTIONS, as_user=as_user, as_groups=as_groups
        )
        client.user_agent = f"sickbay/{_version()}"
        return cls(client, told, acting)

    @property
    def server(self) -> str:
        """Base URL of the API server, for messages."""
        return str(self._client.configuration.host)

    async def close(self) -> None:
        """Close all connections."""
        await self._client.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: object = None,
        params: Mapping[str, str] | None = None,
        content_type: str = "application/json",
        wait: float = REQUEST_TIMEOUT,
    ) -> bytes:
        """Make one request and return the raw body of a 2xx answer.

        A GET, PUT or DELETE whose kept-alive connection turns out to be closed is sent once more (by aiohttp): a PUT
        that the server did carry out can then come back as Conflict, a DELETE as NotFound. POST and PATCH go once.

        Args:
            method: HTTP verb, upper case.
            path: absolute path, already percent-encoded (see `k8s.resources.segment`).
            body: any JSON-serialisable value.
            params: query parameters.
            content_type: of the body; PATCH needs MERGE_PATCH or JSON_PATCH.
            wait: seconds for everything: fresh credentials, a free connection, the whole answer.

        Raises:
            ClusterError: one of its kinds, for any other answer.
            ClusterUnavailable: no answer, or half of one: a write may have happened.
        """
        began, outcome = time.monotonic(), OK
        with tracing.request(f"{method} {kind_of(path)}", method=method, path=path) as under_way:
            try:
                status, data = await self._answer(method, path, body, params, content_type, wait)
                under_way.answered(status)
            except errors.SickbayError as error:
                outcome = type(error).__name__
                if isinstance(error, errors.ClusterError):
                    under_way.answered(error.status)
                if not isinstance(error, ANSWERS):
                    under_way.failed(error)
                raise
            except asyncio.CancelledError:
                outcome = ""
                raise
            finally:
                if outcome:
                    self._told(method, outcome, time.monotonic() - began)
        return data

    async def date(self) -> datetime | None:
        """Read the API server's clock, to a second, from an answer's Date header; None if a proxy left it out.

        Raises:
            ClusterUnavailable: no answer.
        """
        request = "GET /version"
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT):
                limits = aiohttp.ClientTimeout(total=None)
                async with await self._send("GET", "/version", None, None, "application/json", limits) as response:
                    await response.read()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise errors.ClusterUnavailable(f"{request}: {_text_of(error)} ({self.server})") from error
        try:
            return parsedate_to_datetime(response.headers.get("Date", ""))
        except ValueError:
            return None

    async def stream(
        self, path: str, params: Mapping[str, str], *, idle: float, connect: float = 10.0
    ) -> AsyncGenerator[bytes]:
        """Yield the lines of a watch until the server ends it.

        The connection is held until the generator ends: whoever may leave the loop early wraps it in
        ``contextlib.aclosing``. A connection left in the middle is closed, never reused. An unfinished last line is
        dropped: the server sends that event again to whoever resumes before it.

        Lines are split here: aiohttp's own line iteration fails on lines over its buffer.

        Args:
            path: as in `request`.
            params: query parameters, among them ``watch=true``.
            idle: seconds without a byte after which the stream counts as dead.
            connect: seconds for everything up to the head of the answer; a refusal is read within them too.

        Raises:
            ClusterError, ClusterUnavailable: as `request`.
        """
        request = f"WATCH {path}"
        began = time.monotonic()
        limits = aiohttp.ClientTimeout(total=None, sock_read=idle)
        try:
            async with asyncio.timeout(connect):
                response = await self._send("GET", path, None, params, "application/json", limits)
                if response.status != 200:  # noqa: PLR2004 - a watch has no other success
                    async with response:
                        refusal = _refusal(response, await response.read(), request)
                        self._told("WATCH", type(refusal).__name__, time.monotonic() - began)
                        raise refusal
            async with response:
                rest = b""
                async for chunk in response.content.iter_any():
                    *lines, rest = (rest + chunk).split(b"\n")
                    for line in lines:
                        if line:
                            yield line
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            self._told("WATCH", errors.ClusterUnavailable.__name__, time.monotonic() - began)
            raise errors.ClusterUnavailable(f"{request}: {_text_of(error)} ({self.server})") from error

    async def _answer(
        self,
        method: str,
        path: str,
        body: object,
        params: Mapping[str, str] | None,
        content_type: str,
        wait: float,
    ) -> tuple[int, bytes]:
        request = f"{method} {path}"
        try:
            async with asyncio.timeout(wait):
                limits = aiohttp.ClientTimeout(total=None)
                async with await self._send(method, path, body, params, content_type, limits) as response:
                    data = await response.read()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise errors.ClusterUnavailable(f"{request}: {_text_of(error)} ({self.server})") from error
        if not 200 <= response.status < 300:  # noqa: PLR2004 - the class of success
            raise _refusal(response, data, request)
        return response.status, data

    async def _send(
        self,
        method: str,
        path: str,
        body: object,
        params: Mapping[str, str] | None,
        content_type: str,
        limits: aiohttp.ClientTimeout,
    ) -> aiohttp.ClientResponse:
        query = dict(params or {})
        if method in {"POST", "PUT", "PATCH"}:
            query.setdefault("fieldManager", FIELD_MANAGER)
        with credentials.translated():
            _, url, headers, _, _ = await self._client.param_serialize(
                method=method,
                resource_path=path,
                header_params={"Accept": "application/json", "Content-Type": content_type},
                auth_settings=["BearerToken"],
            )
        if query:
            url += "?" + urlencode(query)
        if self._acting is not None:
            headers = CIMultiDict(headers)  # the client's own headers have one value each
            headers.extend(self._acting.headers())
        answer = await self._client.rest_client.request(
            method, url, headers=headers, body=body, _request_timeout=limits
        )
        response: aiohttp.ClientResponse = answer.response
        return response


def _refusal(response: aiohttp.ClientResponse, body: bytes, request: str) -> errors.ClusterError:
    return error_from(response.status, body, request=request, retry_after=response.headers.get("Retry-After"))


def _version() -> str:
    try:
        return version("sickbay")
    except PackageNotFoundError:  # run from a source tree
        return "source"


def _text_of(error: BaseException) -> str:
    """Name an error that may have no text of its own (time-outs do not)."""
    return str(error) or type(error).__name__


def decode(data: bytes) -> Any:
    """Decode JSON without a schema; for small single objects and one-off reads."""
    return msgspec.json.decode(data)
