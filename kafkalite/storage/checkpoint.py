"""Small files that are replaced atomically: written under another name, synced and renamed.

The formats are Kafka's, so its tools and brokers can read them: offset checkpoints, the leader
epoch checkpoint, partition.metadata and meta.properties.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from kafkalite.protocol.uuids import is_uuid_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kafkalite.ports.files import Files

_VERSION = "0"


class CheckpointError(OSError):
    """A checkpoint file that cannot be parsed."""


def write_atomically(files: Files, path: str, content: bytes) -> None:
    """Replace the file at `path` durably; after a crash it has the old or the new content."""
    temporary_path = path + ".tmp"
    files.write(temporary_path, content)
    files.sync(temporary_path)
    files.rename(temporary_path, path)
    files.sync_directory(path.rpartition("/")[0])


def replace_file(files: Files, path: str, content: bytes) -> None:
    """Replace the file at `path`, without a sync.

    If the process dies, the file has the old or the new content. After a loss of power it may
    have any part of the new content, unless it was synced.
    """
    temporary_path = path + ".tmp"
    files.write(temporary_path, content)
    files.rename(temporary_path, path)


def encode_rows(rows: Iterable[Iterable[object]]) -> bytes:
    """Return the content of a checkpoint: a version, a count, and rows of values."""
    lines = [" ".join(map(str, row)) for row in rows]
    return "\n".join((_VERSION, str(len(lines)), *lines, "")).encode()


def read_rows(files: Files, path: str) -> list[list[str]]:
    """Return the rows of a checkpoint; no rows if the file does not exist or is empty.

    Kafka creates empty files when it starts (`CheckpointFile`). Raises CheckpointError if the file
    is damaged.
    """
    try:
        content = files.read(path)
    except FileNotFoundError:
        return []
    if not content:
        return []
    try:
        version, count, *lines = content.decode().splitlines()
        rows = [line.split() for line in lines if line.strip()]
        if version.strip() != _VERSION or int(count) != len(rows):
            raise CheckpointError(
                f"{path}: {len(rows)} rows, but its header says {version} {count}"
            )
    except ValueError as error:
        raise CheckpointError(f"{path}: not a checkpoint") from error
    return rows


def write_offsets(files: Files, path: str, offsets: Mapping[tuple[str, int], int]) -> None:
    """Write an offset per topic and partition."""
    rows = ((topic, index, offset) for (topic, index), offset in sorted(offsets.items()))
    write_atomically(files, path, encode_rows(rows))


def read_offsets(files: Files, path: str) -> dict[tuple[str, int], int]:
    """Return the offset per topic and partition; raises CheckpointError if damaged."""
    try:
        return {(topic, int(index)): int(offset) for topic, index, offset in read_rows(files, path)}
    except ValueError as error:
        raise CheckpointError(f"{path}: not an offset checkpoint") from error


def write_properties(files: Files, path: str, properties: Mapping[str, str]) -> None:
    """Write `key=value` lines without escaping, which our keys and values do not need."""
    text = "".join(f"{key}={value}\n" for key, value in properties.items())
    write_atomically(files, path, text.encode())


def read_properties(files: Files, path: str) -> dict[str, str]:
    """Return the `key=value` lines of a file; none if the file does not exist.

    Raises CheckpointError if the file is not text.
    """
    try:
        content = files.read(path)
    except FileNotFoundError:
        return {}
    pairs = (
        line.partition("=")
        for line in _decode_text(path, content).splitlines()
        if line.strip() and not line.lstrip().startswith(("#", "!"))
    )
    return {key.strip(): value.strip() for key, _, value in pairs}


def _decode_text(path: str, content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise CheckpointError(errno.EINVAL, "not a text file", path) from error


def write_partition_metadata(files: Files, path: str, topic_id: str) -> None:
    """Write partition.metadata, which contains the topic id of a log's directory as text.

    The file is not synced.
    """
    replace_file(files, path, f"version: 0\ntopic_id: {topic_id}".encode())


def read_partition_metadata(files: Files, path: str) -> str | None:
    """Return the topic id in partition.metadata as text, or None if there is none.

    Returns None for an id that a loss of power truncated. Raises CheckpointError if the file is
    not text.
    """
    try:
        content = files.read(path)
    except FileNotFoundError:
        return None
    for line in _decode_text(path, content).splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "topic_id" and is_uuid_text(value.strip()):
            return value.strip()
    return None
