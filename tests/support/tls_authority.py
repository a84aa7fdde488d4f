"""Certificates made for a test: an authority, and what it signs."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID


@dataclass(frozen=True, slots=True)
class Authority:
    """``file`` is what its clients trust (PEM)."""

    name: str
    file: Path
    key: ec.EllipticCurvePrivateKey

    def sign(self, file: Path, *hosts: str) -> Path:
        """A key and a certificate of these names and addresses, in one file."""
        key = ec.generate_private_key(ec.SECP256R1())
        made = _certificate(hosts[0], key, self.name, self.key, hosts)
        file.touch(mode=0o600)
        secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        file.write_bytes(secret + made.public_bytes(Encoding.PEM))
        return file


def authority(folder: Path, name: str) -> Authority:
    key = ec.generate_private_key(ec.SECP256R1())
    file = folder / f"{name}.pem"
    file.write_bytes(_certificate(name, key, name, key, ()).public_bytes(Encoding.PEM))
    return Authority(name, file, key)


def _certificate(
    name: str, key: ec.EllipticCurvePrivateKey, by: str, signed: ec.EllipticCurvePrivateKey, hosts: Sequence[str]
) -> x509.Certificate:
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, by)]))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=not hosts, path_length=None), critical=True)
    )
    if hosts:
        builder = builder.add_extension(x509.SubjectAlternativeName([_host(host) for host in hosts]), critical=False)
    return builder.sign(signed, hashes.SHA256())


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
