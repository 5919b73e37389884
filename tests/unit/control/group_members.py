"""Members of groups of each type, by requests that a broker makes to itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkalite.control.command_table import running_cluster
from kafkalite.control.internal_requests import answer_of
from kafkalite.groups.migration.consumer_protocol import encode_assignment
from kafkalite.metadata.internal_topics import offsets_topic
from kafkalite.protocol import codec
from kafkalite.protocol._generated.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
)
from kafkalite.protocol._generated.messages.join_group import JoinGroupRequest
from kafkalite.protocol._generated.messages.offset_commit import OffsetCommitRequest
from kafkalite.protocol._generated.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from kafkalite.protocol._generated.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
)
from kafkalite.protocol._generated.messages.sync_group import SyncGroupRequest
from kafkalite.protocol._generated.records.consumer_protocol_subscription import (
    ConsumerProtocolSubscription,
)

if TYPE_CHECKING:
    from kafkalite.cluster.node import Node
    from kafkalite.server.broker import Broker

CONFIG = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "1",
    "group.consumer.assignment.interval.ms": "0",
    "group.share.assignment.interval.ms": "0",
    "group.streams.assignment.interval.ms": "0",
    "group.streams.initial.rebalance.delay.ms": "0",
}
TOPIC = "orders"


class Members:
    """Joins groups of a broker whose topic `orders` exists."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.cluster = running_cluster(broker)
        if "__consumer_offsets" not in self.cluster.metadata.image.topics:
            self.cluster.metadata.create_topics([offsets_topic(self.cluster.config)])

    async def ask(self, request: Any) -> Any:  # noqa: ANN401 - any request and response
        coordinator = self.coordinator_of(request.group_id)
        response = await answer_of(self.broker, request, coordinator)
        assert getattr(response, "error_code", 0) == 0, response
        return response

    def coordinator_of(self, group: str) -> Node:
        return self.cluster.nodes[self.cluster.groups.shard_for(group).leader_id]

    def topic_id(self, topic: str = TOPIC) -> bytes:
        return self.cluster.metadata.image.topics[topic].topic_id

    async def request_member_id(self, group: str, client: str) -> None:
        """Join without a member id, so that the group has a pending one."""
        protocol = JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"")
        request = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=10_000,
            protocol_type="consumer",
            protocols=[protocol],
        )
        answer = await answer_of(self.broker, request, self.coordinator_of(group))
        assert answer.member_id, client

    async def join_classic(self, group: str, instance: str | None = None) -> tuple[str, int]:
        """Join as the only member, with all partitions; return member id and generation."""
        subscription = codec.encode_value(ConsumerProtocolSubscription(topics=[TOPIC]), 3)
        request = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            group_instance_id=instance,
            protocol_type="consumer",
            protocols=[
                JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=subscription)
            ],
        )
        if instance is None:
            refused = await answer_of(self.broker, request, self.coordinator_of(group))
            request.member_id = refused.member_id
        joined = await self.ask(request)
        image = self.cluster.metadata.image
        count = len(image.topics[TOPIC].partitions)
        assignment = encode_assignment({self.topic_id(): range(count)}, image, 3)
        await self.ask(
            SyncGroupRequest(
                group_id=group,
                generation_id=joined.generation_id,
                member_id=joined.member_id,
                group_instance_id=instance,
                protocol_type="consumer",
                protocol_name="range",
                assignments=[SyncGroupRequest.SyncGroupRequestAssignment(
                    member_id=joined.member_id, assignment=assignment
                )],
            )
        )  # fmt: skip
        return joined.member_id, joined.generation_id

    async def join_consumer(self, group: str, member: str, epoch: int = 0) -> int:
        """Join, or beat at an epoch; return the member epoch."""
        beat = ConsumerGroupHeartbeatRequest(
            group_id=group,
            member_id=member,
            member_epoch=epoch,
            rebalance_timeout_ms=-1 if epoch else 10_000,
            subscribed_topic_names=None if epoch else [TOPIC],
            topic_partitions=None if epoch else [],
        )
        return int((await self.ask(beat)).member_epoch)

    async def join_share(self, group: str, member: str) -> None:
        """Join, and beat again, because the first heartbeat initializes the share partitions."""
        beat = ShareGroupHeartbeatRequest(
            group_id=group, member_id=member, member_epoch=0, subscribed_topic_names=[TOPIC]
        )
        epoch = (await self.ask(beat)).member_epoch
        beat = ShareGroupHeartbeatRequest(group_id=group, member_id=member, member_epoch=epoch)
        await self.ask(beat)

    async def leave_share(self, group: str, member: str) -> None:
        beat = ShareGroupHeartbeatRequest(group_id=group, member_id=member, member_epoch=-1)
        await self.ask(beat)

    async def join_streams(self, group: str, member: str) -> None:
        subtopology = StreamsGroupHeartbeatRequest.Subtopology(
            subtopology_id="0", source_topics=[TOPIC]
        )
        beat = StreamsGroupHeartbeatRequest(
            group_id=group,
            member_id=member,
            member_epoch=0,
            rebalance_timeout_ms=10_000,
            process_id="p",
            topology=StreamsGroupHeartbeatRequest.Topology(epoch=0, subtopologies=[subtopology]),
            active_tasks=[],
            standby_tasks=[],
            warmup_tasks=[],
            client_tags=[],
        )
        await self.ask(beat)

    async def commit(
        self,
        group: str,
        offset: int,
        partition: int = 0,
        *,
        member: tuple[str, int] = ("", -1),
        metadata: str = "",
        topic: str = TOPIC,
    ) -> None:
        row = OffsetCommitRequest.OffsetCommitRequestPartition(
            partition_index=partition,
            committed_offset=offset,
            committed_leader_epoch=0,
            committed_metadata=metadata,
        )
        rows = OffsetCommitRequest.OffsetCommitRequestTopic(
            name=topic, topic_id=self.topic_id(topic), partitions=[row]
        )
        request = OffsetCommitRequest(
            group_id=group,
            member_id=member[0],
            generation_id_or_member_epoch=member[1],
            topics=[rows],
        )
        response = await self.ask(request)
        assert response.topics[0].partitions[0].error_code == 0
