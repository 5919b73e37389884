"""Sources of logs: the partitions of a running cluster, and the files of a data directory.

Nothing is written, and no lock is taken. The data directory may be one of Kafka.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from kafkalite.config.broker import BrokerConfig
from kafkalite.control.time_travel.points import TimeTravelError
from kafkalite.metadata.topic_names import METADATA_TOPIC
from kafkalite.ports.files import OsFiles, join
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.protocol.errors import KafkaError
from kafkalite.storage.batch import BOUNDS, HEADER_SIZE, LENGTH_END
from kafkalite.storage.checkpoint import CheckpointError, read_offsets
from kafkalite.storage.data_directory import CLEANER_OFFSETS_FILE
from kafkalite.storage.file_names import parse_file_name, partition_directory
from kafkalite.storage.segment import LOG_SUFFIX

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kafkalite.cluster.cluster import Cluster
    from kafkalite.ports.files import Files
    from kafkalite.storage.log import Log

_CHUNK_BYTES: Final = 4 << 20
_RUNNING_CHUNK_BYTES: Final = 128 << 10
"""The same for logs of a running cluster, whose clients wait while a chunk is read."""
_SNAPSHOT_SUFFIX: Final = ".checkpoint"


class PastLog(NamedTuple):
    """A log from its first record to its last one."""

    name: str
    """Topic, dash and partition."""
    first_dirty_offset: int
    """Compaction may have removed records before this offset."""
    parts: Sequence[LogPart]


class LogPart(Protocol):
    """A segment or another file with batches."""

    @property
    def first_offset(self) -> int:
        """Batches before this offset do not count."""

    def chunks(self) -> Iterator[bytes]:
        """Yield complete batches, several at a time; raises OSError."""


class LogSource(Protocol):
    """The logs of one cluster."""

    @property
    def config(self) -> BrokerConfig:
        """The configuration of the cluster."""

    @property
    def now_ms(self) -> int:
        """The time of the cluster."""

    def log(self, topic: str, partition: int) -> PastLog:
        """Return a log; raises TimeTravelError if it does not exist."""


class SegmentPart(NamedTuple):
    """A segment of an open log."""

    log: Log
    slot: int
    first_offset: int = 0

    def chunks(self) -> Iterator[bytes]:
        """Yield complete batches, several at a time; raises OSError."""
        if self.slot >= len(self.log.segments):
            return
        segment = self.log.segments[self.slot]
        position = 0
        while position < segment.size:
            data = segment.read(position, segment.size, _RUNNING_CHUNK_BYTES, at_least_one=True)
            if not data:
                return
            yield data
            position += len(data)


class FilePart(NamedTuple):
    """A file of batches; an incomplete last batch is ignored, as in Kafka's recovery."""

    files: Files
    path: str
    first_offset: int = 0

    def chunks(self) -> Iterator[bytes]:
        """Yield complete batches, several at a time; raises OSError."""
        file = self.files.open(self.path)
        position, size = 0, file.size
        while size - position >= HEADER_SIZE:
            data = file.pread(min(_CHUNK_BYTES, size - position), position)
            end = _complete_end(data)
            if not end:
                length = BOUNDS.unpack_from(data)[1] + LENGTH_END
                # The rest of a preallocated file is zero.
                if length < HEADER_SIZE or length > size - position:
                    return
                data = file.pread(length, position)
                end = len(data)
            yield data if end == len(data) else data[:end]
            position += end


def _complete_end(data: bytes) -> int:
    """Return the end of the last complete batch, 0 without one."""
    position, size = 0, len(data)
    unpack, header_size, length_end = BOUNDS.unpack_from, HEADER_SIZE, LENGTH_END
    while size - position >= header_size:
        length = unpack(data, position)[1] + length_end
        if length < header_size or length > size - position:
            break
        position += length
    return position


class RunningLogs:
    """The logs of a running cluster, as they are when they are read."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    @property
    def config(self) -> BrokerConfig:
        """The configuration of the cluster."""
        return self._cluster.config

    @property
    def now_ms(self) -> int:
        """The time of the cluster."""
        return self._cluster.clock.now_ms()

    def log(self, topic: str, partition: int) -> PastLog:
        """Return a log; raises TimeTravelError if it does not exist."""
        name = partition_directory(topic, partition)
        log = self._find(topic, partition)
        if log is None:
            raise TimeTravelError(f"there is no partition {name}")
        parts = [SegmentPart(log, index) for index in range(len(log.segments))]
        return PastLog(name, log.first_dirty_offset, parts)

    def _find(self, topic: str, partition: int) -> Log | None:
        if topic == METADATA_TOPIC:
            return self._cluster.partitions.logs()[METADATA_TOPIC, 0]
        hosted = self._cluster.partitions.topic(topic)
        try:
            found = None if hosted is None else hosted.partition(partition)
        except KafkaError:  # it is offline
            found = None
        return None if found is None else found.log


class DirectoryLogs:
    """The logs in a data directory that no broker has open; of kafkalite, or of a real Kafka."""

    def __init__(self, path: str, now_ms: int, files: Files | None = None) -> None:
        """Read the checkpoint of the directory at `path`; raises TimeTravelError without logs."""
        self.config = BrokerConfig.from_text()
        self.now_ms = now_ms
        self._path = path
        self._files = OsFiles(is_durable=False) if files is None else files
        if not self._names(partition_directory(METADATA_TOPIC, 0)):
            raise TimeTravelError(
                f"{path!r} is no data directory: it has no {METADATA_TOPIC}-0 with segments"
            )
        try:
            self._first_dirty = read_offsets(self._files, join(path, CLEANER_OFFSETS_FILE))
        except (CheckpointError, OSError):
            self._first_dirty = {}

    def log(self, topic: str, partition: int) -> PastLog:
        """Return a log; raises TimeTravelError if it has no files."""
        name = partition_directory(topic, partition)
        directory = join(self._path, name)
        names = self._names(name)
        if not names:
            raise TimeTravelError(f"{self._path!r} has no records of {name}")
        first_offset = int(names[0].partition(".")[0])
        segments = [join(directory, each) for each in names]
        snapshots = sorted(
            each
            for each in self._files.list(directory)
            if each.endswith(_SNAPSHOT_SUFFIX) and int(each[:20]) >= first_offset > 0
        )
        parts = [FilePart(self._files, each) for each in segments]
        if snapshots:
            begin = int(snapshots[0][:20])
            parts = [
                FilePart(self._files, join(directory, snapshots[0])),
                *(each._replace(first_offset=begin) for each in parts),
            ]
        first_dirty = self._first_dirty.get((topic, partition), 0)
        return PastLog(name, first_dirty, parts)

    def _names(self, directory: str) -> list[str]:
        """Return the names of the segments in a directory, the oldest first."""
        parsed = (
            (name, parse_file_name(name)) for name in self._files.list(join(self._path, directory))
        )
        return sorted(name for name, each in parsed if each is not None and each[1] == LOG_SUFFIX)
