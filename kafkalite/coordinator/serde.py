"""CoordinatorSerde: coordinator records ↔ bytes; keys begin with a type, values with a version."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.coordinator.contract import CoordinatorRecord
from kafkalite.protocol import codec

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalite.protocol.codec import RecordLog


class CoordinatorSerde:
    """Serde of a coordinator whose records are Kafka's generated key and value classes.

    `version_of` returns the version to write a value in. That is not always the newest, because an
    older broker may read the log. `record_log` names the set of record types.
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
        """Return the record, or None if its type is unknown."""
        if key is None:
            return None
        decoded_key, decoded_value = codec.decode_record(key, value, self._record_log)
        return None if decoded_key is None else CoordinatorRecord(decoded_key, decoded_value)
