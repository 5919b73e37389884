"""The APIs of a listener for controllers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kafkalite.apis.controllers import CONTROLLER_APIS, controller_api_finder
from kafkalite.apis.table import TABLE
from kafkalite.config.releases import emulated_release
from kafkalite.gateway.gateway import Gateway
from kafkalite.protocol._generated.messages.api_versions import ApiVersionsRequest
from kafkalite.protocol._generated.messages.create_topics import CreateTopicsRequest
from kafkalite.protocol._generated.messages.describe_cluster import DescribeClusterRequest
from kafkalite.protocol._generated.messages.describe_delegation_token import (
    DescribeDelegationTokenRequest,
)
from kafkalite.protocol._generated.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
)
from kafkalite.protocol._generated.messages.metadata import MetadataRequest
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import ProtocolViolation
from tests.unit.apis.cluster_wire import ClusterWire

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kafkalite.protocol.message import Message

BROKERS, CONTROLLERS = 1, 2


@pytest.fixture
def wire(tmp_path: Path) -> Iterator[ClusterWire]:
    """Return a cluster of two nodes whose clients are those of the controller."""
    wire = ClusterWire(tmp_path, nodes=2)
    finder = controller_api_finder(wire.config.release)
    wire.gateway = Gateway(finder, wire._fault)
    for node in wire.cluster.nodes.values():
        node.set_endpoint("CONTROLLER", "controller.test", 9192 + node.id)
    yield wire
    wire.end()


def test_apis_of_controllers_are_listed(wire: ClusterWire) -> None:
    rows = wire.ask(ApiVersionsRequest(), 2).api_keys
    listed = {row.api_key: (row.min_version, row.max_version) for row in rows}
    assert listed == {key: (TABLE[key].lowest, TABLE[key].highest) for key in CONTROLLER_APIS}
    assert ApiKey.METADATA not in listed


def test_an_older_release_lacks_later_apis() -> None:
    find = controller_api_finder(emulated_release("3.8"))
    assert find(ApiKey.ADD_RAFT_VOTER) is None
    quorum = find(ApiKey.DESCRIBE_QUORUM)
    assert quorum is not None
    assert quorum.versions.highest == 1


def test_a_request_for_brokers_closes_the_connection(wire: ClusterWire) -> None:
    with pytest.raises(ProtocolViolation, match="Metadata"):
        wire.ask(MetadataRequest(topics=None), 12)


def described(answer: Any) -> list[tuple[int, str, int]]:  # noqa: ANN401 - a generated response
    return [(each.broker_id, each.host, each.port) for each in answer.brokers]


@pytest.mark.parametrize("version", [1, 2])
def test_the_controller_is_described_at_every_node(wire: ClusterWire, version: int) -> None:
    request = DescribeClusterRequest(
        endpoint_type=CONTROLLERS, include_cluster_authorized_operations=True
    )
    for node in (1, 2):
        answer = wire.ask(request, version, node)
        assert (answer.error_code, answer.endpoint_type) == (ErrorCode.NONE, CONTROLLERS)
        assert (answer.cluster_id, answer.controller_id) == ("cluster", 1)
        assert described(answer) == [(1, "controller.test", 9193)]
        assert answer.cluster_authorized_operations > 0
    wire.cluster.node_control.stop(1)
    answer = wire.ask(DescribeClusterRequest(endpoint_type=CONTROLLERS), version, 2)
    assert described(answer) == [(2, "controller.test", 9194)]
    assert answer.cluster_authorized_operations == -(1 << 31)


@pytest.mark.parametrize(
    ("version", "endpoint_type", "code"),
    [
        (0, BROKERS, ErrorCode.INVALID_REQUEST),
        (1, BROKERS, ErrorCode.MISMATCHED_ENDPOINT_TYPE),
        (2, BROKERS, ErrorCode.MISMATCHED_ENDPOINT_TYPE),
        (1, 3, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE),
    ],
)
def test_other_endpoints_are_refused(
    wire: ClusterWire, version: int, endpoint_type: int, code: ErrorCode
) -> None:
    answer = wire.ask(DescribeClusterRequest(endpoint_type=endpoint_type), version)
    assert (answer.error_code, answer.brokers) == (code, [])
    assert answer.error_message


def test_topics_are_created(wire: ClusterWire) -> None:
    topic = CreateTopicsRequest.CreatableTopic(name="t", num_partitions=1, replication_factor=1)
    answer = wire.ask(CreateTopicsRequest(topics=[topic], timeout_ms=1000), 7)
    assert [each.error_code for each in answer.topics] == [ErrorCode.NONE]
    assert "t" in wire.cluster.metadata.image.topics


@pytest.mark.parametrize(
    ("request_", "version"),
    [
        (DescribeDelegationTokenRequest(owners=None), 3),
        (DescribeUserScramCredentialsRequest(users=[]), 0),
    ],
)
def test_listed_apis_that_kafka_does_not_serve_fail(
    wire: ClusterWire, request_: Message, version: int
) -> None:
    assert wire.ask(request_, version).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
