"""Which device: identity, and every name derived from it."""

from __future__ import annotations

import hashlib
from functools import cached_property
from typing import Final, Self
from urllib.parse import quote, unquote

from sickbay.model.base import Name, Payload

UNKNOWN_HARDWARE: Final = "unknown"
"""Hardware identity of a device whose identity attribute is not published: such a device is never released."""


class DeviceKey(Payload):
    """One allocatable device of a DRA driver.

    Kubernetes names derived from it are hashes: ids from the cluster hold upper case, slashes, colons and Unicode.
    """

    cluster: Name
    driver: Name
    pool: Name
    device: Name

    def __str__(self) -> str:
        """Give the readable form, each part percent-encoded: ``cluster/driver/pool/device``."""
        return self._text

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read what `__str__` wrote.

        Raises:
            ValueError: the text has not four non-empty parts.
        """
        parts = [unquote(part) for part in text.split("/")]
        if len(parts) != 4:  # noqa: PLR2004 - the four fields above
            raise ValueError(f"{text!r} is not a device; write cluster/driver/pool/device")
        cluster, driver, pool, device = parts
        return cls(cluster=cluster, driver=driver, pool=pool, device=device)

    @cached_property
    def _text(self) -> str:
        return "/".join(quote(part, safe="") for part in (self.cluster, self.driver, self.pool, self.device))

    @cached_property
    def digest(self) -> str:
        """First 16 hex digits of the SHA-256 of the readable form."""
        return hashlib.sha256(str(self).encode()).hexdigest()[:16]

    @property
    def record_name(self) -> str:
        """Name of the device's record, and prefix of its fences' and probes' names."""
        return f"sickbay-{self.digest}"

    def numbered(self, n: int) -> str:
        """Name of the ``n``-th fence or probe of this device (``n`` from 1, a counter in the record)."""
        return f"{self.record_name}-{n}"

    def incident_id(self, status_version: str) -> str:
        """Workflow id of the incident that this status version opened."""
        return f"incident/{self}/{quote(status_version, safe='')}"
