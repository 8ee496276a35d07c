"""The business check: a word from your own metrics, after a device has soaked and before anybody gets it."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Annotated, Final

from pydantic import AfterValidator, model_validator

from sickbay.model import promql
from sickbay.model.base import Config, Duration, Payload

_ADDRESS: Final = re.compile(r"https?://(?:[A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(?::(\d{1,5}))?(?:/[\w.~/-]*)?", re.ASCII)
_HIGHEST_PORT: Final = 65535


def _address(text: str) -> str:
    if "@" in text:
        # It is not shown: what stands before the @ may be a password.
        raise ValueError("holds a user or a password; leave them out, and give workers --prometheus-token-file")
    found = _ADDRESS.fullmatch(text)
    if text and (found is None or int(found[1] or 0) > _HIGHEST_PORT):
        raise ValueError(f"{text!r} is not an address; write http://host:port or https://host:port, and a path if any")
    return text.rstrip("/")


class Business(Config):
    """What Prometheus is asked of a device that has soaked, and what it must answer. Without an address, nothing."""

    prometheus: Annotated[str, AfterValidator(_address)] = ""
    """Address of a Prometheus, or of what speaks as one; empty = no check."""
    query: Annotated[str, AfterValidator(promql.check)] = ""
    """PromQL that gives one number for the device that `promql.PLACES` name."""
    min: float | None = None
    """The number must not be below it."""
    max: float | None = None
    """The number must not be above it."""
    check: Duration = timedelta(seconds=30)
    """Between two questions while no answer counts."""
    tolerance: Duration = timedelta(minutes=30)
    """How long no answer may count before a person is asked. Longer than a restart of Prometheus."""

    @model_validator(mode="after")
    def _complete(self) -> Business:
        if not self.prometheus:
            asked = {"query": self.query or None, "min": self.min, "max": self.max}
            given = [name for name, value in asked.items() if value is not None]
            if given:
                raise ValueError(f"{given[0]} is given without prometheus; name its address, like http://host:9090")
            return self
        if not self.query.strip():
            raise ValueError("prometheus is given without query; write what it is to be asked")
        if self.min is None and self.max is None:
            raise ValueError("neither min nor max is given; give at least one bound of a good answer")
        if self.min is not None and self.max is not None and self.min > self.max:
            raise ValueError(f"min {self.min:g} is above max {self.max:g}; lower min or raise max")
        return self

    @property
    def wanted(self) -> bool:
        """Whether there is such a check."""
        return bool(self.prometheus)

    @property
    def bounds(self) -> str:
        """Say for people what is good: ``at least 0.9 and at most 1.1``."""
        least = [] if self.min is None else [f"at least {self.min:g}"]
        return " and ".join([*least, *([] if self.max is None else [f"at most {self.max:g}"])])


class Checking(Payload):
    """Where an incident stands with its business check.

    Attributes:
        asked_at: when Prometheus was last asked.
        unsure_since: since when no answer has counted; None = one did, or none was asked for.
        cause: why the last answer did not count, CamelCase.
        note: the last answer, for people.
    """

    asked_at: datetime | None = None
    unsure_since: datetime | None = None
    cause: str = ""
    note: str = ""
