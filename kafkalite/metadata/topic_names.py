"""Validation of topic names, and collisions between them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_NAME_LENGTH = 249
METADATA_TOPIC = "__cluster_metadata"

_VALID_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


def invalid_name_reason(name: str) -> str | None:
    """Return Kafka's error message if `name` is not a valid topic name, else None."""
    if not name:
        return "Topic name is invalid: the empty string is not allowed"
    if name in (".", ".."):
        return f"Topic name is invalid: '{name}' is not allowed"
    if len(name) > MAX_NAME_LENGTH:
        return (
            f"Topic name is invalid: the length of '{name}' is longer than the max allowed "
            f"length {MAX_NAME_LENGTH}"
        )
    if not _VALID_CHARACTERS.issuperset(name):
        return (
            f"Topic name is invalid: '{name}' contains one or more characters other than ASCII "
            "alphanumerics, '.', '_' and '-'"
        )
    return None


def collision_key(name: str) -> str:
    """Return the name as metrics show it; there, dots and underscores are the same."""
    return name.replace(".", "_")


def colliding_topic(name: str, existing: Iterable[str]) -> str | None:
    """Return another existing topic whose metrics have the same name, or None."""
    if "." not in name and "_" not in name:
        return None
    key = collision_key(name)
    colliding = (other for other in existing if other != name and collision_key(other) == key)
    return min(colliding, default=None)


def same_directory_topic(name: str, existing: Iterable[str]) -> str | None:
    """Return another existing topic whose name differs only in case, or None.

    A file system that ignores case has one directory for both.
    """
    folded = name.lower()
    same = (other for other in existing if other != name and other.lower() == folded)
    return min(same, default=None)
