"""Certificates that are made for tests."""

from __future__ import annotations

import os
import stat
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from kafkalite.security import certificates
from kafkalite.security.certificates import CertificateAuthority, make_certificates
from kafkalite.security.distinguished_name import names_of_pem

NAMES = ("broker.test", "localhost", "::1", "localhost")


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def test_the_files_are_made_and_those_with_keys_are_private(tmp_path: Path) -> None:
    umask = os.umask(0o022)
    try:
        make_certificates(str(tmp_path), NAMES)
    finally:
        os.umask(umask)
    assert {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {
        "ca.pem": 0o644,
        "ca-key.pem": 0o600,
        "server.pem": 0o600,
        "client.pem": 0o600,
    }


def test_the_authority_issues_the_other_certificates(tmp_path: Path) -> None:
    files = make_certificates(str(tmp_path), NAMES)
    server, client = (names_of_pem(Path(each).read_text()) for each in (files.server, files.client))
    assert server == ("CN=broker.test", frozenset({"broker.test", "localhost", "::1"}))
    assert client == ("CN=kafkalite-client", frozenset())
    authority = x509.load_pem_x509_certificate(Path(files.authority).read_bytes())
    for path in (files.server, files.client):
        leaf, issuer = x509.load_pem_x509_certificates(Path(path).read_bytes())
        leaf.verify_directly_issued_by(authority)
        assert issuer == authority


def test_files_are_used_again(tmp_path: Path) -> None:
    make_certificates(str(tmp_path), NAMES)
    first = contents(tmp_path)
    make_certificates(str(tmp_path), NAMES)
    assert contents(tmp_path) == first


def test_other_names_need_another_certificate_of_the_broker(tmp_path: Path) -> None:
    make_certificates(str(tmp_path), NAMES)
    first = contents(tmp_path)
    make_certificates(str(tmp_path), ("other.test",))
    changed = {name for name, content in contents(tmp_path).items() if content != first[name]}
    assert changed == {"server.pem"}


@pytest.mark.parametrize("lost", ["ca-key.pem", "ca.pem"])
def test_without_the_authority_all_files_are_made_again(tmp_path: Path, lost: str) -> None:
    make_certificates(str(tmp_path), NAMES)
    first = contents(tmp_path)
    (tmp_path / lost).unlink()
    make_certificates(str(tmp_path), NAMES)
    assert not set(contents(tmp_path).values()) & set(first.values())


def test_certificates_that_expire_soon_are_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(certificates, "_AUTHORITY_LIFETIME", timedelta(days=29))
        make_certificates(str(tmp_path), NAMES)
    first = contents(tmp_path)
    make_certificates(str(tmp_path), NAMES)
    assert not set(contents(tmp_path).values()) & set(first.values())


def test_a_key_of_another_kind_is_rejected() -> None:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    with pytest.raises(ValueError, match="elliptic curve"):
        CertificateAuthority.load(CertificateAuthority.create().pem, pem)
