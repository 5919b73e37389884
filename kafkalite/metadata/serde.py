"""Metadata records ↔ bytes, in the versions that Kafka 4.3 writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.coordinator.contract import CoordinatorRecord
from kafkalite.protocol.codec import decode_metadata_record, encode_metadata_record
from kafkalite.protocol.records.partition import PartitionRecord
from kafkalite.protocol.records.partition_change import PartitionChangeRecord
from kafkalite.protocol.records.register_broker import RegisterBrokerRecord

if TYPE_CHECKING:
    from collections.abc import Mapping

_VERSIONS: Mapping[type, int] = {
    PartitionRecord: 2,
    PartitionChangeRecord: 2,
    RegisterBrokerRecord: 3,
}
"""Every kind that is not here has only version 0."""


class MetadataSerde:
    """The RecordSerde of the metadata log: no keys, and each value says its own kind."""

    __slots__ = ()

    def encode(
        self, record: CoordinatorRecord[object, object]
    ) -> tuple[bytes | None, bytes | None]:
        """Return a null key and the value's bytes."""
        value = record.value
        return None, encode_metadata_record(value, _VERSIONS.get(type(value), 0))

    def decode(
        self, key: bytes | None, value: bytes | None
    ) -> CoordinatorRecord[object, object] | None:
        """Return the record, or None for a kind that this version does not know."""
        if key is not None or value is None:
            return None
        record = decode_metadata_record(value)
        return None if record is None else CoordinatorRecord(None, record)
