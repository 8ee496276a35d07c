"""Texts that must stay as they are; ``GOLDEN=write`` in the environment takes over what is printed now."""

from __future__ import annotations

import os
from pathlib import Path


def golden(name: str, now: str) -> str:
    """Give the text that is expected.

    Args:
        name: of its file.
        now: what is printed now.
    """
    file = Path(__file__).with_name(f"{name}.txt")
    if os.environ.get("GOLDEN") == "write":
        file.write_text(now, encoding="utf-8")
    return file.read_text(encoding="utf-8")
