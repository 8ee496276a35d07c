"""The lab's certificates."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from k8s.lab import pki


def strict(purpose: ssl.Purpose, authority: pki.Authority, pair: pki.KeyPair) -> ssl.SSLContext:
    """Build a context that checks as Python 3.13 does."""
    context = ssl.create_default_context(purpose, cafile=str(authority.certificate))
    context.verify_flags |= ssl.VERIFY_X509_STRICT | ssl.VERIFY_X509_PARTIAL_CHAIN
    context.load_cert_chain(pair.certificate, pair.key)
    return context


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost"])
def test_strict_checks_accept_server_and_client(tmp_path: Path, name: str) -> None:
    """A handshake in which each side checks the other strictly succeeds, and the client's name is the user's."""
    authority = pki.create(tmp_path, {"system:someone": "group"})
    client = strict(ssl.Purpose.SERVER_AUTH, authority, authority.users["system:someone"])
    server = strict(ssl.Purpose.CLIENT_AUTH, authority, authority.server)
    server.verify_mode = ssl.CERT_REQUIRED
    ends = [ssl.MemoryBIO() for _ in range(2)]
    asking = client.wrap_bio(ends[0], ends[1], server_hostname=name)
    answering = server.wrap_bio(ends[1], ends[0], server_side=True)
    left = [asking, answering]
    for _ in range(10):
        for end in list(left):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
            left.remove(end)
    assert not left
    seen = answering.getpeercert()
    assert seen is not None
    assert seen["subject"] == ((("organizationName", "group"),), (("commonName", "system:someone"),))


def test_keys_are_for_their_owner_alone(tmp_path: Path) -> None:
    """No private key can be read by others."""
    pki.create(tmp_path / "pki", {"admin": ""})
    keys = list((tmp_path / "pki").glob("*.key"))
    assert len(keys) == 3
    assert all(key.stat().st_mode & 0o077 == 0 for key in keys)
