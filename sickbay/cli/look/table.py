"""One way to print what was found: as a table, a wider one, JSON, YAML, or names alone."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final

import yaml

from sickbay.model.base import format_time

GAP: Final = "   "
"""Between two columns, as kubectl has it."""

NOTHING: Final = "-"
"""An empty cell: scripts that split on spaces count columns."""


class Output(StrEnum):
    """Forms of output."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    NAME = "name"


@dataclass(frozen=True)
class Columns:
    """Headings of a table, and those that only the wide one has."""

    usual: tuple[str, ...]
    wide: tuple[str, ...] = ()

    def widths(self, **least: int) -> list[int]:
        """Give widths to begin with: of some columns by heading, 0 of the others."""
        return [least.get(heading, 0) for heading in (*self.usual, *self.wide)]


@dataclass(frozen=True)
class Row:
    """One thing that was found.

    Attributes:
        key: tells it from all others in the table.
        name: what ``-o name`` prints.
        spellings: what a person may call it.
        cells: of the usual columns; an empty one is shown as ``-``.
        wide: of the further columns.
        data: what JSON and YAML hold of it; nothing in it changes by the mere passing of time.
    """

    key: str
    name: str
    cells: tuple[str, ...]
    wide: tuple[str, ...] = ()
    spellings: frozenset[str] = frozenset()
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class Printer:
    """Writes rows, batch by batch under the same columns.

    Attributes:
        headed: headings are still to come.
        widths: of the columns: they grow, and never shrink.
    """

    columns: Columns
    output: Output = Output.TABLE
    headed: bool = True
    widths: list[int] = field(default_factory=list)

    def table(self, rows: Sequence[Row]) -> list[str]:
        """Lay rows out as lines; headings come once, with the first ones."""
        if self.output is Output.NAME:
            return [row.name for row in rows]
        wide = self.output is Output.WIDE
        lines = [[cell or NOTHING for cell in (*row.cells, *(row.wide if wide else ()))] for row in rows]
        if self.headed and lines:
            lines.insert(0, [*self.columns.usual, *(self.columns.wide if wide else ())])
            self.headed = False
        for line in lines:
            self.widths += [0] * (len(line) - len(self.widths))
            self.widths = [max(width, len(cell)) for width, cell in zip(self.widths, line, strict=False)]
        return [
            GAP.join(cell.ljust(width) for cell, width in zip(line, self.widths, strict=False)).rstrip()
            for line in lines
        ]

    def document(self, rows: Sequence[Row], *, one: bool) -> list[str]:
        """Write rows as one JSON or YAML document.

        Args:
            rows: what was found.
            one: exactly one thing was asked for by name, so that it is the document itself and not a list of it.
        """
        items = [dict(row.data) for row in rows]
        return [self._text(items[0] if one and items else {"apiVersion": "v1", "kind": "List", "items": items})]

    def stream(self, rows: Sequence[Row]) -> list[str]:
        """Write rows for a reader that takes them one by one: JSON a line each, YAML a document each."""
        if self.output is Output.JSON:
            return [json.dumps(dict(row.data), ensure_ascii=False) for row in rows]
        if self.output is Output.YAML:
            return [f"---\n{self._text(dict(row.data))}" for row in rows]
        return self.table(rows)

    @property
    def structured(self) -> bool:
        """Whether documents are wanted, not lines."""
        return self.output in {Output.JSON, Output.YAML}

    def _text(self, value: Mapping[str, Any]) -> str:
        if self.output is Output.JSON:
            return json.dumps(value, indent=2, ensure_ascii=False)
        return yaml.safe_dump(value, sort_keys=False, allow_unicode=True).rstrip("\n")


def age(since: datetime | None, now: datetime) -> str:
    """Write how long ago something was in one unit, as kubectl does: ``45s``, ``12m``, ``5h``, ``3d``."""
    if since is None:
        return ""
    passed = max(now - since, timedelta(0))
    for unit, size, least in (("d", 86400, 2), ("h", 3600, 3), ("m", 60, 2)):
        count = int(passed.total_seconds() // size)
        if count >= least:
            return f"{count}{unit}"
    return f"{int(passed.total_seconds())}s"


def clock(at: datetime | None) -> str:
    """Write a moment for people, in UTC."""
    return "" if at is None else format_time(at)
