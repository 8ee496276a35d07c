"""All activities of a worker, on one gateway."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from activities.business import BusinessActivities
from activities.evictions import EvictionActivities
from activities.fences import FenceActivities
from activities.hindrance import HindranceActivities
from activities.probes import ProbeActivities
from activities.prometheus import Prometheus
from activities.readings import ReadingActivities
from activities.records import RecordActivities
from activities.users import UserActivities
from k8s.fences import Fences
from k8s.gateway import Gateway
from k8s.hands_off import HandsOff
from k8s.listings import ClaimLister, SliceLister
from k8s.probes import Probes
from k8s.readings import Readings
from k8s.records import Records
from k8s.slots import EvictionSlots
from k8s.users import UserLists


def verbs(gateway: Gateway, prometheus: Prometheus) -> list[Callable[..., Any]]:
    """Build them; one lister of claims and one of slices serve all, so that a burst shares its lists."""
    claims, slices = ClaimLister(gateway), SliceLister(gateway)
    records, slots, users = Records(gateway), EvictionSlots(gateway), UserLists(gateway, claims)
    probes = Probes(gateway, claims, slices)
    reading = ReadingActivities(records, Readings(gateway, claims, slices), probes)
    record = RecordActivities(records)
    fence = FenceActivities(records, Fences(gateway))
    user = UserActivities(records, users, slots)
    eviction = EvictionActivities(gateway, records, users, slots)
    probe = ProbeActivities(records, probes)
    business = BusinessActivities(records, prometheus)
    # What cannot be undone asks first, each time.
    hindrance = HindranceActivities(records, HandsOff(gateway))
    return [
        reading.read_device,
        record.write_status,
        record.close_record,
        fence.fence_device,
        hindrance.before(fence.ramp_fence),
        hindrance.before(fence.unlatch_fence),
        hindrance.before(fence.delete_fence),
        fence.await_fence_gone,
        user.list_users,
        user.await_users,
        hindrance.before(eviction.evict_user),
        hindrance.before(probe.start_probe),
        probe.await_probe,
        probe.stop_probe,
        business.check_business,
        hindrance.await_go,
    ]
