"""OffsetLoader: applies records of committed offsets, mostly without decoding each key and value.

A log with many keys is loaded several times as fast. The records of one group and topic have keys
that differ in their last bytes only, the partition. Values without metadata have their numbers at
the same positions, and the bytes after them, such as the topic id, repeat. So what the repeated
bytes mean is decoded once.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final

from kafkalite.groups.group import OffsetAndMetadata
from kafkalite.protocol import codec
from kafkalite.protocol._generated.records.offset_commit import OffsetCommitKey

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalite.groups.group import GroupId
    from kafkalite.groups.pending_offsets import PendingOffsets
    from kafkalite.protocol._generated.records.offset_commit import OffsetCommitValue

    Partitions = dict[int, OffsetAndMetadata]

_PARTITION_BYTES: Final = 4
"""The last field of a key."""

_NUMBERS: Final = Struct(">hqiBq")
"""The start of a value of version 4 with an empty metadata text: version, offset, leader epoch, the
text's length plus 1, and the time of the commit."""

_NUMBERS_BYTES: Final = _NUMBERS.size
_VERSION, _EMPTY_TEXT = 4, 1

_KEY_WITHOUT_NAMES_BYTES: Final = 10
"""Bytes of the type, of the lengths of the group id and the topic, and of the partition."""

_MAX_REPEATED: Final = 65_536
"""The maximum number of prefixes of keys, and of ends of values, that are remembered."""

_unpack_partition = Struct(">i").unpack_from
_unpack_numbers = _NUMBERS.unpack_from
_new = tuple.__new__


class OffsetLoader:
    """Applies the records of committed offsets of one shard while its log is loaded."""

    __slots__ = ("_decode_offset", "_partitions_of", "_pending", "_targets", "_value_ends")

    def __init__(
        self,
        pending: PendingOffsets,
        partitions_of: Callable[[GroupId, str], Partitions],
        decode_offset: Callable[[OffsetCommitKey, OffsetCommitValue], OffsetAndMetadata],
    ) -> None:
        """Connect the loader to the offsets of a shard.

        `partitions_of(group_id, topic)` returns the offsets of a group, which it creates if it does
        not exist. `decode_offset` returns the offset in a record. Records that may supersede the
        `pending` offsets of transactions are not applied here.
        """
        self._pending = pending
        self._partitions_of = partitions_of
        self._decode_offset = decode_offset
        self._targets: dict[bytes, Partitions] = {}
        """Keys without their partition → the offsets by partition."""
        self._value_ends: dict[bytes, tuple[bytes, int]] = {}
        """The bytes after the numbers of a value → its topic id and incarnation epoch."""

    def forget(self) -> None:
        """Forget what repeated bytes mean, because a group or its offsets may be removed."""
        self._targets.clear()
        self._value_ends.clear()

    def replay_encoded(self, key: bytes | None, value: bytes | None) -> bool:
        """Apply a record; returns False if it is not the plain commit of an offset.

        Raises the errors of `codec.decode_record` for a key or value that cannot be decoded.
        """
        if key is None or value is None or self._pending.by_group:
            self.forget()
            return False
        partitions = self._targets.get(key[:-_PARTITION_BYTES])
        if partitions is None:
            return self._replay_first(key, value)
        (partition,) = _unpack_partition(key, len(key) - _PARTITION_BYTES)
        end = self._value_ends.get(value[_NUMBERS_BYTES:])
        if end is not None:
            version, offset, epoch, text_length, time_ms = _unpack_numbers(value)
            if version == _VERSION and text_length == _EMPTY_TEXT:
                topic_id, incarnation_epoch = end
                partitions[partition] = _new(
                    OffsetAndMetadata,
                    (offset, time_ms, epoch, "", None, topic_id, incarnation_epoch),
                )
                return True
        partitions[partition] = self._decode(key, value)
        return True

    def _replay_first(self, key: bytes, value: bytes) -> bool:
        """Apply the first record of a group and topic, and remember its key."""
        names = codec.decode_key(key)
        if not isinstance(names, OffsetCommitKey):
            return False
        names_bytes = len(names.group.encode()) + len(names.topic.encode())
        partitions = self._partitions_of(names.group, names.topic)
        if len(key) != names_bytes + _KEY_WITHOUT_NAMES_BYTES:
            # Bytes after the last field are ignored.
            partitions[names.partition] = self._decode(key, value)
            return True
        if len(self._targets) >= _MAX_REPEATED:
            self._targets.clear()
        self._targets[key[:-_PARTITION_BYTES]] = partitions
        return self.replay_encoded(key, value)

    def _decode(self, key: bytes, value: bytes) -> OffsetAndMetadata:
        """Return the offset in a record, and remember the end of a value without metadata."""
        names, decoded = codec.decode_record(key, value, "group")
        assert isinstance(names, OffsetCommitKey)
        offset = self._decode_offset(names, decoded)
        if len(value) > _NUMBERS_BYTES:
            version, *_, text_length, _ = _unpack_numbers(value)
            if version == _VERSION and text_length == _EMPTY_TEXT:
                if len(self._value_ends) >= _MAX_REPEATED:
                    self._value_ends.clear()
                self._value_ends[value[_NUMBERS_BYTES:]] = offset.topic_id, offset.incarnation_epoch
        return offset
