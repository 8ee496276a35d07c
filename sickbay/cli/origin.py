"""Are ``workflows``, ``activities``, ``workers`` and ``k8s`` ours? Their names are common ones."""

from __future__ import annotations

from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import sickbay
from sickbay.errors import UsageError

OURS: Final = ("workflows", "activities", "workers", "k8s")

MARK: Final = 'PART_OF = "sickbay"'
"""Stands in the ``__init__.py`` of each: another distribution can overwrite it in the same directory."""


def refuse_foreign_packages() -> None:
    """Make sure that our packages are what an import of their names would find; nothing is imported.

    Raises:
        UsageError: another package shadows one of them, or has replaced its files.
    """
    root = Path(str(sickbay.__file__)).resolve().parent.parent
    for name in OURS:
        problem = problem_of(find_spec(name), root)
        if problem:
            raise UsageError(
                f"the package '{name}' {problem}; install sickbay into a virtual environment of its own"
                " (and start it from a directory without a folder of that name)"
            )


def problem_of(spec: ModuleSpec | None, root: Path) -> str:
    """Say what is wrong with a package of ours as it was found, "" if nothing is.

    Args:
        spec: what an import would load; None = nothing.
        root: the directory that holds ``sickbay``.
    """
    if spec is None:
        return "is missing"
    if spec.origin is None:
        places = ", ".join(map(str, spec.submodule_search_locations or ()))
        return f"is not Sickbay's but a plain folder: {places}"
    origin = Path(spec.origin).resolve()
    if origin.parent.parent != root:
        return f"is not Sickbay's: it is found in {origin.parent}, Sickbay is in {root}"
    if MARK not in origin.read_text(encoding="utf-8", errors="replace"):
        return f"was replaced by another distribution: {origin}"
    return ""
