"""Which names a topic may have, and which two names are too alike to live together."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_NAME_LENGTH = 249
METADATA_TOPIC = "__cluster_metadata"

_LEGAL = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


def name_complaint(name: str) -> str | None:
    """Return why `name` cannot be a topic's, as Kafka says it; None for a good name."""
    if not name:
        return "Topic name is invalid: the empty string is not allowed"
    if name in (".", ".."):
        return f"Topic name is invalid: '{name}' is not allowed"
    if len(name) > MAX_NAME_LENGTH:
        return (
            f"Topic name is invalid: the length of '{name}' is longer than the max allowed "
            f"length {MAX_NAME_LENGTH}"
        )
    if not _LEGAL.issuperset(name):
        return (
            f"Topic name is invalid: '{name}' contains one or more characters other than ASCII "
            "alphanumerics, '.', '_' and '-'"
        )
    return None


def collision_key(name: str) -> str:
    """Return what metric names make of a topic's name: dots and underscores look the same."""
    return name.replace(".", "_")


def colliding_topic(name: str, existing: Iterable[str]) -> str | None:
    """Return an existing topic that `name` cannot be told from, other than itself."""
    if "." not in name and "_" not in name:
        return None
    key = collision_key(name)
    alike = (other for other in existing if other != name and collision_key(other) == key)
    return min(alike, default=None)
