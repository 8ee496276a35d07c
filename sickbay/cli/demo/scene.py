"""What the demo plays with: a job, a job that waits for one device, and a policy with compressed times."""

from __future__ import annotations

from typing import Any, Final

from k8s.lab.nodes.fleet import DRIVER
from sickbay.model.policy import Policy

NAMESPACE: Final = "demo"
JOB: Final = "trainer"
WAITING: Final = "latecomer"

POLICY: Final = Policy.model_validate(
    {
        "mode": "enforce",
        "confirm": "3s",
        "stable": "3s",
        "settle": "2s",
        "guard": {"share": 0.5, "floor": 1, "ceiling": 4, "perMinute": 10},
        "probe": {"first": "2s", "factor": 2, "longest": "10s", "timeout": "30s"},
        "canary": {"timeout": "30s"},
        "soak": {"time": "5s", "check": "1s"},
        "ramp": {"time": "4s", "check": "1s"},
    }
)
"""What a cluster would spread over minutes and hours, in seconds."""


def objects() -> list[tuple[str, dict[str, Any]]]:
    """Give path and body of what is there before the fault: a namespace, a claim template, a Deployment of one pod."""
    return [
        ("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}}),
        (f"/apis/resource.k8s.io/v1/namespaces/{NAMESPACE}/resourceclaimtemplates", _template(JOB, [])),
        (f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments", _deployment()),
    ]


def latecomer(uuid: str) -> list[tuple[str, dict[str, Any]]]:
    """Give path and body of a pod that wants exactly the device that is fenced, and nothing else."""
    wish = f'device.driver == "{DRIVER}" && device.attributes["{DRIVER}"].uuid == "{uuid}"'
    pod = {"metadata": {"name": WAITING}, "spec": _pod_spec(WAITING)}
    return [
        (
            f"/apis/resource.k8s.io/v1/namespaces/{NAMESPACE}/resourceclaimtemplates",
            _template(WAITING, [{"cel": {"expression": wish}}]),
        ),
        (f"/api/v1/namespaces/{NAMESPACE}/pods", pod),
    ]


def _template(name: str, selectors: list[dict[str, Any]]) -> dict[str, Any]:
    exactly: dict[str, Any] = {"deviceClassName": DRIVER, "selectors": selectors}
    request = {"name": "gpu", "exactly": exactly}
    return {"metadata": {"name": name}, "spec": {"spec": {"devices": {"requests": [request]}}}}


def _deployment() -> dict[str, Any]:
    labels = {"app": JOB}
    return {
        "metadata": {"name": JOB},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": _pod_spec(JOB)},
        },
    }


def _pod_spec(template: str) -> dict[str, Any]:
    container = {"name": "main", "image": "example.com/train:1", "resources": {"claims": [{"name": "gpu"}]}}
    return {
        "containers": [container],
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": template}],
        "terminationGracePeriodSeconds": 5,
    }
