#!/usr/bin/env python3
"""What the image runs: environment variables become a broker, or a check of a running one.

`entrypoint.py [serve options…]` serves; `entrypoint.py healthcheck` asks the broker in this
container for its API versions and for the topics it was told to have, and exits 0 when all is
there. A service that waits for a healthy broker so finds its topics.

    KAFKALITE_TOPICS      orders:3,audit:1          topics to have, NAME:PARTITIONS
    KAFKALITE_LISTEN      INSIDE://0.0.0.0:29092,…  where to listen
    KAFKALITE_ADVERTISE   INSIDE://kafkalite:29092,… what clients are told, by listener
    KAFKALITE_BROKERS     1                         number of nodes
    KAFKALITE_DATA_DIR    /var/lib/kafkalite        where data is kept; unset: nowhere
    KAFKALITE_CONFIG      key=value;key=value       Kafka broker settings, by lines or semicolons
    KAFKALITE_PROPERTIES  /etc/kafkalite.properties Kafka broker settings from a file
    KAFKALITE_AS_VERSION  3.9                       the release of Kafka to speak as
    KAFKALITE_CONTROL     0.0.0.0:9097              where to be driven over HTTP; unset: nowhere
    KAFKALITE_CLOCK       manual                    how time goes at first
    KAFKALITE_CAPTURE     /captures                 where to record all traffic; unset: nowhere
    KAFKALITE_LOG_FORMAT  console                   or json
    KAFKALITE_LOG_LEVEL   info                      or debug, warning, error

An empty variable is as good as none.
"""

from __future__ import annotations

import difflib
import os
import re
import socket
import struct
import sys
from typing import TYPE_CHECKING, Any

from kafkalite.protocol import codec
from kafkalite.protocol.messages.api_versions import ApiVersionsRequest
from kafkalite.protocol.messages.metadata import MetadataRequest
from kafkalite.server.addresses import Address, AddressError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


INSIDE_PORT = 29092
DEFAULT_LISTEN = f"OUTSIDE://0.0.0.0:9092,INSIDE://0.0.0.0:{INSIDE_PORT}"
_TIMEOUT_S = 3.0
_API_VERSIONS = 0
_METADATA = 4

_LOOPBACK = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "*": "127.0.0.1", "::": "::1"}  # noqa: S104
_PREFIX = "KAFKALITE_"
_LISTS = (
    "KAFKALITE_TOPICS",
    "KAFKALITE_LISTEN",
    "KAFKALITE_ADVERTISE",
    "KAFKALITE_CONFIG",
)
_ONE_VALUE = {
    "KAFKALITE_BROKERS": "--brokers",
    "KAFKALITE_DATA_DIR": "--data-dir",
    "KAFKALITE_PROPERTIES": "--properties",
    "KAFKALITE_AS_VERSION": "--as-version",
    "KAFKALITE_CONTROL": "--control",
    "KAFKALITE_CLOCK": "--clock",
    "KAFKALITE_CAPTURE": "--capture",
    "KAFKALITE_LOG_FORMAT": "--log-format",
    "KAFKALITE_LOG_LEVEL": "--log-level",
}


Request = ApiVersionsRequest | MetadataRequest


class UnhealthyError(Exception):
    """The broker does not do what it was started for; the text says what."""


def words(text: str) -> list[str]:
    """Return the words of a list that commas or white space separate."""
    return [word for word in re.split(r"[\s,]+", text) if word]


def serve_arguments(environment: Mapping[str, str], hostname: str) -> list[str]:
    """Return the options of `kafkalite serve` that the environment asks for."""
    listen = words(environment.get("KAFKALITE_LISTEN", ""))
    advertise = words(environment.get("KAFKALITE_ADVERTISE", ""))
    if not listen and not advertise:
        advertise = ["OUTSIDE://localhost:9092", f"INSIDE://{hostname}:{INSIDE_PORT}"]
    listen = listen or words(DEFAULT_LISTEN)
    settings = re.split(r"[;\n]", environment.get("KAFKALITE_CONFIG", ""))
    arguments = [f"--listen={address}" for address in listen]
    arguments += [f"--advertise={address}" for address in advertise]
    arguments += [f"--topic={topic}" for topic in words(environment.get("KAFKALITE_TOPICS", ""))]
    arguments += [f"--config={setting.strip()}" for setting in settings if setting.strip()]
    arguments += [
        f"{option}={environment[name]}"
        for name, option in _ONE_VALUE.items()
        if environment.get(name)
    ]
    return arguments


def misspelt(environment: Mapping[str, str]) -> dict[str, str]:
    """Return names that look like a variable of ours, and the variable each is likely to mean.

    Others that begin as ours do are left alone: Kubernetes gives every container of a namespace
    KAFKALITE_PORT and the like, once a service is called kafkalite.
    """
    known = {name.removeprefix(_PREFIX): name for name in (*_LISTS, *_ONE_VALUE)}
    found = {}
    for name in environment:
        if name.startswith(_PREFIX) and name.removeprefix(_PREFIX) not in known:
            near = difflib.get_close_matches(name.removeprefix(_PREFIX), known, n=1, cutoff=0.8)
            if near:
                found[name] = known[near[0]]
    return found


def checked_address(environment: Mapping[str, str]) -> tuple[str, int]:
    """Return where the broker of this container is to be found; AddressError when nowhere."""
    first = words(environment.get("KAFKALITE_LISTEN", "") or DEFAULT_LISTEN)[0]
    address = Address.parse(first)
    return (_LOOPBACK.get(address.host, address.host), address.port)


def check(host: str, port: int, topics: Sequence[str]) -> None:
    """Return when the broker answers and has all `topics`; raise what is wrong otherwise."""
    with socket.create_connection((host, port), _TIMEOUT_S) as connected:
        versions = _ask(connected, ApiVersionsRequest(), _API_VERSIONS)
        if versions.error_code:
            raise UnhealthyError(f"ApiVersions is answered with error {versions.error_code}")
        asked = [MetadataRequest.MetadataRequestTopic(name=name) for name in topics]
        request = MetadataRequest(topics=asked, allow_auto_topic_creation=False)
        metadata = _ask(connected, request, _METADATA)
    if not metadata.brokers:
        raise UnhealthyError("the cluster has no brokers")
    for topic in metadata.topics:
        if topic.error_code:
            raise UnhealthyError(f"topic {topic.name} is answered with error {topic.error_code}")


def _ask(connected: socket.socket, request: Request, version: int) -> Any:  # noqa: ANN401
    """Return the answer to one request; both in versions from before flexible headers."""
    pieces: list[bytes | memoryview] = []
    codec.request_builder(request.API_KEY, version)(request, pieces)
    body = b"".join(pieces)
    client = b"healthcheck"
    head = struct.pack(">hhih", request.API_KEY, version, 1, len(client)) + client
    connected.sendall(struct.pack(">i", len(head) + len(body)) + head + body)
    (length,) = struct.unpack(">i", _receive(connected, 4))
    answer = _receive(connected, length)
    parsed, _ = codec.response_parser(request.API_KEY, version)(answer, 4, length)
    return parsed


def _receive(connected: socket.socket, count: int) -> bytes:
    received = bytearray()
    while len(received) < count:
        chunk = connected.recv(count - len(received))
        if not chunk:
            raise UnhealthyError("the broker closed the connection")
        received += chunk
    return bytes(received)


def healthcheck(environment: Mapping[str, str]) -> int:
    """Return the exit status that tells an engine whether this container is healthy."""
    names = [topic.rpartition(":")[0] for topic in words(environment.get("KAFKALITE_TOPICS", ""))]
    try:
        check(*checked_address(environment), names)
    except (OSError, AddressError, UnhealthyError, *codec.PARSE_ERRORS) as error:
        print(f"unhealthy: {error}", file=sys.stderr)  # noqa: T201 - the engine keeps it
        return 1
    return 0


def main(arguments: Sequence[str]) -> int:
    """Run the broker, or check it."""
    if list(arguments) == ["healthcheck"]:
        return healthcheck(os.environ)
    for name, meant in misspelt(os.environ).items():
        print(f"kafkalite: {name} means nothing here: is it {meant}?", file=sys.stderr)  # noqa: T201
    # Only now: a healthcheck runs every few seconds and needs no broker.
    from kafkalite.cli.main import main as kafkalite  # noqa: PLC0415

    options = list(arguments[1:] if arguments[:1] == ["serve"] else arguments)
    kafkalite(["serve", *serve_arguments(os.environ, socket.gethostname()), *options])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
