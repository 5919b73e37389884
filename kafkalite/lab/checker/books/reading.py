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
from kafkalite.storage.data_directory import META_FILE, START_OFFSETS_FILE
from kafkalite.storage.file_names import parse_file_name, parse_partition_directory
from kafkalite.storage.log import PARTITION_METADATA_FILE
from kafkalite.storage.recovery import end_offset_after_damage, valid_batches
from kafkalite.storage.segment import LOG_SUFFIX

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kafkalite.storage.batch import BatchView

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
    for key, directory in sorted(_longest(paths).items(), key=_order):
        log = _read_log(key, directory, books)
        if key.topic not in INTERNAL_TOPICS:
            books.logs[key] = log
            continue
        for view, proof in _views(directory):
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


def _read_log(key: LogKey, directory: Path, books: Books) -> PartitionLog:
    """Return the batches of a log; those of internal topics are read by `_views` again."""
    topic_id = read_partition_metadata(OsFiles(), str(directory / PARTITION_METADATA_FILE))
    if topic_id is not None:
        books.topic_names[uuid_from_text(topic_id)] = key.topic
    partition = Partition(key.topic, key.number, 0)
    segments = _segments(directory)
    starts = directory.parent / START_OFFSETS_FILE
    checkpoint = read_offsets(OsFiles(), str(starts)) if starts.is_file() else {}
    start = max(int(segments[0].name.partition(".")[0]), checkpoint.get(key, 0))
    log = PartitionLog(partition, start, end_offset=start)
    if key.topic in INTERNAL_TOPICS:
        return log
    for path in segments:
        with path.open("rb") as file:
            size, pread = os.fstat(file.fileno()).st_size, partial(_pread, file.fileno())
            base, position = int(path.name.partition(".")[0]), 0
            for position_of_batch, view in valid_batches(pread, size, base):
                proof = LogProof(str(path), position_of_batch, view.base_offset)
                log.batches.append(_logged(partition, view, proof))
                log.end_offset = view.last_offset + 1
                position = position_of_batch + view.size
            if position < size and log.damage is None and not _is_preallocated(pread, position):
                log.damage = LogProof(str(path), position, log.end_offset)
                later = end_offset_after_damage(pread, position, size, log.end_offset)
                log.is_damaged_within = later is not None or path != segments[-1]
    return log


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


def _views(directory: Path) -> Iterator[tuple[BatchView, LogProof]]:
    """Yield the valid batches of a log."""
    for path in _segments(directory):
        with path.open("rb") as file:
            size, pread = os.fstat(file.fileno()).st_size, partial(_pread, file.fileno())
            base = int(path.name.partition(".")[0])
            for position, view in valid_batches(pread, size, base):
                yield view, LogProof(str(path), position, view.base_offset)
