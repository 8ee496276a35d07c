"""Fold what many sources say of one device over time into one judgement.

Pure: time and the age of Leases are inputs. A `Track` is all that is remembered of one device; `observe`, `vanish`,
`settle` and `at` return a new one.

Rules:

- One source object (a pod) is one voice. Of the same object an older resourceVersion is dropped; different objects are
  folded, never compared.
- The worst voice wins. A voice comes down only when it says Healthy itself while its node's Lease is fresh: neither a
  milder word, nor silence, nor a stale Lease clears an Unhealthy.
- A stale Lease makes every voice of that node Unknown, whatever it said last; an Unhealthy that was said while the
  Lease was fresh stays.
- A voice that fell silent (its entry or its pod is gone, or the pod has ended) keeps its last severity. A silent
  Unknown is answered by others that say Healthy for ``stable``; a silent Unhealthy is not.
- A pod first seen after its end says nothing.
- Unknown counts only for a device that has been known, unless policy says otherwise; that one of several devices is bad
  counts always. Where nothing counts there is no evidence, which is not Healthy.
- The time of the first bad sample is kept until Healthy lasted ``stable``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from sickbay.model.device import DeviceKey
from sickbay.model.observation import Evidence, Health, Observation, Reason, Seen
from sickbay.model.policy import Policy

SILENT_KEPT: Final = 8
"""Silent voices kept per device; a job that crashes on a bad device makes a new one each time. The worst, then the
latest, are kept."""


@dataclass(frozen=True, slots=True)
class LeaseAge:
    """How long ago we saw a node's Lease move, by our own clock: clocks of others are never compared with it.

    Attributes:
        version: resourceVersion of the Lease, ``""`` if the node has none.
        age: since we saw it move; without a Lease since we first missed it.
    """

    version: str
    age: timedelta


@dataclass(frozen=True, slots=True)
class Moment:
    """What an observation is judged against.

    Attributes:
        now: of our own clock.
        leases: by node. A node that is not listed counts as fresh.
        policy: for ``staleness``, ``stable`` and ``unknown``.
    """

    now: datetime
    leases: Mapping[str, LeaseAge]
    policy: Policy

    def stale(self, node: str) -> LeaseAge | None:
        """Give the Lease of a node whose reports are too old to be believed, else None."""
        lease = self.leases.get(node)
        return lease if lease is not None and lease.age > self.policy.staleness else None


@dataclass(frozen=True, slots=True)
class Voice:
    """What one source object has said of one device.

    Attributes:
        said: the newest observation.
        held: the observation that holds this voice's severity, at the resourceVersion in which that was first seen;
            None while it has only been heard on a stale Lease.
        turned: a change to ``held`` from something else was seen, rather than ``held`` being its first word.
        settled: an ended incident has dealt with ``held``: the next change replaces it, milder or not.
        silent: the entry or its pod is gone or has ended; ``held`` is what remains.
        stale: resourceVersion of the Lease that is too old, None while it is fresh.
    """

    said: Observation
    held: Observation | None = None
    turned: bool = False
    settled: bool = False
    silent: bool = False
    stale: str | None = None

    @property
    def uid(self) -> str:
        """Uid of the source object."""
        return self.said.source.uid

    @property
    def told(self) -> Observation:
        """What counts now; its resourceVersion is the Lease's where the Lease is the reason."""
        if self.held is not None and (self.stale is None or self.held.health is Health.UNHEALTHY):
            return self.held
        return self.said.model_copy(
            update={
                "health": Health.UNKNOWN,
                "reason": Reason.NODE_UNREACHABLE,
                "resource_version": self.stale or self.said.resource_version,
                "message": f"the Lease of node {self.said.node!r} does not move",
            }
        )


@dataclass(frozen=True, slots=True)
class Track:
    """All that is remembered of one device.

    Attributes:
        known: it has been Healthy or Unhealthy before, said on a fresh Lease.
        voices: one per source object, in order of first hearing.
        first_bad_at, healthy_since: as in `Evidence`.
    """

    device: DeviceKey
    known: bool = False
    voices: tuple[Voice, ...] = ()
    first_bad_at: datetime | None = None
    healthy_since: datetime | None = None

    def voice(self, uid: str) -> Voice | None:
        """Find the voice of one source object."""
        return next((v for v in self.voices if v.uid == uid), None)

    def counted(self, policy: Policy) -> tuple[Voice, ...]:
        """Give the voices that count, worst first; ties in a fixed order of the sources' names."""
        return tuple(sorted((v for v in self.voices if self.counts(v.told, policy)), key=_worst_first))

    def counts(self, told: Observation, policy: Policy) -> bool:
        """Say whether an observation is evidence: a driver without health service says Unknown for ever."""
        doubt = told.health is Health.UNKNOWN and told.reason is not Reason.AMBIGUOUS
        return not doubt or self.known or policy.unknown.never_known

    def outline(self, policy: Policy) -> frozenset[tuple[str, Health, Reason, bool]]:
        """Tell a change from a repetition: who says what, as a set; order and messages are left out."""
        said = ((v.uid, v.told, v.silent) for v in self.voices)
        return frozenset((uid, told.health, told.reason, gone) for uid, told, gone in said if self.counts(told, policy))

    def evidence(self, policy: Policy, leases: Mapping[str, LeaseAge] | None = None) -> Evidence:
        """Fold the voices into one judgement; the worst gives health, reason, message and node."""
        counted = self.counted(policy)
        if not counted:
            return Evidence(device=self.device, first_bad_at=self.first_bad_at)
        worst = counted[0].told
        lease = (leases or {}).get(worst.node)
        return Evidence(
            device=self.device,
            health=worst.health,
            reason=worst.reason,
            message=worst.message,
            node=worst.node,
            first_bad_at=self.first_bad_at,
            healthy_since=self.healthy_since,
            sources=tuple(v.told for v in counted),
            lease_version=lease.version if lease else "",
        )


def observe(track: Track, observation: Observation, moment: Moment) -> Track:
    """Hear one observation; an older one of the same object changes nothing.

    A terminal one turns its voice silent, and says nothing if the object was never heard before.
    """
    before = track.voice(observation.source.uid)
    if before is not None and older(observation.resource_version, before.said.resource_version):
        return at(track, moment)
    if observation.terminal:
        return vanish(track, observation.source.uid, moment)
    if track.first_bad_at is not None or (before is not None and before.stale is not None):
        track = at(track, moment)  # time may have passed as good, or the Lease come back, before this was said
        before = track.voice(observation.source.uid)
    after = Voice(said=observation) if before is None else replace(before, said=observation, silent=False)
    others = tuple(after if v.uid == after.uid else v for v in track.voices)
    return at(replace(track, voices=others if before is not None else (*others, after)), moment)


def vanish(track: Track, uid: str, moment: Moment) -> Track:
    """Note that a source object says nothing of the device any more: only what was bad remains of it."""
    track = at(track, moment)
    voice = track.voice(uid)
    if voice is None or voice.silent:
        return track
    told = voice.told
    rest = [v for v in track.voices if v.uid != uid]
    if told.health is not Health.HEALTHY and track.counts(told, moment.policy):
        rest.append(replace(voice, held=told, silent=True, stale=None))
    return at(replace(track, voices=_bounded(rest)), moment)


def settle(track: Track, uids_covered: Iterable[str], uids_seen: Iterable[str], pods_version: str = "") -> Track:
    """Take note that an incident of the device has ended.

    Args:
        track: what was remembered.
        uids_covered: sources that the incident has dealt with: their next change counts anew.
        uids_seen: sources that its last reading saw; a silent voice that is not among them was gone by then, and is
            forgotten, unless it spoke after the probe that the release rests on.
        pods_version: resourceVersion of that probe's pod, comparable with that of any pod; ``""`` without one.
    """
    covered, seen = frozenset(uids_covered), frozenset(uids_seen)

    def forgotten(voice: Voice) -> bool:
        if not voice.silent or (voice.uid in seen and voice.uid not in covered):
            return False
        told = voice.told
        of_pod = told.source.kind == "Pod" and told.reason is not Reason.NODE_UNREACHABLE
        return voice.uid in covered or not (of_pod and pods_version and newer(told.resource_version, pods_version))

    voices = (replace(v, settled=True) if v.uid in covered else v for v in track.voices if not forgotten(v))
    return replace(track, voices=tuple(voices))


def at(track: Track, moment: Moment) -> Track:
    """Bring a track to this moment: Leases may have gone stale or come back, and time may have passed as good."""
    lasted = track.healthy_since is not None and moment.now - track.healthy_since >= moment.policy.stable
    voices = tuple(_aged(v, moment) for v in track.voices if not (lasted and _answered(v)))
    first_bad_at = None if lasted else track.first_bad_at
    known = track.known or any(not v.silent and v.stale is None and v.said.health is not Health.UNKNOWN for v in voices)
    aged = replace(track, known=known, voices=voices)
    fine = bad = False
    for voice in voices:
        told = voice.told
        fine |= not voice.silent
        bad |= told.health is not Health.HEALTHY and aged.counts(told, moment.policy)
    fine = fine and all(v.told.health is Health.HEALTHY or _answered(v) for v in voices)
    return replace(
        aged,
        healthy_since=(track.healthy_since or moment.now) if fine else None,
        first_bad_at=(first_bad_at or moment.now) if bad else first_bad_at,
    )


def covered(voice: Voice, seen: Iterable[Seen], lease_version: str = "", *, trusted: bool = True) -> bool:
    """Say whether an ended incident has dealt with what a voice says.

    It has if its last live read of that object was at or past the resourceVersion in which we saw the change (our cache
    is behind), or found the same and nothing has changed since (the report is sticky and was outvoted). A reason that
    rests on the Lease is measured by the Lease's resourceVersion alone.

    Args:
        voice: what is said.
        seen: per source, how far the incident had read.
        lease_version: of the node's Lease in its last reading.
        trusted: False after the cluster's history broke: resourceVersions then say nothing.
    """
    told = voice.told
    if told.reason is Reason.NODE_UNREACHABLE:
        return bool(lease_version) and trusted and not newer(told.resource_version, lease_version)
    for past in seen:
        if past.uid != voice.uid:
            continue
        if trusted and past.resource_version and not newer(told.resource_version, past.resource_version):
            return True
        if past.digest == told.digest and not voice.turned:
            return True
    return False


def unversioned(voice: Voice) -> Voice:
    """Forget the resourceVersion of what was said last, so that nothing that follows counts as older."""
    return replace(
        voice, said=voice.said.model_copy(update={"resource_version": f"before-{voice.said.resource_version}"})
    )


def older(version: str, than: str) -> bool:
    """Say whether a resourceVersion of one object is older: as numbers when both are, else never."""
    return version.isdecimal() and than.isdecimal() and int(version) < int(than)


def newer(version: str, than: str) -> bool:
    """Say whether a resourceVersion of one object is newer: as numbers when both are, else any other is."""
    if version.isdecimal() and than.isdecimal():
        return int(version) > int(than)
    return version != than


def _aged(voice: Voice, moment: Moment) -> Voice:
    """Believe what a voice said last if its node's Lease is fresh now."""
    if voice.silent:
        return voice
    lease = moment.stale(voice.said.node)
    if lease is not None:
        return voice if voice.stale == lease.version else replace(voice, stale=lease.version)
    if voice.held is None:
        return replace(voice, held=voice.said, stale=None)
    said, held = voice.said, voice.held
    same = (said.health, said.reason) == (held.health, held.reason)
    milder = said.health is not Health.HEALTHY and said.health.severity < held.health.severity
    if same or (milder and not voice.settled):
        return voice if voice.stale is None else replace(voice, stale=None)
    return replace(voice, held=said, turned=True, settled=False, stale=None)


def _answered(voice: Voice) -> bool:
    """Whether others that say Healthy for long enough answer this one."""
    return voice.silent and voice.told.health is Health.UNKNOWN


def _bounded(voices: list[Voice]) -> tuple[Voice, ...]:
    silent = [v for v in voices if v.silent]
    if len(silent) <= SILENT_KEPT:
        return tuple(voices)
    drop = min(silent, key=lambda v: v.told.health.severity)  # min is stable: the earliest of the mildest
    return tuple(v for v in voices if v is not drop)


def _worst_first(voice: Voice) -> tuple[int, str, str, str, str]:
    source = voice.said.source
    return (-voice.told.health.severity, source.kind, source.namespace, source.name, source.uid)
