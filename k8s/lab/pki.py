"""Certificates of one lab: an authority, the servers' certificate, one client certificate per user.

They satisfy the strict checks of Python 3.13 and later (RFC 5280: key usage, key identifiers, critical constraints).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

VALID_FOR: Final = timedelta(days=30)
_BACKDATED: Final = timedelta(hours=1)
"""Clocks of one machine agree, but a test may have set its own back."""

_SERVER_NAMES: Final = (
    x509.DNSName("localhost"),
    x509.DNSName("kubernetes.default.svc"),
    x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
    x509.IPAddress(ipaddress.ip_address("10.0.0.1")),
)


@dataclass(frozen=True)
class KeyPair:
    """Paths of a PEM certificate (a public key, for the service account key) and of its private key."""

    certificate: Path
    key: Path


@dataclass(frozen=True)
class Authority:
    """What a lab trusts.

    Attributes:
        certificate: the authority's certificate.
        server: for every server of the lab, on loopback.
        service_accounts: key pair that signs tokens.
        users: client certificates by user name.
    """

    certificate: Path
    server: KeyPair
    service_accounts: KeyPair
    users: Mapping[str, KeyPair]


def create(directory: Path, users: Mapping[str, str]) -> Authority:
    """Write a fresh authority and all its certificates.

    Args:
        directory: made if missing, readable by its owner alone.
        users: user name → group, ``""`` for none.
    """
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    issuer = _Issuer(directory)
    server = issuer.sign("server", _name("kube-apiserver"), ExtendedKeyUsageOID.SERVER_AUTH, _SERVER_NAMES)
    clients = {
        user: issuer.sign(user, _name(user, group), ExtendedKeyUsageOID.CLIENT_AUTH) for user, group in users.items()
    }
    return Authority(issuer.path, server, _token_keys(directory), clients)


class _Issuer:
    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("sickbay-lab")
        self._key_id = x509.SubjectKeyIdentifier.from_public_key(self._key.public_key())
        certificate = (
            _builder(self._name, self._name, self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs_certificates=True), critical=True)
            .add_extension(self._key_id, critical=False)
            .sign(self._key, hashes.SHA256())
        )
        self.path = directory / "ca.crt"
        self.path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))

    def sign(
        self, file: str, name: x509.Name, purpose: x509.ObjectIdentifier, alternatives: Iterable[x509.GeneralName] = ()
    ) -> KeyPair:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = (
            _builder(name, self._name, key.public_key())
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(self._key_id), critical=False)
        )
        if names := list(alternatives):
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        stem = file.replace(":", "-")
        pair = KeyPair(self._directory / f"{stem}.crt", self._directory / f"{stem}.key")
        pair.certificate.write_bytes(builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
        _write_key(pair.key, key)
        return pair


def _token_keys(directory: Path) -> KeyPair:
    key = ec.generate_private_key(ec.SECP256R1())
    pair = KeyPair(directory / "service-accounts.pub", directory / "service-accounts.key")
    pair.certificate.write_bytes(
        key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    _write_key(pair.key, key)
    return pair


def _write_key(path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    path.touch(mode=0o600)
    path.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )


def _name(common: str, group: str = "") -> x509.Name:
    groups = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group)] if group else []
    return x509.Name([*groups, x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BACKDATED)
        .not_valid_after(now + VALID_FOR)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )
