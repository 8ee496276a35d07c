"""Is the cluster one that Sickbay can work in?"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from k8s.features import features, version
from k8s.resources import served
from sickbay.cli.checkup.finding import Finding, Scene, Severity, some

OLDEST: Final = (1, 34)

GATES: Final = {"DRADeviceTaints": (1, 34), "DRADeviceTaintRules": (1, 35), "ResourceHealthStatus": (1, 34)}
"""Feature gates that are needed, and the version that has each first."""

SKEW: Final = timedelta(seconds=5)
"""Tolerated between this machine's clock and the API server's, whose header has whole seconds."""

SKEW_ERROR: Final = timedelta(minutes=1)


async def kubernetes(scene: Scene) -> list[Finding]:
    """The version, and that fences can be put."""
    found = await version(scene.gateway)
    where = f"{found.text or 'no version'} at {scene.gateway.server}"
    if (found.major, found.minor) < OLDEST:
        remedy = f"upgrade to {OLDEST[0]}.{OLDEST[1]} or newer"
        return [Finding("Kubernetes", Severity.ERROR, f"{where} is too old", remedy)]
    if await served(scene.gateway) is None:
        remedy = (
            "1.37 serves them; before it serve resource.k8s.io/v1beta2 (1.36) or v1alpha3 (1.34, 1.35) by"
            " --runtime-config of the API server, with the feature gates on"
        )
        return [
            Finding("Kubernetes", Severity.ERROR, f"{where} serves no DeviceTaintRules: nothing can be fenced", remedy)
        ]
    return [Finding("Kubernetes", Severity.OK, where)]


async def feature_gates(scene: Scene) -> list[Finding]:
    """Those of the API server; scheduler, controller manager and kubelets do not tell theirs."""
    found = await version(scene.gateway)
    on = await features(scene.gateway)
    needed = [gate for gate, since in GATES.items() if (found.major, found.minor) >= since]
    off = [gate for gate in needed if on.get(gate) is False]
    if off:
        flag = f"--feature-gates={','.join(f'{gate}=true' for gate in off)}"
        remedy = f"start API server, scheduler, controller manager and kubelets with {flag}"
        return [Finding("FeatureGates", Severity.ERROR, f"{some(off)} off in the API server", remedy)]
    unknown = [gate for gate in needed if gate not in on]
    if unknown:
        remedy = "look at the flags of the API server"
        return [
            Finding(
                "FeatureGates", Severity.WARNING, f"the API server does not say whether {some(unknown)} are on", remedy
            )
        ]
    return [Finding("FeatureGates", Severity.OK, f"{some(needed)} on in the API server")]


async def clock(scene: Scene) -> list[Finding]:
    """This machine's clock against the API server's."""
    before = scene.now()
    date = await scene.gateway.date()
    after = scene.now()
    if date is None:
        return [
            Finding("Clock", Severity.WARNING, "the API server's answers have no Date", "compare the clocks by hand")
        ]
    # The header is cut to a second: between date and date + 1 s lies the server's time.
    skew = date + timedelta(seconds=0.5) - (before + (after - before) / 2)
    seconds = f"{abs(skew.total_seconds()):.0f} s"
    if abs(skew) <= SKEW:
        return [Finding("Clock", Severity.OK, f"within {SKEW.total_seconds():g} s of the API server's")]
    word = "behind" if skew > timedelta(0) else "ahead of"
    severity = Severity.ERROR if abs(skew) > SKEW_ERROR else Severity.WARNING
    remedy = "let both machines synchronise their clocks (chrony, systemd-timesyncd)"
    return [Finding("Clock", severity, f"this machine's clock is {seconds} {word} the API server's", remedy)]
