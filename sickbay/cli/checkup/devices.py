"""Can what is taken out of service be kept out, tried, and brought back?"""

from __future__ import annotations

from collections import Counter

from k8s.control import ControlMap
from k8s.hardware import Identities, published
from k8s.sights import look, published_slices
from k8s.tolerations import tolerant
from k8s.wire import ResourceSlice
from sickbay.cli.checkup.finding import Finding, Scene, Severity, some
from sickbay.cli.look.entry import entries
from sickbay.model.device import DeviceKey
from sickbay.model.policy import Canary, Mode, Policy, Probe


async def identities(scene: Scene) -> list[Finding]:
    """Per driver, the attribute that names a device's hardware: published, and unique."""
    slices = await published_slices(scene.gateway)
    policy = scene.policy or Policy()
    drivers = sorted({s.spec.driver for s in slices if policy.matches(s.spec.driver)})
    if not drivers:
        return [Finding("Identity", Severity.WARNING, "no driver publishes a device", "install a DRA driver")]
    return [_identity(slices, driver, policy, given=scene.policy is not None) for driver in drivers]


def _identity(slices: tuple[ResourceSlice, ...], driver: str, policy: Policy, *, given: bool) -> Finding:
    attribute = policy.probe.identity_attribute(driver)
    index = Identities.of(slices, driver, attribute)
    found = [
        (f"{s.spec.pool.name}/{device.name}", index.identify(_key(driver, s.spec.pool.name, device.name)))
        for s, device in published(slices, driver)
    ]
    names = f"name another attribute of {driver} in the policy's probe.identity, or ask its vendor"
    nameless = [name for name, hardware in found if hardware.value is None]
    twins = Counter(hardware.id for _, hardware in found if hardware.value is not None and not hardware.unique)
    if twins:
        what = f"{driver}: devices share {attribute} {some(sorted(twins))}: none of them is ever probed or released"
        return Finding("Identity", Severity.ERROR, what, names)
    if nameless:
        what = f"{driver}: no attribute {attribute} on {some(nameless)}: fenced, they never come back by themselves"
        # Without a policy the attribute is a guess, and the driver perhaps none of ours.
        return Finding("Identity", Severity.ERROR if given else Severity.WARNING, what, names)
    return Finding("Identity", Severity.OK, f"{driver}: {attribute} names each of {len(found)} devices")


def _key(driver: str, pool: str, device: str) -> DeviceKey:
    return DeviceKey(cluster="-", driver=driver, pool=pool, device=device)


async def tolerations(scene: Scene) -> list[Finding]:
    """Claims and templates that a fence does not keep out."""
    found = await tolerant(scene.gateway)
    if not found:
        return [Finding("Tolerations", Severity.OK, "no claim or template tolerates a quarantine")]
    named = some(f"{t.kind} {t.namespace}/{t.name} ({t.key or 'every taint'})" for t in found)
    remedy = (
        "delete them and make them anew with the keys that they mean, or with adminAccess; the admission policy holds"
        " only those that are made"
    )
    return [Finding("Tolerations", Severity.ERROR, f"a fence does not keep out {named}", remedy)]


async def records(scene: Scene) -> list[Finding]:
    """Records that cannot be read, and those that wait for a person."""
    found = entries(await look(scene.gateway, slices=False))
    namespace_id = (await ControlMap(scene.gateway).read()).namespace_id
    findings = []
    strange = [
        e.name for e in found if e.record and not e.closed and e.record.spec.namespace_id not in {"", namespace_id}
    ]
    if strange:
        what = f"open incidents of another Temporal namespace, which nobody carries on: {some(strange)}"
        remedy = "use that Temporal again, or run 'sickbay install --adopt-namespace' if its database is lost for good"
        findings.append(Finding("Records", Severity.ERROR, what, remedy))
    unreadable = [entry.name for entry in found if entry.record is None]
    if unreadable:
        remedy = "mend or delete them as a member of sickbay:break-glass; until then their devices are left alone"
        findings.append(Finding("Records", Severity.ERROR, f"cannot be read: {some(unreadable)}", remedy))
    asking = [entry.name for entry in found if entry.asks is not None]
    if asking:
        remedy = "sickbay explain NAME says what each of them asks"
        findings.append(Finding("Records", Severity.WARNING, f"wait for a person: {some(asking)}", remedy))
    return findings or [Finding("Records", Severity.OK, f"{len(found)}, none of which needs a person")]


async def probe(scene: Scene) -> list[Finding]:
    """Whether the policy names a probe and a canary."""
    if scene.policy is None:
        return [Finding("Probe", Severity.OK, "no policy was given; with --policy FILE its images are looked at, too")]
    acts = scene.policy.mode in {Mode.APPROVE, Mode.ENFORCE}
    named = (
        ("Probe", "probe.image", scene.policy.probe.image, Probe().image),
        ("Canary", "canary.image", scene.policy.canary.image, Canary().image),
    )
    return [_image(check, key, image, placeholder=acts and image == default) for check, key, image, default in named]


def _image(check: str, key: str, image: str, *, placeholder: bool) -> Finding:
    if not placeholder:
        return Finding(check, Severity.OK, image)
    what = f"{key} is the placeholder {image}: what is fenced ends with a person"
    return Finding(check, Severity.WARNING, what, "build one, see docs/probe.md, and name it in the policy")
