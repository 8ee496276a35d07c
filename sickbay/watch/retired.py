"""Devices that were taken out of service for good: is other hardware in the slot by now?"""

from __future__ import annotations

from sickbay.model.device import UNKNOWN_HARDWARE, DeviceKey
from sickbay.model.policy import Policy
from sickbay.model.record import Record
from sickbay.telemetry.alert import Alert
from sickbay.watch.alerts import Alerts
from sickbay.watch.pools import Pools


class Retired:
    """Looks into the slots of retired devices, of one term."""

    def __init__(self, pools: Pools, policy: Policy, alerts: Alerts) -> None:
        self._pools = pools
        self._policy = policy
        self._alerts = alerts

    def replaced(self, record: Record) -> bool:
        """Say whether other hardware than the one that was retired is known to be in its slot.

        Where nobody knew what was retired, it may be the very same that is published by now: a person is told, who can
        look at it, and nothing else happens.
        """
        device, failed = record.spec.key, record.hardware_id
        found = self._pools.hardware_id(device, self._policy.probe.identity_attribute(device.driver))
        if found == UNKNOWN_HARDWARE:
            return False  # a driver that is away for a moment tells nothing
        if failed != UNKNOWN_HARDWARE:
            self.forget(device)
            return found != failed
        self._alerts.begin(
            Alert.RETIRED_UNKNOWN,
            str(device),
            found=found,
            remedy=f"if it is another, a member of sickbay:break-glass deletes record {record.name}: then it is tried",
        )
        return False

    def forget(self, device: DeviceKey) -> None:
        """Take note that a device is not, or no longer, a retired one."""
        self._alerts.end(Alert.RETIRED_UNKNOWN, str(device))
