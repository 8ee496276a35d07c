"""Whom requests are made as, other than the one whose credentials they carry: impersonation, as kubectl asks for it.

https://kubernetes.io/docs/reference/access-authn-authz/authentication/#user-impersonation
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote

_PLAIN: Final = "!#$&'*+-.^_`|~"
"""What the name of a header may hold besides letters and digits; the percent sign is taken by the escape itself."""


@dataclass(frozen=True)
class ActingAs:
    """A user to the API server.

    Attributes:
        user: full user name, never empty.
        groups: besides those that every such user is in.
        uid: of the user; ``""`` = none is told.
        extra: what else an authenticator would tell of the user.
    """

    user: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def headers(self) -> list[tuple[str, str]]:
        """Spell it as headers of a request; one name may come several times."""
        told = [("Impersonate-User", self.user), *(("Impersonate-Group", group) for group in self.groups)]
        if self.uid:
            told.append(("Impersonate-Uid", self.uid))
        return told + [
            (f"Impersonate-Extra-{quote(key, safe=_PLAIN)}", value)
            for key, values in self.extra.items()
            for value in values
        ]


def acting_as(kubeconfig_user: Mapping[str, Any], user: str | None, groups: Sequence[str]) -> ActingAs | None:
    """Put together what a kubeconfig says and what a command line does, which goes first, field by field.

    Args:
        kubeconfig_user: the user of a context, with ``as``, ``as-groups``, ``as-uid`` and ``as-user-extra``.
        user: of ``--as``; None = not given.
        groups: of ``--as-group``; empty = not given.

    Returns:
        None: requests are made as the one whose credentials they carry.

    Raises:
        ValueError: a value is of another type or no value of a header, or there is no user for the rest.
    """
    configured = _texts("as-groups", kubeconfig_user.get("as-groups"))
    extra = kubeconfig_user.get("as-user-extra") or {}
    if not isinstance(extra, Mapping):
        raise ValueError("as-user-extra must map keys to lists of texts")  # noqa: TRY004 - told as any wrong value
    found = ActingAs(
        user=_text("--as", user) or _text("as", kubeconfig_user.get("as")),
        groups=_texts("--as-group", list(groups)) or configured,
        uid=_text("as-uid", kubeconfig_user.get("as-uid")),
        extra={_text("as-user-extra", key): _texts("as-user-extra", values) for key, values in extra.items()},
    )
    if found.user:
        return found
    if groups:
        raise ValueError("--as-group: a group takes a user; give --as NAME, too")
    if found != ActingAs(""):
        raise ValueError(
            "as-groups, as-uid and as-user-extra take a user; write as: NAME beside them, or leave them out"
        )
    return None


def _text(name: str, value: object) -> str:
    if value is None:
        return ""
    if not isinstance(value, str) or not value.isprintable():
        raise ValueError(f"{name} must be a text in one line, not {value!r}")
    return value


def _texts(name: str, values: object) -> tuple[str, ...]:
    if values is None:
        return ()
    if not isinstance(values, list) or not all(values):
        raise ValueError(f"{name} must be a list of texts, not {values!r}")
    return tuple(_text(name, value) for value in values)
