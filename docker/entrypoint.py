#!/usr/bin/env python3
"""The program of the Docker image: run a broker from environment variables, or check its health.

`entrypoint.py [OPTION…]` runs `kafkalite serve` with the options in the environment variables
KAFKALITE_*, followed by the options of the command. `kafkalite.config.options` defines the
variables. An empty variable has no effect.

`entrypoint.py healthcheck` asks the broker in this container for its API versions and for the
topics of KAFKALITE_TOPICS. The exit status is 0 if all of them exist. A service that waits for a
healthy broker therefore finds its topics.
"""

from __future__ import annotations

import difflib
import os
import re
import socket
import ssl
import struct
import sys
from typing import TYPE_CHECKING, Any

from kafkalite.config.options import ADVERTISE, CONFIG, LISTEN, OPTIONS, TOPIC, VARIABLE_PREFIX
from kafkalite.protocol import codec
from kafkalite.protocol._generated.messages.api_versions import ApiVersionsRequest
from kafkalite.protocol._generated.messages.metadata import MetadataRequest
from kafkalite.server.addresses import AddressError
from kafkalite.server.settings import Settings, SettingsError, parse_config

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kafkalite.config.options import Option

INSIDE_PORT = 29092
DEFAULT_LISTEN = f"OUTSIDE://0.0.0.0:9092,INSIDE://0.0.0.0:{INSIDE_PORT}"
_TIMEOUT_S = 3.0
_API_VERSIONS = 0
_METADATA = 4

_LOOPBACK = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "*": "127.0.0.1", "::": "::1"}  # noqa: S104
Request = ApiVersionsRequest | MetadataRequest


class UnhealthyError(Exception):
    """The broker does not answer correctly or lacks a topic; the text is the reason."""


def option_values(option: Option, environment: Mapping[str, str]) -> list[str]:
    """Return the values that the variable of an option holds."""
    if option.variable is None:
        return []
    text = environment.get(option.variable.name, "")
    separator = option.variable.separator
    if separator is None:
        return [text] if text else []
    return [value.strip() for value in re.split(separator, text) if value.strip()]


def listener_options(environment: Mapping[str, str], hostname: str) -> tuple[list[str], list[str]]:
    """Return the values of `--listen` and of `--advertise`.

    By default there is one listener for the host and one for other containers. The defaults of
    `--advertise` are for the default listeners only.
    """
    listen, advertise = option_values(LISTEN, environment), option_values(ADVERTISE, environment)
    if not listen and not advertise:
        advertise = ["OUTSIDE://localhost:9092", f"INSIDE://{hostname}:{INSIDE_PORT}"]
    return listen or DEFAULT_LISTEN.split(","), advertise


def serve_arguments(environment: Mapping[str, str], hostname: str) -> list[str]:
    """Return the arguments of `kafkalite serve` for the environment variables."""
    listen, advertise = listener_options(environment, hostname)
    addresses = {LISTEN: listen, ADVERTISE: advertise}
    repeatable_first = sorted(OPTIONS, key=lambda option: not option.is_repeatable)
    return [
        f"{option.flag}={value}"
        for option in repeatable_first
        for value in addresses.get(option) or option_values(option, environment)
    ]


def variables() -> Iterator[str]:
    """Yield the names of all variables."""
    for option in OPTIONS:
        if option.variable is not None:
            yield option.variable.name


def find_misspelt_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Return unknown name → the known variable that it resembles.

    Other names with the same prefix are not reported: Kubernetes adds KAFKALITE_PORT and similar
    variables to every container of a namespace that has a service named kafkalite.
    """
    known = {name.removeprefix(VARIABLE_PREFIX): name for name in variables()}
    suggestions = {}
    for name in environment:
        if name.startswith(VARIABLE_PREFIX) and name.removeprefix(VARIABLE_PREFIX) not in known:
            matches = difflib.get_close_matches(
                name.removeprefix(VARIABLE_PREFIX), known, n=1, cutoff=0.8
            )
            if matches:
                suggestions[name] = known[matches[0]]
    return suggestions


def health_check_address(environment: Mapping[str, str]) -> tuple[str, int, bool]:
    """Return host and port of a listener in this container, and whether it uses TLS.

    It is the first listener without TLS, or else the first one. Raises AddressError for an invalid
    address, and SettingsError for other invalid settings.
    """
    listen, _ = listener_options(environment, "")
    config = parse_config(option_values(CONFIG, environment))
    specs = Settings(listen=listen, config=config).listeners
    spec = min(specs, key=lambda each: each.protocol.uses_tls)
    host, port, _ = spec.listen_address
    return _LOOPBACK.get(host, host), port, spec.protocol.uses_tls


def _connect(host: str, port: int, *, uses_tls: bool) -> socket.socket:
    connection = socket.create_connection((host, port), _TIMEOUT_S)
    if not uses_tls:
        return connection
    # The broker is in this container, so its certificate need not be verified.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context.wrap_socket(connection)


def check(host: str, port: int, topics: Sequence[str], *, uses_tls: bool = False) -> None:
    """Check that the broker answers and has all `topics`; raises UnhealthyError or OSError."""
    with _connect(host, port, uses_tls=uses_tls) as connection:
        versions = _ask(connection, ApiVersionsRequest(), _API_VERSIONS)
        if versions.error_code:
            raise UnhealthyError(f"ApiVersions returned error {versions.error_code}")
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
    names = [topic.rpartition(":")[0] for topic in option_values(TOPIC, environment)]
    try:
        host, port, uses_tls = health_check_address(environment)
        check(host, port, names, uses_tls=uses_tls)
    except (
        OSError, AddressError, SettingsError, UnhealthyError, *codec.PARSE_ERRORS
    ) as error:  # fmt: skip
        print(f"unhealthy: {error}", file=sys.stderr)  # noqa: T201 - for the log of the engine
        return 1
    return 0


def main(arguments: Sequence[str]) -> int:
    """Run the broker or the health check; return the exit status."""
    if list(arguments) == ["healthcheck"]:
        return healthcheck(os.environ)
    for name, suggestion in find_misspelt_variables(os.environ).items():
        print(f"kafkalite: unknown variable {name}: did you mean {suggestion}?", file=sys.stderr)  # noqa: T201
    # Imported here, because a health check runs every few seconds and does not need it.
    from kafkalite.cli.main import main as kafkalite  # noqa: PLC0415

    options = list(arguments[1:] if arguments[:1] == ["serve"] else arguments)
    kafkalite(["serve", *serve_arguments(os.environ, socket.gethostname()), *options])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
