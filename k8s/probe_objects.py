"""What a probe is made of: its claim, its pod, and what can be read off them.

The claim tolerates our own taint and nothing else, and selects by the hardware's identity: names of pool and device are
not visible to a selector. The scheduler does the rest, so that a probe is allocated as any workload is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from k8s.fences import DEVICE_LABEL, MANAGED_BY
from k8s.hardware import Hardware, cel_of
from k8s.observations import health_of
from k8s.owners import condition
from k8s.resources import PODS, RESOURCECLAIMS
from k8s.wire import AllocationResult, ContainerStatus, Object, Pod, ResourceClaim
from sickbay.model.incident import Target, Trial
from sickbay.model.observation import Health
from sickbay.model.record import DEVICE_ANNOTATION, EFFECT_ANNOTATION, INCIDENT_ANNOTATION, QUARANTINE_KEY
from sickbay.policy.verdict import ProbeFacts

PROBE_NAMESPACE: Final = "sickbay-probe"
"""The only namespace whose claims may tolerate a quarantine."""

PROBE_CLASS: Final = "sickbay-probe"
"""DeviceClass without a selector of its own."""

RECORD_ANNOTATION: Final = "sickbay.dev/record-uid"
"""Uid of the record that the probe is for: a new record may count from one again, with the same names."""

CLAIM_VERSION_ANNOTATION: Final = "sickbay.dev/claim-version"
"""On the pod: resourceVersion of its claim before the allocation, see `k8s.probes`."""

REQUEST: Final = "probe"
CONTAINER: Final = "probe"

READY: Final = "/sickbay/ready"
"""In a canary's image: ends with 0 when its load has passed, with anything else before, and if it no longer holds."""

GRACE: Final = 5
"""Seconds that a probe has to end."""

USER_ID: Final = 65532
"""``nonroot`` of the common minimal images."""

STUCK: Final = frozenset(
    {
        "ErrImagePull",
        "ImagePullBackOff",
        "ErrImageNeverPull",
        "InvalidImageName",
        "RegistryUnavailable",
        "CreateContainerConfigError",
        "CreateContainerError",
    }
)
"""Why a container waits that will not start by itself soon (kubelet's packages ``images`` and ``kuberuntime``)."""


@dataclass(frozen=True, slots=True)
class ProbeStep:
    """One probe by its number: the names and keys of its objects."""

    target: Target
    number: int
    trial: Trial = Trial.PROBE

    @property
    def name(self) -> str:
        """Name of both."""
        return self.target.device.numbered(self.number)

    def effect_key(self, kind: str) -> str:
        """Name the request that makes one of them: each has a key of its own."""
        return self.target.effect_key(self.trial if kind == "Pod" else f"{self.trial}-claim", self.number)

    def made(self, kind: str, found: Object) -> bool:
        """Whether this object is this probe's, not a leftover of the same name, nor of a record that is gone."""
        notes = found.metadata.annotations
        return (notes.get(EFFECT_ANNOTATION), notes.get(RECORD_ANNOTATION)) == (
            self.effect_key(kind),
            self.target.record_uid,
        )

    def metadata(self, kind: str) -> dict[str, Any]:
        """Build the metadata of one of them."""
        device = self.target.device
        return {
            "name": self.name,
            "namespace": PROBE_NAMESPACE,
            "labels": {MANAGED_BY[0]: MANAGED_BY[1], DEVICE_LABEL: device.digest},
            "annotations": {
                DEVICE_ANNOTATION: str(device),
                INCIDENT_ANNOTATION: self.target.incident,
                EFFECT_ANNOTATION: self.effect_key(kind),
                RECORD_ANNOTATION: self.target.record_uid,
            },
        }


def claim_body(step: ProbeStep, hardware: Hardware) -> dict[str, Any]:
    """Build the claim for exactly this hardware.

    Raises:
        ValueError: its identity is not published.
    """
    exactly = {
        "deviceClassName": PROBE_CLASS,
        "allocationMode": "ExactCount",
        "count": 1,
        "selectors": [{"cel": {"expression": cel_of(hardware, step.target.device.driver)}}],
        "tolerations": [{"key": QUARANTINE_KEY, "operator": "Exists", "effect": "NoSchedule"}],
    }
    return {
        "apiVersion": RESOURCECLAIMS.api_version,
        "kind": "ResourceClaim",
        "metadata": step.metadata("ResourceClaim"),
        "spec": {"devices": {"requests": [{"name": REQUEST, "exactly": exactly}]}},
    }


def pod_body(step: ProbeStep, image: str, lasts: timedelta, claim_version: str) -> dict[str, Any]:
    """Build the pod: it runs once, without any right, and ends by itself.

    Args:
        step: the probe.
        image: of its container.
        lasts: after which kubelet ends it.
        claim_version: resourceVersion of the claim as it was made.
    """
    metadata = step.metadata("Pod")
    metadata["annotations"][CLAIM_VERSION_ANNOTATION] = claim_version
    container = {
        "name": CONTAINER,
        "image": image,
        "terminationMessagePolicy": "File",
        "resources": {
            "claims": [{"name": "device", "request": REQUEST}],
            "requests": {"cpu": "100m", "memory": "128Mi"},
            "limits": {"cpu": "1", "memory": "1Gi"},
        },
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
    }
    if step.trial is Trial.CANARY:
        # Without one a container is Ready as soon as it runs.
        container["readinessProbe"] = {
            "exec": {"command": [READY]},
            "periodSeconds": 5,
            "timeoutSeconds": 5,
            "failureThreshold": 1,
        }
    return {
        "apiVersion": PODS.api_version,
        "kind": "Pod",
        "metadata": metadata,
        "spec": {
            "restartPolicy": "Never",
            "activeDeadlineSeconds": max(1, math.ceil(lasts.total_seconds())),
            "terminationGracePeriodSeconds": GRACE,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": USER_ID,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [container],
            "resourceClaims": [{"name": "device", "resourceClaimName": step.name}],
        },
    }


def results_of(claim: ResourceClaim | None) -> tuple[AllocationResult, ...]:
    """Give what a claim holds."""
    return claim.status.allocation.devices.results if claim is not None and claim.status.allocation is not None else ()


def facts_of(
    pod: Pod, results: tuple[AllocationResult, ...], *, now: datetime, node_ready: bool, other: str = ""
) -> ProbeFacts:
    """Gather what a probe's verdict rests on.

    Args:
        pod: of the probe.
        results: what its claim holds, or held when it ran.
        now: timezone-aware; compared with a time of the API server, in tens of seconds.
        node_ready: of the node that the pod is bound to, true without one.
        other: who else holds the device.
    """
    status = next((s for s in pod.status.container_statuses if s.name == CONTAINER), ContainerStatus(name=CONTAINER))
    ended = status.state.terminated
    blocked, detail = _blocked(pod, status)
    failed = pod.status.phase == "Failed" and bool(pod.status.reason)
    ready = condition(pod.status.conditions, "Ready")
    words = [h.health or "" for entry in status.allocated_resources_status for h in entry.resources]
    return ProbeFacts(
        phase=pod.status.phase,
        failure=pod.status.reason if failed else "",
        deleted=bool(pod.metadata.deletion_timestamp),
        blocked=blocked,
        pending_for=now - datetime.fromisoformat(pod.metadata.creation_timestamp),
        detail=pod.status.message if failed else detail,
        node_ready=node_ready,
        held=tuple((r.driver, r.pool, r.device) for r in results),
        exit_code=None if ended is None else ended.exit_code,
        message="" if ended is None else ended.message,
        ready=ready is not None and ready.status == "True",
        other=other,
        health=max((health_of(word)[0] for word in words), key=lambda h: Health(h).severity, default=None),
    )


def _blocked(pod: Pod, status: ContainerStatus) -> tuple[str, str]:
    """Say what keeps a pending pod from running, and what is said about it."""
    scheduled = condition(pod.status.conditions, "PodScheduled")
    if scheduled is not None and scheduled.status == "False":
        return scheduled.reason or "Unschedulable", scheduled.message
    waiting = status.state.waiting
    if waiting is not None and waiting.reason in STUCK:
        return waiting.reason, f"{waiting.reason}: {waiting.message}"
    return "", ""
