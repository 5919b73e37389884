"""A real Kafka and kafkalite with the same listeners, certificates and settings of TLS."""

from __future__ import annotations

import ssl
from datetime import timedelta
from typing import TYPE_CHECKING, Final, NamedTuple

from cryptography import x509
from cryptography.x509.oid import NameOID

from kafkalite.security.certificates import CertificateAuthority
from kafkalite.security.distinguished_name import subject_of
from tests.conformance import sasl_cases
from tests.oracle.real_kafka import RealKafka
from tests.oracle.served_kafkalite import ServedKafkalite
from tests.oracle.target import COMMON_CONFIG, free_port
from tests.unit.security.issued_files import WEAK_CLIENTS, trusted_part

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

SASL: Final = "LOGIN"
SASL_WITH_CERTIFICATE: Final = "LOGINWITHCERTIFICATE"
RENEWED: Final = "RENEWED"
"""A listener whose certificate can be replaced; see `Certificates.renew`."""
LISTENERS: Final[Mapping[str, str]] = {
    "NOCERTIFICATE": "SSL",
    "REQUESTED": "SSL",
    "REQUIRED": "SSL",
    "MAPPED": "SSL",
    "UNMAPPED": "SSL",
    "TLS12": "SSL",
    "TLS13": "SSL",
    RENEWED: "SSL",
    SASL: "SASL_SSL",
    SASL_WITH_CERTIFICATE: "SASL_SSL",
}
"""Name of a listener → its security protocol."""

_LIFETIME: Final = timedelta(days=1)

OPEN: Final = "PLAINTEXT"
"""The listener of the administrator."""

MAPPING_RULES: Final = (
    r"RULE:^CN=([a-z]+),OU=Sales.*$/$1@sales/U,"
    r"RULE:^.*CN=(.*?),OU=(.*?),O=Example.*$/$2.$1/L,"
    "RULE:^CN=plain$/simple/,DEFAULT"
)
_SETTINGS: Final[Mapping[str, Mapping[str, str]]] = {
    "NOCERTIFICATE": {"ssl.client.auth": "none"},
    "REQUESTED": {"ssl.client.auth": "requested"},
    "REQUIRED": {"ssl.client.auth": "required"},
    "MAPPED": {"ssl.client.auth": "required", "ssl.principal.mapping.rules": MAPPING_RULES},
    "UNMAPPED": {
        "ssl.client.auth": "required",
        "ssl.principal.mapping.rules": "RULE:^CN=alice,.*$/alice/",
    },
    "TLS12": {"ssl.enabled.protocols": "TLSv1.2"},
    "TLS13": {"ssl.enabled.protocols": "TLSv1.3"},
    SASL_WITH_CERTIFICATE: {"ssl.client.auth": "required"},
}


def _name(*attributes: tuple[x509.ObjectIdentifier, str]) -> x509.Name:
    return x509.Name([x509.NameAttribute(kind, value) for kind, value in attributes])


SUBJECTS: Final[Mapping[str, x509.Name]] = {
    "plain": _name((NameOID.COMMON_NAME, "plain")),
    "alice": _name(
        (NameOID.COUNTRY_NAME, "DE"),
        (NameOID.ORGANIZATION_NAME, "Example"),
        (NameOID.ORGANIZATIONAL_UNIT_NAME, "Sales"),
        (NameOID.COMMON_NAME, "alice"),
    ),
    "capitals": _name(
        (NameOID.ORGANIZATION_NAME, "Example"),
        (NameOID.ORGANIZATIONAL_UNIT_NAME, "Ops"),
        (NameOID.COMMON_NAME, "Bob"),
    ),
    "special": _name(
        (NameOID.ORGANIZATION_NAME, 'Example, "Inc." + <Sons>; a=b\\c'),
        (NameOID.COMMON_NAME, " leading and trailing "),
    ),
    "number sign": _name((NameOID.COMMON_NAME, "#1")),
    "not ASCII": _name((NameOID.COMMON_NAME, "Zoë Müller")),
    "other attributes": _name(
        (NameOID.DOMAIN_COMPONENT, "com"),
        (NameOID.USER_ID, "u1"),
        (NameOID.EMAIL_ADDRESS, "a@b.c"),
        (NameOID.SERIAL_NUMBER, "7"),
        (NameOID.STREET_ADDRESS, "Road 1"),
        (NameOID.STATE_OR_PROVINCE_NAME, "BW"),
        (NameOID.LOCALITY_NAME, "Ulm"),
        (NameOID.TITLE, "Dr"),
        (NameOID.COMMON_NAME, "carol"),
    ),
    "several values": x509.Name(
        [
            x509.RelativeDistinguishedName(
                [
                    x509.NameAttribute(NameOID.COMMON_NAME, "dave"),
                    x509.NameAttribute(NameOID.USER_ID, "d1"),
                ]
            ),
            x509.RelativeDistinguishedName(
                [x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Example")]
            ),
        ]
    ),
}


class Certificates:
    """The files of the brokers, and the contexts of clients."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._authority = CertificateAuthority.create("authority")
        self._foreign = CertificateAuthority.create("foreign authority")
        self.trusted = self._write("ca.pem", self._authority.pem)
        weak = [WEAK_CLIENTS["authority"], trusted_part(WEAK_CLIENTS["trusted-768"])]
        self.trusted_by_brokers = self._write("trusted.pem", b"".join((self._authority.pem, *weak)))
        self.server = self._issue("server.pem")
        self.renewed = self._issue("renewed.pem")

    def client(
        self,
        subject: str | x509.Name | None = None,
        *,
        is_foreign: bool = False,
        lifetime: timedelta = _LIFETIME,
    ) -> ssl.SSLContext:
        """Return the context of a client, by default without a certificate.

        The subject is one of `SUBJECTS`, or any other one.
        """
        context = ssl.create_default_context(cafile=self.trusted)
        if subject is not None:
            authority = self._foreign if is_foreign else self._authority
            name = SUBJECTS[subject] if isinstance(subject, str) else subject
            issued = authority.issue(name, lifetime=lifetime)
            context.load_cert_chain(self._write("client.pem", authority.chain_pem(issued)))
        return context

    def weak_client(self, name: str) -> ssl.SSLContext:
        """Return the context of a client with a certificate of `WEAK_CLIENTS`."""
        context = ssl.create_default_context(cafile=self.trusted)
        context.set_ciphers("DEFAULT:@SECLEVEL=0")
        context.load_cert_chain(self._write("weak.pem", WEAK_CLIENTS[name]))
        return context

    def renew(self) -> None:
        """Replace the certificate of the listener RENEWED by one with the same names."""
        self._issue("renewed.pem")

    def subject(self, name: str) -> str:
        """Return the distinguished name of a subject as Kafka writes it."""
        issued = self._authority.issue(SUBJECTS[name])
        return subject_of(ssl.PEM_cert_to_DER_cert(issued.certificate_pem.decode()))

    def _issue(self, name: str) -> str:
        """Write the certificate of a server, and return the path."""
        issued = self._authority.issue("server", ("localhost", "127.0.0.1"))
        return self._write(name, self._authority.chain_pem(issued))

    def _write(self, name: str, content: bytes) -> str:
        path = self._directory / name
        path.write_bytes(content)
        return str(path)


class SecuredTarget(NamedTuple):
    """A broker, and the ports of its listeners by name."""

    broker: RealKafka | ServedKafkalite
    ports: Mapping[str, int]


def common_config(certificates: Certificates) -> dict[str, str]:
    """Return the settings of both brokers."""
    protocols = {"CONTROLLER": "PLAINTEXT", OPEN: "PLAINTEXT", **LISTENERS}
    return {
        **COMMON_CONFIG,
        "listener.security.protocol.map": ",".join(map(":".join, protocols.items())),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": certificates.server,
        f"listener.name.{RENEWED.lower()}.ssl.keystore.location": certificates.renewed,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": certificates.trusted_by_brokers,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        **sasl_cases.settings(SASL),
        **sasl_cases.settings(SASL_WITH_CERTIFICATE),
        **{
            f"listener.name.{listener.lower()}.{key}": value
            for listener, values in _SETTINGS.items()
            for key, value in values.items()
        },
    }


def _free_ports() -> dict[str, int]:
    first = free_port(len(LISTENERS))
    return {name: first + number for number, name in enumerate(LISTENERS)}


def _addresses(ports: Mapping[str, int]) -> list[str]:
    return [f"{name}://127.0.0.1:{port}" for name, port in ports.items()]


def real_target(directory: Path, certificates: Certificates) -> SecuredTarget:
    """Return a real Kafka, which is not started yet."""
    ports = _free_ports()
    config = common_config(certificates)
    broker = RealKafka(directory, config)
    listeners = ",".join((f"{OPEN}://{broker.bootstrap}", *_addresses(ports)))
    config |= {
        "listeners": f"{listeners},CONTROLLER://{broker.controller}",
        "advertised.listeners": listeners,
        "inter.broker.listener.name": OPEN,
    }
    return SecuredTarget(broker, {OPEN: broker.port, **ports})


def emulated_target(directory: Path, certificates: Certificates) -> SecuredTarget:
    """Return a kafkalite, which is not started yet."""
    ports = _free_ports()
    options = [part for address in _addresses(ports) for part in ("--listen", address)]
    broker = ServedKafkalite(directory, common_config(certificates), options=options)
    return SecuredTarget(broker, {OPEN: broker.port, **ports})
