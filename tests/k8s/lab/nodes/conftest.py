"""A ward for each test of stand-in nodes."""

from __future__ import annotations

import pytest

from k8s.lab.lab import Lab
from k8s.lab.nodes.fleet import NodeShape
from tests.conftest import AddNodes
from tests.k8s.cluster import create_template
from tests.k8s.lab.nodes.ward import Ward


@pytest.fixture
async def ward(lab: Lab, namespace: str, add_nodes: AddNodes) -> Ward:
    """A ward with two devices."""
    driver = f"{namespace}.example"
    (node,) = await add_nodes(1, NodeShape(devices=2, driver=driver, prefix=namespace))
    await create_template(lab.gateway, namespace, "one", driver)
    return Ward(lab, namespace, node, driver)
