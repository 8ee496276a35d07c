"""All checks at once; none of them keeps another from its finding."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from sickbay import errors
from sickbay.cli.checkup import cluster, devices, installation
from sickbay.cli.checkup.finding import Finding, Scene, Severity
from sickbay.cli.checkup.temporal import temporal

Check = Callable[[Scene], Awaitable[list[Finding]]]

CHECKS: Final[dict[str, Check]] = {
    "Kubernetes": cluster.kubernetes,
    "FeatureGates": cluster.feature_gates,
    "Clock": cluster.clock,
    "Installation": installation.control,
    "Manifests": installation.manifests,
    "Rights": installation.rights,
    "Leader": installation.leader,
    "Temporal": temporal,
    "Identity": devices.identities,
    "Tolerations": devices.tolerations,
    "Records": devices.records,
    "Probe": devices.probe,
}
"""In the order in which they are told."""


async def examine(scene: Scene) -> list[Finding]:
    """Carry all checks out; a cluster that does not answer is one finding, not twelve."""
    try:
        await scene.gateway.request("GET", "/version")
    except (errors.ClusterUnavailable, errors.ClusterError) as error:
        remedy = "see that it runs, log in again, or name another cluster or user with --kubeconfig or --context"
        return [Finding("Kubernetes", Severity.ERROR, str(error), remedy), *await temporal(scene)]
    found = await asyncio.gather(*(_tried(name, check, scene) for name, check in CHECKS.items()))
    return [finding for findings in found for finding in findings]


async def _tried(name: str, check: Check, scene: Scene) -> list[Finding]:
    try:
        return await check(scene)
    except errors.Forbidden as error:
        remedy = "run doctor with a kubeconfig of a cluster administrator"
        return [Finding(name, Severity.WARNING, f"may not be looked at: {error.message or error}", remedy)]
    except errors.SickbayError as error:
        return [Finding(name, Severity.ERROR, f"could not be looked at: {error}", "mend that first")]
