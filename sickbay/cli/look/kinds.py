"""What can be asked for, under all the names that people have for it."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Final

import click
from click.shell_completion import CompletionItem


class Kind(StrEnum):
    """What ``sickbay get`` lists."""

    INCIDENTS = "incidents"
    DEVICES = "devices"
    QUARANTINES = "quarantines"


ALIASES: Final = {
    "incident": Kind.INCIDENTS,
    "inc": Kind.INCIDENTS,
    "device": Kind.DEVICES,
    "dev": Kind.DEVICES,
    "quarantine": Kind.QUARANTINES,
    "dq": Kind.QUARANTINES,
    "devicequarantine": Kind.QUARANTINES,
    "devicequarantines": Kind.QUARANTINES,
}


class KindType(click.ParamType[Kind]):
    """A kind on the command line: plural, singular or short.

    Args:
        kinds: that can be asked for; all if none is named.
        one: exactly one thing of a kind is asked for, so that the singular words are the ones to tell.
    """

    name = "kind"

    def __init__(self, *kinds: Kind, one: bool = False) -> None:
        self._kinds = kinds or tuple(Kind)
        self._words = [str(kind).removesuffix("s") if one else str(kind) for kind in self._kinds]

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Kind:
        """Read the word."""
        word = str(value).lower()
        known: dict[str, Kind] = {str(kind): kind for kind in Kind} | ALIASES
        if known.get(word) not in self._kinds:
            hint = "; sickbay explain NAME tells of a device" if known.get(word) is Kind.DEVICES else ""
            self.fail(f"{value!r} is none of {', '.join(self._words)}{hint}", param, ctx)
        return known[word]

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG002 - click's interface
        """Offer one word for each."""
        return [CompletionItem(word) for word in self._words if word.startswith(incomplete)]
