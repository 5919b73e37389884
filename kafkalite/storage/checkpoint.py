"""Small files that change in one step: written aside, synced, renamed over.

The text forms are Kafka's, so its tools and brokers read them: offset checkpoints, the leader
epoch checkpoint, partition.metadata and meta.properties.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kafkalite.ports.files import Files

_FORM = "0"


class CheckpointError(OSError):
    """A checkpoint file that cannot be read as one."""


def write_atomically(files: Files, path: str, content: bytes) -> None:
    """Make the file at `path` hold `content`; after a crash it holds the old or the new."""
    aside = path + ".tmp"
    files.remove(aside)
    file = files.open(aside, create=True)
    try:
        file.append([content])
        file.sync()
    finally:
        file.close()
    files.rename(aside, path)
    files.sync_directory(path.rpartition("/")[0])


def write_rows(files: Files, path: str, rows: Iterable[Iterable[object]]) -> None:
    """Write a checkpoint: a version, a count, and rows of words."""
    lines = [" ".join(map(str, row)) for row in rows]
    text = "\n".join((_FORM, str(len(lines)), *lines, ""))
    write_atomically(files, path, text.encode())


def read_rows(files: Files, path: str) -> list[list[str]]:
    """Return the rows of a checkpoint, none when it is absent; CheckpointError when damaged."""
    try:
        content = files.read(path)
    except FileNotFoundError:
        return []
    try:
        form, count, *lines = content.decode().splitlines()
        rows = [line.split() for line in lines if line.strip()]
        if form.strip() != _FORM or int(count) != len(rows):
            raise CheckpointError(f"{path}: {len(rows)} rows, but its head says {form} {count}")
    except ValueError as error:
        raise CheckpointError(f"{path}: not a checkpoint") from error
    return rows


def write_offsets(files: Files, path: str, offsets: Mapping[tuple[str, int], int]) -> None:
    """Write an offset per topic and partition."""
    rows = ((topic, index, offset) for (topic, index), offset in sorted(offsets.items()))
    write_rows(files, path, rows)


def read_offsets(files: Files, path: str) -> dict[tuple[str, int], int]:
    """Return the offset per topic and partition; CheckpointError when the file is damaged."""
    try:
        return {(topic, int(index)): int(offset) for topic, index, offset in read_rows(files, path)}
    except ValueError as error:
        raise CheckpointError(f"{path}: not an offset checkpoint") from error


def write_properties(files: Files, path: str, properties: Mapping[str, str]) -> None:
    """Write `key=value` lines; keys and values need no escapes."""
    text = "".join(f"{key}={value}\n" for key, value in properties.items())
    write_atomically(files, path, text.encode())


def read_properties(files: Files, path: str) -> dict[str, str]:
    """Return the `key=value` lines of a file, none when it is absent.

    CheckpointError when the file is not text.
    """
    try:
        content = files.read(path)
    except FileNotFoundError:
        return {}
    pairs = (
        line.partition("=")
        for line in _text(path, content).splitlines()
        if line.strip() and not line.lstrip().startswith(("#", "!"))
    )
    return {key.strip(): value.strip() for key, _, value in pairs}


def _text(path: str, content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise CheckpointError(errno.EINVAL, "not a text file", path) from error


def write_partition_metadata(files: Files, path: str, topic_id: str) -> None:
    """Write partition.metadata, which ties a log's directory to its topic; the id as text."""
    write_atomically(files, path, f"version: 0\ntopic_id: {topic_id}".encode())


def read_partition_metadata(files: Files, path: str) -> str | None:
    """Return the topic id's text in partition.metadata, or None when there is none.

    CheckpointError when the file is not text.
    """
    try:
        content = files.read(path)
    except FileNotFoundError:
        return None
    for line in _text(path, content).splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "topic_id":
            return value.strip()
    return None
