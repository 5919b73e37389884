"""Coordinator records ↔ bytes: a type goes before each key, a version before each value."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.coordinator.contract import CoordinatorRecord
from kafkalite.protocol import codec

if TYPE_CHECKING:
    from collections.abc import Callable


class CoordinatorSerde:
    """The serde of a coordinator whose records are Kafka's generated key and value classes.

    `version_of` says which version a value is written in: not always the newest, for a log may
    be read again by an older broker.
    """

    __slots__ = ("_version_of",)

    def __init__(self, version_of: Callable[[object], int]) -> None:
        self._version_of = version_of

    def encode(
        self, record: CoordinatorRecord[object, object]
    ) -> tuple[bytes | None, bytes | None]:
        """Return the key and value bytes; the value of a tombstone is None."""
        value = record.value
        return (
            codec.encode_key(record.key),
            None if value is None else codec.encode_value(value, self._version_of(value)),
        )

    def decode(
        self, key: bytes | None, value: bytes | None
    ) -> CoordinatorRecord[object, object] | None:
        """Return the record, or None for a kind that this version does not know."""
        if key is None:
            return None
        decoded = codec.decode_key(key)
        if decoded is None:
            return None
        if value is None:
            return CoordinatorRecord(decoded, None)
        return CoordinatorRecord(decoded, codec.decode_value(decoded.RECORD_TYPE, value))
