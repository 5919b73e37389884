"""ConsumerCluster: a GroupCluster with requests of members of consumer groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkalite.coordinator.serde import CoordinatorSerde
from kafkalite.groups.consumer.group import ConsumerGroup
from kafkalite.groups.coordinator import GroupCoordinator
from kafkalite.groups.offsets_topic_records import written_version
from kafkalite.metadata.internal_topics import OFFSETS_TOPIC
from kafkalite.protocol._generated.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
)
from kafkalite.protocol._generated.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
)
from kafkalite.protocol._generated.messages.offset_commit import OffsetCommitRequest
from kafkalite.protocol._generated.messages.offset_fetch import OffsetFetchRequest
from kafkalite.protocol._generated.records.consumer_group_current_member_assignment import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
)
from kafkalite.protocol.error_codes import ErrorCode
from tests.cluster.groups import GroupCluster

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kafkalite.coordinator.contract import CoordinatorRecord
    from kafkalite.coordinator.event_history import Entry
    from kafkalite.metadata.image import MetadataDelta, MetadataImage

G = "g"
REBALANCE_MS = 60_000
ASSIGNMENT_INTERVAL_MS = 1_000
_LEAVE = -1
_BROKERS = 4
_SET = 0


class ConsumerCluster(GroupCluster):
    """One coordinator with one shard, topics, and short methods for the requests of members."""

    def __init__(
        self, topics: Mapping[str, int] | None = None, config: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(config={"offsets.topic.num.partitions": "1", **(config or {})})
        self.node = self.contexts[1].node
        self.metadata.subscribe(self._show)
        self.restart()
        self.ids = {OFFSETS_TOPIC: self.create(OFFSETS_TOPIC)}
        for name, partitions in (topics or {"t": 4}).items():
            self.ids[name] = self.create(name, partitions)
        self.names = {topic_id: name for name, topic_id in self.ids.items()}
        self._seen = 0

    def restart(self) -> None:
        """Drop all state but the log, and load it again."""
        self.groups = self.node.groups = GroupCoordinator(
            clock=self.clock,
            entropy=self.node.entropy,
            config=self.node.config,
            image=self.metadata.image,
            open_log=lambda index: self.logs[index],
            history=self.node.history,
        )
        if OFFSETS_TOPIC in self.metadata.image.topics:
            self.groups.set_leaders([1])

    def _show(self, image: MetadataImage, delta: MetadataDelta) -> None:
        self.groups.on_image(image, delta)

    # Requests of members

    def beat(
        self,
        member_id: str,
        epoch: int = 0,
        owned: Mapping[str, Iterable[int]] | None = None,
        *,
        topics: Iterable[str] | None = None,
        instance: str | None = None,
        group: str = G,
        version: int = 1,
    ) -> Any:  # noqa: ANN401 - any response class
        """Send a heartbeat: epoch 0 joins, -1 leaves, -2 leaves temporarily (static members)."""
        is_joining = epoch == 0
        if is_joining:
            owned = owned or {}
            topics = topics or sorted(set(self.ids) - {OFFSETS_TOPIC})
        request = ConsumerGroupHeartbeatRequest(
            group_id=group,
            member_id=member_id,
            member_epoch=epoch,
            instance_id=instance,
            rebalance_timeout_ms=REBALANCE_MS if is_joining else -1,
            subscribed_topic_names=None if topics is None else list(topics),
            topic_partitions=None
            if owned is None
            else [
                ConsumerGroupHeartbeatRequest.TopicPartitions(
                    topic_id=self.ids[name], partitions=list(partitions)
                )
                for name, partitions in owned.items()
            ],
        )
        return self.ask(request, version)

    def epoch(self, *heartbeat: Any, **named: Any) -> int:  # noqa: ANN401 - those of `beat`
        """Send a heartbeat that must be accepted, and return the member's epoch."""
        response = self.beat(*heartbeat, **named)
        assert response.error_code == ErrorCode.NONE, response
        assert isinstance(response.member_epoch, int)
        return response.member_epoch

    def given(self, response: Any) -> dict[str, list[int]] | None:  # noqa: ANN401
        """Return the assignment in a heartbeat's response; None if it has none."""
        if response.assignment is None:
            return None
        return {
            self.names[topic.topic_id]: list(topic.partitions)
            for topic in response.assignment.topic_partitions
        }

    def commit(
        self,
        member_id: str,
        epoch: int,
        *partitions: tuple[str, int],
        offset: int = 1,
        group: str = G,
        version: int = 9,
    ) -> list[ErrorCode]:
        """Commit an offset for some partitions; return their errors."""
        asked: dict[str, list[OffsetCommitRequest.OffsetCommitRequestPartition]] = {}
        for name, index in partitions:
            row = OffsetCommitRequest.OffsetCommitRequestPartition(
                partition_index=index, committed_offset=offset
            )
            asked.setdefault(name, []).append(row)
        request = OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=epoch,
            member_id=member_id,
            topics=[
                OffsetCommitRequest.OffsetCommitRequestTopic(
                    name=name, topic_id=self.ids[name], partitions=rows
                )
                for name, rows in asked.items()
            ],
        )
        response = self.ask(request, version)
        return [
            ErrorCode(partition.error_code)
            for topic in response.topics
            for partition in topic.partitions
        ]

    def committed(self, name: str, partition: int, *, group: str = G) -> int:
        """Return the committed offset as OffsetFetch returns it; -1 if there is none."""
        requested = OffsetFetchRequest.OffsetFetchRequestTopics(
            name=name, partition_indexes=[partition]
        )
        asked = OffsetFetchRequest.OffsetFetchRequestGroup(group_id=group, topics=[requested])
        response = self.ask(OffsetFetchRequest(groups=[asked]), 9)
        offset = response.groups[0].topics[0].partitions[0].committed_offset
        assert isinstance(offset, int)
        return offset

    def set_config(self, key: str, value: str) -> None:
        """Change a setting of all brokers dynamically."""
        alter = IncrementalAlterConfigsRequest.AlterableConfig(
            name=key, config_operation=_SET, value=value
        )
        resource = IncrementalAlterConfigsRequest.AlterConfigsResource(
            resource_type=_BROKERS, resource_name="", configs=[alter]
        )
        response = self.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1)
        assert response.responses[0].error_code == ErrorCode.NONE, response

    # State

    def new_records(self) -> list[CoordinatorRecord[object, object]]:
        """Return the records written since the last call."""
        serde = CoordinatorSerde(written_version)
        entries = self.logs[0].entries[self._seen :]
        self._seen = len(self.logs[0].entries)
        decoded = [serde.decode(key, value) for key, value in entries]
        return [record for record in decoded if record is not None]

    def kinds(self) -> list[str]:
        """Return the kinds of the records since the last call, † for a tombstone."""
        return [
            type(record.key).__name__.removeprefix("ConsumerGroup").removesuffix("Key")
            + ("†" if record.value is None else "")
            for record in self.new_records()
        ]

    def assignment_record(
        self, member_id: str, group: str = G
    ) -> ConsumerGroupCurrentMemberAssignmentValue | None:
        """Return the member's current assignment in its last record."""
        serde = CoordinatorSerde(written_version)
        requested = ConsumerGroupCurrentMemberAssignmentKey(group_id=group, member_id=member_id)
        last: object = None
        for key, value in self.logs[0].entries:
            record = serde.decode(key, value)
            if record is not None and record.key == requested:
                last = record.value
        assert last is None or isinstance(last, ConsumerGroupCurrentMemberAssignmentValue)
        return last

    def group(self, group_id: str = G) -> ConsumerGroup:
        """Return the coordinator's state of a group."""
        found = self.groups.shards()[0].machine.directory.groups[group_id]
        assert isinstance(found, ConsumerGroup)
        return found

    def events(self, *kinds: str, group: str = G) -> list[Entry]:
        """Return the history of a group: events of the given kinds, or all."""
        about = self.node.history.about(group)
        return [each for each in about if not kinds or each.kind in kinds]

    def pass_interval(self) -> None:
        """Run the assignor again."""
        self.clock.advance(ASSIGNMENT_INTERVAL_MS)
