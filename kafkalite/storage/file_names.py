"""Names of partition directories, of deleted and stray ones, and of the files in them."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

from kafkalite.ports.files import join

if TYPE_CHECKING:
    from collections.abc import Collection

    from kafkalite.ports.files import Files

_MAX_NAME_LENGTH = 255
# Kafka puts a UUID between a dot and this suffix; its brokers remove directories with it.
_DELETED_SUFFIX = "-delete"
_STRAY_SUFFIX = "-stray"  # Kafka's brokers ignore directories with this suffix
_OFFSET_DIGITS = 20


def partition_directory(topic: str, index: int) -> str:
    """Return the name of a partition's directory."""
    return f"{topic}-{index}"


def parse_partition_directory(name: str) -> tuple[str, int] | None:
    """Return the topic and index in a directory's name, or None if it is not a partition's."""
    topic, dash, index = name.rpartition("-")
    if not topic or not dash or not index.isascii() or not index.isdecimal():
        return None
    return topic, int(index)


def parse_file_name(name: str) -> tuple[int, str] | None:
    """Return the offset and the suffix in a file's name, or None if it is not a log's file."""
    digits, dot, suffix = name.partition(".")
    if len(digits) != _OFFSET_DIGITS or not digits.isascii() or not digits.isdecimal():
        return None
    return int(digits), dot + suffix


def deleted_directory(path: str, topic_id: str | None) -> str:
    """Return the new path of a partition's directory that will be removed."""
    parent, _, name = path.rpartition("/")
    # A second topic of that name may be deleted before this directory has been removed.
    suffix = f".{topic_id or 'removed'}{_DELETED_SUFFIX}"
    return join(parent, name[: _MAX_NAME_LENGTH - len(suffix)] + suffix)


def stray_directory(name: str, existing: Collection[str]) -> str:
    """Return a new name, not in `existing`, for a directory of an unknown partition."""
    for number in count(1):
        suffix = f".{number}{_STRAY_SUFFIX}"
        stray = name[: _MAX_NAME_LENGTH - len(suffix)] + suffix
        if stray not in existing:
            return stray
    raise AssertionError(name)  # count never ends


def is_deleted_directory(name: str) -> bool:
    """Whether a directory with this name is to be removed, by kafkalite or by Kafka."""
    return name.endswith(_DELETED_SUFFIX) and "." in name


def remove_directory_and_files(files: Files, path: str) -> None:
    """Remove a directory that holds only files."""
    for name in files.list(path):
        files.remove(join(path, name))
    files.remove_directory(path)
