"""ManualGroupCoordinator: a group shard on its runtime; tests control time, randomness and log."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeVar

from kafkalite.config.broker import BrokerConfig
from kafkalite.coordinator.event_history import EventHistory
from kafkalite.coordinator.serde import CoordinatorSerde
from kafkalite.groups.classic.member import Caller
from kafkalite.groups.coordinator import GroupCoordinator
from kafkalite.groups.group import CommitClaim
from kafkalite.groups.modern.member import Client
from kafkalite.groups.offsets import OffsetToCommit
from kafkalite.groups.offsets_topic_records import written_version
from kafkalite.metadata.image import MetadataDelta, MetadataImage, PartitionImage, TopicImage
from kafkalite.metadata.internal_topics import OFFSETS_TOPIC
from kafkalite.ports.seeded_entropy import SeededEntropy
from kafkalite.ports.waiting import Waiting
from kafkalite.protocol._generated.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kafkalite.protocol._generated.messages.heartbeat import HeartbeatRequest
from kafkalite.protocol._generated.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kafkalite.protocol._generated.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from kafkalite.protocol._generated.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from kafkalite.protocol._generated.records.group_metadata import (
    GroupMetadataKey,
    GroupMetadataValue,
)
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.storage.transaction_marker import TransactionMarker
from kafkalite.testing.clock import ManualClock
from kafkalite.testing.coordinator_log import MemoryCoordinatorLog

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafkalite.coordinator.active_shard import ActiveShard
    from kafkalite.coordinator.contract import CoordinatorRecord, CoordinatorResult
    from kafkalite.coordinator.event_history import Entry
    from kafkalite.groups.shard import GroupShard

T = TypeVar("T")

NODE = 1
SESSION_MS = 10_000
REBALANCE_MS = 60_000


def topic_image(name: str, partitions: int = 1, topic_id: bytes | None = None) -> TopicImage:
    """Return a topic whose leader is the only node."""
    return TopicImage(
        name=name,
        topic_id=topic_id or name.encode().ljust(16, b"."),
        partitions=tuple(
            PartitionImage(
                index=index,
                leader=NODE,
                leader_epoch=0,
                partition_epoch=0,
                replicas=(NODE,),
                isr=(NODE,),
            )
            for index in range(partitions)
        ),
    )


def image_of(*topics: TopicImage) -> MetadataImage:
    """Return a cluster of these topics."""
    return MetadataImage(
        topics={topic.name: topic for topic in topics},
        topics_by_id={topic.topic_id: topic for topic in topics},
    )


def subscription(*topics: str) -> bytes:
    """Return an embedded consumer subscription, version 0."""
    names = b"".join(len(name).to_bytes(2, "big") + name.encode() for name in topics)
    return b"\0\0" + len(topics).to_bytes(4, "big") + names + b"\0\0\0\0"


class Producer(NamedTuple):
    """The producer of a transaction."""

    producer_id: int
    producer_epoch: int = 0


class ManualGroupCoordinator:
    """A coordinator with one shard, and short methods for the requests of clients."""

    def __init__(
        self,
        config: Mapping[str, str] | None = None,
        log: MemoryCoordinatorLog | None = None,
        topics: Sequence[TopicImage] = (),
        clock: ManualClock | None = None,
        entropy: SeededEntropy | None = None,
        *,
        as_version: str | None = None,
    ) -> None:
        self.clock = clock or ManualClock()
        self.log = log or MemoryCoordinatorLog()
        self.history = EventHistory()
        self._given = dict(config or {})
        self.config = BrokerConfig.from_text(
            {"offsets.topic.num.partitions": "1", **(config or {})}, as_version=as_version
        )
        self.topics = {topic.name: topic for topic in topics or [topic_image("t", 4)]}
        self.entropy = entropy or SeededEntropy()
        self.coordinator = GroupCoordinator(
            clock=self.clock,
            entropy=self.entropy,
            config=self.config,
            image=MetadataImage(),
            open_log=lambda _: self.log,
            history=self.history,
        )
        self.show(MetadataDelta())

    def show(self, delta: MetadataDelta) -> None:
        """Apply the current topics to the coordinator."""
        image = image_of(topic_image(OFFSETS_TOPIC), *self.topics.values())
        self.coordinator.on_image(image, delta)

    @property
    def shard(self) -> ActiveShard[GroupShard]:
        return self.coordinator.shards()[0]

    @property
    def machine(self) -> GroupShard:
        return self.shard.machine

    def restarted(
        self, log: MemoryCoordinatorLog | None = None, config: Mapping[str, str] | None = None
    ) -> ManualGroupCoordinator:
        """Return a new coordinator that loads the log; the clock is unchanged."""
        return ManualGroupCoordinator(
            {**self._given, **(config or {})},
            log or MemoryCoordinatorLog(self.log.entries),
            tuple(self.topics.values()),
            ManualClock(self.clock.now_ms()),
            self.entropy,
        )

    def records(self) -> list[CoordinatorRecord[object, object]]:
        """Return the records in the log."""
        serde = CoordinatorSerde(written_version)
        decoded = [serde.decode(key, value) for key, value in self.log.entries]
        return [record for record in decoded if record is not None]

    def last_group_record(self, group: str = "g") -> GroupMetadataValue | None:
        """Return the last record of a group's metadata."""
        value: object = None
        for record in self.records():
            if record.key == GroupMetadataKey(group=group):
                value = record.value
        assert value is None or isinstance(value, GroupMetadataValue)
        return value

    # Requests of clients

    def join(
        self,
        member_id: str = "",
        *,
        group: str = "g",
        instance: str | None = None,
        protocols: Mapping[str, bytes] | None = None,
        protocol_type: str = "consumer",
        knows_ids: bool = False,
        session_ms: int = SESSION_MS,
        rebalance_ms: int = REBALANCE_MS,
        reason: str | None = None,
    ) -> JoinGroupResponse | Waiting[JoinGroupResponse]:
        request = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=protocol_type,
            reason=reason,
            protocols=[
                JoinGroupRequest.JoinGroupRequestProtocol(name=name, metadata=metadata)
                for name, metadata in (protocols or {"range": subscription("t")}).items()
            ],
        )
        caller = Caller(
            client_id="client",
            client_host="/127.0.0.1",
            requires_known_member_id=knows_ids,
            supports_skipping_assignment=True,
        )
        return self.shard.write(lambda machine, now_ms: machine.join(request, caller, now_ms))

    def sync(
        self,
        member_id: str,
        generation: int,
        assignments: Mapping[str, bytes] | None = None,
        *,
        group: str = "g",
        instance: str | None = None,
    ) -> SyncGroupResponse | Waiting[SyncGroupResponse]:
        request = SyncGroupRequest(
            group_id=group,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=None,
            protocol_name=None,
            assignments=[
                SyncGroupRequest.SyncGroupRequestAssignment(member_id=to, assignment=assignment)
                for to, assignment in (assignments or {}).items()
            ],
        )
        return self.shard.write(lambda machine, now_ms: machine.sync(request, now_ms))

    def heartbeat(
        self, member_id: str, generation: int, *, group: str = "g", instance: str | None = None
    ) -> ErrorCode:
        request = HeartbeatRequest(
            group_id=group,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance,
        )
        code = self.machine.classic.steady_heartbeat(request, self.clock.now_ms())
        if code is not None:
            return code
        return answered(
            self.shard.write(lambda machine, now_ms: machine.heartbeat(request, now_ms))
        )

    def leave(self, *members: tuple[str, str | None], group: str = "g") -> LeaveGroupResponse:
        request = LeaveGroupRequest(
            group_id=group,
            members=[
                LeaveGroupRequest.MemberIdentity(member_id=member, group_instance_id=instance)
                for member, instance in members
            ],
        )
        return answered(self.shard.write(lambda machine, now_ms: machine.leave(request, now_ms)))

    def commit(
        self,
        offsets: Mapping[tuple[str, int], int],
        *,
        group: str = "g",
        member_id: str = "",
        generation: int = -1,
        instance: str | None = None,
        retention_ms: int | None = None,
        producer: Producer | None = None,
        leader_epoch: int = -1,
        incarnation_epoch: int = -1,
    ) -> Sequence[ErrorCode]:
        """Commit offsets; with a producer, in its transaction."""
        claim = CommitClaim(
            member_id=member_id,
            group_instance_id=instance,
            generation_id_or_member_epoch=generation,
            is_transactional=producer is not None,
            stale_member_epoch_code=ErrorCode.ILLEGAL_GENERATION,
        )
        offsets_to_commit = [
            OffsetToCommit(
                topic=topic,
                topic_id=self.topics[topic].topic_id,
                partition=partition,
                offset=offset,
                leader_epoch=leader_epoch,
                metadata=None,
                incarnation_epoch=incarnation_epoch,
            )
            for (topic, partition), offset in offsets.items()
        ]

        def decide(machine: GroupShard, now_ms: int) -> CoordinatorResult[Sequence[ErrorCode]]:
            return machine.offsets.commit(
                group,
                claim,
                offsets_to_commit,
                now_ms,
                unknown_group=ErrorCode.ILLEGAL_GENERATION,
                retention_ms=retention_ms,
            )

        if producer is None:
            return answered(self.shard.write(decide))
        return answered(self.shard.write_transactional(producer, decide))

    def end(self, producer: Producer, *, is_commit: bool = True) -> None:
        """End a producer's transaction."""
        self.shard.end_transaction(TransactionMarker(*producer, 0, is_commit=is_commit))

    def beat(
        self,
        member_id: str,
        epoch: int = 0,
        *,
        group: str = "g",
        topics: Sequence[str] = ("t",),
    ) -> ConsumerGroupHeartbeatResponse:
        """Send a heartbeat of a consumer group's member: join at 0, leave at -1."""
        is_joining = epoch == 0
        request = ConsumerGroupHeartbeatRequest(
            group_id=group,
            member_id=member_id,
            member_epoch=epoch,
            rebalance_timeout_ms=REBALANCE_MS if is_joining else -1,
            subscribed_topic_names=None if epoch < 0 else list(topics),
            topic_partitions=[] if is_joining else None,
        )
        client = Client("client", "/127.0.0.1")
        return answered(
            self.shard.write(
                lambda machine, now_ms: machine.consumer.heartbeat(request, client, now_ms)
            )
        )

    def events(self, *kinds: str, group: str = "g") -> list[Entry]:
        """Return the events of a group, of these kinds or of all."""
        return [each for each in self.history.about(group) if not kinds or each.kind in kinds]

    def committed(self, group: str = "g") -> dict[tuple[str, int], int]:
        """Return a group's offsets as OffsetFetch returns them."""
        stored = self.machine.offsets.offsets_to_fetch(group, None, -1)
        return {
            (topic, partition): committed.offset
            for topic, partitions in stored.items()
            for partition, committed in partitions.items()
        }

    def pending(self, group: str = "g") -> dict[tuple[str, int], dict[int, int]]:
        """Return the offsets with pending transactional commits, and their producer ids."""
        return {
            (place.topic, place.partition): {
                producer_id: pending.offset.offset for producer_id, pending in waiting.items()
            }
            for place, waiting in self.machine.offsets.pending.all()
            if place.group_id == group
        }

    def state(self, group: str = "g") -> str | None:
        """Return the state of a group, None if it does not exist."""
        found = self.machine.group(group)
        return None if found is None else found.state_name()

    # Several steps

    def stable(self, *instances: str | None, group: str = "g") -> list[str]:
        """Create a Stable group with that many members; return their ids, the leader's first."""
        joins = [self.join(group=group, instance=instance) for instance in instances]
        self.clock.advance(0)
        responses = [answered(join) for join in joins]
        leader = responses[0].leader
        generation = responses[0].generation_id
        ids = sorted((each.member_id for each in responses), key=lambda each: each != leader)
        assigned = {each: each.encode() for each in ids}
        # The leader syncs last, so that the others wait.
        by_id = {
            each.member_id: instance for each, instance in zip(responses, instances, strict=True)
        }
        for each in reversed(ids):
            self.sync(
                each,
                generation,
                assigned if each == leader else None,
                group=group,
                instance=by_id[each],
            )
        assert self.state(group) == "Stable"
        return ids


def answered(answer: T | Waiting[T]) -> T:
    """Return an answer that has arrived; fails if it is pending."""
    if isinstance(answer, Waiting):
        assert answer.is_resolved, "still waiting"
        return answer.value
    return answer


def waits(answer: object) -> bool:
    """Return whether an answer is pending."""
    return isinstance(answer, Waiting) and not answer.is_resolved
