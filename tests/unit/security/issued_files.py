"""Files with certificates for the tests of TLS, made once per process."""

from __future__ import annotations

import ssl
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from kafkalite.config.broker import BrokerConfig
from kafkalite.config.security_protocols import SecurityProtocol
from kafkalite.security.certificates import CertificateAuthority
from kafkalite.security.listener_security import ListenerSecurity

if TYPE_CHECKING:
    from cryptography import x509

    from kafkalite.security.certificates import IssuedCertificate

SERVER_NAMES = ("localhost", "127.0.0.1")


@cache
def authority(name: str = "authority") -> CertificateAuthority:
    return CertificateAuthority.create(name)


@cache
def server() -> IssuedCertificate:
    return authority().issue("server", SERVER_NAMES)


@cache
def client(common_name: str = "alice", *, is_expired: bool = False) -> IssuedCertificate:
    lifetime = timedelta(days=-1 if is_expired else 1)
    return authority().issue(common_name, lifetime=lifetime)


WEAK_STORE = Path(__file__).with_name("weak.pem")
"""A key of 1024 bits, its certificate and the authority, both signed with SHA-1 by OpenSSL."""


WEAK_CLIENTS = {
    path.stem: path.read_bytes() for path in Path(__file__).with_name("weak_clients").glob("*.pem")
}
"""Keys and certificates of clients made by OpenSSL, which are weak as their names say.

`authority` has issued them, and `trusted-768` itself.
"""


def trusted_part(pem: bytes) -> bytes:
    """Return the certificate of a key store in PEM."""
    return pem[pem.index(b"-----BEGIN CERTIFICATE") :]


class Files:
    """The files of a server and of its clients in a directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.authority = self.write("ca.pem", authority().pem)
        self.server = self.write("server.pem", authority().chain_pem(server()))

    def write(self, name: str, content: bytes) -> str:
        path = Path(self.directory, name)
        path.write_bytes(content)
        return str(path)

    def config(self, **more: str) -> dict[str, str]:
        """Return the settings of a server; underscores in names of `more` are dots."""
        return {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": self.server,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self.authority,
            **{name.replace("_", "."): value for name, value in more.items()},
        }

    def client_context(
        self, issued: IssuedCertificate | None = None, *, trusted: str | None = None
    ) -> ssl.SSLContext:
        """Return the context of a client, with or without a certificate."""
        context = ssl.create_default_context(cafile=trusted or self.authority)
        if issued is not None:
            context.load_cert_chain(self.write("client.pem", authority().chain_pem(issued)))
        return context


def listener_security(
    config: dict[str, str], protocol: SecurityProtocol = SecurityProtocol.SSL
) -> ListenerSecurity:
    return ListenerSecurity(protocol.value, protocol, BrokerConfig.from_text(config))


def subject_of(issued: IssuedCertificate) -> x509.Name:
    return issued.certificate.subject
