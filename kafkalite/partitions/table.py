"""The partitions of a cluster: which there are, as the metadata has it, and where their logs are.

A topic is one incarnation: a topic deleted and created again under its name has another id, and
neither its readers nor its log can take it for its predecessor.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from kafkalite.metadata.image import ResourceType
from kafkalite.partitions.fetch_sessions import FetchSessions
from kafkalite.partitions.partition import Partition
from kafkalite.partitions.producer_ids import ProducerIds
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.uuids import uuid_to_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from kafkalite.config.log_config import LogConfig
    from kafkalite.metadata.image import (
        MetadataDelta,
        MetadataImage,
        PartitionImage,
        TopicImage,
    )
    from kafkalite.ports.clock import Clock
    from kafkalite.ports.entropy import Entropy
    from kafkalite.storage.directory import DataDirectory, PartitionName
    from kafkalite.storage.log import Log


class HostedTopic:
    """A topic and those of its partitions whose logs are open, in order of their index.

    The others, up to `partition_count`, are offline: the disk refused their logs, or one before.
    """

    __slots__ = ("config", "is_internal", "name", "partition_count", "partitions", "topic_id")

    def __init__(self, image: TopicImage, config: LogConfig) -> None:
        self.name = image.name
        self.topic_id = image.topic_id
        self.is_internal = image.is_internal
        self.config = config
        self.partition_count = len(image.partitions)
        self.partitions: list[Partition] = []

    def partition(self, index: int) -> Partition | None:
        """Return the partition of that index, or None where the topic has none such.

        KafkaError KAFKA_STORAGE_ERROR when it is offline.
        """
        if 0 <= index < len(self.partitions):
            return self.partitions[index]
        if 0 <= index < self.partition_count:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)
        return None


class PartitionTable:
    """Every partition of the cluster, and what its readers and writers are remembered by."""

    def __init__(
        self,
        *,
        directory: DataDirectory,
        beside: Mapping[PartitionName, Log],
        clock: Clock,
        entropy: Entropy,
        log_config: Callable[[Mapping[str, str]], LogConfig],
        fetch_session_slots: int = 1000,
    ) -> None:
        """Keep partitions in `directory`; `beside` them are the logs there that are of no topic."""
        self._directory = directory
        self._beside = beside
        self._clock = clock
        self._entropy = entropy
        self._log_config = log_config
        self._fetch_session_slots = fetch_session_slots
        self._by_name: dict[str, HostedTopic] = {}
        self._by_id: dict[bytes, HostedTopic] = {}
        self._sessions: dict[int, FetchSessions] = {}
        self._touched: list[Partition] = []
        self.producer_ids = ProducerIds()

    # --- looking up --------------------------------------------------------------------------

    @property
    def directory(self) -> str:
        """Where every partition's own directory is."""
        return self._directory.path

    def topic(self, name: str) -> HostedTopic | None:
        """Return the topic of that name, or None."""
        return self._by_name.get(name)

    def topic_by_id(self, topic_id: bytes) -> HostedTopic | None:
        """Return the topic of that id, or None."""
        return self._by_id.get(topic_id)

    def topics(self) -> Iterator[HostedTopic]:
        """Iterate over the topics, as they were created."""
        return iter(self._by_name.values())

    def get(self, topic_id: bytes, index: int) -> Partition | None:
        """Return a partition by its topic's id, or None; KafkaError when it is offline."""
        topic = self._by_id.get(topic_id)
        return None if topic is None else topic.partition(index)

    def logs(self) -> dict[PartitionName, Log]:
        """Return every log in the directory by topic name and index."""
        logs = dict(self._beside)
        for topic in self._by_name.values():
            for partition in topic.partitions:
                logs[topic.name, partition.index] = partition.log
        return logs

    def fetch_sessions(self, node_id: int) -> FetchSessions:
        """Return the fetch sessions of a node."""
        sessions = self._sessions.get(node_id)
        if sessions is None:
            sessions = self._sessions[node_id] = FetchSessions(
                slots=self._fetch_session_slots, clock=self._clock, entropy=self._entropy
            )
        return sessions

    # --- waiting -----------------------------------------------------------------------------

    def announce(self) -> None:
        """Tell those who wait what was appended since this was called last.

        Called once by whoever appended, after its last append: a reader of several partitions is
        answered for all of them at once.
        """
        if self._touched:
            touched = self._touched[:]
            self._touched.clear()
            for partition in touched:
                partition.announce()

    def end_waits(self) -> None:
        """Let every fetch that waits be answered now, with what there is."""
        for topic in self._by_name.values():
            for partition in topic.partitions:
                partition.disturb()

    # --- following the metadata --------------------------------------------------------------

    def open(self, image: MetadataImage) -> None:
        """Open every log of `image`, and set those aside that are of no partition of it.

        Called once, before anything is served; OSError when the disk fails.
        """
        for topic in image.topics.values():
            self._host(topic, image)
            self._open_missing(topic)
        self._directory.set_strays_aside(self.logs())

    def apply(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """Follow one change of the metadata.

        OSError when the disk fails. All but the logs it refused is done then; these are offline
        until their topic changes again, or until the next start.
        """
        for topic in delta.deleted:
            self._delete(topic.topic_id)
        for topic in delta.created:
            self._host(topic, image)
        for topic in delta.changed:
            self._follow(topic)
        if any(resource.type is ResourceType.BROKER for resource in delta.configs):
            for hosted in self._by_name.values():
                self._configure(hosted, image)
        else:
            for topic in delta.reconfigured:
                self._configure(self._by_id[topic.topic_id], image)
        failure = None
        for topic in (*delta.created, *delta.changed):
            try:
                self._open_missing(topic)
            except OSError as error:
                failure = error
        if failure is not None:
            raise failure

    def checkpoint(self) -> None:
        """Write down where each log starts, and up to where it is safe on disk.

        OSError when the disk fails; what was not written is then written by the next.
        """
        self._directory.checkpoint(self.logs())

    def _host(self, topic: TopicImage, image: MetadataImage) -> None:
        hosted = HostedTopic(topic, self._log_config(image.topic_config(topic.name)))
        self._by_name[topic.name] = hosted
        self._by_id[topic.topic_id] = hosted

    def _follow(self, topic: TopicImage) -> None:
        hosted = self._by_id[topic.topic_id]
        hosted.partition_count = len(topic.partitions)
        for image, partition in zip(topic.partitions, hosted.partitions, strict=False):
            partition.follow(image)

    def _open_missing(self, topic: TopicImage) -> None:
        """Open what is not open yet: new partitions, and those that the disk refused before."""
        hosted = self._by_id[topic.topic_id]
        for image in topic.partitions[len(hosted.partitions) :]:
            hosted.partitions.append(self._open_partition(hosted, image))

    def _configure(self, hosted: HostedTopic, image: MetadataImage) -> None:
        hosted.config = self._log_config(image.topic_config(hosted.name))
        for partition in hosted.partitions:
            partition.log.config = hosted.config

    def _delete(self, topic_id: bytes) -> None:
        hosted = self._by_id.pop(topic_id)
        del self._by_name[hosted.name]
        for partition in hosted.partitions:
            # What cannot be removed now is a stray when the broker starts again; the topic is gone
            # by the metadata, and a disk that fails does not bring it back.
            with suppress(OSError):
                partition.log.delete()
        # Only now: whoever waited reads again, and finds the topic gone.
        for partition in hosted.partitions:
            partition.disturb()

    def _open_partition(self, hosted: HostedTopic, image: PartitionImage) -> Partition:
        log = self._directory.open_log(
            hosted.name,
            image.index,
            hosted.config,
            now_ms=self._clock.now_ms(),
            topic_id=uuid_to_text(hosted.topic_id),
        )
        return Partition(
            hosted.name,
            hosted.topic_id,
            image,
            log,
            is_internal=hosted.is_internal,
            touched=self._touched,
        )
