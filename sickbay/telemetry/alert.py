"""What a person may be alerted of: names for logs and metrics."""

from __future__ import annotations

from enum import StrEnum


class Alert(StrEnum):
    """A condition that does not mend itself, or that keeps us from acting: a closed set, fit for a metric label."""

    TEMPORAL_UNAVAILABLE = "TemporalUnavailable"
    """Incidents cannot start. Bad devices are fenced all the same."""
    NAMESPACE_MISMATCH = "NamespaceMismatch"
    """Temporal is another database than the one that holds our incidents; nothing is started."""
    FLEET_IN_DOUBT = "FleetInDoubt"
    """Most devices are Unknown at once: it is not the devices. No new suspects."""
    WATCH_STALE = "WatchStale"
    """Our own copy of the cluster is old."""
    HISTORY_BROKE = "HistoryBroke"
    """The cluster's database was restored; it holds until this process ends."""
    RECORD_UNREADABLE = "RecordUnreadable"
    """A record cannot be decoded: its device is left as it is."""
    FENCE_MISMATCHED = "FenceMismatched"
    """A fence of ours does not say what it should."""
    ORPHAN_FENCE = "OrphanFence"
    """A fence of ours stood without an open incident; it has one now."""
    RETIRED_UNKNOWN = "RetiredUnknown"
    """Hardware is published in the slot of a retired device of which nobody knew what it was: it may be the same."""
    WRITE_REFUSED = "WriteRefused"
    """The API server refuses what we write, and it is not because another leads."""
    NOT_INSTALLED = "NotInstalled"
    """Objects that ``sickbay install`` makes are missing."""
    PROBES_SUSPENDED = "ProbesSuspended"
    """Probes, or canaries, prove nothing on one device after another, and only one is tried at a time: no device comes
    back until they work again."""
    INCIDENTS_HELD = "IncidentsHeld"
    """The guard holds incidents back."""
