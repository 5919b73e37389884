"""A data plane without a server: partitions on its own disk; tests control time and randomness."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from kafkalite.cluster.node import Endpoint, UnreadAnswers
from kafkalite.config.broker import BrokerConfig
from kafkalite.config.topic import topic_log_config
from kafkalite.gateway.call import Call, ConnectionContext
from kafkalite.metadata.image import (
    BrokerImage,
    ConfigResource,
    MetadataDelta,
    MetadataImage,
    PartitionImage,
    ResourceType,
    TopicImage,
)
from kafkalite.partitions.table import PartitionTable
from kafkalite.ports.seeded_entropy import SeededEntropy
from kafkalite.storage.batch import NO_PRODUCER, BatchProducer, BatchView, build_batch
from kafkalite.storage.data_directory import DataDirectory
from kafkalite.storage.record_format import NewRecord
from kafkalite.testing.clock import ManualClock
from tests.unit.nodes import node_of
from tests.unit.open_files import new_files

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from kafkalite.config.log_config import LogConfig
    from kafkalite.gateway.api import Api
    from kafkalite.partitions.partition import Partition
    from kafkalite.partitions.table import Truncation


def batch_of(
    *values: bytes | None,
    key: bytes | None = b"k",
    timestamp: int = 1_700_000_000_000,
    attributes: int = 0,
    producer: BatchProducer = NO_PRODUCER,
) -> bytes:
    """Return a batch as a client would send it."""
    return build_batch(
        [NewRecord(key, value, timestamp) for value in values],
        attributes=attributes,
        producer=producer,
    )


def values_in(records: bytes | memoryview | None) -> list[bytes | None]:
    """Return the values of all fetched records."""
    return [record.value for batch in batches_in(records) for record in batch.records()]


def batches_in(records: bytes | memoryview | None) -> list[BatchView]:
    """Return the fetched batches."""
    found = []
    rest = bytes(records or b"")
    while rest:
        batch = BatchView(rest)
        found.append(BatchView(rest[: batch.size]))
        rest = rest[batch.size :]
    return found


class FakeMetadata:
    """The parts of the controller that the data plane uses."""

    def __init__(self) -> None:
        self.blocks: list[int] = []

    def allocate_producer_ids(self, node_id: int) -> tuple[int, int]:
        """Allocate a block of three producer ids."""
        self.blocks.append(node_id)
        return (len(self.blocks) - 1) * 3, 3


class DataPlane:
    """Partitions, and a node on which handlers can be called."""

    def __init__(self, directory: Path, settings: Mapping[str, str] | None = None) -> None:
        self.directory = directory
        self.clock = ManualClock()
        self.unsent = UnreadAnswers()
        self.entropy = SeededEntropy()
        self.files = new_files(self)
        self.data_directory = DataDirectory(self.files, str(directory))
        self.config = BrokerConfig.from_text(settings or {})
        self.image = MetadataImage(brokers=self._brokers())
        self.metadata = FakeMetadata()
        self.truncations: list[Truncation] = []
        """The reported truncations by new leaders."""
        self.table = self._table()
        self.table.open(self.image)

    @staticmethod
    def _brokers() -> dict[int, BrokerImage]:
        return {node_id: BrokerImage(node_id, broker_epoch=node_id) for node_id in range(4)}

    def _table(self) -> PartitionTable:
        return PartitionTable(
            directory=self.data_directory,
            other_logs={},
            clock=self.clock,
            entropy=self.entropy,
            log_config=self._log_config,
            has_own_defaults=self.config.has_own_topic_defaults,
            max_fetch_sessions=lambda _: 1000,
            on_truncation=self.truncations.append,
        )

    def _log_config(self, overrides: Mapping[str, str], node_id: int | None) -> LogConfig:
        config = self.config if node_id is None else self.config.of_node(node_id)
        return topic_log_config(overrides, config)

    def restart(self, *, cleanly: bool = True) -> None:
        """Restart with the same directory and metadata."""
        if cleanly:
            self.table.end_waits()
            self.data_directory.close(self.table.logs())
        else:
            self.data_directory.release_lock()
        self.data_directory = DataDirectory(self.files, str(self.directory))
        self.table = self._table()
        self.table.open(self.image)

    def create(
        self,
        name: str = "t",
        partitions: int = 1,
        *,
        replicas: tuple[int, ...] = (0,),
        config: Mapping[str, str] | None = None,
    ) -> TopicImage:
        """Create a topic whose first replica leads every partition."""
        topic = TopicImage(
            name=name,
            topic_id=self.entropy.uuid(),
            partitions=tuple(
                PartitionImage(
                    index=index,
                    leader=replicas[0],
                    leader_epoch=0,
                    partition_epoch=0,
                    replicas=replicas,
                    isr=replicas,
                )
                for index in range(partitions)
            ),
        )
        configs = dict(self.image.configs)
        if config:
            configs[ConfigResource(ResourceType.TOPIC, name)] = config
        self._show((*self.image.topics.values(), topic), configs)
        self.table.apply(self.image, MetadataDelta(created=(topic,)))
        return topic

    def create_offline(self, name: str = "t") -> TopicImage:
        """Create a topic of one partition, whose log the disk refuses."""
        (self.directory / f"{name}-0").write_bytes(b"a file is no directory")
        with suppress(NotADirectoryError):
            self.create(name)
        return self.image.topics[name]

    def delete(self, name: str) -> None:
        """Delete a topic."""
        topic = self.image.topics[name]
        self._show(one for one in self.image.topics.values() if one is not topic)
        self.table.apply(self.image, MetadataDelta(deleted=(topic,)))

    def lead(self, name: str, leader: int, leader_epoch: int) -> None:
        """Make another node the leader of every partition of a topic."""
        old = self.image.topics[name]
        self.change(
            old._replace(
                partitions=tuple(
                    partition._replace(leader=leader, leader_epoch=leader_epoch)
                    for partition in old.partitions
                ),
            )
        )

    def change(self, topic: TopicImage) -> None:
        """Replace a topic by `topic`."""
        topics = {**self.image.topics, topic.name: topic}
        self._show(topics.values())
        self.table.apply(self.image, MetadataDelta(changed=(topic,)))
        self.table.notify_changes()

    def configure(self, name: str, config: Mapping[str, str]) -> None:
        """Set a topic's own configuration."""
        resource = ConfigResource(ResourceType.TOPIC, name)
        self._show(self.image.topics.values(), {**self.image.configs, resource: config})
        delta = MetadataDelta(
            reconfigured=(self.image.topics[name],), configs=frozenset((resource,))
        )
        self.table.apply(self.image, delta)

    def _show(
        self,
        topics: Iterable[TopicImage],
        configs: Mapping[ConfigResource, Mapping[str, str]] | None = None,
    ) -> None:
        listed = list(topics)
        self.image = MetadataImage(
            version=self.image.version + 1,
            brokers=self.image.brokers,
            topics={topic.name: topic for topic in listed},
            topics_by_id={topic.topic_id: topic for topic in listed},
            configs=self.image.configs if configs is None else configs,
        )

    def partition(self, name: str = "t", index: int = 0) -> Partition:
        """Return an existing partition."""
        topic = self.table.topic(name)
        assert topic is not None
        partition = topic.partition(index)
        assert partition is not None
        return partition

    def append(self, *values: bytes | None, name: str = "t", index: int = 0) -> int:
        """Append one batch, wake waiting fetches, and return its offset."""
        place = self.partition(name, index).append(
            BatchView(batch_of(*values)), self.clock.now_ms()
        )
        self.table.announce()
        return place.base_offset

    def call(
        self,
        api: Api,
        version: int,
        *,
        node_id: int = 0,
        client_id: str | None = None,
        may_pause: bool = False,
    ) -> Call:
        """Return the context of a request of that version, sent to that node."""
        node = node_of(
            node_id,
            clock=self.clock,
            entropy=self.entropy,
            config=self.config,
            metadata=self.metadata,
            image=self.image,
            partitions=self.table,
            endpoints=lambda _: [Endpoint(node, "h", 9092 + node) for node in range(3)],
            unread_answers=self.unsent,
        )
        context = ConnectionContext(
            node=node, listener="PLAINTEXT", client_host="/127.0.0.1", client_id=client_id
        )
        era = None if api.eras is None else api.eras.at(version)
        return Call(context, api_version=version, era=era, may_pause=may_pause)

    def ask(self, api: Api, request: object, version: int = 99, *, node_id: int = 0) -> Any:  # noqa: ANN401 - any response class
        """Return the answer of the handler; a KafkaError is raised."""
        return api.handler(self.call(api, version, node_id=node_id), request)
