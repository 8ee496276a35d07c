"""Requests in somebody else's name: what a kubeconfig and a command line say of it is what goes out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from k8s.acting import ActingAs, acting_as
from k8s.gateway import Gateway
from k8s.impersonation import impersonating
from k8s.lab.lab import Lab
from k8s.rights import user
from sickbay import errors
from tests.k8s.scripted import Scripted, says, serving

CONFIGURED: dict[str, Any] = {
    "token": "t",
    "as": "ann",
    "as-groups": ["sickbay:operators", "night shift"],
    "as-uid": "7",
    "as-user-extra": {"example.com/Scopes": ["a", "b"], "50%": ["c"]},
}


def sent(server: Scripted) -> list[tuple[str, str]]:
    """Give what the last request said of it, as written."""
    headers = server.asked[-1].headers.items()
    return [(name, value) for name, value in headers if name.lower().startswith("impersonate-")]


async def test_a_kubeconfig_says_as_whom(tmp_path: Path) -> None:
    """User, each group on a line of its own, uid and extra, the keys escaped, in requests and watches alike."""
    async with serving() as server:
        server.script += [says(200, {}), says(403, {})]
        async with await Gateway.connect(kubeconfig=server.kubeconfig(tmp_path, CONFIGURED)) as gateway:
            await gateway.request("GET", "/x")
            first = sent(server)
            with pytest.raises(errors.Forbidden):
                await anext(gateway.stream("/x", {"watch": "true"}, idle=5))
    assert first == sent(server)
    assert sorted(first) == [
        ("Impersonate-Extra-50%25", "c"),
        ("Impersonate-Extra-example.com%2FScopes", "a"),
        ("Impersonate-Extra-example.com%2FScopes", "b"),
        ("Impersonate-Group", "night shift"),
        ("Impersonate-Group", "sickbay:operators"),
        ("Impersonate-Uid", "7"),
        ("Impersonate-User", "ann"),
    ]
    assert server.asked[-1].headers["Authorization"] == "Bearer t"


async def test_the_command_line_goes_first(tmp_path: Path) -> None:
    """Field by field, as with kubectl; what it leaves out is the kubeconfig's."""
    async with serving() as server:
        server.script += [says(200, {})]
        file = server.kubeconfig(tmp_path, {"as": "ann", "as-groups": ["a"]})
        async with await Gateway.connect(kubeconfig=file, as_user="bob", as_groups=("b", "c")) as gateway:
            await gateway.request("GET", "/x")
    assert sent(server) == [("Impersonate-User", "bob"), ("Impersonate-Group", "b"), ("Impersonate-Group", "c")]
    assert acting_as({"as": "ann", "as-groups": ["a"]}, "bob", ()) == ActingAs("bob", ("a",))
    assert acting_as({"as": "ann"}, None, ("b",)) == ActingAs("ann", ("b",))


async def test_nobody_else_is_named_unless_asked_for(tmp_path: Path) -> None:
    """Without a word of it no such header goes out; and another door names but its own user."""
    async with serving() as server:
        server.script += [says(200, {}), says(200, {})]
        async with await Gateway.connect(kubeconfig=server.kubeconfig(tmp_path)) as gateway:
            await gateway.request("GET", "/x")
            assert sent(server) == []
        async with (
            await Gateway.connect(kubeconfig=server.kubeconfig(tmp_path, CONFIGURED)) as gateway,
            impersonating(gateway, "system:serviceaccount:a:b") as account,
        ):
            await account.request("GET", "/x")
    assert sent(server) == [("Impersonate-User", "system:serviceaccount:a:b")]


@pytest.mark.parametrize(
    ("configured", "groups", "told"),
    [
        ({"as": 5}, (), "as must be a text in one line, not 5"),
        ({"as": "ann\r\nX: y"}, (), "as must be a text in one line"),
        ({"as": "ann", "as-groups": "a"}, (), "as-groups must be a list of texts, not 'a'"),
        ({"as": "ann", "as-groups": [""]}, (), "as-groups must be a list of texts"),
        ({"as": "ann", "as-user-extra": ["a"]}, (), "as-user-extra must map keys to lists"),
        ({"as-groups": ["a"]}, (), "as-groups, as-uid and as-user-extra take a user"),
        ({"as-uid": "7"}, (), "as-groups, as-uid and as-user-extra take a user"),
        ({}, ("a",), "--as-group: a group takes a user; give --as NAME"),
    ],
)
async def test_half_a_name_is_refused(
    tmp_path: Path, configured: dict[str, Any], groups: tuple[str, ...], told: str
) -> None:
    """Nothing goes out under another name than was meant."""
    async with serving() as server:
        with pytest.raises(errors.UsageError) as raised:
            await Gateway.connect(kubeconfig=server.kubeconfig(tmp_path, configured), as_groups=groups)
    assert told in str(raised.value)
    assert server.asked == []


@pytest.mark.lab
async def test_a_real_api_server_takes_us_for_them(lab: Lab) -> None:
    """The lab's administrator may act as anybody."""
    async with await Gateway.connect(kubeconfig=str(lab.kubeconfig), as_user="ann", as_groups=("a", "b")) as gateway:
        assert await user(gateway) == "ann"
