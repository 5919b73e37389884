"""CommitReplay: follows committed offsets without decoding whole records or groups."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final

from kafkalite.control.time_travel.replay import Applied, GroupReplay, commit_needle
from kafkalite.groups.pending_offsets import OffsetKey, PendingOffsets
from kafkalite.protocol._generated.records.offset_commit import OffsetCommitValue

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from kafkalite.storage.batch import BatchView

_KEY_VERSIONS: Final = frozenset((b"\0\0", b"\0\1"))
"""The first bytes of the keys of committed offsets."""
_VERSION: Final = struct.Struct(">h")
_VALUE: Final = struct.Struct(">hq")
"""Version and offset, with which each version of the value begins."""
_VERSION_BYTES: Final = 2
_VALUE_VERSIONS: Final = frozenset(
    _VERSION.pack(each)
    for each in range(OffsetCommitValue.versions.lowest, OffsetCommitValue.versions.highest + 1)
)


class CommittedOffsets:
    """The committed offsets of some partitions, as the machine of a log."""

    def __init__(self) -> None:
        self.offsets: dict[OffsetKey, int] = {}
        # Its offsets are plain numbers here.
        self._pending: Any = PendingOffsets()

    def replay(self, key: OffsetKey, offset: int | None) -> None:
        """Apply a commit; None deletes the offset."""
        if offset is not None:
            self.offsets[key] = offset
            if self._pending.by_group:
                self._pending.supersede(key)
        else:
            self.offsets.pop(key, None)
            self._pending.drop(key)

    def replay_transactional(self, producer_id: int, key: OffsetKey, offset: int | None) -> None:
        """Apply a commit of an open transaction; None deletes the offset at once, as in Kafka."""
        if offset is None:
            self.replay(key, None)
        else:
            self._pending.add(producer_id, key, offset)

    def end_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        """Commit or drop the pending offsets of a transaction."""
        self.offsets.update(self._pending.end_transaction(producer_id, is_commit=is_commit))


class CommitReplay(GroupReplay):
    """Applies the commits of some partitions, of whose records only the offsets are decoded."""

    machine: CommittedOffsets

    def __init__(self, log: str, keys: Collection[OffsetKey]) -> None:
        self._keys = {commit_needle(*each): each for each in keys}
        super().__init__(log, tuple(self._keys), CommittedOffsets())

    def _apply_data(self, batch: BatchView, end_offset: int | None) -> Iterator[Applied]:
        del end_offset
        replay, keys = self._replay_of(batch), self._keys
        for record in self._records(batch):
            name = record.key or b""
            key = keys.get(name[_VERSION_BYTES:])
            if key is None or name[:_VERSION_BYTES] not in _KEY_VERSIONS:
                continue
            value = record.value
            offset = batch.base_offset + record.offset_delta
            if value is None:
                replay(key, None)
            elif len(value) < _VALUE.size or value[:_VERSION_BYTES] not in _VALUE_VERSIONS:
                raise self._undecodable(offset)
            else:
                replay(key, _VALUE.unpack_from(value)[1])
            yield Applied(offset, batch.base_timestamp + record.timestamp_delta, record)
