"""The table of clients and security settings, and the errors that each client reports."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

OAUTHBEARER: Final = "OAUTHBEARER"
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", OAUTHBEARER)
SASL_PROTOCOLS: Final = ("SASL_PLAINTEXT", "SASL_SSL")
SCOPE: Final = "kafka"
"""The scope that the listener requires of a bearer token."""


class Fault(Enum):
    """A fault in the settings of a client."""

    PASSWORD = "wrong password"  # noqa: S105 - a description
    TOKEN = "token that is refused"  # noqa: S105 - a description
    MECHANISM = "mechanism that is not enabled"
    AUTHORITY = "unknown certificate authority"
    CERTIFICATE = "no client certificate"


SASL_FAULTS: Final = (Fault.PASSWORD, Fault.TOKEN, Fault.MECHANISM)


class Cell(NamedTuple):
    """The security settings of a client, and the fault in them."""

    protocol: str
    mechanism: str = ""
    fault: Fault | None = None
    client_auth: str = ""
    """The listener's setting for client certificates, `ssl.client.auth`; empty for none."""

    @property
    def name(self) -> str:
        """The name in the ids of tests, in topics and in groups."""
        fault = "" if self.fault is None else self.fault.value.replace(" ", "-")
        certificate = f"certificate-{self.client_auth}" if self.client_auth else ""
        parts = (self.protocol, self.mechanism, certificate, fault)
        return "-".join(part for part in parts if part)


def _cells_of_mechanism(protocol: str, mechanism: str) -> tuple[Cell, ...]:
    credentials = Fault.TOKEN if mechanism == OAUTHBEARER else Fault.PASSWORD
    faults = (None, credentials, Fault.MECHANISM)
    return tuple(Cell(protocol, mechanism, fault) for fault in faults)


CELLS: Final = (
    *(
        cell
        for protocol in SASL_PROTOCOLS
        for mechanism in MECHANISMS
        for cell in _cells_of_mechanism(protocol, mechanism)
    ),
    Cell("SASL_SSL", "SCRAM-SHA-512", Fault.AUTHORITY),
    Cell("SSL"),
    Cell("SSL", fault=Fault.AUTHORITY),
    Cell("SSL", client_auth="requested"),
    Cell("SSL", client_auth="required"),
    Cell("SSL", fault=Fault.CERTIFICATE, client_auth="required"),
)


class ClientRow(NamedTuple):
    """A client, and the error that it reports for each fault.

    In an error, `{reason}` is the message of the broker, and `{mechanism}` the mechanism of the
    client.
    """

    name: str
    title: str
    errors: Mapping[Fault, str]
    impossible: Mapping[Fault, str] = {}
    """Fault → the reason why the client reports no error."""
    error_if_answer_is_lost: str = ""
    """The error of a client that often ignores an answer at the end of a connection."""
    is_from_pip: bool = False

    def expected_errors(self, cell: Cell) -> tuple[str, ...]:
        """Return the texts of which the client must report one."""
        assert cell.fault is not None
        error = self.errors[cell.fault]
        for name, text in (("reason", reason_of(cell)), ("mechanism", cell.mechanism)):
            error = error.replace(f"{{{name}}}", text)
        if cell.fault in SASL_FAULTS and self.error_if_answer_is_lost:
            return error, self.error_if_answer_is_lost
        return (error,)


def reason_of(cell: Cell) -> str:
    """Return the message of the broker to a client with wrong credentials."""
    if cell.fault is Fault.TOKEN:
        return f'{{"status":"insufficient_scope", "scope":"[{SCOPE}]"}}'
    if cell.mechanism == "PLAIN":
        return "Authentication failed: Invalid username or password"
    return (
        "Authentication failed during authentication due to invalid credentials with "
        f"SASL mechanism {cell.mechanism}"
    )


def other_mechanism(mechanism: str) -> str:
    """Return the mechanism of a listener that does not enable `mechanism`."""
    return "SCRAM-SHA-512" if mechanism == "PLAIN" else "PLAIN"


_LIBRDKAFKA: Final = {
    Fault.PASSWORD: "SASL authentication error: {reason}",
    Fault.TOKEN: "SASL authentication error: {reason}",
    Fault.MECHANISM: "SASL {mechanism} mechanism handshake failed: "
    "Broker: Unsupported SASL mechanism",
    Fault.AUTHORITY: "certificate verify failed",
    Fault.CERTIFICATE: "alert certificate required",
}
_JAVA: Final = {
    Fault.PASSWORD: "SaslAuthenticationException: {reason}",
    Fault.TOKEN: "SaslAuthenticationException: {reason}",
    Fault.MECHANISM: "UnsupportedSaslMechanismException: "
    "Client SASL mechanism '{mechanism}' not enabled in the server",
    Fault.AUTHORITY: "SslAuthenticationException: SSL handshake failed",
    Fault.CERTIFICATE: "SSLHandshakeException: Received fatal alert: certificate_required",
}

CLIENTS: Final = (
    ClientRow("java", "Java", _JAVA),
    ClientRow("tools", "Kafka's command-line tools", _JAVA),
    ClientRow("confluent-kafka", "librdkafka (confluent-kafka)", _LIBRDKAFKA, is_from_pip=True),
    ClientRow("kcat", "kcat", _LIBRDKAFKA),
    ClientRow(
        "aiokafka",
        "aiokafka",
        {
            Fault.PASSWORD: "SaslAuthenticationFailed: {reason}",
            Fault.MECHANISM: "UnsupportedSaslMechanismError",
            Fault.AUTHORITY: "CERTIFICATE_VERIFY_FAILED",
            Fault.CERTIFICATE: "KafkaConnectionError: Connection at",
        },
        impossible={
            Fault.TOKEN: "aiokafka ignores the refusal of its token, and repeats requests that the "
            "broker does not serve",
        },
        is_from_pip=True,
    ),
    ClientRow(
        "kafka-python",
        "kafka-python",
        {
            Fault.PASSWORD: "SaslAuthenticationFailedError: {reason}",
            Fault.TOKEN: "SaslAuthenticationFailedError: {reason}",
            Fault.MECHANISM: "UnsupportedSaslMechanismError",
            Fault.AUTHORITY: "CERTIFICATE_VERIFY_FAILED",
            Fault.CERTIFICATE: "TLSV13_ALERT_CERTIFICATE_REQUIRED",
        },
        error_if_answer_is_lost="socket disconnected",
        is_from_pip=True,
    ),
    ClientRow(
        "kafkajs",
        "kafkajs",
        {
            Fault.PASSWORD: "authentication failed: {reason}",
            Fault.TOKEN: "Request is not valid given the current SASL state",
            Fault.MECHANISM: "The broker does not support the requested SASL mechanism",
            Fault.AUTHORITY: "KafkaJSConnectionError: Connection error: "
            "self-signed certificate in certificate chain",
            Fault.CERTIFICATE: "alert certificate required",
        },
    ),
    ClientRow(
        "franz-go",
        "franz-go",
        {
            Fault.PASSWORD: "SASL_AUTHENTICATION_FAILED: SASL Authentication failed.: {reason}",
            Fault.TOKEN: "unexpected data in oauth response",
            Fault.MECHANISM: "UNSUPPORTED_SASL_MECHANISM",
            Fault.AUTHORITY: "tls: failed to verify certificate: "
            "x509: certificate signed by unknown authority",
            Fault.CERTIFICATE: "remote error: tls: certificate required",
        },
    ),
)


def topic_of(client: ClientRow, cell: Cell) -> str:
    """Return the topic of a client in a cell, which is also the name of its group."""
    return f"{client.name}-{cell.name}"
