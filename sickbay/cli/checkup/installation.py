"""Is Sickbay installed, by this version, and may it do its work?"""

from __future__ import annotations

import asyncio
from typing import Final

from k8s.configmaps import NAMESPACE
from k8s.control import ControlMap
from k8s.drift import Drift, drifts
from k8s.gateway import decode
from k8s.impersonation import SERVICE_ACCOUNT
from k8s.install import LEADER_LEASE
from k8s.resources import LEASES
from k8s.rights import missing, missing_to, user
from sickbay import errors
from sickbay.cli.checkup.finding import Finding, Scene, Severity, some

INSTALL: Final = "run 'sickbay install' as a cluster administrator"

ACCOUNT_GROUPS: Final = ("system:serviceaccounts", "system:serviceaccounts:sickbay", "system:authenticated")

_AREAS: Final = {
    "CustomResourceDefinition": "RecordType",
    "ValidatingAdmissionPolicy": "AdmissionPolicies",
    "ValidatingAdmissionPolicyBinding": "AdmissionPolicies",
    "Namespace": "Namespaces",
    "ServiceAccount": "Namespaces",
    "DeviceClass": "Namespaces",
}
"""Name of the check by kind of object; the others are roles."""

_POLL: Final = 0.25


async def control(scene: Scene) -> list[Finding]:
    """The installation's own ConfigMap: the cluster's name, and the switch."""
    try:
        found = await ControlMap(scene.gateway).read()
    except errors.UsageError as error:
        return [Finding("Installation", Severity.ERROR, str(error), INSTALL)]
    if not found.cluster:
        what = "ConfigMap sickbay/sickbay-control names no cluster"
        return [Finding("Installation", Severity.ERROR, what, f"{INSTALL}, with --cluster NAME")]
    if found.paused_at(scene.now()):
        until = f"until {found.until:%Y-%m-%d %H:%M}Z" if found.until else "until somebody resumes"
        what = f"paused by {found.who or 'nobody named'} {until}: {found.why or 'no reason given'}"
        return [Finding("Installation", Severity.WARNING, what, "resume when the reason is gone")]
    return [Finding("Installation", Severity.OK, f"cluster {found.cluster!r}")]


async def manifests(scene: Scene) -> list[Finding]:
    """Record type, admission policies and roles, as this version has them."""
    found = await drifts(scene.gateway)
    by_area: dict[str, list[Drift]] = {area: [] for area in (*_AREAS.values(), "Roles")}
    for drift in found:
        by_area[_AREAS.get(drift.kind, "Roles")].append(drift)
    return [
        Finding(area, Severity.ERROR, some(wrong), INSTALL)
        if wrong
        else Finding(area, Severity.OK, "installed, as this version has them")
        for area, wrong in by_area.items()
    ]


async def rights(scene: Scene) -> list[Finding]:
    """What Sickbay's own account may do."""
    if await user(scene.gateway) == SERVICE_ACCOUNT:
        lacking = await missing(scene.gateway)
    else:
        lacking = await missing_to(scene.gateway, SERVICE_ACCOUNT, ACCOUNT_GROUPS)
    if lacking:
        return [Finding("Rights", Severity.ERROR, f"{SERVICE_ACCOUNT} may not {some(lacking)}", INSTALL)]
    return [Finding("Rights", Severity.OK, f"{SERVICE_ACCOUNT} may do what it has to")]


async def leader(scene: Scene) -> list[Finding]:
    """Whether somebody leads: the Lease has a holder who renews it. Clocks are not compared, the Lease has to move."""
    path = LEASES.path(NAMESPACE, LEADER_LEASE)
    try:
        lease = decode(await scene.gateway.request("GET", path))
    except errors.NotFound:
        what = f"Lease {NAMESPACE}/{LEADER_LEASE} is missing: no decision passes the admission policies"
        return [Finding("Leader", Severity.ERROR, what, INSTALL)]
    holder = str(lease["spec"].get("holderIdentity") or "")
    remedy = "start 'sickbay run', or look at its log: nobody detects or fences"
    if not holder:
        return [Finding("Leader", Severity.ERROR, "nobody leads", remedy)]
    patience = float(lease["spec"].get("leaseDurationSeconds", 0)) + 1
    loop = asyncio.get_running_loop()
    end = loop.time() + patience
    while loop.time() < end:
        await asyncio.sleep(_POLL)
        now = decode(await scene.gateway.request("GET", path))
        if now["metadata"]["resourceVersion"] != lease["metadata"]["resourceVersion"]:
            return [Finding("Leader", Severity.OK, f"{now['spec'].get('holderIdentity') or holder} leads")]
    return [Finding("Leader", Severity.ERROR, f"{holder} leads but has not renewed for {patience:g} s", remedy)]
