"""The Temporal SDK's native core: what it logs takes the way of all logs."""

from __future__ import annotations

import logging
from typing import Final

from temporalio.runtime import LogForwardingConfig, LoggingConfig, Runtime, TelemetryConfig

FILTER: Final = "error,temporalio_sdk_core=warn,temporalio_client=error"
"""A client's warnings are one for each poller and retry while Temporal is away, which `workers.contact` says once."""


def forward_logs() -> None:
    """Make the core log through the standard library instead of onto the terminal; call before any connection."""
    forwarding = LogForwardingConfig(logger=logging.getLogger("temporalio.core"), append_target_to_name=False)
    telemetry = TelemetryConfig(logging=LoggingConfig(filter=FILTER, forwarding=forwarding))
    Runtime.set_default(Runtime(telemetry=telemetry), error_if_already_set=False)
