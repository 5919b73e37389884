"""Certificates for tests: an authority, the servers and a client, as PEM files in a directory."""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from kafkalite.ports.key_files import read_key_file, write_key_file
from kafkalite.ports.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

CLIENT_NAME: Final = "kafkalite-client"
"""The common name of the client's certificate."""

_AUTHORITY_NAME: Final = "kafkalite test authority"
_AUTHORITY_LIFETIME: Final = timedelta(days=3650)
_LIFETIME: Final = timedelta(days=825)
"""The maximum lifetime that all TLS libraries accept."""
_REQUIRED_LIFETIME: Final = timedelta(days=30)
"""A certificate that expires earlier is made again."""
_CLOCK_DIFFERENCE: Final = timedelta(hours=1)


class CertificateFiles(NamedTuple):
    """The paths of the files in a directory.

    Each is readable for its owner only, except the certificate of the authority.
    """

    directory: str

    @property
    def authority(self) -> str:
        """The certificate of the authority, which clients trust."""
        return f"{self.directory}/ca.pem"

    @property
    def authority_key(self) -> str:
        """The private key of the authority."""
        return f"{self.directory}/ca-key.pem"

    @property
    def server(self) -> str:
        """The private key and the certificate chain of the brokers."""
        return f"{self.directory}/server.pem"

    @property
    def client(self) -> str:
        """The private key and the certificate chain of a client."""
        return f"{self.directory}/client.pem"


class IssuedCertificate(NamedTuple):
    """A certificate and its private key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @property
    def certificate_pem(self) -> bytes:
        """The certificate."""
        return self.certificate.public_bytes(Encoding.PEM)

    @property
    def key_pem(self) -> bytes:
        """The private key as PKCS #8 without a password."""
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


class CertificateAuthority:
    """An authority that issues certificates of servers and clients."""

    def __init__(self, issued: IssuedCertificate) -> None:
        self.certificate = issued.certificate
        self.pem = issued.certificate_pem
        self.key_pem = issued.key_pem
        self._key = issued.key

    @classmethod
    def create(cls, name: str = _AUTHORITY_NAME) -> CertificateAuthority:
        """Return a new authority."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        builder = _builder(subject, subject, key.public_key(), _AUTHORITY_LIFETIME)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), True)
        builder = builder.add_extension(
            x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False
        )
        builder = builder.add_extension(_key_usage(is_authority=True), True)
        return cls(IssuedCertificate(builder.sign(key, hashes.SHA256()), key))

    @classmethod
    def load(cls, certificate_pem: bytes, key_pem: bytes) -> CertificateAuthority:
        """Return the authority with this certificate and key; raises ValueError."""
        key = load_pem_private_key(key_pem, None)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise ValueError("the key of the authority is not one of an elliptic curve")  # noqa: TRY004 - a file is invalid
        return cls(IssuedCertificate(x509.load_pem_x509_certificate(certificate_pem), key))

    def issue(
        self,
        subject: str | x509.Name,
        names: Iterable[str] = (),
        *,
        lifetime: timedelta = _LIFETIME,
    ) -> IssuedCertificate:
        """Return a certificate of a server and client with this subject or common name.

        `names` are its host names and addresses. A negative lifetime is that of a certificate that
        has expired.
        """
        if isinstance(subject, str):
            subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)])
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(subject, self.certificate.subject, key.public_key(), lifetime)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), True)
        builder = builder.add_extension(_key_usage(is_authority=False), True)
        usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        builder = builder.add_extension(x509.ExtendedKeyUsage(usages), False)
        identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        builder = builder.add_extension(identifier, False)
        general_names = [_general_name(name) for name in names]
        if general_names:
            builder = builder.add_extension(x509.SubjectAlternativeName(general_names), False)
        return IssuedCertificate(builder.sign(self._key, hashes.SHA256()), key)

    def chain_pem(self, issued: IssuedCertificate) -> bytes:
        """Return the content of a PEM key store: key, certificate, authority."""
        return issued.key_pem + issued.certificate_pem + self.pem


def make_certificates(directory: str, names: Iterable[str]) -> CertificateFiles:
    """Make the files in an existing directory, and return their paths.

    Certificates that exist already are used again if they have the same `names` and do not expire
    soon, so that clients trust the authority after a restart. Raises OSError.
    """
    files = CertificateFiles(directory)
    authority = _existing_authority(files)
    if authority is None:
        authority = CertificateAuthority.create()
        write_key_file(files.authority_key, authority.key_pem)
        write_key_file(files.authority, authority.pem, is_public=True)
    server_names = tuple(dict.fromkeys(names))
    for path, subject, subject_names in (
        (files.server, server_names[0], server_names),
        (files.client, CLIENT_NAME, ()),
    ):
        if not _is_usable(path, authority, subject_names):
            issued = authority.issue(subject, subject_names)
            write_key_file(path, authority.chain_pem(issued))
    return files


def _existing_authority(files: CertificateFiles) -> CertificateAuthority | None:
    try:
        authority = CertificateAuthority.load(
            read_key_file(files.authority), read_key_file(files.authority_key)
        )
    except (FileNotFoundError, ValueError):
        return None
    return authority if _is_valid_long_enough(authority.certificate) else None


def _is_usable(path: str, authority: CertificateAuthority, names: tuple[str, ...]) -> bool:
    """Return whether a file has a certificate of this authority for these names."""
    try:
        certificate = x509.load_pem_x509_certificate(read_key_file(path))
        certificate.verify_directly_issued_by(authority.certificate)
    except Exception:  # noqa: BLE001 - an unusable file is made again
        return False
    try:
        extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
        existing_names = list(extension.value)
    except x509.ExtensionNotFound:
        existing_names = []
    return existing_names == [_general_name(name) for name in names] and _is_valid_long_enough(
        certificate
    )


def _is_valid_long_enough(certificate: x509.Certificate) -> bool:
    return certificate.not_valid_after_utc > datetime.now(UTC) + _REQUIRED_LIFETIME


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, lifetime: timedelta
) -> x509.CertificateBuilder:
    # Clients compare with the time of the system, not with the clock of the broker.
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder(subject_name=subject, issuer_name=issuer, public_key=key)
    return (
        builder.serial_number(x509.random_serial_number())
        .not_valid_before(min(now, now + lifetime) - _CLOCK_DIFFERENCE)
        .not_valid_after(now + lifetime)
    )


def _key_usage(*, is_authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=is_authority,
        crl_sign=is_authority,
        encipher_only=False,
        decipher_only=False,
    )


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)
