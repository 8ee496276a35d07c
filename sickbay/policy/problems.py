"""What is wrong with an input, and how to mend it: pydantic's findings in the words of whoever wrote the input."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from types import UnionType
from typing import Any, Final, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

Path = tuple[str | int, ...]
"""Where in an input: keys and list positions, outermost first."""

_WANTED: Final = {
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "string_type": "a text",
    "time_delta_type": "a duration with a unit, like 45s, 10m, 1h30m or 7d",
    "time_delta_parsing": "a duration with a unit, like 45s, 10m, 1h30m or 7d",
    "model_type": "a mapping of keys to values",
    "dict_type": "a mapping of keys to values",
    "tuple_type": "a list",
    "list_type": "a list",
    "string_too_short": "a text that is not empty",
    "missing": "given: it has no default",
}
"""By pydantic's error type, what the value must be."""


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong.

    Attributes:
        path: of the key.
        text: what is wrong and what would be right.
        line: in the file, from 1; 0 if unknown.
    """

    path: Path
    text: str
    line: int = 0

    def at(self, line: int) -> Problem:
        """Say on which line."""
        return replace(self, line=line)

    def __str__(self) -> str:
        """Follow a file's name: ``:7: guard.perMinute: must be …``."""
        place = f":{self.line}: " if self.line else ": "
        return f"{place}{dotted(self.path)}: {self.text}" if self.path else f"{place}{self.text}"


def dotted(path: Path) -> str:
    """Write a path as ``guard.perMinute`` or ``match.drivers[2]``."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).removeprefix(".")


def nearest(word: str, known: Iterable[str]) -> str:
    """Suggest what was meant: ``did you mean x?``, or all that there is to choose from."""
    known = list(known)
    close = get_close_matches(word.lower(), [k.lower() for k in known], n=1, cutoff=0.6)
    if close:
        return f"did you mean {next(k for k in known if k.lower() == close[0])}?"
    return f"known here: {', '.join(known)}"


def from_validation(error: ValidationError, model: type[BaseModel]) -> list[Problem]:
    """Translate all findings of one validation."""
    return [Problem(tuple(details["loc"]), _told(details, model)) for details in error.errors(include_url=False)]


def _told(details: ErrorDetails, model: type[BaseModel]) -> str:
    kind, given = details["type"], details["input"]
    if kind == "extra_forbidden":
        *around, key = details["loc"]
        return f"unknown key; {nearest(str(key), _keys(model, around))}"
    if kind in {"enum", "literal_error"}:
        known = re.findall(r"'([^']*)'", str(details["ctx"]["expected"]))
        choice = f"must be {' or '.join(known)}" if len(known) == 1 else f"must be one of {', '.join(known)}"
        return f"{choice}, not {_shown(given)}"
    if kind == "value_error":
        return str(details["ctx"]["error"])
    if kind == "missing":
        return f"must be {_WANTED[kind]}"
    if kind in _WANTED:
        return f"must be {_WANTED[kind]}, not {_shown(given)}"
    text = details["msg"].removeprefix("Input should be ")
    return f"must be {text}, not {_shown(given)}"


def _shown(value: object) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict | list | tuple):
        return "a mapping" if isinstance(value, dict) else "a list"
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:79]}…"  # noqa: PLR2004 - a line of a terminal


def _keys(model: type[BaseModel], path: Sequence[str | int]) -> list[str]:
    """Keys that may stand at this path, as a person writes them."""
    for part in path:
        fields = {field.alias or name: field.annotation for name, field in model.model_fields.items()}
        inner = _model_in(fields.get(str(part)))
        if inner is None:
            return []
        model = inner
    return [field.alias or name for name, field in model.model_fields.items()]


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if get_origin(annotation) in {Union, UnionType}:
        return next((m for m in map(_model_in, get_args(annotation)) if m), None)
    return annotation if isinstance(annotation, type) and issubclass(annotation, BaseModel) else None
