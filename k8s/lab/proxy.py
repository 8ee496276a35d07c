"""A proxy before the API server that does nothing until it is told to misbehave.

TLS on both sides, checked on both. Bearer tokens are passed on. A client certificate cannot pass a proxy: for a
kubeconfig with one, the proxy hands out a token of its own and uses that certificate whenever the token comes.
"""

from __future__ import annotations

import asyncio
import json
import re
import secrets
import ssl
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import aiohttp
from aiohttp import web
from yarl import URL

from k8s.lab import kubeconfig
from k8s.lab.controlplane import ControlPlane
from k8s.lab.faults import WATCH, Answer, Call, Dropped, Fail, Fault, Hold, Rewrite, refusal

_OWN_HEADERS: Final = frozenset(
    {"host", "connection", "content-length", "transfer-encoding", "accept-encoding", "content-encoding", "keep-alive"}
)
"""Of one connection, not of the request."""

_LARGEST: Final = 64 * 1024 * 1024
_F = TypeVar("_F", bound=Fault)


@dataclass(eq=False)
class _Stream:
    """An open watch."""

    path: str
    request: web.Request
    response: web.StreamResponse
    ended: asyncio.Event


class FaultProxy:
    """A running proxy; make one by `FaultProxy.start`. Faults apply in the order in which they were added.

    Attributes:
        url: base URL, to be used with the lab's authority.
    """

    def __init__(self, control_plane: ControlPlane) -> None:
        self.url = ""
        self._control_plane = control_plane
        self._faults: list[Fault] = []
        self._streams: set[_Stream] = set()
        self._working: set[asyncio.Task[web.StreamResponse]] = set()
        self._by_certificate: dict[str, aiohttp.ClientSession] = {}
        self._plain: aiohttp.ClientSession

    @classmethod
    @asynccontextmanager
    async def start(cls, control_plane: ControlPlane) -> AsyncIterator[FaultProxy]:
        """Run a proxy before this control plane until the block ends."""
        proxy = cls(control_plane)
        keys = control_plane.authority
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.load_cert_chain(keys.server.certificate, keys.server.key)
        application = web.Application(client_max_size=_LARGEST)
        application.router.add_route("*", "/{path:.*}", proxy._handle)
        runner = web.AppRunner(application, handler_cancellation=True, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        proxy._plain = proxy._session(None)
        try:
            site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
            await site.start()
            proxy.url = f"https://127.0.0.1:{runner.addresses[0][1]}"
            yield proxy
        finally:
            for fault in proxy._faults:
                if isinstance(fault, Hold):
                    fault.release()
            await runner.cleanup()
            for work in proxy._working:
                work.cancel()
            await asyncio.gather(*proxy._working, return_exceptions=True)
            for session in (proxy._plain, *proxy._by_certificate.values()):
                await session.close()

    def kubeconfig(self, original: Path) -> Path:
        """Write a kubeconfig for the same user that points at the proxy.

        Args:
            original: a kubeconfig of this lab.
        """
        user = kubeconfig.read_user(original)
        if "client-certificate" in user:
            token = f"proxy-{secrets.token_hex(16)}"
            self._by_certificate[token] = self._session((user["client-certificate"], user["client-key"]))
            user = kubeconfig.by_token(token)
        return kubeconfig.write(
            original.with_name(f"{original.stem}.proxy-{self.url.rpartition(':')[2]}.kubeconfig"),
            server=self.url,
            authority=self._control_plane.authority.certificate,
            user=user,
        )

    def note(self, method: str, path: str, *, when: Callable[[Any], bool] | None = None) -> Fault:
        """Do nothing to requests but keep them."""
        return self._add(Fault(method, re.compile(path), when))

    def hold(
        self,
        method: str,
        path: str,
        *,
        executed: bool = True,
        when: Callable[[Any], bool] | None = None,
        times: int | None = None,
    ) -> Hold:
        """Hold answers (``executed``) or requests until the returned object is told to release them."""
        return self._add(Hold(method, re.compile(path), when, times, executed=executed))

    def fail(
        self,
        method: str,
        path: str,
        status: int,
        reason: str = "",
        *,
        message: str = "told to fail",
        retry_after: int | None = None,
        executed: bool = False,
        when: Callable[[Any], bool] | None = None,
        times: int | None = None,
    ) -> Fail:
        """Answer with a Status object; ``executed`` lets the API server do the work all the same."""
        answer = refusal(status, reason, message, retry_after)
        return self._add(Fail(method, re.compile(path), when, times, executed=executed, answer=answer))

    def reset(
        self,
        method: str,
        path: str,
        *,
        executed: bool,
        when: Callable[[Any], bool] | None = None,
        times: int | None = None,
    ) -> Fail:
        """Reset the connection, before or after the API server has ``executed`` the request."""
        return self._add(Fail(method, re.compile(path), when, times, executed=executed))

    def rewrite(
        self,
        method: str,
        path: str,
        change: Callable[[Any], Any],
        *,
        when: Callable[[Any], bool] | None = None,
        times: int | None = None,
    ) -> Rewrite:
        """Change the bodies of answers; with method `WATCH` each event of the streams that are opened from now on."""
        return self._add(Rewrite(method, re.compile(path), when, times, change=change))

    def cut(self, path: str, *, clean: bool = False) -> int:
        """Cut all open watches whose path matches.

        Args:
            path: searched for in the watch's path.
            clean: end the stream as the API server does at its time-out, else reset the connection.

        Returns:
            How many were open.
        """
        streams = self._matching(path)
        for stream in streams:
            if not clean:
                _abort(stream.request)
            stream.ended.set()
        return len(streams)

    async def inject(self, path: str, event: dict[str, Any]) -> int:
        """Send an event of our own into all open watches whose path matches, such as an ERROR with code 410.

        Returns:
            How many were open.
        """
        streams = self._matching(path)
        for stream in streams:
            await stream.response.write(json.dumps(event).encode() + b"\n")
        return len(streams)

    def _matching(self, path: str) -> list[_Stream]:
        return [stream for stream in self._streams if re.search(path, stream.path)]

    def _add(self, fault: _F) -> _F:
        self._faults.append(fault)
        return fault

    def _session(self, certificate: tuple[str, str] | None) -> aiohttp.ClientSession:
        tls = ssl.create_default_context(cafile=str(self._control_plane.authority.certificate))
        if certificate is not None:
            tls.load_cert_chain(*certificate)
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=tls, limit=0),
            timeout=aiohttp.ClientTimeout(total=None),
            auto_decompress=False,
        )

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        raw = await request.read()
        watch = request.method == "GET" and request.query.get("watch") in {"true", "1"}
        call = Call(WATCH if watch else request.method, request.path, _decoded(raw))
        faults = [fault for fault in self._faults if fault.takes(call)]
        try:
            for fault in faults:
                if (instead := await fault.before()) is not None:
                    return _response(instead)
            if watch or not faults:
                return await self._execute(request, raw, faults, watch=watch)
            # A client on a busy machine may give up what the API server is about to do; who waits for that waits on.
            work = asyncio.create_task(self._execute(request, raw, faults))
            self._working.add(work)
            work.add_done_callback(self._done)
            return await asyncio.shield(work)
        except (Dropped, aiohttp.ClientError):  # told to, or the API server itself is gone
            _abort(request)
            return web.Response()

    async def _execute(
        self, request: web.Request, raw: bytes, faults: Sequence[Fault], *, watch: bool = False
    ) -> web.StreamResponse:
        async with self._send(request, raw) as upstream:
            if watch and upstream.status == 200:  # noqa: PLR2004
                return await self._stream(request, upstream, faults)
            answer = Answer(upstream.status, await upstream.read(), _end_to_end(upstream.headers))
        for fault in faults:
            answer = await fault.after(answer)
        return _response(answer)

    def _done(self, work: asyncio.Task[web.StreamResponse]) -> None:
        self._working.discard(work)
        if not work.cancelled():
            work.exception()  # its client may be gone

    @asynccontextmanager
    async def _send(self, request: web.Request, raw: bytes) -> AsyncIterator[aiohttp.ClientResponse]:
        headers = _end_to_end(request.headers)
        headers["Accept-Encoding"] = "identity"  # bodies are read here; the API server packs those over 128 KB
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        session = self._by_certificate.get(token)
        if session is not None:
            headers = {name: value for name, value in headers.items() if name.lower() != "authorization"}
        url = URL(self._control_plane.url + request.raw_path, encoded=True)
        async with (session or self._plain).request(
            request.method, url, headers=headers, data=raw or None, allow_redirects=False
        ) as upstream:
            yield upstream

    async def _stream(
        self, request: web.Request, upstream: aiohttp.ClientResponse, faults: Sequence[Fault]
    ) -> web.StreamResponse:
        """Pass a watch on, event by event, until either side or a cut ends it."""
        response = web.StreamResponse(headers=_end_to_end(upstream.headers))
        await response.prepare(request)
        stream = _Stream(request.path, request, response, asyncio.Event())
        self._streams.add(stream)
        passing = asyncio.ensure_future(_pass_on(upstream, response, faults))
        cut = asyncio.ensure_future(stream.ended.wait())
        try:
            await asyncio.wait({passing, cut}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._streams.discard(stream)
            passing.cancel()
            cut.cancel()
            await asyncio.gather(passing, cut, return_exceptions=True)
        return response


async def _pass_on(upstream: aiohttp.ClientResponse, response: web.StreamResponse, faults: Sequence[Fault]) -> None:
    rest = b""
    async for chunk in upstream.content.iter_any():
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            if passed := _rewritten(line, faults) if faults else line:
                await response.write(passed + b"\n")


def _rewritten(line: bytes, faults: Sequence[Fault]) -> bytes:
    event = json.loads(line)
    for fault in faults:
        if event is not None:
            event = fault.on_event(event)
    return b"" if event is None else json.dumps(event).encode()


def _decoded(raw: bytes) -> Any:
    try:
        return json.loads(raw) if raw else None
    except ValueError:  # a form, YAML, protobuf
        return None


def _end_to_end(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.lower() not in _OWN_HEADERS}


def _response(answer: Answer) -> web.Response:
    return web.Response(status=answer.status, body=answer.body, headers=answer.headers)


def _abort(request: web.Request) -> None:
    if request.transport is not None:
        request.transport.abort()
