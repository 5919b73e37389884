"""A share coordinator with one shard; the test controls its log and clock."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from kafkalite.config.broker import BrokerConfig
from kafkalite.coordinator.serde import CoordinatorSerde
from kafkalite.metadata.image import MetadataDelta, MetadataImage, PartitionImage, TopicImage
from kafkalite.metadata.internal_topics import SHARE_STATE_TOPIC
from kafkalite.protocol.errors import KafkaError
from kafkalite.shares.coordinator import ShareCoordinator
from kafkalite.shares.share_state_records import written_version
from kafkalite.shares.state import ShareKey, StateBatch, StateChange
from kafkalite.testing.clock import ManualClock
from kafkalite.testing.coordinator_log import MemoryCoordinatorLog

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafkalite.coordinator.contract import CoordinatorRecord
    from kafkalite.metadata.controller import MetadataController
    from kafkalite.ports.waiting import Waiting
    from kafkalite.shares.dead_letters import DeadLetters
    from kafkalite.shares.partition import StateStore
    from kafkalite.shares.shard import ShareShard

NODE = 1
TOPIC_ID = b"t".ljust(16, b".")
KEY = ShareKey("g", TOPIC_ID, 0)


def topic_image(name: str, partitions: int = 1) -> TopicImage:
    """Return a topic led by the only node."""
    return TopicImage(
        name=name,
        topic_id=name.encode().ljust(16, b"."),
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


def change(
    *batches: tuple[int, int, int, int],
    start: int = -1,
    state_epoch: int = 0,
    leader_epoch: int = 0,
    complete: int = 0,
) -> StateChange:
    """Return a change as a leader writes it."""
    return StateChange(
        state_epoch, leader_epoch, start, complete, tuple(StateBatch(*each) for each in batches)
    )


class FakeMetadata:
    """The part of the controller that a share coordinator uses."""

    def __init__(self, image: MetadataImage) -> None:
        self.image = image


def no_dead_letters() -> bool:
    """Return that a group has no dead-letter topic."""
    return False


class DeadLetterLog:
    """The dead-letter topics of all groups, as a list; without a `topic` no group has one."""

    def __init__(self, *, has_topic: bool = False) -> None:
        self.has_topic = has_topic
        self.written: list[DeadLetters] = []
        self.answer: Waiting[None] | KafkaError | None = None
        """The answer to the next records: a refusal, or one that comes later."""

    def is_enabled_for(self, group_id: str) -> bool:
        """Return whether groups have a dead-letter topic."""
        del group_id
        return self.has_topic

    def write(self, letters: DeadLetters) -> Waiting[None] | None:
        """Record dead letters."""
        self.written.append(letters)
        if isinstance(self.answer, KafkaError):
            raise self.answer
        return self.answer


class ManualShareCoordinator:
    """A share coordinator with its log and clock."""

    def __init__(
        self,
        config: Mapping[str, str] | None = None,
        log: MemoryCoordinatorLog | None = None,
        topics: Sequence[TopicImage] = (),
        as_version: str | None = None,
    ) -> None:
        self.clock = ManualClock()
        self.log = log or MemoryCoordinatorLog()
        self.start_offset = 0
        self.config = BrokerConfig.from_text(config or {}, as_version=as_version)
        self.topics = {topic.name: topic for topic in topics or [topic_image("t", 4)]}
        self.coordinator = ShareCoordinator(
            clock=self.clock,
            config=self.config,
            metadata=cast("MetadataController", FakeMetadata(self.image)),
            open_log=lambda _: self.log,
            prunable_log=lambda _: self,
        )
        self.apply_topics(MetadataDelta())

    @property
    def image(self) -> MetadataImage:
        topics = [topic_image(SHARE_STATE_TOPIC), *self.topics.values()]
        return MetadataImage(
            topics={topic.name: topic for topic in topics},
            topics_by_id={topic.topic_id: topic for topic in topics},
        )

    def apply_topics(self, delta: MetadataDelta) -> None:
        """Apply the current topics to the coordinator."""
        self.coordinator.on_image(self.image, delta)

    @property
    def store(self) -> StateStore:
        """The coordinator as a StateStore, without requests between nodes."""
        return cast("StateStore", self.coordinator)

    @property
    def machine(self) -> ShareShard:
        return self.coordinator.shards()[0].machine

    def restart(self, entries_from: int = 0) -> ManualShareCoordinator:
        """Return a coordinator that loads the log, or its entries from `entries_from` on."""
        log = MemoryCoordinatorLog(self.log.entries[entries_from:])
        return ManualShareCoordinator(log=log, topics=tuple(self.topics.values()))

    # The log as a PrunableLog

    @property
    def end_offset(self) -> int:
        """One past the last record."""
        return self.start_offset + len(self.log.entries)

    def delete_before(self, offset: int) -> None:
        """Remove the records before `offset`."""
        del self.log.entries[: offset - self.start_offset]
        self.start_offset = offset

    def records(self) -> list[CoordinatorRecord[object, object]]:
        """Return the records of the log."""
        serde = CoordinatorSerde(written_version, "share")
        decoded = [serde.decode(key, value) for key, value in self.log.entries]
        return [record for record in decoded if record is not None]

    def initialize(self, key: ShareKey = KEY, state_epoch: int = 0, start_offset: int = 0) -> None:
        """Initialize a state."""
        self.coordinator.initialize_state(*key, state_epoch=state_epoch, start_offset=start_offset)
