"""Write the generated tables into their pages: ``make docs`` after metrics, alerts or settings have changed."""  # noqa: INP001 - a script

from __future__ import annotations

import ast
import inspect
import itertools
import re
from collections.abc import Callable
from pathlib import Path
from typing import Final

from sickbay import settings
from sickbay.telemetry import metrics
from sickbay.telemetry.alert import Alert


def alerts() -> str:
    """Write all alerts as a Markdown table: each with the text that stands under it in its enumeration."""
    (declared,) = ast.parse(inspect.getsource(Alert)).body
    assert isinstance(declared, ast.ClassDef)
    rows = ["| alert | what holds |", "|---|---|"]
    for member, text in itertools.pairwise(declared.body):
        if isinstance(member, ast.Assign) and isinstance(text, ast.Expr):
            meaning = " ".join(ast.literal_eval(text.value).split()).replace("``", "`")
            rows.append(f"| `{ast.literal_eval(member.value)}` | {meaning} |")
    return "\n".join(rows) + "\n"


TABLES: Final[tuple[tuple[str, Callable[[], str]], ...]] = (
    ("metrics.md", metrics.table),
    ("metrics.md", alerts),
    ("configuration.md", settings.table),
)


def replaced(page: str, table: str) -> str:
    """Put a table in place of the one on the page that has the same head.

    Raises:
        ValueError: there is none, or more than one.
    """
    head = table.partition("\n")[0]
    changed, count = re.subn(rf"(?m)^{re.escape(head)}\n(?:\|.*\n)*", lambda _: table, page)
    if count != 1:
        raise ValueError(f"{count} tables begin with {head!r}; write that line where the one is to stand")
    return changed


def main() -> None:
    """Write all tables."""
    for name, table in TABLES:
        page = Path(__file__).with_name(name)
        page.write_text(replaced(page.read_text(encoding="utf-8"), table()), encoding="utf-8")


if __name__ == "__main__":
    main()
