"""Snapshots of producer state: Kafka's .snapshot files, named by their offset.

With a snapshot, earlier batches need not be replayed. As in Kafka, it has only the last batch of
each producer, so after a restart only a duplicate of that batch is recognised.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from kafkalite.ports.files import join
from kafkalite.storage.checkpoint import replace_file
from kafkalite.storage.crc import crc32c
from kafkalite.storage.file_names import parse_file_name
from kafkalite.storage.producer_state import (
    NO_SEQUENCE,
    AppendedBatch,
    ProducerEntry,
    ProducerStateTable,
)

if TYPE_CHECKING:
    from kafkalite.ports.files import Files

SNAPSHOT_SUFFIX = ".snapshot"
_HEADER = struct.Struct(">hI")  # format version, CRC-32C of the rest
_VERSION = 1
_COUNT = struct.Struct(">i")
# Producer id, epoch, last sequence, last offset, offset delta, timestamp, coordinator epoch,
# first offset of the open transaction.
_ENTRY = struct.Struct(">qhiqiqiq")
_NO_TRANSACTION = -1


def snapshot_path(directory: str, offset: int) -> str:
    """Return the path of the snapshot of the state at `offset`."""
    return join(directory, f"{offset:020d}{SNAPSHOT_SUFFIX}")


def encode_snapshot(producers: ProducerStateTable) -> bytes:
    """Return the content of a snapshot file."""
    entries = producers.entries
    content = _COUNT.pack(len(entries)) + b"".join(map(_encode_entry, entries))
    return _HEADER.pack(_VERSION, crc32c(content, 0)) + content


def _encode_entry(entry: ProducerEntry) -> bytes:
    last_sequence, last_offset, offset_delta = NO_SEQUENCE, -1, 0
    if entry.batches:
        last = entry.batches[-1]
        last_sequence, last_offset = last.last_sequence, last.last_offset
        offset_delta = last.last_offset - last.first_offset
    first_offset = entry.transaction_first_offset
    return _ENTRY.pack(
        entry.producer_id,
        entry.producer_epoch,
        last_sequence,
        last_offset,
        offset_delta,
        entry.last_timestamp,
        entry.coordinator_epoch,
        _NO_TRANSACTION if first_offset is None else first_offset,
    )


def decode_snapshot(content: bytes) -> ProducerStateTable | None:
    """Return the state in a snapshot file, or None if it is damaged."""
    try:
        version, crc = _HEADER.unpack_from(content)
        (count,) = _COUNT.unpack_from(content, _HEADER.size)
    except struct.error:
        return None
    body = content[_HEADER.size :]
    if version != _VERSION or crc != crc32c(body, 0) or len(body) != 4 + count * _ENTRY.size:
        return None
    return ProducerStateTable(_decode_entry(*row) for row in _ENTRY.iter_unpack(body[4:]))


def _decode_entry(  # noqa: PLR0917 - the columns of a row
    producer_id: int,
    producer_epoch: int,
    last_sequence: int,
    last_offset: int,
    offset_delta: int,
    timestamp: int,
    coordinator_epoch: int,
    first_offset: int,
) -> ProducerEntry:
    entry = ProducerEntry(
        producer_id,
        producer_epoch=producer_epoch,
        coordinator_epoch=coordinator_epoch,
        last_timestamp=timestamp,
        transaction_first_offset=None if first_offset == _NO_TRANSACTION else first_offset,
    )
    if last_sequence != NO_SEQUENCE:
        first_sequence = (last_sequence - offset_delta) & 0x7FFF_FFFF
        entry.batches.append(
            AppendedBatch(
                first_sequence, last_sequence, last_offset - offset_delta, last_offset, timestamp
            )
        )
    return entry


def snapshot_offsets(files: Files, directory: str) -> list[int]:
    """Return the offsets of the directory's snapshots, smallest first."""
    return [
        parsed[0]
        for name in files.list(directory)
        if (parsed := parse_file_name(name)) is not None and parsed[1] == SNAPSHOT_SUFFIX
    ]


def take_snapshot(files: Files, directory: str, offset: int, producers: ProducerStateTable) -> None:
    """Write the snapshot of the state at `offset`, without a sync."""
    replace_file(files, snapshot_path(directory, offset), encode_snapshot(producers))


def load_snapshot(
    files: Files, directory: str, max_offset: int
) -> tuple[int | None, ProducerStateTable]:
    """Return the newest intact snapshot up to `max_offset` with its offset; remove newer ones.

    Without an intact snapshot, returns None and an empty table.
    """
    for offset in reversed(snapshot_offsets(files, directory)):
        path = snapshot_path(directory, offset)
        if offset <= max_offset:
            producers = decode_snapshot(files.read(path))
            if producers is not None:
                return offset, producers
        files.remove(path)
    return None, ProducerStateTable()


def remove_snapshots(files: Files, directory: str, *, keep: set[int]) -> None:
    """Remove the snapshots whose offset is not in `keep`."""
    for offset in snapshot_offsets(files, directory):
        if offset not in keep:
            files.remove(snapshot_path(directory, offset))
