"""The search attributes of a Temporal namespace: which of ours it knows, and how it comes to know them.

What is asked is the list of workflows itself, by a query that names the attribute: that takes no right but the one to
look, on Temporal Cloud too, and an attribute that it takes is one that works.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Final

from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from sickbay.model.searching import SearchAttribute

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


async def register(client: Client) -> dict[SearchAttribute, str]:
    """Register those that the namespace does not know, and wait until it does; give those it will not, and why.

    Each is registered by itself: a namespace may have room for some.

    Raises:
        RPCError: no answer.
    """
    there = await known(client)
    refused: dict[SearchAttribute, str] = {}
    for name in SearchAttribute:
        if name not in there and (why := await _add(client, name)):
            refused[name] = why
    missing = wanted = set(SearchAttribute) - set(refused)
    try:
        async with asyncio.timeout(KNOWN_WITHIN.total_seconds()):
            while missing := wanted - set(await known(client)):  # noqa: ASYNC110 - a server tells nobody
                await asyncio.sleep(POLL)
    except TimeoutError:
        refused |= dict.fromkeys(missing, f"registered, but not in force after {KNOWN_WITHIN.total_seconds():g} s")
    return refused


async def _knows(client: Client, name: SearchAttribute) -> bool:
    try:
        await client.count_workflows(f"{name} = 'none'", rpc_timeout=CALL)
    except RPCError as error:
        if error.status is RPCStatusCode.INVALID_ARGUMENT:
            return False
        raise
    return True


async def _add(client: Client, name: SearchAttribute) -> str:
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
