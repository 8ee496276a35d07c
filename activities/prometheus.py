"""One question to a Prometheus, over HTTP: bounded in time and size, and to no other address than was named."""

from __future__ import annotations

import asyncio
import ssl
from datetime import timedelta
from pathlib import Path
from typing import Final

import aiohttp
import structlog

from sickbay.model.contracts import BusinessVerdict
from sickbay.policy.prometheus import Answer, no_answer

log = structlog.get_logger(__name__)

WITHIN: Final = timedelta(seconds=10)
"""For the whole answer; a query that takes longer is not fit to be asked of each device."""

LARGEST: Final = 64 * 1024
"""Bytes of an answer: one number takes 200."""

LONGEST_TOKEN: Final = 16 * 1024


class Prometheus:
    """Asks; keeps no connection, because it is asked seldom."""

    def __init__(self, token_file: Path | None = None, *, within: timedelta = WITHIN) -> None:
        """Prepare.

        Args:
            token_file: of a bearer token, read each time, because tokens are renewed; None = no token.
            within: bound of one answer.
        """
        self._token_file = token_file
        self._within = within.total_seconds()

    async def ask(self, address: str, query: str) -> Answer | BusinessVerdict:
        """Ask for the query's value now.

        Args:
            address: ``http://host:port`` and a path, if any.
            query: PromQL.

        Returns:
            The answer; or why there is none that counts. Neither holds the token.
        """
        try:
            headers = await asyncio.to_thread(self._headers)
        except (OSError, ValueError) as error:
            log.warning("prometheus_token_not_read", file=str(self._token_file), error=str(error))
            return no_answer("TokenUnreadable", "the file of --prometheus-token-file cannot be read by the worker")
        try:
            async with asyncio.timeout(self._within):
                return await self._answer(f"{address}/api/v1/query", query, headers)
        except TimeoutError:
            return no_answer("TooSlow", f"no whole answer within {self._within:g} s")
        except (aiohttp.ClientError, ssl.SSLError, OSError) as error:
            return no_answer("Unreachable", f"{type(error).__name__}: {error}")

    async def _answer(self, url: str, query: str, headers: dict[str, str]) -> Answer | BusinessVerdict:
        async with (
            # Neither cookies nor a proxy of the environment, and nothing is unpacked: a packed answer is read as none.
            aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=False) as session,
            # By POST: what stands in an address is written into the logs of whoever passes it on.
            session.post(url, data={"query": query}, headers=headers, allow_redirects=False) as response,
        ):
            body = bytearray()
            async for part in response.content.iter_any():
                body += part
                if len(body) > LARGEST:
                    return no_answer("TooLarge", f"its answer is larger than {LARGEST // 1024} KiB")
            return Answer(response.status, bytes(body))

    def _headers(self) -> dict[str, str]:
        headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
        if self._token_file is not None:
            with self._token_file.open("rb") as file:
                token = file.read(LONGEST_TOKEN).decode("ascii").strip()
            if not token.isprintable() or not token or " " in token:
                raise ValueError("holds no token, or more than one")
            headers["Authorization"] = f"Bearer {token}"
        return headers
