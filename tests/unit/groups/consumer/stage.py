"""Stage: consumer groups on a driven clock, with decisions replayed as by the runtime."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, TypeVar

from kafkalite.config.broker import BrokerConfig
from kafkalite.coordinator.contract import CoordinatorResult, Event, ParkedRequest
from kafkalite.coordinator.timers import TimerQueue
from kafkalite.groups.consumer.group import ConsumerGroup
from kafkalite.groups.consumer.groups import ConsumerGroups
from kafkalite.groups.directory import GroupDirectory
from kafkalite.groups.modern.member import Client
from kafkalite.metadata.image import MetadataDelta, MetadataImage, PartitionImage, TopicImage
from kafkalite.ports.seeded_entropy import SeededEntropy
from kafkalite.protocol._generated.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kafkalite.protocol.codec import decode_key, decode_value, encode_key, encode_value
from kafkalite.protocol.errors import KafkaError

if TYPE_CHECKING:
    from kafkalite.groups.group import Group, Record
    from kafkalite.protocol.error_codes import ErrorCode

R = TypeVar("R")
G = "group"
CLIENT = Client("client", "/127.0.0.1")
REBALANCE_TIMEOUT_MS = 300_000
START_MS = 1_700_000_000_000

Partitions = Mapping[str, Iterable[int]]


def topic_id(name: str) -> bytes:
    """Return an id that shows the topic's name."""
    return name.encode().rjust(16, b".")


def topic(name: str, partitions: int) -> TopicImage:
    """Return a topic with its only replicas on node 0."""
    return TopicImage(
        name=name,
        topic_id=topic_id(name),
        partitions=tuple(
            PartitionImage(
                index=index, leader=0, leader_epoch=0, partition_epoch=0, replicas=(0,), isr=(0,)
            )
            for index in range(partitions)
        ),
    )


def image_of(topics: Mapping[str, int], version: int = 1) -> MetadataImage:
    """Return the metadata of these topics and their partition counts."""
    images = [topic(name, count) for name, count in topics.items()]
    return MetadataImage(
        version=version,
        topics={image.name: image for image in images},
        topics_by_id={image.topic_id: image for image in images},
    )


def owned(partitions: Partitions) -> list[ConsumerGroupHeartbeatRequest.TopicPartitions]:
    """Return partitions as a member reports them."""
    return [
        ConsumerGroupHeartbeatRequest.TopicPartitions(
            topic_id=topic_id(name), partitions=list(indexes)
        )
        for name, indexes in partitions.items()
    ]


class Stage:
    """Consumer groups of one shard, with their log."""

    def __init__(
        self,
        topics: Mapping[str, int] | None = None,
        config: Mapping[str, str] | None = None,
        as_version: str | None = None,
    ) -> None:
        self.now_ms = START_MS
        self.log: list[Record] = []
        self.written: list[Record] = []
        self.events: list[Event] = []
        self._config = BrokerConfig.from_text(dict(config or {}), as_version=as_version)
        self._timers = TimerQueue()
        self._open(image_of(topics if topics is not None else {"T": 4}))
        self.groups.on_loaded(self.now_ms)
        self.client = CLIENT
        """The client that sends heartbeats."""

    def _open(self, image: MetadataImage) -> None:
        self.directory = GroupDirectory(config=self._config, entropy=SeededEntropy(1), image=image)
        self.groups = ConsumerGroups(self.directory)

    @property
    def group(self) -> ConsumerGroup:
        """The group under test."""
        found = self.directory.groups[G]
        assert isinstance(found, ConsumerGroup)
        return found

    # The runtime.

    def run(self, result: CoordinatorResult[R]) -> R:
        """Append and replay the records, apply the timers, return the response."""
        self.written = list(result.records)
        self.events += result.events
        for record in result.records:
            self.log.append(record)
            self.replay(record)
        self._timers.apply(result.timers)
        assert not isinstance(result.response, ParkedRequest)
        if isinstance(result.response, KafkaError):
            raise result.response
        return result.response

    def replay(self, record: Record) -> None:
        """Encode, decode and replay one record."""
        key = decode_key(encode_key(record.key))
        assert key is not None
        value = record.value
        if value is not None:
            value = decode_value(key.RECORD_TYPE, encode_value(value, 0))
        self.groups.replayers[type(key)](key, value)

    def advance(self, ms: int) -> None:
        """Advance the clock; timers expire at their own deadlines."""
        until_ms = self.now_ms + ms
        while (due_ms := self._timers.next_deadline_ms()) is not None and due_ms <= until_ms:
            self.now_ms = max(self.now_ms, due_ms)
            event = self._timers.pop_due(self.now_ms)
            self.run(self.groups.timers[type(event)](event, self.now_ms))
        self.now_ms = until_ms

    def timers(self) -> int:
        """Return the number of timers."""
        return len(self._timers)

    def restart(self, records: Iterable[Record] | None = None) -> None:
        """Drop all state and replay the log, or the given records."""
        self._open(self.directory.image)
        self._timers = TimerQueue()
        for record in self.log if records is None else records:
            self.replay(record)
        self.run(self.groups.on_loaded(self.now_ms))

    def compacted(self, *, tombstones: bool = False) -> list[Record]:
        """Return only the last record of each key."""
        last = {encode_key(record.key): record for record in self.log}
        order = {id(record) for record in last.values()}
        return [
            record
            for record in self.log
            if id(record) in order and (tombstones or record.value is not None)
        ]

    def change_topics(self, topics: Mapping[str, int]) -> None:
        """Set the topics of the cluster."""
        before = self.directory.image
        after = image_of(topics, before.version + 1)
        self.directory.image = after
        self.run(
            self.groups.on_image(
                MetadataDelta(
                    created=tuple(
                        t for name, t in after.topics.items() if name not in before.topics
                    ),
                    deleted=tuple(
                        t for name, t in before.topics.items() if name not in after.topics
                    ),
                    changed=tuple(
                        t
                        for name, t in after.topics.items()
                        if name in before.topics and before.topics[name] != t
                    ),
                ),
                self.now_ms,
            )
        )

    def set_config(self, key: str, value: str) -> None:
        """Change a setting of the broker."""
        self._config.publish({key: value}, {})
        self.groups.settings.invalidate()

    # Members.

    def send(self, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse:
        """Send a heartbeat; raises the KafkaError that the member would get.

        If the heartbeat is steady, the full path must give the same response and no records.
        """
        steady = self.groups.steady_heartbeat(request, self.client, self.now_ms)
        result = self.groups.heartbeat(request, self.client, self.now_ms)
        if steady is not None:
            assert result == CoordinatorResult(response=steady, records=[], timers=[])
        return self.run(result)

    def join(
        self,
        member_id: str,
        topics: Iterable[str] | None = ("T",),
        *,
        instance_id: str | None = None,
        regex: str | None = None,
        assignor: str | None = None,
    ) -> ConsumerGroupHeartbeatResponse:
        """Join with a first heartbeat."""
        return self.send(
            ConsumerGroupHeartbeatRequest(
                group_id=G,
                member_id=member_id,
                instance_id=instance_id,
                member_epoch=0,
                rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
                subscribed_topic_names=None if topics is None else list(topics),
                subscribed_topic_regex=regex,
                server_assignor=assignor,
                topic_partitions=[],
            )
        )

    def beat(
        self,
        member_id: str,
        epoch: int,
        reported: Partitions | None = None,
        *,
        instance_id: str | None = None,
        topics: Iterable[str] | None = None,
        regex: str | None = None,
        assignor: str | None = None,
    ) -> ConsumerGroupHeartbeatResponse:
        """Heartbeat; -1 and -2 leave."""
        return self.send(
            ConsumerGroupHeartbeatRequest(
                group_id=G,
                member_id=member_id,
                instance_id=instance_id,
                member_epoch=epoch,
                subscribed_topic_names=None if topics is None else list(topics),
                subscribed_topic_regex=regex,
                server_assignor=assignor,
                topic_partitions=None if reported is None else owned(reported),
            )
        )


def assigned_partitions(response: ConsumerGroupHeartbeatResponse) -> dict[str, list[int]] | None:
    """Return the assignment in a response by topic name; None if there is none."""
    if response.assignment is None:
        return None
    return {
        part.topic_id.lstrip(b".").decode(): part.partitions
        for part in response.assignment.topic_partitions
    }


def refusal(call: Callable[[], object]) -> ErrorCode:
    """Return the error code of a refused call."""
    try:
        call()
    except KafkaError as error:
        return error.code
    raise AssertionError("the call was not refused")


def state_of(group: Group | None) -> object:
    """Return the hard state of a group as comparable values."""
    if group is None:
        return None
    assert isinstance(group, ConsumerGroup)
    return hard_fields(group)


def hard_fields(group: Group) -> dict[str, object]:
    """Return the fields of a group, without soft state.

    Names with a leading underscore are derived from other fields or refer to other objects.
    """
    fields = [name for each in type(group).__mro__ for name in getattr(each, "__slots__", ())]
    return {name: getattr(group, name) for name in fields if name[0] != "_" and name != "soft"}
