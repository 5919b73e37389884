"""Coordinator records ↔ bytes: a type goes before each key, a version before each value."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.coordinator.contract import CoordinatorRecord
from kafkalite.protocol import codec

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalite.protocol.codec import RecordLog


class CoordinatorSerde:
    """The serde of a coordinator whose records are Kafka's generated key and value classes.

    `version_of` says which version a value is written in: not always the newest, for a log may
    be read again by an older broker. `record_log` says whose record types these are.
    """

    __slots__ = ("_record_log", "_version_of")

    def __init__(
        self, version_of: Callable[[object], int], record_log: RecordLog = "group"
    ) -> None:
        self._version_of = version_of
        self._record_log: RecordLog = record_log

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
        decoded = codec.decode_key(key, self._record_log)
        if decoded is None:
            return None
        if value is None:
            return CoordinatorRecord(decoded, None)
        return CoordinatorRecord(
            decoded, codec.decode_value(decoded.RECORD_TYPE, value, self._record_log)
        )
