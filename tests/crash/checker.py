"""The witness's verdict: does the audit log, with a watch of pods, bear out what Sickbay promises?

It knows the API server's words and the promises (design sections 1, 4.7 and 5), and none of our code:

- per effect key one request changed an object; repeats that change nothing are allowed and counted;
- a pod that was evicted has one deletion, however often it was asked for;
- record first: no fence before the record of its incident;
- never more than the allowed share is fenced, or admitted, at any moment;
- decisions of an older term are not taken after those of a newer one;
- nothing is written but what is Sickbay's to write, and nothing is deleted but by uid;
- every device that broke has as many incidents as it should, and each ended as it should, fences and probes gone.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from tests.crash.effects import EFFECT, Effect, closed, device_of, effect, incident_of, status_of
from tests.crash.fences import Fences
from tests.crash.testimony import Json, Request, metadata, notes, writes

TERM: Final = "sickbay.dev/term"
PROBES: Final = "sickbay-probe"
ANYWHERE: Final = "*"

OURS: Final = frozenset(
    {
        *((verb, "devicequarantines", "") for verb in ("create", "patch", "delete")),
        ("patch", "devicequarantines/status", ""),
        *((verb, "devicetaintrules", "") for verb in ("create", "patch", "delete")),
        ("create", "pods/eviction", ANYWHERE),
        *((verb, what, PROBES) for verb in ("create", "delete") for what in ("pods", "resourceclaims")),
        *((verb, "leases", "sickbay") for verb in ("create", "patch")),
        ("patch", "configmaps", "sickbay"),
        *(("create", f"selfsubject{what}reviews", "") for what in ("", "access")),
    }
)
"""Verb, resource and namespace of all that Sickbay may ask for: no status of a pod, no deletion of anybody's pod."""


@dataclass(frozen=True)
class Promises:
    """What is to be borne out.

    Attributes:
        kills: how many processes were killed: so many repeats of an accepted eviction are allowed.
        fenced_at_most: devices that may be fenced, or admitted, at one moment.
        incidents: by ``driver/pool/device``, how many incidents each device that broke must have had.
        outcome: how each of them must have ended.
        user: Sickbay's account.
    """

    kills: int
    fenced_at_most: int
    incidents: Mapping[str, int]
    outcome: str = "Released"
    user: str = "system:serviceaccount:sickbay:sickbay"


@dataclass
class Findings:
    """What was found.

    Attributes:
        violations: broken promises, one line each.
        effects: how many requests changed something, by kind of effect.
        repeats: how many changed nothing, by kind.
        unclear: requests that were cut off, so that the log cannot tell whether they changed something.
        fenced: most devices that were fenced at one moment.
    """

    violations: list[str] = field(default_factory=list)
    effects: Counter[str] = field(default_factory=Counter)
    repeats: Counter[str] = field(default_factory=Counter)
    unclear: int = 0
    fenced: int = 0

    def __str__(self) -> str:
        """Sum it up: a line of counts, and one for each violation."""
        counts = f"effects {dict(self.effects)}, repeats {dict(self.repeats)}, unclear {self.unclear}"
        return "\n".join([f"{counts}, fenced at most {self.fenced}", *self.violations])


def check(log: Iterable[str], pods: Iterable[Json], promises: Promises) -> Findings:
    """Compare what was seen with what was promised.

    Args:
        log: lines of the audit log.
        pods: each state of each pod that a watch showed, in order.
        promises: what is to be borne out.
    """
    requests = list(writes(log, promises.user))
    findings = Findings(unclear=sum(r.changed is None for r in requests))
    changes = _changes(requests, findings)
    findings.violations += _twice(changes)
    findings.violations += _not_ours(requests)
    findings.violations += _terms(requests)
    fences = Fences(requests)
    findings.fenced = max((count for _, count in fences.standing), default=0)
    findings.violations += fences.violations
    findings.violations += _crowds(requests, fences, promises.fenced_at_most)
    findings.violations += _evictions(requests, pods, promises.kills, findings)
    findings.violations += _incidents(requests, promises)
    cut_off = {found for r in requests if r.changed is None and (found := effect(r)) is not None}
    findings.violations += _left_behind(changes, cut_off, fences)
    return findings


def _changes(requests: Iterable[Request], findings: Findings) -> dict[Effect, list[Request]]:
    """Gather the requests that changed something, by effect, and count all others."""
    changes: dict[Effect, list[Request]] = defaultdict(list)
    for request in requests:
        found = effect(request)
        if found is None:
            continue
        if request.changed:
            changes[found].append(request)
            findings.effects[found.kind] += 1
        elif request.changed is False:
            findings.repeats[found.kind] += 1
    return changes


def _twice(changes: Mapping[Effect, list[Request]]) -> Iterator[str]:
    for (kind, key), made in changes.items():
        if len(made) > 1:
            yield f"{kind} {key} happened {len(made)} times: {'; '.join(r.what for r in made)}"
    keys = Counter(
        notes(r.sent)[EFFECT]
        for made in changes.values()
        for r in made
        if r.verb == "create" and EFFECT in notes(r.sent)
    )
    yield from (f"effect key {key} created {times} objects" for key, times in keys.items() if times > 1)


def _not_ours(requests: Iterable[Request]) -> Iterator[str]:
    for r in requests:
        if not {(r.verb, r.resource, r.namespace), (r.verb, r.resource, ANYWHERE)} & OURS:
            yield f"not Sickbay's to write: {r.what}"
        elif r.verb == "delete" and not r.uid:
            yield f"deleted without a uid: {r.what}"


def _terms(requests: Iterable[Request]) -> Iterator[str]:
    """In the order in which etcd took them, decisions never go back to an older term."""
    newest = 0
    for r in sorted((r for r in requests if r.changed), key=lambda r: r.version):
        term = _term(r)
        if term is not None and term < newest:
            yield f"decided in term {term} after term {newest} had begun: {r.what}"
        newest = max(newest, term or 0)


def _term(request: Request) -> int | None:
    if request.resource == "devicequarantines" and "spec" in request.sent:
        return int((request.answer.get("spec") or {}).get("term", 0))
    if request.verb == "create" and request.resource == "devicetaintrules":
        term = notes(request.sent).get(TERM)
        return None if term is None else int(term)
    return None


def _crowds(requests: Iterable[Request], fences: Fences, allowed: int) -> Iterator[str]:
    """Neither fences nor admissions ever exceed the share."""
    for request, count in fences.standing:
        if count > allowed:
            yield f"{count} devices fenced, {allowed} allowed: {request.what}"
    inside: dict[str, tuple[int, bool]] = {}
    for r in requests:
        if not (r.changed and r.resource.startswith("devicequarantines")):
            continue
        admission = (r.answer.get("spec") or {}).get("admission") or {}
        now = r.version, admission.get("state") == "Admitted" and not closed(r)
        inside[r.name] = max(inside.get(r.name, now), now)
        if (count := sum(admitted for _, admitted in inside.values())) > allowed:
            yield f"{count} incidents admitted, {allowed} allowed: {r.what}"


def _evictions(requests: Iterable[Request], pods: Iterable[Json], kills: int, findings: Findings) -> Iterator[str]:
    """A pod's deletion began once, however often its eviction was accepted."""
    accepted = Counter(r.uid for r in requests if r.resource == "pods/eviction" and r.accepted)
    findings.effects["pod evicted"] = len(accepted)
    findings.repeats["pod evicted"] = accepted.total() - len(accepted)
    begun: dict[str, set[str]] = defaultdict(set)
    for pod in pods:
        about = metadata(pod)
        # A kubelet that has stopped a pod removes it with grace period 0, which sets the time anew.
        if about.get("deletionGracePeriodSeconds", 0) > 0:
            begun[about["uid"]].add(about["deletionTimestamp"])
    for uid, times in accepted.items():
        if not uid:
            yield "evicted without a uid"
        elif len(begun[uid]) != 1:
            yield f"evicted pod {uid} has {len(begun[uid])} deletions in the watch"
        if times > 1 + kills:
            yield f"eviction of pod {uid} was accepted {times} times, with {kills} kills"


def _incidents(requests: Iterable[Request], promises: Promises) -> Iterator[str]:
    """Nothing is lost, and nothing is made up: each device has its incidents, and each of those its end."""
    device: dict[str, str] = {}
    ended: dict[str, str] = {}
    for r in requests:
        if r.changed and r.resource.startswith("devicequarantines"):
            device[incident_of(r)] = device_of((r.answer.get("spec") or {}).get("device") or {})
            if r.resource.endswith("/status") and closed(r):
                ended[incident_of(r)] = str(status_of(r)["phase"])
    had = Counter(device.values())
    for name in sorted({*had, *promises.incidents}):
        if had[name] != promises.incidents.get(name, 0):
            yield f"{name} has {had[name]} incidents, not {promises.incidents.get(name, 0)}"
    for incident in device:
        if (end := ended.get(incident, "still open")) != promises.outcome:
            yield f"{incident} is {end}, not {promises.outcome}"


def _left_behind(changes: Mapping[Effect, list[Request]], cut_off: set[Effect], fences: Fences) -> Iterator[str]:
    """What is closed was let go of, fences were lifted in order, probes were removed."""
    let_go = {key.rpartition("/close/")[0] for kind, key in changes if kind == "record let go"}
    for kind, key in changes:
        incident = key.removesuffix("/closed").removeprefix("incident/")
        if kind == "closing" and incident not in let_go:
            yield f"the record of {incident} was closed and not let go of"
        if kind == "closing" and incident not in {f.incident.removeprefix("incident/") for f in fences.all}:
            yield f"{incident} never fenced its device"
        if kind in {"probe pods", "probe resourceclaims"}:
            gone, perhaps = (
                sum(k.kind == f"{kind} deleted" and k.key.startswith(f"{key}/") for k in known)
                for known in (changes, cut_off)
            )
            if gone != 1 and not (gone == 0 and perhaps):
                yield f"{kind} {key} was created once and deleted {gone} times"
    yield from (f"fence {f.name} of {f.incident} was not lifted: {f.state}" for f in fences.all if not f.lifted)
