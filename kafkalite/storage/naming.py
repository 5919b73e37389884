"""How a partition's directory is called, how one on its way out is, and how the files in it."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

from kafkalite.ports.files import join

if TYPE_CHECKING:
    from collections.abc import Collection

    from kafkalite.ports.files import Files

_LONGEST_NAME = 255
# Kafka puts a UUID between the dot and the dash; its brokers sweep up any such name.
_DELETED_SUFFIX = ".removed-delete"
_STRAY_SUFFIX = "-stray"  # Kafka's brokers leave any such name alone
_OFFSET_DIGITS = 20


def partition_directory(topic: str, index: int) -> str:
    """Return the name of a partition's directory."""
    return f"{topic}-{index}"


def parse_partition_directory(name: str) -> tuple[str, int] | None:
    """Return the topic and index that a directory is named for, or None if for no partition."""
    topic, dash, index = name.rpartition("-")
    if not topic or not dash or not index.isascii() or not index.isdecimal():
        return None
    return topic, int(index)


def parse_file_name(name: str) -> tuple[int, str] | None:
    """Return the offset that a file is named for and its suffix, or None for no file of a log."""
    digits, dot, rest = name.partition(".")
    if len(digits) != _OFFSET_DIGITS or not digits.isascii() or not digits.isdecimal():
        return None
    return int(digits), dot + rest


def deleted_directory(path: str) -> str:
    """Return the path that a partition's directory is moved to, to be removed."""
    parent, _, name = path.rpartition("/")
    return join(parent, name[: _LONGEST_NAME - len(_DELETED_SUFFIX)] + _DELETED_SUFFIX)


def stray_directory(name: str, taken: Collection[str]) -> str:
    """Return what to call a partition's directory that nobody knows; none of `taken`."""
    for number in count(1):
        suffix = f".{number}{_STRAY_SUFFIX}"
        stray = name[: _LONGEST_NAME - len(suffix)] + suffix
        if stray not in taken:
            return stray
    raise AssertionError(name)  # count never ends


def is_deleted_directory(name: str) -> bool:
    """Whether a directory of that name waits to be removed, by us or by Kafka."""
    return name.endswith("-delete") and "." in name


def remove_tree(files: Files, path: str) -> None:
    """Remove a directory that holds only files."""
    for name in files.list(path):
        files.remove(join(path, name))
    files.remove_directory(path)
