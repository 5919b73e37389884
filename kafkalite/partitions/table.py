"""PartitionTable: the partitions of a cluster, as in its metadata, with their logs.

A topic that is deleted and created again has another topic id. This separates readers and logs of
the old topic from those of the new one.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from kafkalite.metadata.image import NO_LEADER, ResourceType
from kafkalite.partitions.partition import Partition
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.uuids import uuid_to_text

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from kafkalite.config.log_config import LogConfig
    from kafkalite.metadata.image import (
        MetadataDelta,
        MetadataImage,
        PartitionImage,
        TopicImage,
    )
    from kafkalite.partitions.fetch_sessions import FetchSessions
    from kafkalite.ports.background import Steps
    from kafkalite.ports.clock import Clock
    from kafkalite.ports.entropy import Entropy
    from kafkalite.ports.files import DiskSpace
    from kafkalite.storage.append_times import AppendTimes
    from kafkalite.storage.data_directory import DataDirectory, TopicPartition
    from kafkalite.storage.disk_health import DiskHealth
    from kafkalite.storage.log import Log

_ConfigsByOverrides: TypeAlias = "dict[frozenset[tuple[str, str]], LogConfig]"

_MIN_LISTED = 16
"""From this number of new partitions on, the data directory is listed once for all of them."""


class Truncation(NamedTuple):
    """Records that a new leader does not have were removed from a log, or by a former leader."""

    topic: str
    partition: int
    leader: int
    leader_epoch: int
    end_offset: int
    """The offset of the first removed record: the end of the log or of the replica now."""
    removed_offsets: int


class ProducerIdBlocks:
    """The blocks of producer ids in use, one for each node, as in Kafka.

    A restart discards the remaining ids of a block, because producer ids must not repeat.
    """

    def __init__(self) -> None:
        self._blocks: dict[int, tuple[int, int]] = {}
        self.first_id = 0
        """The first id that no earlier state of the cluster has used: clients may still use it."""

    def begin_after(self, other: ProducerIdBlocks) -> None:
        """Return no id that another object has returned."""
        ends = (producer_id for producer_id, _ in other._blocks.values())
        self.first_id = max(other.first_id, *ends, 0)

    def next_id(self, node_id: int, allocate: Callable[[], tuple[int, int]]) -> int:
        """Return an id that was never returned before.

        `allocate` is called when the node's block is used up. It returns the first id of a new
        block and the size of the block, which it stores durably first.
        """
        producer_id, remaining = self._blocks.get(node_id, (0, 0))
        while remaining == 0:
            producer_id, remaining = allocate()
            used = min(remaining, max(0, self.first_id - producer_id))
            producer_id, remaining = producer_id + used, remaining - used
        self._blocks[node_id] = (producer_id + 1, remaining - 1)
        return producer_id


class HostedTopic:
    """A topic with its open partitions, ordered by index.

    The partitions from there up to `partition_count` are offline: their logs could not be opened.
    With `open_later`, the first use of `partitions` opens all of them, and `open_partition` opens
    one. Later uses read a plain attribute.
    """

    __slots__ = (
        "_known_count",
        "_open_later",
        "_opened_early",
        "config",
        "is_internal",
        "name",
        "overrides",
        "partition_count",
        "partitions",
        "topic_id",
    )

    partitions: list[Partition]

    def __init__(
        self,
        image: TopicImage,
        overrides: Mapping[str, str],
        config: LogConfig,
        open_later: Callable[[int], Partition] | None = None,
    ) -> None:
        self.name = image.name
        self.topic_id = image.topic_id
        self.is_internal = image.is_internal
        self.overrides = overrides
        """The topic's own settings."""
        self.config = config
        """The settings of its logs without those of the nodes that lead its partitions."""
        self.partition_count = len(image.partitions)
        self._open_later = open_later
        self._opened_early: dict[int, Partition] = {}
        self._known_count = len(image.partitions)
        """The number of partitions that can be opened later."""
        if open_later is None:
            self.partitions = []

    def __getattr__(self, name: str) -> list[Partition]:
        """Open the partitions at the first use of `partitions`, which is not set before."""
        if name != "partitions" or self._open_later is None:
            raise AttributeError(name)
        open_one, early = self._open_later, self._opened_early
        self.partitions = [
            early[index] if index in early else open_one(index)
            for index in range(self._known_count)
        ]
        self._open_later, self._opened_early = None, {}
        return self.partitions

    @property
    def opened_partitions(self) -> Collection[Partition]:
        """The partitions that were used since the topic was loaded."""
        return self.partitions if self._open_later is None else self._opened_early.values()

    def open_partition(self, index: int) -> Partition | None:
        """Return a partition as `partition` does, without opening others."""
        if self._open_later is None or not 0 <= index < self._known_count:
            return self.partition(index)
        partition = self._opened_early.get(index)
        if partition is None:
            partition = self._opened_early[index] = self._open_later(index)
        return partition

    def partition(self, index: int) -> Partition | None:
        """Return the partition with this index, or None if the topic has none.

        Raises KafkaError KAFKA_STORAGE_ERROR if it is offline.
        """
        if 0 <= index < len(self.partitions):
            return self.partitions[index]
        if 0 <= index < self.partition_count:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)
        return None


class PartitionTable:
    """Every partition of the cluster, with producer id blocks and fetch sessions."""

    def __init__(
        self,
        *,
        directory: DataDirectory,
        other_logs: Mapping[TopicPartition, Log],
        clock: Clock,
        entropy: Entropy,
        log_config: Callable[[Mapping[str, str], int | None], LogConfig],
        has_own_defaults: Callable[[int], bool],
        max_fetch_sessions: Callable[[int], int],
        on_truncation: Callable[[Truncation], None] | None = None,
    ) -> None:
        """Store partitions in `directory`; `other_logs` there belong to no topic.

        `log_config` returns the settings of logs from those of a topic, with the defaults of a
        node, or of the cluster for None. A log has the defaults of the node that leads its
        partition if `has_own_defaults` says that they may differ from those of the cluster.
        `max_fetch_sessions` returns the limit of a node.

        `on_truncation` is called for each partition whose log a new leader truncated.
        """
        self._directory = directory
        self._other_logs = other_logs
        self._clock = clock
        self._entropy = entropy
        self._log_config = log_config
        self._has_own_defaults = has_own_defaults
        self._max_fetch_sessions = max_fetch_sessions
        self._on_truncation = on_truncation
        self._by_name: dict[str, HostedTopic] = {}
        self._by_id: dict[bytes, HostedTopic] = {}
        self._sessions: dict[int, FetchSessions] = {}
        self.is_stopping = False
        """Whether the broker stops, so that requests do not wait any more."""
        self._appended_partitions: list[Partition] = []
        self._changed_partitions: list[Partition] = []
        """Partitions whose watchers `notify_changes` notifies."""
        self.producer_ids = ProducerIdBlocks()

    # --- lookup ------------------------------------------------------------------------------

    @property
    def directory(self) -> str:
        """Path of the directory with all partition directories."""
        return self._directory.path

    @property
    def disk_space(self) -> DiskSpace:
        """The size of the file system with the partitions."""
        return self._directory.disk_space

    @property
    def disk_health(self) -> DiskHealth:
        """The failures of the disk under the partitions."""
        return self._directory.health

    def topic(self, name: str) -> HostedTopic | None:
        """Return the topic with this name, or None."""
        return self._by_name.get(name)

    def topic_by_id(self, topic_id: bytes) -> HostedTopic | None:
        """Return the topic with this id, or None."""
        return self._by_id.get(topic_id)

    def topics(self) -> Iterator[HostedTopic]:
        """Iterate over the topics, in the order of their creation."""
        return iter(self._by_name.values())

    def get(self, topic_id: bytes, index: int) -> Partition | None:
        """Return a partition by topic id and index, or None; raises KafkaError if it is offline."""
        topic = self._by_id.get(topic_id)
        return None if topic is None else topic.partition(index)

    def logs(self) -> dict[TopicPartition, Log]:
        """Return every log in the directory, by topic name and index.

        Those that were not used yet are what the directory knows of them, and do not change.
        """
        logs = {**self._directory.known_logs, **self._other_logs}
        for topic in self._by_name.values():
            for partition in topic.opened_partitions:
                logs[topic.name, partition.index] = partition.log
        return logs

    @property
    def append_times(self) -> AppendTimes | None:
        """When the logs have grown; None if that is not noted."""
        return self._directory.append_times

    def close_files(self) -> None:
        """Close the files of all logs, without writing."""
        for topic in self._by_name.values():
            for partition in topic.opened_partitions:
                partition.log.close_files()
        for log in self._other_logs.values():
            log.close_files()

    def is_log_empty(self, topic: str, index: int) -> bool:
        """Return whether a log has no records and never had any; it need not be open."""
        log = self._directory.known_logs.get((topic, index))
        if log is None:
            hosted = self._by_name.get(topic)
            partition = None if hosted is None else hosted.partition(index)
            return partition is not None and partition.log.end_offset == 0
        return log.end_offset == 0

    def fetch_sessions(self, node_id: int) -> FetchSessions:
        """Return the fetch sessions of a node."""
        sessions = self._sessions.get(node_id)
        if sessions is None:
            from kafkalite.partitions.fetch_sessions import FetchSessions  # noqa: PLC0415 - not needed by a start

            sessions = self._sessions[node_id] = FetchSessions(
                max_sessions=self._max_fetch_sessions(node_id),
                clock=self._clock,
                entropy=self._entropy,
            )
        return sessions

    def drop_fetch_sessions(self, node_id: int) -> None:
        """Forget the fetch sessions of a node, because its process has ended."""
        self._sessions.pop(node_id, None)

    # --- waiting -----------------------------------------------------------------------------

    def announce(self) -> None:
        """Notify waiting fetches of everything appended since the last call.

        Must be called once after the last append of a request, so that a fetch of several
        partitions returns all of them at once.
        """
        if self._appended_partitions:
            appended_partitions = self._appended_partitions[:]
            self._appended_partitions.clear()
            for partition in appended_partitions:
                partition.announce()

    def end_waits(self) -> None:
        """End all waits now, because the broker stops.

        Waiting fetches return the available data. A Produce and a DeleteRecords that wait for
        replicas end with NOT_LEADER_OR_FOLLOWER.
        """
        self.is_stopping = True
        for topic in self._by_name.values():
            for partition in topic.opened_partitions:
                partition.notify_change()

    # --- metadata changes --------------------------------------------------------------------

    def open(self, image: MetadataImage) -> None:
        """Open every log of `image`, and rename directories of unknown partitions.

        Must be called once, before requests are served; raises OSError when the disk fails. A log
        that a crash left to be truncated is truncated now; if that fails, it accepts no records. If
        the directory knows its logs, each topic is opened when it is first used.
        """
        configs: _ConfigsByOverrides = {}
        if self._directory.known_logs:
            for topic in image.topics.values():
                self._add_topic(topic, image, configs, opens_later=True)
            return
        for topic in image.topics.values():
            self._add_topic(topic, image, configs)
        names = self._directory.names()
        for topic in image.topics.values():
            self._open_missing(topic, names)
        self._directory.move_stray_directories(self.logs())
        self._apply_leadership(
            topic for topic in image.topics.values() if self._must_truncate(topic)
        )

    def apply(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """Apply one change of the metadata; call `notify_changes` afterwards.

        Raises OSError when the disk fails; then everything else was applied. Partitions whose log
        could not be opened are offline until their topic changes again, or until the next start.
        """
        for topic in delta.deleted:
            self._delete(topic.topic_id)
        for topic in delta.created:
            self._add_topic(topic, image)
        failure = self._apply_leadership(delta.changed)
        if any(resource.type is ResourceType.BROKER for resource in delta.configs):
            for hosted in self._by_name.values():
                self._configure(hosted, image)
        else:
            for topic in delta.reconfigured:
                self._configure(self._by_id[topic.topic_id], image)
        failure = self._open_all_missing((*delta.created, *delta.changed)) or failure
        opened_late = [topic for topic in delta.changed if self._must_truncate(topic)]
        failure = self._apply_leadership(opened_late) or failure
        if failure is not None:
            raise failure

    def notify_changes(self) -> None:
        """End the waits for partitions whose leader or high watermark was changed by `apply`.

        Called when the partitions have the views of nodes that do not know the change: the fetches
        that wait at these nodes are answered from the views.
        """
        changed, self._changed_partitions = self._changed_partitions, []
        for partition in changed:
            partition.notify_change()

    def checkpoint(self) -> None:
        """Write the checkpoints: start offset and recovery point of each log.

        Raises OSError when the disk fails; the next call writes them again.
        """
        self._directory.checkpoint(self.logs())

    def checkpoint_steps(self) -> Steps:
        """Do the same as `checkpoint`, in steps; yields a job to run, or None for a pause."""
        return self._directory.checkpoint_steps(self.logs())

    def take_logs_to_flush(self) -> Sequence[Log]:
        """Return the logs that requested a flush since the last call."""
        logs = tuple(self._directory.logs_to_flush)
        self._directory.logs_to_flush.clear()
        return logs

    def remove_deleted(self) -> Steps:
        """Remove the files of deleted topics in steps; yields jobs to run."""
        return self._directory.remove_deleted()

    def _add_topic(
        self,
        topic: TopicImage,
        image: MetadataImage,
        configs: _ConfigsByOverrides | None = None,
        *,
        opens_later: bool = False,
    ) -> None:
        """Add a topic; `configs` are those of other topics at this moment by their overrides."""
        overrides = image.topic_config(topic.name)
        key, configs = frozenset(overrides.items()), {} if configs is None else configs
        config = configs.get(key)
        if config is None:
            config = configs[key] = self._log_config(overrides, None)
        open_later = partial(self._open_known, topic) if opens_later else None
        hosted = HostedTopic(topic, overrides, config, open_later)
        self._by_name[topic.name] = hosted
        self._by_id[topic.topic_id] = hosted

    def _apply_leadership(self, topics: Iterable[TopicImage]) -> OSError | None:
        """Apply leaders and replicas, and return a failure of the disk, if there was one.

        The recovery points of logs that new leaders truncate are lowered first, on disk too:
        otherwise recovery would consider records after the truncation as flushed. If that fails,
        the files are not truncated before the next start.
        """
        failure: OSError | None = None
        changed = []
        truncated = []
        for topic in topics:
            hosted = self._by_id[topic.topic_id]
            hosted.partition_count = len(topic.partitions)
            for image, partition in zip(topic.partitions, hosted.partitions, strict=False):
                changed.append((partition, image))
                offset = partition.truncation_offset(image)
                if offset is not None:
                    partition.log.prepare_truncation(offset)
                    truncated.append((partition, partition.log.end_offset))
        if truncated:
            try:
                self.checkpoint()
            except OSError as error:
                failure = error
                for partition, _ in truncated:
                    partition.log.fail(error)
        for partition, image in changed:
            try:
                self._apply_image(partition, image)
            except OSError as error:
                failure = failure or error
        for partition, end_offset in truncated:
            self._report_truncation(partition, end_offset)
        return failure

    def _apply_image(self, partition: Partition, image: PartitionImage) -> None:
        has_own = self._has_own_defaults
        if image.leader not in (partition.leader, NO_LEADER) and (
            partition.leader == NO_LEADER or has_own(partition.leader) or has_own(image.leader)
        ):
            hosted = self._by_id[partition.topic_id]
            partition.log.config = self._config_of(hosted, image.leader)
        before = partition.leader, partition.leader_epoch, partition.high_watermark
        try:
            partition.apply_image(image)
        finally:
            if (partition.leader, partition.leader_epoch, partition.high_watermark) != before:
                self._changed_partitions.append(partition)

    def _report_truncation(self, partition: Partition, former_end_offset: int) -> None:
        end_offset = partition.log.end_offset
        if self._on_truncation is not None and end_offset < former_end_offset:
            self._on_truncation(
                Truncation(
                    partition.topic_name,
                    partition.index,
                    partition.leader,
                    partition.leader_epoch,
                    end_offset,
                    former_end_offset - end_offset,
                )
            )

    def _must_truncate(self, topic: TopicImage) -> bool:
        """Return whether an open partition was not truncated as its image says."""
        return any(
            partition.truncation_offset(image) is not None
            for image, partition in zip(
                topic.partitions, self._by_id[topic.topic_id].partitions, strict=False
            )
        )

    def _open_all_missing(self, topics: Iterable[TopicImage]) -> OSError | None:
        """Open partitions of these topics, and return a failure of the disk, if there was one."""
        incomplete = [
            topic
            for topic in topics
            if len(topic.partitions) > len(self._by_id[topic.topic_id].partitions)
        ]
        count = sum(
            len(topic.partitions) - len(self._by_id[topic.topic_id].partitions)
            for topic in incomplete
        )
        failure: OSError | None = None
        names = None
        if count >= _MIN_LISTED:
            # The list is only a shortcut; if it fails, each directory is looked for.
            with suppress(OSError):
                names = self._directory.names()
        for topic in incomplete:
            try:
                self._open_missing(topic, names)
            except OSError as error:
                failure = error
        return failure

    def _open_missing(self, topic: TopicImage, names: Collection[str] | None) -> None:
        """Open partitions that are not open: new ones, and those whose log failed to open."""
        hosted = self._by_id[topic.topic_id]
        now_ms, topic_id = self._clock.now_ms(), uuid_to_text(hosted.topic_id)
        for image in topic.partitions[len(hosted.partitions) :]:
            log = self._directory.open_log(
                hosted.name,
                image.index,
                self._config_of(hosted, image.leader),
                now_ms=now_ms,
                topic_id=topic_id,
                is_internal=hosted.is_internal,
                names=names,
            )
            hosted.partitions.append(self._new_partition(hosted, image, log))

    def _open_known(self, topic: TopicImage, index: int) -> Partition:
        """Open a partition whose log the directory knows."""
        hosted, image = self._by_id[topic.topic_id], topic.partitions[index]
        log = self._directory.open_log(
            hosted.name,
            index,
            self._config_of(hosted, image.leader),
            now_ms=self._clock.now_ms(),
            topic_id=uuid_to_text(hosted.topic_id),
            is_internal=hosted.is_internal,
        )
        return self._new_partition(hosted, image, log)

    def _new_partition(self, hosted: HostedTopic, image: PartitionImage, log: Log) -> Partition:
        return Partition(
            hosted.name,
            hosted.topic_id,
            image,
            log,
            is_internal=hosted.is_internal,
            appended_partitions=self._appended_partitions,
        )

    def _configure(self, hosted: HostedTopic, image: MetadataImage) -> None:
        hosted.overrides = image.topic_config(hosted.name)
        hosted.config = self._log_config(hosted.overrides, None)
        for partition in hosted.opened_partitions:
            partition.log.config = self._config_of(hosted, partition.leader)
            partition.update_high_watermark()

    def _config_of(self, hosted: HostedTopic, leader: int) -> LogConfig:
        """Return the settings of a log whose partition has this leader, or none."""
        if leader == NO_LEADER or not self._has_own_defaults(leader):
            return hosted.config
        return self._log_config(hosted.overrides, leader)

    def _delete(self, topic_id: bytes) -> None:
        hosted = self._by_id.pop(topic_id)
        del self._by_name[hosted.name]
        for partition in hosted.partitions:
            # Files that cannot be removed now are removed at the next start. The topic is deleted
            # in the metadata, and a failing disk does not bring it back.
            with suppress(OSError):
                self._directory.delete_log(partition.log)
        # Last: woken fetches look up the topic, and must not find it.
        for partition in hosted.partitions:
            partition.notify_change()
