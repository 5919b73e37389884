"""Key stores of type JKS that keytool has made."""

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_der_private_key
from cryptography.x509 import load_der_x509_certificate

from kafkalite.security.java_key_store import JavaKeyStoreError, read_java_key_store
from tests.unit.security.java_stores import JKS_KEY_STORE, JKS_TRUST_STORE


def test_the_key_belongs_to_the_certificate() -> None:
    (entry,) = read_java_key_store(JKS_KEY_STORE, "storepass").keys
    (certificate,) = map(load_der_x509_certificate, entry.chain)
    key = load_der_private_key(entry.decrypt("keypass"), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    assert entry.alias == "broker"
    assert key.public_key() == certificate.public_key()


def test_trusted_certificates_are_read_with_and_without_the_password() -> None:
    (entry,) = read_java_key_store(JKS_KEY_STORE, None).keys
    for password in ("storepass", None):
        store = read_java_key_store(JKS_TRUST_STORE, password)
        assert (store.keys, store.trusted_certificates) == ((), entry.chain)


def test_wrong_passwords_are_rejected() -> None:
    with pytest.raises(JavaKeyStoreError, match="password is wrong"):
        read_java_key_store(JKS_KEY_STORE, "wrong")
    (entry,) = read_java_key_store(JKS_KEY_STORE, None).keys
    with pytest.raises(JavaKeyStoreError, match="private key is wrong"):
        entry.decrypt("storepass")


def test_damaged_stores_are_rejected() -> None:
    for size in range(len(JKS_KEY_STORE) - 1):
        with pytest.raises(JavaKeyStoreError):
            read_java_key_store(JKS_KEY_STORE[:size], "storepass")
    for content in (b"", JKS_KEY_STORE[:100], b"\0" * 100, JKS_TRUST_STORE.replace(b"\2", b"\3")):
        with pytest.raises(JavaKeyStoreError):
            read_java_key_store(content, None)
