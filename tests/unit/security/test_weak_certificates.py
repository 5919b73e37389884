"""Certificates are weak if Java 17 refuses them from clients."""

from __future__ import annotations

import ssl

import pytest

from kafkalite.security.weak_certificates import weakness_of
from tests.unit.security.issued_files import WEAK_CLIENTS, WEAK_STORE, client, trusted_part


def der(pem: bytes) -> bytes:
    certificate, end, _ = trusted_part(pem).decode().partition("-----END CERTIFICATE-----")
    return ssl.PEM_cert_to_DER_cert(certificate + end)


@pytest.mark.parametrize(
    ("name", "weakness"),
    [
        ("authority", None),
        ("rsa-1024-sha1", None),
        ("rsa-1023", "its RSA key has 1023 bits, less than 1024"),
        ("trusted-768", "its RSA key has 768 bits, less than 1024"),
        ("md5", "it is signed with MD5"),
    ],
)
def test_short_keys_and_old_digests_are_weak(name: str, weakness: str | None) -> None:
    assert weakness_of(der(WEAK_CLIENTS[name])) == weakness


def test_sha_1_and_other_keys_are_not_weak() -> None:
    assert weakness_of(der(WEAK_STORE.read_bytes())) is None
    assert weakness_of(der(client().certificate_pem)) is None


def test_invalid_der_is_an_error() -> None:
    with pytest.raises(ValueError, match="parsing"):
        weakness_of(b"none")
