"""The step: shortcuts remain, calls of nodes are not restricted, cached permissions are renewed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.apis.authorization.step import AuthorizationStep
from kafkalite.apis.table import find_api
from kafkalite.gateway.route import create_route
from kafkalite.protocol._generated.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
)
from kafkalite.protocol._generated.messages.describe_acls import DescribeAclsRequest
from kafkalite.protocol._generated.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
)
from kafkalite.protocol._generated.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
)
from kafkalite.protocol._generated.messages.find_coordinator import FindCoordinatorRequest
from kafkalite.protocol._generated.messages.heartbeat import HeartbeatRequest
from kafkalite.protocol._generated.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
)
from kafkalite.protocol._generated.messages.write_txn_markers import WriteTxnMarkersRequest
from kafkalite.protocol.acl_operations import Operation, Resource
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.security.acls import Acl, PatternType, PermissionType
from kafkalite.security.authorizer import AuthorizerSettings
from tests.cluster.cluster import TestCluster

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kafkalite.protocol.message import Message

CONFIG = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "offsets.topic.num.partitions": "1",
}
READ_G = Acl(
    Resource.GROUP, "g", PatternType.LITERAL, "User:ANONYMOUS", "127.0.0.1", Operation.READ,
    PermissionType.ALLOW,
)  # fmt: skip
REFUSED = ErrorCode.GROUP_AUTHORIZATION_FAILED


@pytest.fixture
def wire(tmp_path: Path) -> Iterator[TestCluster]:
    wire = TestCluster(tmp_path, nodes=2, config=CONFIG)
    yield wire
    wire.end()


def test_repeated_and_batched_requests_remain_so() -> None:
    step = AuthorizationStep(AuthorizerSettings())
    for key in (ApiKey.HEARTBEAT, ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.OFFSET_COMMIT):
        api = find_api(key)
        assert api is not None
        route = create_route(api, api.versions.highest)
        route.compose((step,))
        assert route.handler is not api.handler
        assert bool(route.repeated_prefix) is api.is_repeated
        assert route.is_batched is api.is_batched


def test_apis_without_permissions_have_no_step() -> None:
    api = find_api(ApiKey.API_VERSIONS)
    assert api is not None
    step = AuthorizationStep(AuthorizerSettings())
    assert step.wrap(api, 4, api.handler) is api.handler


def test_a_heartbeat_is_checked_by_the_present_acls(wire: TestCluster) -> None:
    beat = HeartbeatRequest(group_id="g", member_id="m")
    metadata = wire.cluster.metadata
    assert wire.ask(beat, 4).error_code == REFUSED
    metadata.create_acls([READ_G])
    assert wire.ask(beat, 4).error_code not in (REFUSED, ErrorCode.NONE)
    wire.contexts[1].principal = "User:bob"
    assert wire.ask(beat, 4).error_code == REFUSED
    wire.contexts[1].principal = "User:ANONYMOUS"
    assert wire.ask(beat, 4).error_code != REFUSED
    metadata.delete_acls(metadata.image.acls)
    assert wire.ask(beat, 4).error_code == REFUSED


def test_a_node_with_old_metadata_checks_by_its_old_acls(wire: TestCluster) -> None:
    beat = HeartbeatRequest(group_id="g", member_id="m")
    wire.cluster.nodes[2].is_metadata_frozen = True
    wire.cluster.metadata.create_acls([READ_G])
    assert wire.ask(beat, 4, node=1).error_code != REFUSED
    assert wire.ask(beat, 4, node=2).error_code == REFUSED


def test_subscribed_topics_are_checked_with_every_heartbeat_that_names_them(
    wire: TestCluster,
) -> None:
    wire.cluster.metadata.create_acls([READ_G])
    steady = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=1)
    assert wire.ask(steady, 1).error_code != ErrorCode.TOPIC_AUTHORIZATION_FAILED
    joining = ConsumerGroupHeartbeatRequest(
        group_id="g", member_id="m", member_epoch=0, subscribed_topic_names=["t"]
    )
    assert wire.ask(joining, 1).error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED


@pytest.mark.parametrize(
    ("names", "code"),
    [
        (["t", "u"], ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        # The handler refuses the other name, which has precedence.
        (["t", "__consumer_offsets"], ErrorCode.STREAMS_INVALID_TOPOLOGY),
        (["t", "no/topic"], ErrorCode.STREAMS_INVALID_TOPOLOGY),
    ],
)
def test_all_topics_of_a_topology_are_checked(
    wire: TestCluster, names: list[str], code: ErrorCode
) -> None:
    wire.cluster.metadata.create_acls([READ_G])
    subtopology = StreamsGroupHeartbeatRequest.Subtopology(
        subtopology_id="0", source_topics=names[:1], repartition_sink_topics=names[1:]
    )
    topology = StreamsGroupHeartbeatRequest.Topology(epoch=0, subtopologies=[subtopology])
    joining = StreamsGroupHeartbeatRequest(
        group_id="g", member_id="m", member_epoch=0, topology=topology
    )
    assert wire.ask(joining, 0).error_code == code
    steady = StreamsGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=1)
    assert wire.ask(steady, 0).error_code == ErrorCode.NOT_COORDINATOR


def test_a_name_that_is_refused_many_times_is_reported_once(wire: TestCluster) -> None:
    request = FindCoordinatorRequest(coordinator_keys=["a"] * 300 + ["b"])
    assert {each.error_code for each in wire.ask(request, 6).coordinators} == {REFUSED}
    history = wire.cluster.history
    assert [len(history.about(name)) for name in ("a", "b")] == [1, 1]


@pytest.mark.parametrize(
    ("request_", "version", "message"),
    [
        (DescribeAclsRequest(), 3, "Request DescribeAcls needs DESCRIBE permission."),
        (DescribeClientQuotasRequest(), 1, None),
        (DescribeUserScramCredentialsRequest(users=None), 0, None),
    ],
    ids=lambda each: type(each).__name__,
)
def test_a_refusal_for_the_cluster_has_the_message_of_kafka(
    wire: TestCluster, request_: Message, version: int, message: str | None
) -> None:
    response = wire.ask(request_, version)
    assert response.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert response.error_message == message


def test_calls_between_nodes_are_not_restricted(wire: TestCluster) -> None:
    topic = WriteTxnMarkersRequest.WritableTxnMarkerTopic(name="t", partition_indexes=[0])
    marker = WriteTxnMarkersRequest.WritableTxnMarker(producer_id=1, topics=[topic])
    request = WriteTxnMarkersRequest(markers=[marker])
    (refused,) = wire.ask(request, 1).markers
    code = refused.topics[0].partitions[0].error_code
    assert code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    answer = wire.cluster.nodes[1].send(2, ApiKey.WRITE_TXN_MARKERS, request)
    response = answer.value if hasattr(answer, "value") else answer
    code = response.markers[0].topics[0].partitions[0].error_code
    assert code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
