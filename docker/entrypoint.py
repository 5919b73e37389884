#!/usr/bin/env python3
"""The program of the Docker image: run a broker from environment variables, or check its health.

`entrypoint.py [OPTION…]` runs the broker that the environment describes: by variables KAFKALITE_*,
and by those of other Kafka images. The options are those of `kafkalite serve`. `entrypoint.py
PROGRAM [ARGUMENT…]` runs another program. Links to this file with the names of Kafka's programs,
such as `kafka-topics.sh`, run those programs of `kafkalite.docker.programs`.

`entrypoint.py healthcheck` asks the broker in this container for its API versions and for the
topics that the environment names. The exit status is 0 if all of them exist. A service that waits
for a healthy broker therefore finds its topics. On listeners with SASL, only the API versions are
asked for, because they need no login. On listeners that require a client certificate, the check
uses the one of `--tls auto`, else the control API, else the broker must ask for the certificate.
"""

# ruff: noqa: E402 - signals are handled before the imports, which take most of the start
from __future__ import annotations

import os
import signal
import sys

_STARTS = frozenset(
    ("__cacert_entrypoint", "app-entrypoint", "entrypoint", "kafka-server-start",
     "kafkalite-entrypoint", "launch", "run", "start-kafka")
)  # fmt: skip
"""Names of this file, and of links to it, that start the broker."""


def stop_at_once(program: str) -> None:
    """End with status 0 on a signal to stop, until the broker handles signals.

    The kernel ignores signals without handlers for the first process of a container. The image
    therefore starts this file with blocked signals, and an early one waits until here.
    """
    numbers = (signal.SIGINT, signal.SIGTERM)
    if os.path.basename(program).removesuffix(".sh").removesuffix(".py") in _STARTS:  # noqa: PTH119
        for number in numbers:
            signal.signal(number, lambda *_: os._exit(0))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, numbers)


if __name__ == "__main__":
    stop_at_once(sys.argv[0])

import socket
import ssl
import struct
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, NamedTuple

from kafkalite.config.options import (
    CONTROL,
    CONTROL_TLS,
    CONTROL_TLS_OFF,
    DATA_DIRECTORY,
    PROPERTIES,
    TLS,
)
from kafkalite.docker.own_variables import option_values
from kafkalite.docker.properties import VariableError
from kafkalite.docker.start import plan_from
from kafkalite.protocol import codec
from kafkalite.protocol._generated.messages.api_versions import ApiVersionsRequest
from kafkalite.protocol._generated.messages.metadata import MetadataRequest
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.server.addresses import AddressError
from kafkalite.server.settings import SettingsError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_TIMEOUT_S = 3.0
_API_VERSIONS = 0
_METADATA = 4

_LOOPBACK = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "*": "127.0.0.1", "::": "::1"}  # noqa: S104
_CLIENT_AUTH = "ssl.client.auth"
_CLIENT_FILE = "client.pem"
"""The file of `--tls auto` with the key and the certificate of a client."""
_CERTIFICATE_ALERTS = ("TLSV13_ALERT_CERTIFICATE_REQUIRED", "SSLV3_ALERT_HANDSHAKE_FAILURE")
"""Reasons of OpenSSL if a server requires a client certificate, by TLS 1.3 and by TLS 1.2."""

Request = ApiVersionsRequest | MetadataRequest


class UnhealthyError(Exception):
    """The broker does not answer correctly or lacks a topic; the text is the reason."""


class Target(NamedTuple):
    """The listener that a health check uses, and what a client of it needs."""

    host: str
    port: int
    uses_tls: bool = False
    uses_sasl: bool = False
    needs_certificate: bool = False


def health_check_target(environment: Mapping[str, str]) -> Target:
    """Return the listener in this container with the fewest requirements for its clients.

    Raises AddressError for an invalid address, and SettingsError for other invalid settings.
    """
    settings = plan_from(environment, "").settings
    config = {**_file_config(environment), **settings.config}
    targets = []
    for spec in settings._replace(config=config).listeners:
        host, port, _ = spec.listen_address
        protocol = spec.protocol
        own_key = f"listener.name.{spec.name.lower()}.{_CLIENT_AUTH}"
        # As in Kafka, the setting without a listener's name does not apply to SASL_SSL.
        default = "none" if protocol.uses_sasl else config.get(_CLIENT_AUTH, "none")
        needs_certificate = protocol.uses_tls and config.get(own_key, default) == "required"
        targets.append(
            Target(
                _LOOPBACK.get(host, host),
                port,
                protocol.uses_tls,
                protocol.uses_sasl,
                needs_certificate,
            )
        )
    return min(targets, key=lambda each: (each.needs_certificate, each.uses_sasl, each.uses_tls))


def _file_config(environment: Mapping[str, str]) -> Mapping[str, str]:
    """Return the broker settings of the properties file of KAFKALITE_PROPERTIES."""
    from_file: Mapping[str, str] = {}
    for path in option_values(PROPERTIES, environment):
        from kafkalite.cli.properties import read_properties  # noqa: PLC0415 - rarely used
        from kafkalite.server.logging import Level, Log  # noqa: PLC0415 - as above

        from_file = read_properties(path, Log(Level.ERROR))
    return from_file


def client_certificate(environment: Mapping[str, str]) -> str | None:
    """Return the file with the client certificate of `--tls auto`; None if it cannot be found."""
    data_directory = "".join(option_values(DATA_DIRECTORY, environment))
    for mode in option_values(TLS, environment):
        directory = mode.partition(":")[2] or data_directory
        path = f"{directory}/{_CLIENT_FILE}"
        if directory and os.access(path, os.R_OK):
            return path
    return None


def check_control(environment: Mapping[str, str]) -> None:
    """Check that the control API is live; raises UnhealthyError, AddressError or OSError."""
    from http.client import HTTPConnection, HTTPException, HTTPSConnection  # noqa: PLC0415 - rarely used

    from kafkalite.control.address import control_address  # noqa: PLC0415 - as above

    (text,) = option_values(CONTROL, environment)
    host, port, _ = control_address(text)
    host = _LOOPBACK.get(host, host)
    # The broker has a listener with TLS, and the control API then has TLS by default.
    connection = (
        HTTPConnection(host, port, timeout=_TIMEOUT_S)
        if option_values(CONTROL_TLS, environment) == [CONTROL_TLS_OFF]
        else HTTPSConnection(host, port, timeout=_TIMEOUT_S, context=_context(None))
    )
    try:
        connection.request("GET", "/v1/live")
        status = connection.getresponse().status
    except HTTPException as error:
        raise UnhealthyError(f"the control API does not answer: {error}") from error
    finally:
        connection.close()
    if status != HTTPStatus.OK:
        raise UnhealthyError(f"the control API answers {status}")


def check_certificate_request(target: Target) -> None:
    """Check that the broker refuses a client without certificate; raises UnhealthyError."""
    try:
        with _connect(target, None) as connection:
            connection.recv(1)
    except ssl.SSLError as error:
        if error.reason in _CERTIFICATE_ALERTS:
            return
        raise
    raise UnhealthyError("the broker does not ask for a client certificate")


def _context(certificate: str | None) -> ssl.SSLContext:
    # The broker is in this container, so its certificate need not be verified.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if certificate is not None:
        context.load_cert_chain(certificate)
    return context


def _connect(target: Target, certificate: str | None) -> socket.socket:
    connection = socket.create_connection((target.host, target.port), _TIMEOUT_S)
    return _context(certificate).wrap_socket(connection) if target.uses_tls else connection


def check(target: Target, topics: Sequence[str], certificate: str | None = None) -> None:
    """Check that the broker answers, and has all `topics` if its clients need no login.

    The broker creates its topics before it accepts clients, so they exist if it answers. Raises
    UnhealthyError or OSError.
    """
    with _connect(target, certificate) as connection:
        versions = _ask(connection, ApiVersionsRequest(), _API_VERSIONS)
        if versions.error_code:
            raise UnhealthyError(f"ApiVersions returned error {versions.error_code}")
        if target.uses_sasl:
            return
        requested = [MetadataRequest.MetadataRequestTopic(name=name) for name in topics]
        request = MetadataRequest(topics=requested, allow_auto_topic_creation=False)
        metadata = _ask(connection, request, _METADATA)
    if not metadata.brokers:
        raise UnhealthyError("the cluster has no brokers")
    for topic in metadata.topics:
        # This client needs no permission to describe topics.
        if topic.error_code not in {ErrorCode.NONE, ErrorCode.TOPIC_AUTHORIZATION_FAILED}:
            raise UnhealthyError(f"topic {topic.name} returned error {topic.error_code}")


def _ask(connection: socket.socket, request: Request, version: int) -> Any:  # noqa: ANN401
    """Return the response to a request; both versions have headers that are not flexible."""
    parts: list[bytes | memoryview] = []
    codec.request_builder(request.API_KEY, version)(request, parts)
    body = b"".join(parts)
    client = b"healthcheck"
    header = struct.pack(">hhih", request.API_KEY, version, 1, len(client)) + client
    connection.sendall(struct.pack(">i", len(header) + len(body)) + header + body)
    (length,) = struct.unpack(">i", _receive(connection, 4))
    response = _receive(connection, length)
    parsed, _ = codec.response_parser(request.API_KEY, version)(response, 4, length)
    return parsed


def _receive(connection: socket.socket, count: int) -> bytes:
    received = bytearray()
    while len(received) < count:
        chunk = connection.recv(count - len(received))
        if not chunk:
            raise UnhealthyError("the broker closed the connection")
        received += chunk
    return bytes(received)


def healthcheck(environment: Mapping[str, str]) -> int:
    """Return the exit status of a health check: 0 if this container is healthy, else 1."""
    try:
        plan = plan_from(environment, "")
        if plan.translation.is_controller_only:
            return 0
        target = health_check_target(environment)
        certificate = client_certificate(environment) if target.needs_certificate else None
        if not target.needs_certificate or certificate is not None:
            check(target, plan.topics, certificate)
        elif option_values(CONTROL, environment):
            check_control(environment)
        else:
            check_certificate_request(target)
    except (
        OSError, AddressError, SettingsError, UnhealthyError, VariableError, *codec.PARSE_ERRORS
    ) as error:  # fmt: skip
        print(f"unhealthy: {error}", file=sys.stderr)  # noqa: T201 - for the log of the engine
        return 1
    return 0


def main(program: str, arguments: Sequence[str]) -> int:
    """Run the program of this name; return the exit status."""
    if list(arguments) == ["healthcheck"]:
        return healthcheck(os.environ)
    # Imported here, because a health check runs every few seconds and does not need it.
    from kafkalite.docker.programs import run_program  # noqa: PLC0415

    return run_program(program, arguments, os.environ)


if __name__ == "__main__":
    sys.exit(main(sys.argv[0], sys.argv[1:]))
