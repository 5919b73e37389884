"""Group commit: writes of several requests, appended to a shard's log as one batch.

While the window is open, a write is replayed at once and its records join the pending batch of its
shard, so that the next decision sees them. Answers are sent only after the flush. If the flush
fails, the shard is dropped and loaded again, and every request whose write joined the batch is
refused with the batch's error, as Kafka's CoordinatorRuntime fails a batch.

Pending writes are visible in memory. The code that opens the window must flush it before any other
code reads the shard: before other requests, before a pause and before answers are sent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalite.coordinator.contract import CoordinatorRecord, CoordinatorResult, RecordSerde
    from kafkalite.coordinator.transactional_records import KeyValue

_BATCH_OVERHEAD: Final = 61
"""Bytes of a batch without records."""

_RECORD_OVERHEAD: Final = 23
"""Bytes of a record without its key and value, at most."""

MAX_RECORD_EXCESS_BYTES: Final = 512 + _RECORD_OVERHEAD
"""Maximum difference in bytes between a record and the request that caused it."""

MAX_ESTIMATED_RECORDS: Final = 4
"""Maximum number of records whose size is estimated from the size of their request.

More records are encoded and measured: the estimate counts the whole request for each record.
"""


class PendingBatch:
    """The records that one shard has replayed and not appended."""

    __slots__ = ("effects", "error", "records", "remaining_bytes")

    def __init__(self, max_bytes: int) -> None:
        self.records: list[CoordinatorRecord[Any, Any] | KeyValue] = []
        """Records whose size was measured are already encoded."""
        self.remaining_bytes = max_bytes - _BATCH_OVERHEAD
        """Bytes that may still be added."""
        self.effects: list[tuple[CoordinatorResult[Any], int]] = []
        """Results with events, timers, replies or intents, each with its time in milliseconds."""
        self.error: Exception | None = None
        """The reason why the batch was not appended, or an exception that its requests report."""


class FlushableShard(Protocol):
    """A shard with a pending batch."""

    def flush(self) -> object:
        """Append the pending batch."""


class CommitWindow:
    """The shards of one coordinator that have a pending batch."""

    __slots__ = ("_pending_shards", "is_open", "joined_batch", "request_bytes")

    def __init__(self) -> None:
        self._pending_shards: list[FlushableShard] = []
        self.is_open = False
        """Whether writes join the pending batches instead of being appended at once."""
        self.request_bytes = 0
        """The size in bytes of the request that is being served."""
        self.joined_batch: PendingBatch | None = None
        """The batch on which the answer to the last write depends; its reader resets it."""

    def add(self, shard: FlushableShard) -> None:
        """Add a shard whose pending batch has just begun."""
        self._pending_shards.append(shard)

    def flush(self) -> None:
        """Close the window, and append every pending batch or give it an error."""
        self.is_open = False
        self.joined_batch = None
        while self._pending_shards:
            pending, self._pending_shards = self._pending_shards, []
            for shard in pending:
                shard.flush()


def encode_and_measure(
    records: Sequence[CoordinatorRecord[Any, Any]], serde: RecordSerde
) -> tuple[list[KeyValue], int]:
    """Return the encoded records, and an upper bound of their bytes in a batch."""
    entries = list(map(serde.encode, records))
    size = len(entries) * _RECORD_OVERHEAD
    for key, value in entries:
        size += (len(key) if key else 0) + (len(value) if value else 0)
    return entries, size


def encode_batch(batch: PendingBatch, serde: RecordSerde) -> list[KeyValue]:
    """Return the keys and values of a batch."""
    # A comprehension is twice as fast here as a loop with calls.
    return [
        each if each.__class__ is tuple else serde.encode(each)  # type: ignore[arg-type]
        for each in batch.records
    ]
