"""ConsumerGroupHeartbeat and ConsumerGroupDescribe: validation of fields, and responses."""

from __future__ import annotations

from typing import Any

import pytest

from kafkalite.apis.groups.consumer import APIS, HEARTBEAT_ERAS, check_heartbeat
from kafkalite.config.broker import BrokerConfig
from kafkalite.coordinator.event_history import EventHistory
from kafkalite.gateway.call import Call, ConnectionContext
from kafkalite.groups.coordinator import GroupCoordinator
from kafkalite.metadata.image import (
    MetadataDelta,
    MetadataImage,
    PartitionImage,
    TopicImage,
)
from kafkalite.metadata.internal_topics import OFFSETS_TOPIC
from kafkalite.ports.seeded_entropy import SeededEntropy
from kafkalite.protocol._generated.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from kafkalite.protocol._generated.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.testing.clock import ManualClock
from kafkalite.testing.coordinator_log import MemoryCoordinatorLog
from tests.unit.nodes import node_of

HEARTBEAT, DESCRIBE = APIS
TOPIC_ID = b"t" * 16


def request(**named: object) -> ConsumerGroupHeartbeatRequest:
    """Return a heartbeat that joins, with these fields changed."""
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


def context_at(node_id: int = 1, level: int = 1, **config: str) -> Call:
    broker = BrokerConfig.from_text({key.replace("_", "."): text for key, text in config.items()})
    topics = [topic(OFFSETS_TOPIC, b"o" * 16, 2), topic("t", TOPIC_ID, 3)]
    image = MetadataImage(
        version=1,
        topics={each.name: each for each in topics},
        topics_by_id={each.topic_id: each for each in topics},
        features={"group.version": level},
    )
    clock, history = ManualClock(), EventHistory()
    groups = GroupCoordinator(
        clock=clock,
        entropy=SeededEntropy(1),
        config=broker,
        image=image,
        open_log=lambda _: MemoryCoordinatorLog(),
    )
    groups.on_image(image, MetadataDelta())
    context = ConnectionContext(
        node=node_of(
            node_id, config=broker, groups=groups, clock=clock, history=history, image=image
        ),
        listener="PLAINTEXT",
        client_host="/10.0.0.1",
        client_id="c",
    )
    return context.call(1, HEARTBEAT_ERAS.at(1), 0)


def heartbeat(call: Call, **named: object) -> ConsumerGroupHeartbeatResponse:
    response = HEARTBEAT.handler(call, request(**named))
    assert isinstance(response, ConsumerGroupHeartbeatResponse)
    return response


def describe(call: Call, *groups: str) -> ConsumerGroupDescribeResponse:
    response = DESCRIBE.handler(
        call,
        ConsumerGroupDescribeRequest(group_ids=list(groups), include_authorized_operations=True),
    )
    assert isinstance(response, ConsumerGroupDescribeResponse)
    return response


@pytest.mark.parametrize(
    ("version", "named"),
    [
        (1, {"member_id": " "}),
        (0, {"member_id": "", "member_epoch": 1}),
        (0, {"member_id": "", "member_epoch": -1}),
        (1, {"rack_id": " "}),
        (1, {"member_epoch": -2}),
        (1, {"member_id": "", "server_assignor": "none"}),
    ],
)
def test_invalid_fields_are_refused_as_invalid_request(version: int, named: dict[str, Any]) -> None:
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
def test_valid_fields_are_accepted(version: int, named: dict[str, Any]) -> None:
    check_heartbeat(request(**named), HEARTBEAT_ERAS.at(version), BrokerConfig.from_text())


@pytest.mark.parametrize("epoch", [0, 1, -1])
def test_an_unconfigured_assignor_is_refused(epoch: int) -> None:
    with pytest.raises(KafkaError) as refused:
        check_heartbeat(
            request(server_assignor="sticky", member_epoch=epoch),
            HEARTBEAT_ERAS.at(1),
            BrokerConfig.from_text(),
        )
    assert refused.value.code is ErrorCode.UNSUPPORTED_ASSIGNOR


def test_a_member_joins_and_is_described() -> None:
    call = context_at()
    joined = heartbeat(call)
    assert (joined.member_id, joined.member_epoch) == ("m", 2)
    (group,) = describe(call, "g").groups
    assert (group.error_code, group.group_state) == (ErrorCode.NONE, "Stable")
    assert group.authorized_operations == 0b1101_0100_1000
    (member,) = group.members
    assert (member.client_id, member.client_host) == ("c", "/10.0.0.1")


def test_another_node_than_the_coordinator_returns_not_coordinator() -> None:
    call = context_at(node_id=2)
    with pytest.raises(KafkaError) as refused:
        heartbeat(call)
    assert refused.value.code is ErrorCode.NOT_COORDINATOR
    (group,) = describe(call, "g").groups
    assert group.error_code is ErrorCode.NOT_COORDINATOR


def test_consumer_apis_return_unsupported_version_if_the_protocol_is_disabled() -> None:
    disabled_by_setting = context_at(group_coordinator_rebalance_protocols="classic")
    for call in (disabled_by_setting, context_at(level=0)):
        with pytest.raises(KafkaError) as heartbeat_refusal:
            heartbeat(call)
        with pytest.raises(KafkaError) as describe_refusal:
            describe(call, "g")
        for refused in (heartbeat_refusal, describe_refusal):
            assert refused.value.code is ErrorCode.UNSUPPORTED_VERSION


def test_refusals_have_the_shape_of_their_api() -> None:
    refused = HEARTBEAT.refuse(request(), ErrorCode.FENCED_MEMBER_EPOCH, "why")
    assert (refused.error_code, refused.error_message) == (ErrorCode.FENCED_MEMBER_EPOCH, "why")
    both = DESCRIBE.refuse(
        ConsumerGroupDescribeRequest(group_ids=["a", "b"]), ErrorCode.UNSUPPORTED_VERSION, None
    )
    assert [group.error_code for group in both.groups] == [ErrorCode.UNSUPPORTED_VERSION] * 2
