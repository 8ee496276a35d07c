"""That the whole installation is paused: whoever looks at what there is should know that new incidents wait."""

from __future__ import annotations

from datetime import datetime

from k8s.control import Control, ControlMap
from k8s.gateway import Gateway
from sickbay import errors
from sickbay.cli.look.table import clock
from sickbay.model.base import tamed


async def read(gateway: Gateway) -> Control | None:
    """Read the installation's switch; None if we may not, or there is none."""
    try:
        return await ControlMap(gateway).read()
    except (errors.Forbidden, errors.UsageError):
        return None


def notice(control: Control | None, now: datetime) -> str:
    """Say in one line that the installation is paused; ``""`` if it is not."""
    if control is None or not control.paused_at(now):
        return ""
    return f"paused by {tamed(control.who) or 'nobody named'} {until(control)}: new incidents wait"


def until(control: Control) -> str:
    """Say when a pause ends."""
    return f"until {clock(control.until)}" if control.until else "until somebody resumes"
