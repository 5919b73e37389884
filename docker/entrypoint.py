#!/usr/bin/env python3
"""The program of the Docker image: run a broker from environment variables, or check its health.

`entrypoint.py [OPTION…]` runs the broker that the environment describes: by variables KAFKALITE_*,
and by those of other Kafka images. The options are those of `kafkalite serve`. `entrypoint.py
PROGRAM [ARGUMENT…]` runs another program. Links to this file with the names of Kafka's programs,
such as `kafka-topics.sh`, run those programs of `kafkalite.docker.programs`.

`entrypoint.py healthcheck` asks the broker in this container for its API versions and for the
topics that the environment names. The exit status is 0 if all of them exist. A service that waits
for a healthy broker therefore finds its topics.
"""

from __future__ import annotations

import os
import socket
import ssl
import struct
import sys
from typing import TYPE_CHECKING, Any

from kafkalite.docker.properties import VariableError
from kafkalite.docker.start import plan_from
from kafkalite.protocol import codec
from kafkalite.protocol._generated.messages.api_versions import ApiVersionsRequest
from kafkalite.protocol._generated.messages.metadata import MetadataRequest
from kafkalite.server.addresses import AddressError
from kafkalite.server.settings import SettingsError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafkalite.docker.start import Plan
    from kafkalite.server.addresses import ListenerSpec

_TIMEOUT_S = 3.0
_API_VERSIONS = 0
_METADATA = 4

_LOOPBACK = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "*": "127.0.0.1", "::": "::1"}  # noqa: S104
Request = ApiVersionsRequest | MetadataRequest


class UnhealthyError(Exception):
    """The broker does not answer correctly or lacks a topic; the text is the reason."""


def health_check_listener(plan: Plan) -> ListenerSpec:
    """Return the listener that a health check uses.

    It is the first listener without TLS and SASL, else the first without TLS, else the first one.
    Raises AddressError for an invalid address, and SettingsError for other invalid settings.
    """
    return min(
        plan.settings.listeners,
        key=lambda spec: (spec.protocol.uses_tls, spec.protocol.uses_sasl),
    )


def _connect(host: str, port: int, *, uses_tls: bool) -> socket.socket:
    connection = socket.create_connection((host, port), _TIMEOUT_S)
    if not uses_tls:
        return connection
    # The broker is in this container, so its certificate need not be verified.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context.wrap_socket(connection)


def check(
    host: str, port: int, topics: Sequence[str], *, uses_tls: bool = False, uses_sasl: bool = False
) -> None:
    """Check that the broker answers and has all `topics`; raises UnhealthyError or OSError.

    A listener with SASL answers only ApiVersions. The broker has its topics before it listens.
    """
    with _connect(host, port, uses_tls=uses_tls) as connection:
        versions = _ask(connection, ApiVersionsRequest(), _API_VERSIONS)
        if versions.error_code:
            raise UnhealthyError(f"ApiVersions returned error {versions.error_code}")
        if uses_sasl:
            return
        requested = [MetadataRequest.MetadataRequestTopic(name=name) for name in topics]
        request = MetadataRequest(topics=requested, allow_auto_topic_creation=False)
        metadata = _ask(connection, request, _METADATA)
    if not metadata.brokers:
        raise UnhealthyError("the cluster has no brokers")
    for topic in metadata.topics:
        if topic.error_code:
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
        plan = plan_from(environment, socket.gethostname())
        if plan.translation.is_controller_only:
            return 0
        spec = health_check_listener(plan)
        host, port, _ = spec.listen_address
        host = _LOOPBACK.get(host, host)
        protocol = spec.protocol
        check(host, port, plan.topics, uses_tls=protocol.uses_tls, uses_sasl=protocol.uses_sasl)
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
