"""What a process says of itself over HTTP."""

from __future__ import annotations

import aiohttp
import pytest

from sickbay.errors import UsageError
from sickbay.telemetry.health import Check, Readiness, serving
from sickbay.telemetry.metrics import Metrics


async def get(address: str, path: str) -> tuple[int, str, str]:
    """Give status, content type and body."""
    async with aiohttp.ClientSession() as session, session.get(f"http://{address}{path}") as answer:
        return answer.status, answer.content_type, await answer.text()


async def test_ready_only_when_nothing_is_missing() -> None:
    """503 names what is missing; a check is wanting until its owner says otherwise."""
    readiness = Readiness("cluster", "temporal")
    async with serving("127.0.0.1:0", readiness, Metrics()) as address:
        readiness.has("cluster")
        readiness.lacks("temporal", "connection refused")
        status, kind, body = await get(address, "/readyz")
        assert (status, kind) == (503, "application/json")
        assert '"missing":["temporal"]' in body
        assert '"temporal":{"ok":false,"message":"connection refused"}' in body
        readiness.has("temporal")
        assert (await get(address, "/readyz"))[0] == 200


async def test_a_check_can_be_asked() -> None:
    """A check that is a function is asked at each request."""
    answers = iter([Check(ok=False, message="not listed yet"), Check(ok=True, message="")])
    readiness = Readiness()
    readiness.asks("watch", lambda: next(answers))
    async with serving("127.0.0.1:0", readiness, Metrics()) as address:
        assert [(await get(address, "/readyz"))[0] for _ in range(2)] == [503, 200]


async def test_alive_while_not_ready_and_metrics_are_served() -> None:
    """Liveness does not depend on what is missing elsewhere: restarting would mend nothing."""
    async with serving("127.0.0.1:0", Readiness("temporal"), Metrics()) as address:
        assert await get(address, "/healthz") == (200, "text/plain", "ok\n")
        status, kind, body = await get(address, "/metrics")
        assert (status, kind) == (200, "text/plain")
        assert "\nsickbay_leading 0.0\n" in body
        assert (await get(address, "/other"))[0] == 404


async def test_a_taken_port_is_one_line_with_a_remedy() -> None:
    """Two processes on one machine must be told apart by --listen."""
    async with serving("127.0.0.1:0", Readiness(), Metrics()) as address:
        with pytest.raises(UsageError, match=f"listen: cannot listen on {address}: .*--listen"):
            await serving(address, Readiness(), Metrics()).__aenter__()
