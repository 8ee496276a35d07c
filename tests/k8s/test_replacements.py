"""How many pods an owner wants; what replaced a lost one is told in the tests of `k8s.users`."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from k8s.replacements import wanted_pods
from k8s.wire import Object
from k8s.workloads import Deployment, Job, StatefulSet


@pytest.mark.parametrize(
    ("kind", "spec", "status", "wanted"),
    [
        (Deployment, {}, {}, 1),
        (Deployment, {"replicas": 3}, {}, 3),
        (Deployment, {"replicas": 0}, {}, 0),
        (StatefulSet, {"replicas": 2}, {}, 2),
        (Job, {}, {}, 1),
        (Job, {"parallelism": 4, "completions": 10}, {"succeeded": 3}, 4),
        (Job, {"parallelism": 4, "completions": 10}, {"succeeded": 8}, 2),
        (Job, {"parallelism": 4, "completions": 10}, {"succeeded": 10}, 0),
        (Job, {"parallelism": 4, "completions": 10, "suspend": True}, {}, 0),
        # A work queue: as many as work, until one of them says that there is no more.
        (Job, {"parallelism": 4}, {"succeeded": 2}, 2),
    ],
)
def test_an_owner_wants_so_many_pods_now(
    kind: type[Object], spec: dict[str, Any], status: dict[str, Any], wanted: int
) -> None:
    """Replicas, or what is left of a Job's completions."""
    owner = msgspec.convert({"metadata": {"name": "o"}, "spec": spec, "status": status}, kind)
    assert wanted_pods(owner) == wanted
