"""The three kinds of model, told apart by who writes them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer
from pydantic.alias_generators import to_camel

Name = Annotated[str, Field(min_length=1)]
"""An identity: never empty, never defaulted."""


class _Frozen(BaseModel):
    """A model of which copies are made, and never changes."""

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Copy; what was worked out from the fields before is worked out anew from those that changed."""
        copied = super().model_copy(update=update, deep=deep)
        for name in copied.__dict__.keys() - type(self).model_fields.keys() if update else ():
            del copied.__dict__[name]
        return copied


class Payload(_Frozen):
    """What travels through Temporal: unknown keys are ignored, so that old and new code read each other's histories."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class Wire(_Frozen):
    """What Sickbay writes into its own Kubernetes objects: camelCase on the wire, unknown keys ignored."""

    model_config = ConfigDict(
        frozen=True, extra="ignore", alias_generator=to_camel, validate_by_name=True, serialize_by_alias=True
    )


class Config(_Frozen):
    """What a person writes: camelCase, and an unknown key is an error."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", alias_generator=to_camel, validate_by_name=True, serialize_by_alias=True
    )


_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION: Final = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|s|m|h|d))+")
_PART: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_LONGEST: Final = timedelta(days=3660)
"""Ten years: beyond it a number is a slip of the hand, and dates run out."""


def parse_duration(text: object) -> object:
    """Read ``1h30m``, ``45s``, ``7d`` as people write durations in Kubernetes; leave other types to pydantic.

    Raises:
        ValueError: the text is negative, longer than ten years or not a duration.
    """
    if not isinstance(text, str) or text.startswith("P"):
        return text
    if not _DURATION.fullmatch(text):
        raise ValueError(f"{text!r} is not a duration of zero or more; write it like 45s, 10m, 1h30m or 7d")
    seconds = sum(float(number) * _SECONDS[unit] for number, unit in _PART.findall(text))
    if seconds > _LONGEST.total_seconds():
        raise ValueError(f"{text!r} is longer than ten years")
    return timedelta(seconds=seconds)


def format_duration(value: timedelta) -> str:
    """Write a duration as `parse_duration` reads it, in its largest units: ``1h30m``."""
    rest = round(value.total_seconds() * 1000)
    parts = []
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)):
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"


def format_time(at: datetime) -> str:
    """Write a moment for people: in UTC, to the second."""
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%SZ")


Duration = Annotated[
    timedelta,
    BeforeValidator(parse_duration),
    Field(ge=timedelta(0)),
    PlainSerializer(format_duration, when_used="json"),
]
"""A length of time, zero or more, written as ``45s`` or ``1h30m``."""

UNTRUSTED_LENGTH: Final = 200
"""Characters kept of a text that a driver or a workload wrote."""


def tamed(text: str, limit: int = UNTRUSTED_LENGTH) -> str:
    """Cut and escape a text from the cluster, so that it forges neither a log line nor a link.

    Control characters become spaces, markup characters of HTML and Markdown links are dropped.
    """
    flat = text if text.isprintable() else "".join(c if c.isprintable() else " " for c in text)
    flat = re.sub(r"[<>\[\]`|]", "", flat).replace("://", ":")
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"
