"""How commands that only look come to the cluster, and what they say when they may not."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from k8s.gateway import Gateway
from sickbay.cli.acting import connect
from sickbay.settings import Settings
from workers.checks import remedies

READER: Final = (
    "members of group sickbay:operators may look, once 'sickbay install' has run; kubectl auth whoami shows yours"
)


@asynccontextmanager
async def reader(settings: Settings) -> AsyncIterator[Gateway]:
    """Connect to look.

    Raises:
        ClusterUnavailable, UsageError: it cannot be read, with what a person can do about it.
    """
    async with await connect(settings) as gateway:
        with remedies(gateway, forbidden=READER):
            yield gateway
