# ruff: noqa: S106
"""Key stores and trust stores in every format, and the rules for their settings."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

import pytest

from kafkalite.security.java_key_store import read_java_key_store
from kafkalite.security.key_stores import KeyStoreError, read_key_store, read_trust_store
from tests.unit.security.issued_files import authority, listener_security, server
from tests.unit.security.java_stores import (
    JKS_KEY_STORE,
    JKS_TRUST_STORE,
    PKCS12_KEY_STORE,
    PKCS12_TRUST_STORE,
)
from tests.unit.security.missing_extra import hide_cryptography

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalite.security.key_stores import ReadFile
    from kafkalite.security.listener_security import ListenerSecurity

FILES = {
    "key.jks": JKS_KEY_STORE,
    "trust.jks": JKS_TRUST_STORE,
    "key.p12": PKCS12_KEY_STORE,
    "trust.p12": PKCS12_TRUST_STORE,
    "server.pem": authority().chain_pem(server()),
    "ca.pem": b"comment\n" + authority().pem,
    "empty.pem": b"",
}
KEY_PEM = server().key_pem.decode()
CHAIN_PEM = server().certificate_pem.decode()
(JKS_CERTIFICATE,) = read_java_key_store(JKS_TRUST_STORE, None).trusted_certificates


def read_file(path: str) -> bytes:
    if path not in FILES:
        raise FileNotFoundError(2, "No such file or directory")
    return FILES[path]


def keystore(**settings: str) -> dict[str, str]:
    return {f"ssl.keystore.{name.replace('_', '.')}": text for name, text in settings.items()}


def truststore(**settings: str) -> dict[str, str]:
    return {f"ssl.truststore.{name.replace('_', '.')}": text for name, text in settings.items()}


@pytest.mark.parametrize("store_type", ["JKS", "PKCS12"])
@pytest.mark.parametrize("location", ["key.jks", "key.p12"])
def test_the_content_of_a_file_decides_on_its_format(store_type: str, location: str) -> None:
    config = keystore(type=store_type, location=location, password="storepass")
    config["ssl.key.password"] = "keypass"
    material = read_key_store(listener_security(config), read_file)
    assert material is not None
    assert material.password is None
    assert material.pem.startswith("-----BEGIN PRIVATE KEY-----\n")
    assert material.pem.count("-----BEGIN CERTIFICATE-----\n") == 1


@pytest.mark.parametrize("location", ["trust.jks", "trust.p12"])
def test_trusted_certificates_are_read(location: str) -> None:
    config = truststore(location=location, password="storepass")
    text = read_trust_store(listener_security(config), read_file)
    assert text == ssl.DER_cert_to_PEM_cert(JKS_CERTIFICATE)


def test_pem_is_read_from_files_and_from_settings() -> None:
    config = {**keystore(type="PEM", location="server.pem"), "ssl.key.password": "p"}
    assert read_key_store(listener_security(config), read_file) == (
        FILES["server.pem"].decode(),
        "p",
    )
    config = keystore(type="PEM", key=KEY_PEM, certificate_chain=CHAIN_PEM)
    assert read_key_store(listener_security(config), read_file) == (
        f"{KEY_PEM}\n{CHAIN_PEM}\n",
        None,
    )
    trusted = authority().pem.decode().strip()
    for config in (
        truststore(type="PEM", location="ca.pem"),
        truststore(type="PEM", certificates=FILES["ca.pem"].decode()),
    ):
        assert read_trust_store(listener_security(config), read_file) == trusted


def test_a_listener_without_stores_has_none() -> None:
    assert read_key_store(listener_security({}), read_file) is None
    assert read_trust_store(listener_security({}), read_file) is None


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (keystore(key="k", certificate_chain="c"), "only for PEM, but SSL key store type is JKS"),
        (keystore(type="PEM", key="k"), "certificate chain is not specified"),
        (keystore(type="PEM", certificate_chain="c"), "private key is not specified"),
        (keystore(type="PEM", key="k", certificate_chain="c", location="f"), "Both SSL key store"),
        (
            keystore(type="PEM", key="k", certificate_chain="c", password="p"),
            "password cannot be specified with PEM",
        ),
        (keystore(type="PEM", location="server.pem", password="p"), "cannot be specified with PEM"),
        (keystore(password="p"), "key store password is specified"),
        (keystore(location="key.jks"), "key store password is not specified"),
        (keystore(location="key.jks", password="wrong"), "of type JKS: .* password is wrong"),
        (
            keystore(location="key.jks", password="storepass"),
            "password of the private key is wrong",
        ),
        (keystore(location="key.p12", password="wrong"), "Failed to load SSL key store key.p12"),
        (keystore(location="server.pem", password="p"), "Failed to load SSL key store server.pem"),
        (keystore(location="trust.jks", password="storepass"), "has no private key"),
        (keystore(location="trust.p12", password="storepass"), "has no private key"),
        (keystore(location="none", password="p"), "none of type JKS: no such file or directory"),
        (keystore(type="BCFKS", location="key.jks", password="p"), "type is BCFKS"),
    ],
)
def test_unusable_key_stores_are_rejected(config: dict[str, str], message: str) -> None:
    with pytest.raises(KeyStoreError, match=message) as refused:
        read_key_store(listener_security(config), read_file)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (truststore(certificates="c"), "only for PEM"),
        (truststore(type="PEM", certificates="c"), "No matching CERTIFICATE entries"),
        (truststore(type="PEM", certificates="c", location="f"), "Both SSL trust store"),
        (truststore(type="PEM", location="empty.pem"), "No matching CERTIFICATE entries in empty"),
        (truststore(type="PEM", location="ca.pem", password="p"), "cannot be specified with PEM"),
        (truststore(password="p"), "trust store password is specified"),
        (truststore(location="key.jks", password="storepass"), "has no trusted certificates"),
        (truststore(location="trust.jks", password="wrong"), "Failed to load SSL trust store"),
        (truststore(type="DER", location="ca.pem"), "type is DER"),
    ],
)
def test_unusable_trust_stores_are_rejected(config: dict[str, str], message: str) -> None:
    with pytest.raises(KeyStoreError, match=message):
        read_trust_store(listener_security(config), read_file)


def test_the_error_about_a_pem_file_of_another_type_has_a_hint(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hide_cryptography(monkeypatch)
    hint = r"\. server\.pem is a PEM file: set ssl\.keystore\.type=PEM$"
    for config in (keystore(location="server.pem"), keystore(location="server.pem", password="p")):
        with pytest.raises(KeyStoreError, match=hint):
            read_key_store(listener_security(config), read_file)
    hint = r"\. ca\.pem is a PEM file: set ssl\.truststore\.type=PEM$"
    with pytest.raises(KeyStoreError, match=hint):
        read_trust_store(listener_security(truststore(location="ca.pem")), read_file)
    for location in ("key.jks", "none"):
        with pytest.raises(KeyStoreError, match=r"password is not specified\.$"):
            read_key_store(listener_security(keystore(location=location)), read_file)


@pytest.mark.parametrize("read", [read_key_store, read_trust_store])
def test_pkcs12_needs_the_extra_security(
    monkeypatch: pytest.MonkeyPatch, read: Callable[[ListenerSecurity, ReadFile], object]
) -> None:
    config = keystore(location="key.p12", password="storepass") | truststore(
        location="trust.p12", password="storepass"
    )
    security = listener_security(config)
    hide_cryptography(monkeypatch)
    with pytest.raises(KeyStoreError, match=r"PKCS12 store: it needs pip install 'kafkalite\["):
        read(security, read_file)
