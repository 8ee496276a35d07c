"""What a request is about, told from its path: few words, fit for names of spans."""

from __future__ import annotations

from typing import Final

_CORE: Final = 2
_GROUP: Final = 3
"""Segments before the types: ``api/v1``, ``apis/<group>/<version>``."""


def kind_of(path: str) -> str:
    """Give the type that a path is of, with the subresource: ``pods/eviction``; the first part if it has none."""
    parts = path.strip("/").split("/")
    rest = parts[_CORE if parts[0] == "api" else _GROUP :]
    if len(rest) > 2 and rest[0] == "namespaces":  # noqa: PLR2004 - namespaces/<name>/<type>
        rest = rest[2:]
    if not rest or parts[0] not in {"api", "apis"}:
        return parts[0] or "/"
    return "/".join(rest[::2][:2])
