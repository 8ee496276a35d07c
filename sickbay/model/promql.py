"""Places in a PromQL query for what is known of a device, filled so that a value can never become a part of the query.

Values come from drivers and nodes. So a place stands within a string literal, where the value is escaped as one, and in
a regular expression as a text that means itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

PLACES: Final = ("device", "node", "driver", "pool", "hardware")
"""Names of all places; each is written ``$device``."""

LONGEST: Final = 4000
"""Characters of a query, which is a part of each incident's state."""

_LITERAL: Final = re.compile(
    r"""(?P<regex>[=!]~(?:\s|\#[^\n]*\n)*)?"""  # what the literal is matched as
    r"""(?P<literal>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|`[^`]*`)"""
    r"""|\#[^\n]*"""  # a comment, in which a quotation mark begins nothing
)
"""String literals as Prometheus' lexer finds them (``promql/parser/lex.go``): backticks know no escapes."""

_PLACE: Final = re.compile(r"\\.|\$\$|\$(?P<name>[A-Za-z_]\w*)", re.DOTALL)
"""Within a literal. What follows a backslash belongs to it; ``$1`` of ``label_replace`` and a ``$`` at an end are
left."""

_SPECIAL: Final = re.compile(r"[\\.+*?()|\[\]{}^$]")
"""What means more than itself in RE2, as Go's ``regexp.QuoteMeta`` has it."""


def check(query: str) -> str:
    """Give the query back if every place in it can be filled safely.

    Raises:
        ValueError: one cannot; the text says which, and what to write instead.
    """
    if len(query) > LONGEST:
        raise ValueError(f"is longer than {LONGEST:,} characters; make a recording rule of it, and ask for that")
    outside, last = [], 0
    for found in _LITERAL.finditer(query):
        outside.append(query[last : found.start()])
        last = found.end()
        for name in _names(found["literal"] or ""):
            if name not in PLACES:
                known = ", ".join(f"${place}" for place in PLACES)
                raise ValueError(f"${name} is not known; known here: {known}; write $${name} for a dollar sign")
            if found["literal"].startswith("`"):
                raise ValueError(f"${name} stands in backticks, where nothing can be escaped; use double quotes")
    stray = re.search(r"\$(\w*)", "".join([*outside, query[last:]]))
    if stray:
        name = stray[1] or PLACES[0]
        raise ValueError(f'{stray[0]} stands outside of quotes; write it as the value of a label, like x="${name}"')
    return query


def places(query: str) -> frozenset[str]:
    """Name the places that a query has."""
    return frozenset(name for found in _LITERAL.finditer(query) for name in _names(found["literal"] or ""))


def filled(query: str, values: Mapping[str, str]) -> str:
    """Put values into the places of a query that `check` has let through.

    Raises:
        KeyError: the value of a place is not given.
    """

    def literal(found: re.Match[str]) -> str:
        text: str = found["literal"] or ""
        if not text or text.startswith("`"):
            return found[0]

        def value(place: re.Match[str]) -> str:
            if place[0] == "$$":
                return "$"
            if place["name"] is None:
                return place[0]
            raw = values[place["name"]]
            meant = _SPECIAL.sub(lambda special: "\\" + special[0], raw) if found["regex"] else raw
            return _escaped(meant, text[0])

        return (found["regex"] or "") + _PLACE.sub(value, text)

    return _LITERAL.sub(literal, query)


def _names(literal: str) -> Iterator[str]:
    return (place["name"] for place in _PLACE.finditer(literal) if place["name"])


def _escaped(value: str, quote: str) -> str:
    """Escape as Go does in a literal between these quotes: only its own quotation mark may be escaped there."""
    return "".join(_character(c, quote) for c in value)


def _character(c: str, quote: str) -> str:
    if c in {"\\", quote}:
        return "\\" + c
    if c.isprintable():
        return c
    code = ord(c)
    if 0xD800 <= code <= 0xDFFF:  # noqa: PLR2004 - half of a pair, which no text of Go can hold
        return "\ufffd"
    return f"\\U{code:08x}"
