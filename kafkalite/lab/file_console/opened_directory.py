"""OpenedDirectory: the metadata, the coordinators and the logs of a data directory, only read.

What was read is read again when the files have grown, so the directory may be one that a broker
uses. An incomplete write at the end of a log is ignored.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final

from kafkalite.config.log_config import LogConfig
from kafkalite.control.time_travel.logs import DirectoryLogs
from kafkalite.control.time_travel.points import LATEST, TimeTravelError
from kafkalite.control.time_travel.replay import new_replay
from kafkalite.control.time_travel.scan import Scan
from kafkalite.control.time_travel.view import PastView, applied_records
from kafkalite.metadata.topic_names import METADATA_TOPIC
from kafkalite.partitions.partition import Partition
from kafkalite.ports.files import join
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.ports.read_only_files import ReadOnlyFiles
from kafkalite.storage.checkpoint import CheckpointError, read_offsets, read_properties
from kafkalite.storage.data_directory import (
    BOOT_FILE,
    CLEAN_SHUTDOWN_FILE,
    META_FILE,
    RECOVERY_POINTS_FILE,
    START_OFFSETS_FILE,
)
from kafkalite.storage.file_names import parse_file_name, partition_directory
from kafkalite.storage.log import Log
from kafkalite.storage.segment import LOG_SUFFIX, segment_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kafkalite.metadata.image import MetadataImage, PartitionImage, TopicImage
    from kafkalite.ports.clock import Clock

REPLICATION_FILE: Final = "replication-offset-checkpoint"
"""The file in which Kafka stores the high watermarks of replicas."""

_MAX_OPEN: Final = 256
"""The maximum number of logs that are open at the same time."""
_CLEANUP_POLICY: Final = "cleanup.policy"

Signature = tuple[tuple[str, int], ...]
"""The names and sizes of the files of a log; empty without a segment."""


class _Known(NamedTuple):
    """What was read of a log, and its files then."""

    signature: Signature
    value: Any


class OpenedDirectory:
    """A data directory; one thread uses it at a time."""

    def __init__(self, path: str, clock: Clock) -> None:
        """Read the names of the files; raises TimeTravelError without a metadata log."""
        self.path = path
        self.logs = DirectoryLogs(path, clock.now_ms(), ReadOnlyFiles())
        self._clock = clock
        self._image: _Known | None = None
        self._machines: dict[tuple[str, int], _Known] = {}
        self._partitions: OrderedDict[tuple[str, int], _Known] = OrderedDict()
        self._checkpoints: dict[str, tuple[int, Mapping[tuple[str, int], int]]] = {}

    def close(self) -> None:
        """Close the files of the logs."""
        for known in self._partitions.values():
            known.value.log.close_files()
        self._partitions.clear()

    @property
    def now_ms(self) -> int:
        """The time of this machine."""
        return self._clock.now_ms()

    @property
    def properties(self) -> Mapping[str, str]:
        """The ids of the cluster and the node; raises TimeTravelError."""
        try:
            return read_properties(ReadOnlyFiles(), join(self.path, META_FILE))
        except (CheckpointError, OSError) as error:
            raise TimeTravelError(f"{META_FILE} cannot be read: {error}") from error

    @property
    def was_shut_down_cleanly(self) -> bool:
        """Whether the broker has closed the directory."""
        return CLEAN_SHUTDOWN_FILE in ReadOnlyFiles().list(self.path)

    @property
    def image(self) -> MetadataImage:
        """The latest metadata; raises TimeTravelError."""
        signature = self._signature(METADATA_TOPIC, 0)
        if self._image is None or self._image.signature != signature:
            self._image = _Known(signature, PastView(self.logs, LATEST).image)
        image: MetadataImage = self._image.value
        return image

    def _signature(self, topic: str, index: int) -> Signature:
        files, directory = ReadOnlyFiles(), join(self.path, partition_directory(topic, index))
        found = []
        for name in files.list(directory):
            parsed = parse_file_name(name)
            if parsed is not None and parsed[1] == LOG_SUFFIX:
                try:
                    found.append((name, files.open(join(directory, name)).size))
                except FileNotFoundError:  # a broker has removed it
                    continue
        return tuple(found)

    # -- coordinators ----------------------------------------------------------------------

    def machines(self, topic: str) -> Iterator[tuple[PartitionImage, Any]]:
        """Yield each partition of an internal topic that has files, with its state machine.

        Raises TimeTravelError for a damaged log.
        """
        found = self.image.topics.get(topic)
        for each in () if found is None else found.partitions:
            machine = self.machine(topic, each.index)
            if machine is not None:
                yield each, machine

    def machine(self, topic: str, index: int) -> Any | None:  # noqa: ANN401 - of any coordinator
        """Return the state machine of a partition; None without files."""
        signature = self._signature(topic, index)
        if not signature:
            return None
        known = self._machines.get((topic, index))
        if known is None or known.signature != signature:
            replay = new_replay(self.logs, topic, index, None, self.image)
            scan = Scan(self.logs.log(topic, index), LATEST, None)
            for _ in applied_records(scan, replay):
                pass
            replay.machine.on_loaded(self.now_ms)
            known = self._machines[topic, index] = _Known(signature, replay.machine)
        return known.value

    # -- logs ------------------------------------------------------------------------------

    def partitions(self, topic: TopicImage) -> Iterator[Partition]:
        """Yield the partitions of a topic that have a replica here; raises OSError."""
        for each in topic.partitions:
            partition = self.partition(topic, each.index)
            if partition is not None:
                yield partition

    def partition(self, topic: TopicImage, index: int) -> Partition | None:
        """Return a partition; None if the directory has no replica of it. Raises OSError."""
        signature = self._signature(topic.name, index)
        if not signature and not self._has_all_partitions:
            return None
        key = topic.name, index
        known = self._partitions.get(key)
        if known is None or known.signature != signature:
            log = self._open(topic, index)
            image = next(each for each in topic.partitions if each.index == index)
            partition = Partition(
                topic.name, topic.topic_id, image, log, is_internal=topic.is_internal
            )
            known = self._partitions[key] = _Known(signature, partition)
            if len(self._partitions) > _MAX_OPEN:
                _, oldest = self._partitions.popitem(last=False)
                oldest.value.log.close_files()
        self._partitions.move_to_end(key)
        found: Partition = known.value
        return found

    @property
    def _has_all_partitions(self) -> bool:
        """Whether the directory is one of kafkalite, where only empty partitions have no files."""
        return BOOT_FILE in ReadOnlyFiles().list(self.path)

    def _open(self, topic: TopicImage, index: int) -> Log:
        policy = self.image.topic_config(topic.name).get(_CLEANUP_POLICY, "")
        is_compacted = topic.is_internal or "compact" in policy
        key = topic.name, index
        return Log.open(
            ReadOnlyFiles(),
            join(self.path, partition_directory(topic.name, index)),
            LogConfig(cleanup_policy=frozenset(("compact" if is_compacted else "delete",))),
            now_ms=self.now_ms,
            clean_shutdown=self.was_shut_down_cleanly,
            start_offset=self._checkpoint(START_OFFSETS_FILE).get(key, 0),
            recovery_point=self._checkpoint(RECOVERY_POINTS_FILE).get(key, 0),
        )

    def high_watermark(self, partition: Partition) -> int:
        """Return the high watermark that the broker stored when it was stopped.

        Without a clean stop, the stored one is old, and the end of the log is returned.
        """
        end_offset = partition.end_offset
        if not self.was_shut_down_cleanly:
            return end_offset
        key = partition.topic_name, partition.index
        return min(end_offset, self._checkpoint(REPLICATION_FILE).get(key, end_offset))

    def _checkpoint(self, name: str) -> Mapping[tuple[str, int], int]:
        """Return the offsets in a file; none if it is absent or damaged."""
        path, files = join(self.path, name), ReadOnlyFiles()
        try:
            modified_ms = files.modified_ms(path)
            known = self._checkpoints.get(name)
            if known is None or known[0] != modified_ms:
                known = self._checkpoints[name] = modified_ms, read_offsets(files, path)
        except (CheckpointError, OSError):
            return {}
        return known[1]

    def segment_with(self, topic: str, index: int, offset: int) -> str | None:
        """Return the path of the segment that has an offset; None without files."""
        names = self._signature(topic, index)
        before = [int(name[: -len(LOG_SUFFIX)]) for name, _ in names]
        found: Sequence[int] = [each for each in before if each <= offset] or before[:1]
        if not found:
            return None
        return join(
            self.path, partition_directory(topic, index), segment_name(found[-1], LOG_SUFFIX)
        )
