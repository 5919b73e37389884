"""Decoded records of coordinators and of the controller as one line of text."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final

from kafkalite.ports.texts import truncate
from kafkalite.protocol.uuids import uuid_to_text

if TYPE_CHECKING:
    from kafkalite.coordinator.contract import CoordinatorRecord

_MAX_LENGTH: Final = 2_000
_UUID_BYTES: Final = 16


def text_of(content: CoordinatorRecord[object, object] | str) -> str:
    """Return a record with its type and its fields; that of a tombstone ends with "deleted"."""
    if isinstance(content, str):
        return content
    key, value = content
    if key is None:
        return truncate(
            f"{type(value).__name__.removesuffix('Record')} {_fields(value)}", _MAX_LENGTH
        )
    kind = type(key if not isinstance(key, str) else value).__name__.removesuffix("Key")
    name = f"{kind} {_fields(key)}" if not isinstance(key, str) else f"Transaction {key!r}"
    return truncate(f"{name}: {'deleted' if value is None else _fields(value)}", _MAX_LENGTH)


def _fields(value: object) -> str:
    return " ".join(f"{name}={_text(getattr(value, name))}" for name in _names(value))


def _names(value: object) -> tuple[str, ...]:
    names: tuple[str, ...] = getattr(value, "_fields", ()) or getattr(value, "__slots__", ())
    return tuple(each for each in names if each != "unknown_tags")


def _text(value: object) -> str:
    if isinstance(value, bytes):
        return uuid_to_text(value) if len(value) == _UUID_BYTES else f"{len(value)} bytes"
    if isinstance(value, Enum):
        return f"{value}"
    if isinstance(value, list | tuple | frozenset) and not _names(value):
        return f"[{', '.join(map(_text, value))}]"
    if _names(value):
        return f"({_fields(value)})"
    return f"{value!r}" if isinstance(value, str) else f"{value}"
