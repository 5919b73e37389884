"""ApiVersions, and requests that close the connection."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from kafkalite.protocol._generated.messages.api_versions import ApiVersionsRequest
from kafkalite.protocol._generated.messages.metadata import MetadataRequest
from kafkalite.protocol.error_codes import ErrorCode
from tests.conformance.raw import ConnectionClosedError

if TYPE_CHECKING:
    from tests.conformance.scenario_cluster import ScenarioCluster

_API_VERSIONS = 18
_METADATA = 3
_OFFSET_COMMIT = 8
_UNKNOWN_KEY = 999

# Keys of the APIs that both brokers must serve; others are not compared.
_SERVED = (*range(4), *range(8, 17), 18, 19, 20, 21, 22, 23, 32, 33, 35, 37, 42, 43, 44, 47)
_SERVED_TOO = (24, 25, 26, 27, 28, 60, 61, 65, 66, 68, 69, 74, 75, 78, 79, *range(83, 88))


def api_versions_have_the_same_ranges(cluster: ScenarioCluster) -> None:
    for version in range(5):
        request = ApiVersionsRequest(
            client_software_name="conformance-test", client_software_version="1.0"
        )
        response = cluster.connection(f"v{version}").call(request, version)
        highest = {row.api_key: row.max_version for row in response.api_keys}
        lowest = {row.api_key: row.min_version for row in response.api_keys}
        for key in (*_SERVED, *_SERVED_TOO):
            cluster.record(f"v{version} max of {key}", highest.get(key))
            # kafkalite also serves versions that Kafka 4 has removed, for old clients.
            cluster.record(
                f"v{version} min of {key}", lowest.get(key, 99) <= _KAFKA_MINIMA.get(key, 0)
            )


# A feature whose requests are not served is not listed.
SERVED_FEATURES = ("group.version", "metadata.version")
_KAFKA_MINIMA = {1: 4, 2: 1, 8: 2, 9: 1, 19: 2, 20: 1, 23: 2, 27: 1, 32: 1, 35: 1}


def api_versions_return_the_features(cluster: ScenarioCluster) -> None:
    request = ApiVersionsRequest(
        client_software_name="conformance-test", client_software_version="1.0"
    )
    for version in (3, 4):
        response = cluster.connection("features").call(request, version)
        supported = {row.name: row for row in response.supported_features}
        finalized = {row.name: row for row in response.finalized_features}
        for name in SERVED_FEATURES:
            # Version 3 does not list features that start at level 0.
            row = supported.get(name)
            cluster.record(f"v{version} {name}", row and [row.min_version, row.max_version])
            levels = finalized[name]
            found = [levels.min_version_level, levels.max_version_level]
            cluster.record(f"v{version} finalized {name}", [*found])
        cluster.record(f"v{version} epoch", response.finalized_features_epoch >= 0)


def api_versions_of_an_unknown_version_are_answered_in_version_0(cluster: ScenarioCluster) -> None:
    connection = cluster.connection("main")
    connection.send_body(_API_VERSIONS, 99, b"\0\0\0\0")
    response = connection.receive(answer_version=0)
    found = {row.api_key: (row.min_version, row.max_version) for row in response.api_keys}
    cluster.record("error", ErrorCode(response.error_code).name)
    cluster.record("ApiVersions lists itself", [*found[_API_VERSIONS]])
    cluster.record("still open", bool(connection.call(ApiVersionsRequest(), 0).api_keys))


def api_versions_require_a_valid_software_name(cluster: ScenarioCluster) -> None:
    for name, number in (
        ("", "1"),
        ("bad name", "1"),
        ("-bad", "1"),
        ("good", "1 0"),
        ("ok", "1.0"),
    ):
        request = ApiVersionsRequest(client_software_name=name, client_software_version=number)
        response = cluster.connection("main").call(request, 3)
        cluster.record(f"{name!r} {number!r}", ErrorCode(response.error_code).name)


def _ends_with(cluster: ScenarioCluster, what: str, frame: bytes) -> None:
    """Send a frame on a new connection and note whether that is closed."""
    connection = cluster.connection(what)
    try:
        connection.send_bytes(frame)
        connection.receive_frame()
    except ConnectionClosedError:
        cluster.record(what, "closed")
    else:
        cluster.record(what, "answered")


def _framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def _head(key: int, version: int) -> bytes:
    return struct.pack(">hhih", key, version, 7, -1)


def unknown_keys_and_versions_close_the_connection(cluster: ScenarioCluster) -> None:
    _ends_with(cluster, "unknown key", _framed(_head(_UNKNOWN_KEY, 0)))
    _ends_with(cluster, "negative key", _framed(_head(-1, 0)))
    _ends_with(cluster, "unknown version", _framed(_head(_METADATA, 99)))
    _ends_with(cluster, "negative version", _framed(_head(_METADATA, -1)))


def broken_frames_close_the_connection(cluster: ScenarioCluster) -> None:
    _ends_with(cluster, "negative length", struct.pack(">i", -5))
    _ends_with(cluster, "huge length", struct.pack(">i", 2**31 - 1))
    _ends_with(cluster, "no room for a header", _framed(b"\0\3"))
    _ends_with(cluster, "body cut short", _framed(_head(_METADATA, 1) + b"\0\0\0\5"))
    _ends_with(cluster, "body of garbage", _framed(_head(_OFFSET_COMMIT, 8) + b"\xff" * 20))


def answers_come_in_the_order_of_the_requests(cluster: ScenarioCluster) -> None:
    connection = cluster.connection("main")
    versions = [1, 9, 0, 12, 5]
    for version in versions:
        connection.send(MetadataRequest(topics=[]), version)
    for version in versions:
        response = connection.receive()
        if version:
            cluster.record(f"v{version}", len(response.brokers))


SCENARIOS = (
    api_versions_have_the_same_ranges,
    api_versions_return_the_features,
    api_versions_of_an_unknown_version_are_answered_in_version_0,
    api_versions_require_a_valid_software_name,
    unknown_keys_and_versions_close_the_connection,
    broken_frames_close_the_connection,
    answers_come_in_the_order_of_the_requests,
)
