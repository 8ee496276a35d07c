"""The search attributes of a Temporal namespace: which of ours it knows, and how it comes to know them.

What is asked is the list of workflows itself, by a query that names the attribute: that takes no right but the one to
look, on Temporal Cloud too, and an attribute that it takes is one that works.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import partial
from typing import Final, Protocol, TypeVar

from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from sickbay.model.searching import SearchAttribute

T = TypeVar("T")

KNOWN_WITHIN: Final = timedelta(seconds=20)
"""From the registration to its effect: servers keep a namespace's attributes for some seconds (0.25 s measured on the
dev server)."""

CALL: Final = timedelta(seconds=5)

POLL: Final = 0.25
"""Seconds."""


async def known(client: Client) -> tuple[SearchAttribute, ...]:
    """Say which of our attributes the namespace knows.

    Raises:
        RPCError: no answer.
    """
    answers = await asyncio.gather(*(_knows(client, name) for name in SearchAttribute))
    return tuple(name for name, there in zip(SearchAttribute, answers, strict=True) if there)


class Answered(Protocol):
    """Makes a call, and translates what keeps it from being answered."""

    async def __call__(self, call: Callable[[Client], Awaitable[T]], /) -> T:
        """Give the answer."""


async def register(answered: Answered) -> dict[SearchAttribute, str]:
    """Register those that the namespace does not know, and wait until it does; give those it will not, and why.

    Each is registered by itself: a namespace may have room for some.

    Args:
        answered: makes each call.
    """
    there = await answered(known)
    refused: dict[SearchAttribute, str] = {}
    for name in SearchAttribute:
        if name not in there and (why := await answered(partial(_add, name))):
            refused[name] = why
    missing = wanted = set(SearchAttribute) - set(refused)
    try:
        async with asyncio.timeout(KNOWN_WITHIN.total_seconds()):
            while missing := wanted - set(await answered(known)):  # noqa: ASYNC110 - a server tells nobody
                await asyncio.sleep(POLL)
    except TimeoutError:
        late = f"registered, but not a Keyword in force after {KNOWN_WITHIN.total_seconds():g} s"
        refused |= dict.fromkeys(missing, late)
    return refused


async def _knows(client: Client, name: SearchAttribute) -> bool:
    try:
        await client.count_workflows(f"{name} = 'none'", rpc_timeout=CALL)
    except RPCError as error:
        if error.status is RPCStatusCode.INVALID_ARGUMENT:
            return False
        raise
    return True


async def _add(name: SearchAttribute, client: Client) -> str:
    """Register one; give why not, ``""`` if it is."""
    request = AddSearchAttributesRequest(
        namespace=client.namespace, search_attributes={name: IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD}
    )
    try:
        await client.operator_service.add_search_attributes(request, timeout=CALL)
    except RPCError as error:
        if error.status is RPCStatusCode.ALREADY_EXISTS:
            return ""
        if error.status in _PASSING:
            raise
        return error.message or error.status.name
    return ""


_PASSING: Final = frozenset({RPCStatusCode.UNAVAILABLE, RPCStatusCode.DEADLINE_EXCEEDED, RPCStatusCode.CANCELLED})
"""Answers of a server that is away, which say nothing about the attribute."""
