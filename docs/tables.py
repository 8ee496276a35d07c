"""Write the tables of metrics and settings into their pages: ``make docs`` after either has changed."""  # noqa: INP001 - a script

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from sickbay import settings
from sickbay.telemetry import metrics

TABLES: dict[str, Callable[[], str]] = {"metrics.md": metrics.table, "configuration.md": settings.table}


def main() -> None:
    """Replace the first table of each page."""
    for name, table in TABLES.items():
        page = Path(__file__).with_name(name)
        before, _, after = re.split(r"(?m)((?:^\|.*\n)+)", page.read_text(encoding="utf-8"), maxsplit=1)
        page.write_text(before + table() + after, encoding="utf-8")


if __name__ == "__main__":
    main()
