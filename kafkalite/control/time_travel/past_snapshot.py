"""Snapshots of a running broker at an earlier point, from which other clusters can begin.

All logs are truncated where they ended at the point, and everything else follows from them. What no
log has is not known for the past: there are no faults and no disturbed links, each replica has all
records, and the nodes run that the metadata considers alive.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalite.cluster.cluster import open_metadata_log
from kafkalite.cluster.state import StoppedNode
from kafkalite.control.command_table import running_cluster
from kafkalite.control.time_travel.logs import PastLog, SegmentPart
from kafkalite.control.time_travel.points import Point, TimeTravelError, point_of
from kafkalite.control.time_travel.scan import Scan
from kafkalite.metadata.controller import images_at
from kafkalite.metadata.topic_names import METADATA_TOPIC
from kafkalite.partitions.coordinator_log import PartitionCoordinatorLog
from kafkalite.ports.clock import SteppedClock
from kafkalite.ports.entropy import SystemEntropy
from kafkalite.ports.files import join
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.ports.times import iso_of
from kafkalite.storage.append_times import AppendTimes
from kafkalite.storage.data_directory import DataDirectory
from kafkalite.storage.file_names import (
    parse_partition_directory,
    partition_directory,
    remove_directory_and_files,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from kafkalite.cluster.state import ClusterState
    from kafkalite.config.broker import BrokerConfig
    from kafkalite.metadata.image import MetadataImage, TopicImage
    from kafkalite.ports.memory_files import InMemoryFiles
    from kafkalite.server.broker import Broker
    from kafkalite.server.snapshot import Snapshot
    from kafkalite.storage.data_directory import TopicPartition
    from kafkalite.storage.log import Log

_METADATA: Final[TopicPartition] = (METADATA_TOPIC, 0)


class _Cut(NamedTuple):
    """Where the logs end at a point."""

    point: Point
    time_ms: int
    interval: int | None
    """What was appended in this interval and later is absent; None: nothing was appended later.

    With 0, records that are older than all intervals count by their timestamps.
    """
    partition: TopicPartition | None = None
    """The log that has the offset of the point."""
    end_offset: int = 0


def snapshot_at(broker: Broker, when: int | str | datetime) -> Snapshot:
    """Return a snapshot as `Broker.snapshot` would have made it at a point; see `point_of`.

    An offset must have the name of its log. Raises TimeTravelError for a point that is invalid, in
    the future, or whose state is not known, and the exceptions of `Broker.snapshot`.
    """
    now_ms = broker.clock.now_ms()
    point = point_of(when, now_ms)
    present = broker.snapshot()
    state = present.cluster
    cut = _cut_of(point, state.logs, state.append_times or AppendTimes(), now_ms)
    if cut.time_ms == now_ms and cut.interval is None:
        return present
    state, initial_image = _PastState(cut, present).build(running_cluster(broker).config)
    clock = present.clock
    if clock is not None and clock.now_ms is not None:
        clock = clock._replace(now_ms=cut.time_ms)
    return present._replace(
        cluster=state, initial_image=initial_image, clock=clock, faults=None, links=None
    )


def _cut_of(
    point: Point, logs: Mapping[TopicPartition, Log], times: AppendTimes, now_ms: int
) -> _Cut:
    """Return where logs end at a point; raises TimeTravelError for an offset that no log has."""
    if point.time_ms is not None:
        return _Cut(point, point.time_ms, times.first_after(point.time_ms))
    partition = None if point.log is None else parse_partition_directory(point.log)
    if partition is None:
        raise TimeTravelError(
            f"{point} needs the name of its log, such as __consumer_offsets-0:{point.end_offset}"
        )
    log = logs.get(partition)
    if log is None:
        raise TimeTravelError(f"there is no partition {point.log}")
    assert point.end_offset is not None
    if not log.start_offset <= point.end_offset <= log.end_offset:
        raise TimeTravelError(
            f"{point} is outside of the log, which has the offsets {log.start_offset} to "
            f"{log.end_offset}"
        )
    if point.end_offset == log.end_offset:
        return _Cut(point, now_ms, None)
    batch = next(log.batches(point.end_offset))
    base_offset = max(batch.base_offset, log.start_offset)
    number = None if log.appends is None else log.appends.interval_of(base_offset)
    if number is None:
        return _Cut(point, batch.max_timestamp, 0, partition, base_offset)
    known = times.known_until(number)
    return _Cut(point, times.time_of(number), known, partition, base_offset)


class _PastState:
    """Truncates a copy of the logs of a snapshot."""

    def __init__(self, cut: _Cut, present: Snapshot) -> None:
        self._cut = cut
        self._present = present
        self._state: ClusterState = present.cluster
        self._files: InMemoryFiles = self._state.files.copy()
        self._directory = DataDirectory(self._files, self._state.path)

    def build(self, config: BrokerConfig) -> tuple[ClusterState, MetadataImage]:
        """Return the state at the point, and the metadata to which a reset leads."""
        metadata_log = self._log_at(_METADATA)
        end, initial = metadata_log.end_offset, self._present.initial_image.version
        images = self._images(metadata_log, config)
        image = images.get(end)
        # A data directory has states that are older than the start of the broker.
        if image is None or not image.brokers or (end < initial and self._cut.interval):
            times = self._state.append_times
            first_ms = None if times is None else times.first_ms
            begin = "" if first_ms is None else f": it began at {iso_of(first_ms)}"
            raise TimeTravelError(f"the cluster had not started at {self._cut.point}{begin}")
        logs = {_METADATA: metadata_log}
        for topic in image.topics.values():
            self._check_existing(topic)
            for partition in topic.partitions:
                logs[topic.name, partition.index] = self._log_at((topic.name, partition.index))
        for topic_partition in self._state.logs.keys() - logs.keys():
            path = join(self._state.path, partition_directory(*topic_partition))
            remove_directory_and_files(self._files, path)
        state = self._state_of(logs, image)
        return state, images.get(initial, image)

    def _state_of(self, logs: Mapping[TopicPartition, Log], image: MetadataImage) -> ClusterState:
        state, directory, cut = self._state, self._directory, self._cut
        directory.write_all(logs)
        directory.release_lock()
        files = self._files.copy()
        DataDirectory.mark_clean_shutdown(files, state.path)
        times = state.append_times or AppendTimes()
        if cut.interval is not None:
            times = times.before(cut.interval)
            times.begin(cut.time_ms)
        return state._replace(
            files=files,
            logs={
                partition: log if log is state.logs.get(partition) else log.copy_to(files)
                for partition, log in logs.items()
            },
            append_times=times,
            image=image,
            stopped_nodes=[
                StoppedNode(
                    each.node_id,
                    image,
                    has_stale_metadata=False,
                    was_shut_down=each.is_shutting_down,
                )
                for each in image.brokers.values()
                if not each.is_active
            ],
            lagging_replicas=(),
            history=state.history.until(cut.time_ms),
            uncommitted=(),
            impaired_nodes=(),
        )

    def _images(self, metadata_log: Log, config: BrokerConfig) -> Mapping[int, MetadataImage]:
        self._directory.known_logs[_METADATA] = metadata_log
        partition = open_metadata_log(self._directory, SteppedClock(0), 0)
        versions = {metadata_log.end_offset, self._present.initial_image.version}
        log = PartitionCoordinatorLog(partition)
        return images_at(log, config, SystemEntropy(), versions)

    def _check_existing(self, topic: TopicImage) -> None:
        """Raise TimeTravelError for a topic that was deleted later."""
        present = self._state.image.topics.get(topic.name)
        if present is None or present.topic_id != topic.topic_id:
            raise TimeTravelError(
                f"the state at {self._cut.point} is not known: the topic {topic.name} was deleted "
                "later, with its records"
            )

    def _log_at(self, partition: TopicPartition) -> Log:
        """Return a log that ends at the point; raises TimeTravelError if that is impossible."""
        known = self._state.logs[partition]
        end_offset = self._end_offset(partition, known)
        if end_offset < known.start_offset:
            raise TimeTravelError(
                f"the state at {self._cut.point} is not known: the records of "
                f"{partition_directory(*partition)} before offset {known.start_offset} were "
                "deleted later"
            )
        if end_offset < known.first_dirty_offset:
            self._check_uncompacted(partition, known, end_offset)
        if end_offset == known.end_offset:
            return known
        log = known.copy_to(self._files, self._directory.health)
        log.truncate_to(end_offset)
        return log

    def _end_offset(self, partition: TopicPartition, log: Log) -> int:
        cut = self._cut
        if partition == cut.partition:
            return cut.end_offset
        end = None
        if cut.interval is not None and log.appends is not None:
            end = log.appends.end_before(cut.interval)
        end = log.end_offset if end is None else end
        if cut.interval != 0 or end == log.start_offset:
            return end
        scan = Scan(_past_log(partition, log), Point(time_ms=cut.time_ms), ())
        scan.end_offset = log.start_offset
        for _ in scan:
            pass
        return min(end, scan.end_offset)

    def _check_uncompacted(self, partition: TopicPartition, log: Log, end_offset: int) -> None:
        """Raise TimeTravelError if compaction has removed records before an offset."""
        scan = Scan(_past_log(partition, log), Point(end_offset=end_offset), ())
        scan.end_offset = log.segments[0].base_offset if log.segments else 0
        for _ in scan:
            pass
        if scan.first_gap is not None:
            raise TimeTravelError(
                f"the state at {self._cut.point} is not known: compaction has removed records of "
                f"{scan.log.name} before offset {log.first_dirty_offset}; start the broker with "
                "--keep-history to keep those of coordinators"
            )


def _past_log(partition: TopicPartition, log: Log) -> PastLog:
    parts = [SegmentPart(log, index) for index in range(len(log.segments))]
    return PastLog(partition_directory(*partition), log.first_dirty_offset, parts)


def time_of(broker: Broker, point: Point) -> int:
    """Return the time of a point in milliseconds; raises TimeTravelError for an unknown offset."""
    if point.time_ms is not None:
        return point.time_ms
    cluster = running_cluster(broker)
    times = cluster.partitions.append_times or AppendTimes()
    return _cut_of(point, cluster.partitions.logs(), times, broker.clock.now_ms()).time_ms
