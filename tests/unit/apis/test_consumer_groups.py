"""ConsumerGroupHeartbeat and ConsumerGroupDescribe as requests: form first, then the group."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from kafkalite.apis.consumer_groups import APIS, HEARTBEAT_ERAS, check_heartbeat
from kafkalite.apis.context import RequestContext
from kafkalite.config.broker import BrokerConfig
from kafkalite.coordinator.journal import Journal
from kafkalite.groups.coordinator import GroupCoordinator
from kafkalite.metadata.image import (
    MetadataDelta,
    MetadataImage,
    PartitionImage,
    TopicImage,
)
from kafkalite.metadata.internal_topics import OFFSETS_TOPIC
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from kafkalite.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kafkalite.testing.clock import ManualClock
from kafkalite.testing.coordinator_log import MemoryCoordinatorLog
from kafkalite.testing.entropy import SeededEntropy

if TYPE_CHECKING:
    from kafkalite.apis.context import Services

HEARTBEAT, DESCRIBE = APIS
TOPIC_ID = b"t" * 16


def request(**named: object) -> ConsumerGroupHeartbeatRequest:
    """Return a heartbeat that joins, but for what is named."""
    join: dict[str, Any] = {
        "group_id": "g",
        "member_id": "m",
        "member_epoch": 0,
        "rebalance_timeout_ms": 1000,
        "subscribed_topic_names": ["t"],
        "topic_partitions": [],
    }
    join.update(named)
    return ConsumerGroupHeartbeatRequest(**join)


def topic(name: str, topic_id: bytes, partitions: int) -> TopicImage:
    return TopicImage(
        name=name,
        topic_id=topic_id,
        partitions=tuple(
            PartitionImage(
                index=index, leader=1, leader_epoch=0, partition_epoch=0, replicas=(1,), isr=(1,)
            )
            for index in range(partitions)
        ),
    )


def context_at(node_id: int = 1, **config: str) -> RequestContext:
    broker = BrokerConfig.from_text({key.replace("_", "."): text for key, text in config.items()})
    topics = [topic(OFFSETS_TOPIC, b"o" * 16, 2), topic("t", TOPIC_ID, 3)]
    image = MetadataImage(
        version=1,
        topics={each.name: each for each in topics},
        topics_by_id={each.topic_id: each for each in topics},
    )
    clock, journal = ManualClock(), Journal()
    groups = GroupCoordinator(
        clock=clock,
        entropy=SeededEntropy(1),
        config=broker,
        image=image,
        open_log=lambda _: MemoryCoordinatorLog(),
    )
    groups.on_image(image, MetadataDelta())
    context = RequestContext(
        services=cast(
            "Services", SimpleNamespace(config=broker, groups=groups, clock=clock, journal=journal)
        ),
        node_id=node_id,
        listener="PLAINTEXT",
        client_host="/10.0.0.1",
    )
    context.client_id = "c"
    context.era = HEARTBEAT_ERAS.at(1)
    return context


def heartbeat(context: RequestContext, **named: object) -> ConsumerGroupHeartbeatResponse:
    response = HEARTBEAT.handler(context, request(**named))
    assert isinstance(response, ConsumerGroupHeartbeatResponse)
    return response


def describe(context: RequestContext, *groups: str) -> ConsumerGroupDescribeResponse:
    response = DESCRIBE.handler(
        context,
        ConsumerGroupDescribeRequest(group_ids=list(groups), include_authorized_operations=True),
    )
    assert isinstance(response, ConsumerGroupDescribeResponse)
    return response


@pytest.mark.parametrize(
    ("version", "named"),
    [
        (1, {"member_id": ""}),
        (1, {"member_id": " "}),
        (0, {"member_id": "", "member_epoch": 1}),
        (0, {"member_id": "", "member_epoch": -1}),
        (1, {"group_id": ""}),
        (1, {"instance_id": ""}),
        (1, {"rack_id": " "}),
        (1, {"rebalance_timeout_ms": -1}),
        (1, {"topic_partitions": None}),
        (1, {"topic_partitions": [ConsumerGroupHeartbeatRequest.TopicPartitions()]}),
        (1, {"subscribed_topic_names": None}),
        (1, {"member_epoch": -2}),
        (1, {"member_epoch": -3}),
        (1, {"member_id": "", "server_assignor": "none"}),
    ],
)
def test_what_no_member_may_send_is_an_invalid_request(version: int, named: dict[str, Any]) -> None:
    with pytest.raises(KafkaError) as refused:
        check_heartbeat(request(**named), HEARTBEAT_ERAS.at(version), BrokerConfig.from_text())
    assert refused.value.code is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("version", "named"),
    [
        (0, {"member_id": ""}),
        (0, {"member_id": "", "member_epoch": -2, "instance_id": "i"}),
        (1, {"member_id": "a"}),
        (1, {"subscribed_topic_names": []}),
        (1, {"subscribed_topic_names": None, "subscribed_topic_regex": ""}),
        (1, {"server_assignor": "range"}),
        (1, {"member_epoch": 7, "rebalance_timeout_ms": -1, "topic_partitions": None}),
        (1, {"member_epoch": -1, "subscribed_topic_names": None}),
    ],
)
def test_what_a_member_may_send(version: int, named: dict[str, Any]) -> None:
    check_heartbeat(request(**named), HEARTBEAT_ERAS.at(version), BrokerConfig.from_text())


@pytest.mark.parametrize("epoch", [0, 1, -1])
def test_an_assignor_that_is_not_configured_is_refused(epoch: int) -> None:
    with pytest.raises(KafkaError) as refused:
        check_heartbeat(
            request(server_assignor="sticky", member_epoch=epoch),
            HEARTBEAT_ERAS.at(1),
            BrokerConfig.from_text(),
        )
    assert refused.value.code is ErrorCode.UNSUPPORTED_ASSIGNOR


def test_a_member_joins_and_is_described() -> None:
    context = context_at()
    joined = heartbeat(context)
    assert (joined.member_id, joined.member_epoch) == ("m", 2)
    (group,) = describe(context, "g").groups
    assert (group.error_code, group.group_state) == (ErrorCode.NONE, "Stable")
    assert group.authorized_operations == 0b1101_0100_1000
    (member,) = group.members
    assert (member.client_id, member.client_host) == ("c", "/10.0.0.1")


def test_each_group_is_described_with_its_own_error() -> None:
    context = context_at()
    heartbeat(context)
    answered = describe(context, "", "g", "none").groups
    assert [group.error_code for group in answered] == [
        ErrorCode.INVALID_GROUP_ID,
        ErrorCode.NONE,
        ErrorCode.GROUP_ID_NOT_FOUND,
    ]
    assert [group.group_id for group in answered] == ["", "g", "none"]


def test_a_node_that_does_not_coordinate_says_so() -> None:
    context = context_at(node_id=2)
    with pytest.raises(KafkaError) as refused:
        heartbeat(context)
    assert refused.value.code is ErrorCode.NOT_COORDINATOR
    (group,) = describe(context, "g").groups
    assert group.error_code is ErrorCode.NOT_COORDINATOR


def test_a_broker_without_the_consumer_protocol_does_not_know_the_apis() -> None:
    context = context_at(group_coordinator_rebalance_protocols="classic")
    for call in (lambda: heartbeat(context), lambda: describe(context, "g")):
        with pytest.raises(KafkaError) as refused:
            call()
        assert refused.value.code is ErrorCode.UNSUPPORTED_VERSION


def test_refusals_have_the_shape_of_their_api() -> None:
    refused = HEARTBEAT.refuse(request(), ErrorCode.FENCED_MEMBER_EPOCH, "why")
    assert (refused.error_code, refused.error_message) == (ErrorCode.FENCED_MEMBER_EPOCH, "why")
    both = DESCRIBE.refuse(
        ConsumerGroupDescribeRequest(group_ids=["a", "b"]), ErrorCode.UNSUPPORTED_VERSION, None
    )
    assert [group.error_code for group in both.groups] == [ErrorCode.UNSUPPORTED_VERSION] * 2
