"""ApiVersions returns the table in the format of each version."""

from __future__ import annotations

from typing import cast

import pytest

from kafkalite.apis.api_versions import ERAS, new_api_versions_api
from kafkalite.apis.table import TABLE, Row
from kafkalite.config.broker import BrokerConfig
from kafkalite.gateway.call import ConnectionContext
from kafkalite.gateway.gateway import Gateway
from kafkalite.metadata.image import MetadataImage
from kafkalite.protocol._generated.messages.api_versions import (
    ApiVersionsRequest,
    ApiVersionsResponse,
)
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.error_codes import ErrorCode
from tests.unit.frames import framed, header, read_answer, request_frame, split_frames
from tests.unit.nodes import node_of

PRODUCE = 0
HEARTBEAT = 12
API_VERSIONS = 18


def never(*_: object) -> None:
    raise AssertionError("never called")


def ask(frame: bytes, answered_version: int, release: str | None = None) -> ApiVersionsResponse:
    """Return the response of a broker that serves Produce 3-13 and Heartbeat 0-4."""
    api = new_api_versions_api(
        {
            API_VERSIONS: Row("ApiVersions", 0, 5, "api_versions"),
            HEARTBEAT: Row("Heartbeat", 0, 4, "nowhere"),
            PRODUCE: Row("Produce", 3, 13, "nowhere"),
        }
    )
    image = MetadataImage(version=15, features={"metadata.version": 33, "group.version": 1})
    node = node_of(image=image, config=BrokerConfig.from_text(as_version=release))
    context = ConnectionContext(node=node, listener="A", client_host="/")
    out: list[bytes | memoryview] = []
    Gateway({API_VERSIONS: api}.get, never).serve_in_worker(
        context, bytearray(frame), 4, len(frame), out
    )
    (content,) = split_frames(b"".join(out))
    return cast("ApiVersionsResponse", read_answer(API_VERSIONS, answered_version, content)[1])


def code_of(cluster_id: str | None, node_id: int, version: int = 5) -> ErrorCode:
    """Return the error code of node 1 of the cluster `cluster` for a client that names a node."""
    request = request_from()
    request.cluster_id, request.node_id = cluster_id, node_id
    answer = ask(request_frame(request, version), version)
    assert bool(answer.api_keys) is (answer.error_code == 0)
    return ErrorCode(answer.error_code)


def request_from(name: str = "soft", version: str = "1.0") -> ApiVersionsRequest:
    return ApiVersionsRequest(client_software_name=name, client_software_version=version)


@pytest.mark.parametrize("version", range(6))
def test_every_api_is_listed_in_order_of_its_key(version: int) -> None:
    answer = ask(request_frame(request_from(), version), version)
    rows = [(row.api_key, row.min_version, row.max_version) for row in answer.api_keys]
    # Produce is listed from 0, though served from 3: older librdkafka relies on it, and Kafka 4
    # does the same.
    assert rows == [(PRODUCE, 0, 13), (HEARTBEAT, 0, 4), (API_VERSIONS, 0, 5)]
    assert answer.error_code == 0


def test_features_are_listed_with_their_levels_from_version_3() -> None:
    answer = ask(request_frame(request_from(), 4), 4)
    assert {row.name: (row.min_version, row.max_version) for row in answer.supported_features} == {
        "eligible.leader.replicas.version": (0, 1),
        "group.version": (0, 1),
        "kraft.version": (0, 1),
        "metadata.version": (7, 33),
        "share.version": (0, 2),
        "streams.version": (0, 1),
        "transaction.version": (0, 2),
    }
    assert answer.finalized_features_epoch == 15
    assert [
        (row.name, row.min_version_level, row.max_version_level)
        for row in answer.finalized_features
    ] == [("group.version", 1, 1), ("metadata.version", 33, 33)]


def test_a_release_lists_the_features_that_it_supports() -> None:
    answer = ask(request_frame(request_from(), 4), 4, release="3.9")
    assert {row.name: (row.min_version, row.max_version) for row in answer.supported_features} == {
        "metadata.version": (1, 21),
        "kraft.version": (0, 1),
    }


def test_version_3_omits_features_with_lowest_level_0() -> None:
    answer = ask(request_frame(request_from(), 3), 3)
    assert [row.name for row in answer.supported_features] == ["metadata.version"]


@pytest.mark.parametrize("wrong", ["", "-soft", "soft-", "so ft", "söft", "soft\n"])
@pytest.mark.parametrize("version", [3, 4, 5])
def test_invalid_software_names_are_refused(wrong: str, version: int) -> None:
    for request in (request_from(name=wrong), request_from(version=wrong)):
        answer = ask(request_frame(request, version), version)
        assert answer.error_code == ErrorCode.INVALID_REQUEST
        assert answer.api_keys == []


@pytest.mark.parametrize("good", ["a", "apache-kafka-java", "librdkafka", "2.16.0", "1"])
def test_usual_software_names_are_accepted(good: str) -> None:
    assert ask(request_frame(request_from(name=good, version=good), 3), 3).error_code == 0


def test_an_unknown_version_gets_the_supported_versions() -> None:
    """As in Kafka: error 35 and the row of ApiVersions, in version 0."""
    frame = framed(header(API_VERSIONS, 99, is_flexible=True) + b"unreadable")
    answer = ask(frame, 0)
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [(row.api_key, row.min_version, row.max_version) for row in answer.api_keys] == [
        (API_VERSIONS, 0, 5)
    ]


@pytest.mark.parametrize(
    ("cluster_id", "node_id", "expected"),
    [
        (None, -1, ErrorCode.NONE),
        ("cluster", 1, ErrorCode.NONE),
        ("cluster", 2, ErrorCode.REBOOTSTRAP_REQUIRED),
        ("another", 1, ErrorCode.REBOOTSTRAP_REQUIRED),
        ("cluster", -2, ErrorCode.REBOOTSTRAP_REQUIRED),
        (None, 1, ErrorCode.INVALID_REQUEST),
        ("cluster", -1, ErrorCode.INVALID_REQUEST),
        ("", -1, ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_client_that_means_another_node_is_sent_to_its_bootstrap_brokers(
    cluster_id: str | None, node_id: int, expected: ErrorCode
) -> None:
    assert code_of(cluster_id, node_id) is expected
    assert code_of(cluster_id, node_id, version=4) is ErrorCode.NONE


@pytest.mark.parametrize("is_enabled", ["true", "false"])
def test_telemetry_is_advertised_only_with_a_receiver(is_enabled: str) -> None:
    config = BrokerConfig.from_text({"kafkalite.client.telemetry": is_enabled})
    node = node_of(image=MetadataImage(), config=config)
    context = ConnectionContext(node=node, listener="A", client_host="/")
    call = context.call(4, ERAS.at(4), 0)
    handle = new_api_versions_api(TABLE).handler
    request = ApiVersionsRequest(client_software_name="java", client_software_version="4.4")
    listed = {row.api_key for row in handle(call, request).api_keys}
    telemetry = {ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY}
    if is_enabled == "true":
        assert listed == set(TABLE)
    else:
        assert listed == set(TABLE) - telemetry
    assert context.client_software == ("java", "4.4")
    context.client_software = None
    handle(context.call(0, ERAS.at(0), 0), ApiVersionsRequest())
    assert context.client_software is None
