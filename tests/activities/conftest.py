"""What tests of several activities begin with."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from k8s.lab.lab import Lab
from tests.activities.incidents import Incident, open_incident
from tests.conftest import AddNodes
from tests.installation import Installation
from tests.k8s import cluster


@pytest.fixture
async def incident(lab: Lab, sickbay: Installation, namespace: str, add_nodes: AddNodes) -> AsyncIterator[Incident]:
    """Open an incident of a fenced device that nobody holds; nothing of its trials is left afterwards."""
    (node,) = await add_nodes(1, cluster.shape(namespace))
    opened = await open_incident(sickbay, cluster.device(namespace, node), node)
    await opened.fence()
    yield opened
    await opened.clean()
