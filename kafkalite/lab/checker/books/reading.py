"""Reading of data directories, which are not changed; their broker should have stopped."""

from __future__ import annotations

import os
from errno import EINVAL
from functools import partial
from pathlib import Path
from stat import S_ISREG
from typing import TYPE_CHECKING, Any, Final

from kafkalite.lab.checker.books.coordinator_logs import CoordinatorLogs, logged_marker
from kafkalite.lab.checker.books.model import Books, LoggedBatch, LogKey, PartitionLog
from kafkalite.lab.checker.history import LogProof, Partition
from kafkalite.lab.checker.share_rows import header_of
from kafkalite.metadata.internal_topics import (
    OFFSETS_TOPIC,
    SHARE_STATE_TOPIC,
    TRANSACTION_STATE_TOPIC,
)
from kafkalite.metadata.topic_names import METADATA_TOPIC
from kafkalite.ports.files import OsFiles
from kafkalite.protocol.uuids import uuid_from_text
from kafkalite.storage.checkpoint import read_offsets, read_partition_metadata
from kafkalite.storage.data_directory import (
    CLEANER_OFFSETS_FILE,
    META_FILE,
    START_OFFSETS_FILE,
)
from kafkalite.storage.file_names import parse_file_name, parse_partition_directory
from kafkalite.storage.log import PARTITION_METADATA_FILE
from kafkalite.storage.recovery import end_offset_after_damage, valid_batches
from kafkalite.storage.segment import LOG_SUFFIX

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kafkalite.storage.batch import BatchView

_SNAPSHOT_SUFFIX: Final = "-[0-9]*.checkpoint"
"""End of a snapshot's name, after its offset: the leader epoch, and the suffix."""
INTERNAL_TOPICS: Final = frozenset(
    (OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC, SHARE_STATE_TOPIC, METADATA_TOPIC)
)


def is_data_directory(path: str | os.PathLike[str]) -> bool:
    """Return whether a path is a data directory of a broker."""
    return (Path(path) / META_FILE).is_file()


def is_partition_directory(path: str | os.PathLike[str]) -> bool:
    """Return whether a path is the directory of a partition in a data directory."""
    directory = Path(path).absolute()
    return parse_partition_directory(directory.name) is not None and is_data_directory(
        directory.parent
    )


def read_books(paths: Iterable[str | os.PathLike[str]]) -> Books:
    """Return the contents of data directories of one cluster.

    Of replicas of a partition, the longest one is read. Raises OSError if a file cannot be read.
    """
    books = Books()
    coordinators = CoordinatorLogs(books)
    directories = [*paths]
    for path in directories:
        cleaned = Path(path) / CLEANER_OFFSETS_FILE
        books.compacted_topics |= {topic for topic, _ in _offsets_in(cleaned)}
    for key, directory in sorted(_longest(directories).items(), key=_order):
        log = _opened_log(key, directory, books)
        if key.topic not in INTERNAL_TOPICS:
            books.logs[key] = log
            log.batches += (
                _logged(log.partition, view, proof) for view, proof in _batches(directory, log)
            )
            continue
        books.internal_logs[key] = log
        if key.topic == METADATA_TOPIC:
            for view, proof in _snapshot(directory):
                coordinators.add(key.topic, view, proof)
        for view, proof in _batches(directory, log):
            coordinators.add(key.topic, view, proof)
    coordinators.finish()
    return books


def _order(item: tuple[LogKey, Path]) -> tuple[bool, LogKey]:
    return item[0].topic != METADATA_TOPIC, item[0]


def _longest(paths: Iterable[str | os.PathLike[str]]) -> dict[LogKey, Path]:
    found: dict[LogKey, tuple[int, int, Path]] = {}
    for path in paths:
        for directory in sorted(Path(path).iterdir()):
            parsed = parse_partition_directory(directory.name) if directory.is_dir() else None
            segments = [] if parsed is None else _segments(directory)
            if parsed is None or not segments:
                continue
            size = segments[-1].stat().st_size
            candidate = int(segments[-1].name.partition(".")[0]), size, directory
            key = LogKey(*parsed)
            if key not in found or candidate > found[key]:
                found[key] = candidate
    return {key: directory for key, (_, _, directory) in found.items()}


def _segments(directory: Path) -> list[Path]:
    """Return the segments of a log in the order of their offsets.

    Raises OSError for one that is no regular file, because a pipe would be awaited.
    """
    found = sorted(
        path
        for path in directory.iterdir()
        if (parsed := parse_file_name(path.name)) is not None and parsed[1] == LOG_SUFFIX
    )
    for path in found:
        if not S_ISREG(path.stat().st_mode):
            raise OSError(EINVAL, "not a regular file", str(path))
    return found


def _opened_log(key: LogKey, directory: Path, books: Books) -> PartitionLog:
    """Return a log without its batches, and add its topic id to the books."""
    topic_id = read_partition_metadata(OsFiles(), str(directory / PARTITION_METADATA_FILE))
    if topic_id is not None:
        books.topic_names[uuid_from_text(topic_id)] = key.topic
    first = int(_segments(directory)[0].name.partition(".")[0])
    start = max(first, _offsets_in(directory.parent / START_OFFSETS_FILE).get(key, 0))
    return PartitionLog(Partition(key.topic, key.number, 0), start, end_offset=start)


def _offsets_in(path: Path) -> dict[tuple[str, int], int]:
    return read_offsets(OsFiles(), str(path)) if path.is_file() else {}


def _batches(directory: Path, log: PartitionLog) -> Iterator[tuple[BatchView, LogProof]]:
    """Yield the valid batches of a log; its end and its damage are known afterwards."""
    segments = _segments(directory)
    for path in segments:
        with path.open("rb") as file:
            size, pread = os.fstat(file.fileno()).st_size, partial(_pread, file.fileno())
            base, end = int(path.name.partition(".")[0]), 0
            for position, view in valid_batches(pread, size, base):
                yield view, LogProof(str(path), position, view.base_offset)
                log.end_offset = view.last_offset + 1
                end = position + view.size
            if end < size and log.damage is None and not _is_preallocated(pread, end):
                log.damage = LogProof(str(path), end, log.end_offset)
                later = end_offset_after_damage(pread, end, size, log.end_offset)
                log.is_damaged_within = later is not None or path != segments[-1]


def _snapshot(directory: Path) -> Iterator[tuple[BatchView, LogProof]]:
    """Yield the batches of the latest snapshot of the metadata, as the log's start is deleted."""
    for path in sorted(directory.glob(f"*{_SNAPSHOT_SUFFIX}"))[-1:]:
        with path.open("rb") as file:
            size, pread = os.fstat(file.fileno()).st_size, partial(_pread, file.fileno())
            for position, view in valid_batches(pread, size, 0):
                yield view, LogProof(str(path), position, view.base_offset)


def _is_preallocated(pread: Any, position: int) -> bool:  # noqa: ANN401 - a partial
    """Return whether zeros follow, with which Kafka fills a segment that it preallocates."""
    return not any(pread(_PROBE_BYTES, position))


_PROBE_BYTES: Final = 64


def _logged(partition: Partition, view: BatchView, proof: LogProof) -> LoggedBatch:
    return LoggedBatch(
        partition=partition,
        batch=header_of(view),
        base_offset=view.base_offset,
        last_offset=view.last_offset,
        is_control=view.is_control,
        is_commit=logged_marker(view) if view.is_control else None,
        proof=proof,
    )


def _pread(descriptor: int, size: int, position: int) -> bytes:
    return os.pread(descriptor, size, position)
