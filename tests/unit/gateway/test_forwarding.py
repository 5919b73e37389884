"""Requests for the controller at a node that is isolated, and at the others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kafkalite.cluster.waiting_budget import MAX_FORWARDED_BYTES
from kafkalite.gateway.forwarding import FORWARDING, MAX_REQUEST_BYTES
from kafkalite.gateway.steps import DisconnectError, StepOrder
from kafkalite.protocol._generated.messages.create_acls import CreateAclsRequest
from kafkalite.protocol._generated.messages.create_topics import CreateTopicsRequest
from kafkalite.protocol._generated.messages.describe_cluster import DescribeClusterRequest
from kafkalite.protocol.error_codes import ErrorCode
from tests.cluster.cluster import TestCluster
from tests.cluster.responses import PendingResponse

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CREATE = 7
TIMEOUT_MS = 60_000


@pytest.fixture
def wire(tmp_path: Path) -> Iterator[TestCluster]:
    """Return two nodes, of which the second is isolated."""
    wire = TestCluster(tmp_path, nodes=2)
    wire.gateway.install(FORWARDING, StepOrder.FORWARD)
    wire.cluster.node_control.isolate(2)
    yield wire
    wire.end()


def create(wire: TestCluster, node: int) -> Any:  # noqa: ANN401 - a response or PendingResponse
    topic = CreateTopicsRequest.CreatableTopic(name="t", num_partitions=1, replication_factor=1)
    return wire.ask(CreateTopicsRequest(topics=[topic], timeout_ms=1_000), CREATE, node)


def start(wire: TestCluster) -> None:
    wire.cluster.node_control.start(2)
    wire.clock.advance(0)


def error_of(response: Any) -> ErrorCode:  # noqa: ANN401 - a response
    return ErrorCode(response.topics[0].error_code)


def topics(wire: TestCluster) -> set[str]:
    return set(wire.cluster.metadata.image.topics)


def test_other_nodes_reach_the_controller(wire: TestCluster) -> None:
    assert error_of(create(wire, 1)) is ErrorCode.NONE
    assert topics(wire) == {"t"}


def test_a_request_waits_until_the_node_is_connected(wire: TestCluster) -> None:
    pending = create(wire, 2)
    assert isinstance(pending, PendingResponse)
    wire.clock.advance(TIMEOUT_MS - 1)
    assert not pending.has_arrived
    assert topics(wire) == set()
    start(wire)
    assert error_of(pending.response) is ErrorCode.NONE
    assert topics(wire) == {"t"}
    wire.clock.advance(TIMEOUT_MS)


def test_a_request_that_waits_too_long_is_not_forwarded(wire: TestCluster) -> None:
    pending = create(wire, 2)
    wire.clock.advance(TIMEOUT_MS)
    assert error_of(pending.response) is ErrorCode.REQUEST_TIMED_OUT
    start(wire)
    assert topics(wire) == set()


def test_a_request_that_is_refused_after_the_wait(wire: TestCluster) -> None:
    pending = create(wire, 2)
    assert error_of(create(wire, 1)) is ErrorCode.NONE
    start(wire)
    assert error_of(pending.response) is ErrorCode.TOPIC_ALREADY_EXISTS


def test_an_invalid_request_closes_the_connection_after_the_wait(wire: TestCluster) -> None:
    unknown_code = 0
    creation = CreateAclsRequest.AclCreation(
        resource_type=unknown_code,
        resource_name="t",
        resource_pattern_type=3,
        principal="User:a",
        host="*",
        operation=3,
        permission_type=3,
    )
    pending = wire.ask(CreateAclsRequest(creations=[creation]), 3, 2)
    start(wire)
    assert isinstance(pending.value, DisconnectError)


def test_large_requests_do_not_wait(wire: TestCluster) -> None:
    topic = CreateTopicsRequest.CreatableTopic(
        name="t", num_partitions=1, replication_factor=1, configs=[]
    )
    config = CreateTopicsRequest.CreatableTopicConfig(name="c", value="v" * MAX_REQUEST_BYTES)
    topic.configs.append(config)
    request = CreateTopicsRequest(topics=[topic], timeout_ms=1_000)
    assert error_of(wire.ask(request, CREATE, 2)) is ErrorCode.REQUEST_TIMED_OUT


def test_waiting_requests_use_limited_memory(wire: TestCluster) -> None:
    node = wire.cluster.nodes[2]
    first = create(wire, 2)
    request_bytes = MAX_FORWARDED_BYTES - node.forwarding_budget.free_bytes
    node.forwarding_budget.free_bytes = request_bytes
    second = create(wire, 2)
    assert not second.has_arrived
    assert error_of(create(wire, 2)) is ErrorCode.REQUEST_TIMED_OUT
    wire.clock.advance(TIMEOUT_MS)
    assert (first.has_arrived, second.has_arrived) == (True, True)
    assert not create(wire, 2).has_arrived


def test_a_request_waits_again_if_the_node_is_isolated_before_its_turn(wire: TestCluster) -> None:
    pending = create(wire, 2)
    wire.cluster.node_control.start(2)
    wire.cluster.node_control.isolate(2)
    wire.clock.advance(TIMEOUT_MS - 1)
    assert not pending.has_arrived
    start(wire)
    assert error_of(pending.response) is ErrorCode.NONE
    assert wire.cluster.nodes[2].forwarding_budget.free_bytes == MAX_FORWARDED_BYTES


def test_a_node_that_stops_before_the_turn_of_a_request_forwards_nothing(
    wire: TestCluster,
) -> None:
    pending = create(wire, 2)
    wire.cluster.node_control.start(2)
    wire.cluster.node_control.stop(2)
    wire.clock.advance(0)
    assert error_of(pending.response) is ErrorCode.NETWORK_EXCEPTION
    assert topics(wire) == set()


def test_other_requests_do_not_wait(wire: TestCluster) -> None:
    answer = wire.ask(DescribeClusterRequest(), 1, 2)
    assert answer.error_code == ErrorCode.NONE


def test_a_stopped_node_forwards_nothing(wire: TestCluster) -> None:
    pending = create(wire, 2)
    wire.cluster.node_control.stop(2)
    assert pending.has_arrived
    assert topics(wire) == set()
