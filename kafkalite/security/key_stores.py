"""Key stores and trust stores of a listener, in the formats PEM, PKCS #12 and JKS.

The settings and their rules are those of Kafka's DefaultSslEngineFactory. As in Java, the content
of a file decides between PKCS #12 and JKS, not the type in the settings.
"""

from __future__ import annotations

import re
import ssl
from typing import TYPE_CHECKING, Final

from kafkalite.ports.extras import install_command
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.security.java_key_store import MAGIC, JavaKeyStoreError, read_java_key_store

if TYPE_CHECKING:
    from collections.abc import Callable

    from cryptography.hazmat.primitives.serialization.pkcs12 import PKCS12KeyAndCertificates
    from cryptography.x509 import Certificate

    from kafkalite.security.java_key_store import JavaKeyStore
    from kafkalite.security.listener_security import ListenerSecurity

    ReadFile = Callable[[str], bytes]

SECURITY_EXTRA: Final = install_command("security")
"""The command that installs the package for the features that need `cryptography`."""

_PEM: Final = "PEM"
_BINARY_TYPES: Final = ("JKS", "PKCS12")
_CERTIFICATE: Final = re.compile(
    r"-+BEGIN\s*.*CERTIFICATE[^-]*-+\s.*?-+END\s*.*CERTIFICATE[^-]*-+", re.DOTALL
)


class KeyStoreError(ValueError):
    """An unusable key store or trust store; the text is one line for users."""


class KeyMaterial(NamedTuple):
    """A private key and its certificate chain as PEM, and the password of the key."""

    pem: str
    password: str | None = None

    def __repr__(self) -> str:
        """Return a text without the key and the password."""
        return "KeyMaterial()"


class _Settings(NamedTuple):
    """The settings of a key store or a trust store."""

    name: str
    prefix: str
    """The start of the names of its settings."""
    type: str
    location: str | None
    password: str | None

    def check_inline(self, what: str) -> None:
        """Check the settings next to inline PEM; raises KeyStoreError."""
        if self.type != _PEM:
            raise KeyStoreError(
                f"{what} can be specified only for PEM, but {self.name} type is {self.type}."
            )
        if self.location is not None:
            raise KeyStoreError(f"Both {self.name} location and {what} are specified.")
        self.check_pem_password()

    def check_pem_password(self) -> None:
        """Check that a PEM store has no password; raises KeyStoreError."""
        if self.password is not None:
            raise KeyStoreError(
                f"{self.name} password cannot be specified with PEM format, only key password may "
                "be specified."
            )

    def check_type(self) -> None:
        """Check the type of a file; raises KeyStoreError."""
        if self.type.upper() not in _BINARY_TYPES:
            raise KeyStoreError(
                f"{self.name} type is {self.type}, but only PEM, PKCS12 and JKS are supported."
            )


def read_key_store(security: ListenerSecurity, read_file: ReadFile) -> KeyMaterial | None:
    """Return the key and the certificates of a listener, None if it has no key store.

    Raises KeyStoreError.
    """
    settings = _settings_of(security, "SSL key store", "ssl.keystore")
    key_password = security.str_or_none("ssl.key.password")
    key = security.str_or_none("ssl.keystore.key")
    chain = security.str_or_none("ssl.keystore.certificate.chain")
    if key is not None:
        settings.check_inline("SSL private key")
        if chain is None:
            raise KeyStoreError(
                "SSL private key is specified, but certificate chain is not specified."
            )
        return KeyMaterial(f"{key}\n{chain}\n", key_password)
    if chain is not None:
        raise KeyStoreError("SSL certificate chain is specified, but private key is not specified")
    if settings.location is None:
        if settings.password is not None:
            raise KeyStoreError(
                "SSL key store is not specified, but key store password is specified."
            )
        return None
    if settings.type == _PEM:
        settings.check_pem_password()
        return KeyMaterial(_read_text(settings, read_file), key_password)
    settings.check_type()
    if settings.password is None:
        raise KeyStoreError(
            "SSL key store is specified, but key store password is not specified."
            + _hint_if_pem(settings, read_file)
        )
    content = _read(settings, read_file)
    if content.startswith(MAGIC):
        return _java_key(settings, content, key_password or settings.password)
    return _pkcs12_key(settings, content)


def read_trust_store(security: ListenerSecurity, read_file: ReadFile) -> str | None:
    """Return the trusted certificates of a listener as PEM, None if it has no trust store.

    Raises KeyStoreError.
    """
    settings = _settings_of(security, "SSL trust store", "ssl.truststore")
    inline = security.str_or_none("ssl.truststore.certificates")
    if inline is not None:
        settings.check_inline("SSL trust store certs")
        return _certificates_in(inline, settings)
    if settings.location is None:
        if settings.password is not None:
            raise KeyStoreError(
                "SSL trust store is not specified, but trust store password is specified."
            )
        return None
    if settings.type == _PEM:
        settings.check_pem_password()
        return _certificates_in(_read_text(settings, read_file), settings)
    settings.check_type()
    content = _read(settings, read_file)
    if content.startswith(MAGIC):
        certificates: tuple[bytes, ...] = _java_store(settings, content).trusted_certificates
    else:
        store = _pkcs12_store(settings, content)
        certificates = tuple(_der(each.certificate) for each in store.additional_certs)
        if store.cert is not None:
            certificates += (_der(store.cert.certificate),)
    if not certificates:
        raise KeyStoreError(f"{settings.location} has no trusted certificates")
    return "".join(map(ssl.DER_cert_to_PEM_cert, certificates))


def _settings_of(security: ListenerSecurity, name: str, prefix: str) -> _Settings:
    return _Settings(
        name,
        prefix,
        security.str(f"{prefix}.type"),
        security.str_or_none(f"{prefix}.location"),
        security.str_or_none(f"{prefix}.password"),
    )


def _certificates_in(text: str, settings: _Settings) -> str:
    certificates: list[str] = _CERTIFICATE.findall(text)
    if not certificates:
        place = settings.location or f"the PEM text of the {settings.name}"
        raise KeyStoreError(f"No matching CERTIFICATE entries in {place}")
    return "\n".join(certificates)


def _read(settings: _Settings, read_file: ReadFile) -> bytes:
    assert settings.location is not None
    try:
        return read_file(settings.location)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise KeyStoreError(
            f"Failed to load {settings.name} {settings.location} of type {settings.type}: {reason}"
        ) from error


def _hint_if_pem(settings: _Settings, read_file: ReadFile) -> str:
    """Return the advice to set the type of a PEM file, empty for another or unreadable file."""
    try:
        content = _read(settings, read_file)
    except KeyStoreError:
        return ""
    return _hint_if_pem_content(settings, content)


def _hint_if_pem_content(settings: _Settings, content: bytes) -> str:
    if b"-----BEGIN " not in content:
        return ""
    return f" {settings.location} is a PEM file: set {settings.prefix}.type=PEM"


def _read_text(settings: _Settings, read_file: ReadFile) -> str:
    return _read(settings, read_file).decode("utf-8", "replace")


def _java_store(settings: _Settings, content: bytes) -> JavaKeyStore:
    try:
        return read_java_key_store(content, settings.password)
    except JavaKeyStoreError as error:
        raise _load_error(settings, error) from error


def _java_key(settings: _Settings, content: bytes, key_password: str) -> KeyMaterial:
    store = _java_store(settings, content)
    if not store.keys:
        raise KeyStoreError(f"{settings.location} has no private key")
    key = store.keys[0]
    try:
        der = key.decrypt(key_password)
    except JavaKeyStoreError as error:
        raise _load_error(settings, error) from error
    return KeyMaterial(_key_pem(der) + "".join(map(ssl.DER_cert_to_PEM_cert, key.chain)))


def _pkcs12_key(settings: _Settings, content: bytes) -> KeyMaterial:
    store = _pkcs12_store(settings, content)
    from cryptography.hazmat.primitives.serialization import (  # noqa: PLC0415 - heavy
        Encoding,
        NoEncryption,
        PrivateFormat,
    )

    if store.key is None or store.cert is None:
        raise KeyStoreError(f"{settings.location} has no private key with a certificate")
    key = store.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    chain = [store.cert.certificate]
    others = {each.certificate.subject: each.certificate for each in store.additional_certs}
    while (issuer := others.pop(chain[-1].issuer, None)) is not None:
        chain.append(issuer)
    certificates = (ssl.DER_cert_to_PEM_cert(_der(each)) for each in chain)
    return KeyMaterial(key.decode() + "".join(certificates))


def _pkcs12_store(settings: _Settings, content: bytes) -> PKCS12KeyAndCertificates:
    hint = _hint_if_pem_content(settings, content)
    if hint:
        raise KeyStoreError(
            f"Failed to load {settings.name} {settings.location} of type {settings.type}.{hint}"
        )
    try:
        from cryptography.hazmat.primitives.serialization import pkcs12  # noqa: PLC0415 - heavy
    except ImportError as error:
        raise KeyStoreError(
            f"{settings.location} is a PKCS12 store: it needs {SECURITY_EXTRA}"
        ) from error
    password = None if settings.password is None else settings.password.encode()
    try:
        return pkcs12.load_pkcs12(content, password)
    except (ValueError, TypeError) as error:
        raise _load_error(settings, error) from error


def _load_error(settings: _Settings, error: Exception) -> KeyStoreError:
    return KeyStoreError(
        f"Failed to load {settings.name} {settings.location} of type {settings.type}: {error}"
    )


def _der(certificate: Certificate) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding  # noqa: PLC0415 - heavy

    return certificate.public_bytes(Encoding.DER)


def _key_pem(der: bytes) -> str:
    """Return a private key in PKCS #8 as PEM."""
    certificate = ssl.DER_cert_to_PEM_cert(der)
    return certificate.replace("CERTIFICATE", "PRIVATE KEY")
