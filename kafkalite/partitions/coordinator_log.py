"""A partition as a coordinator's log: decisions appended batch by batch, and read back."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from kafkalite.coordinator.contract import UnreadableLogError
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.storage.batch import BatchView, ControlKind, build_batch
from kafkalite.storage.records import MalformedRecordsError, NewRecord

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kafkalite.partitions.partition import Partition
    from kafkalite.partitions.table import PartitionTable

KeyValue = tuple[bytes | None, bytes | None]


class PartitionCoordinatorLog:
    """The CoordinatorLog port on one partition."""

    __slots__ = ("_partition",)

    def __init__(self, partition: Partition) -> None:
        self._partition = partition

    @property
    def name(self) -> str:
        """The partition's: topic, dash, index."""
        return self._partition.name

    def append(self, records: Sequence[KeyValue], now_ms: int) -> int:
        """Append one batch, all or nothing, and return the end offset; OSError if it cannot.

        KafkaError MESSAGE_TOO_LARGE for more than the topic's max.message.bytes, which keeps what a
        group may remember within bounds; tombstones are always taken, for they make it less.
        """
        batch = build_batch([NewRecord(key, value, now_ms) for key, value in records])
        if len(batch) > self._partition.log.config.max_message_bytes and any(
            value is not None for _, value in records
        ):
            raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE)
        return self._partition.append_own(BatchView(batch), now_ms)

    def read_all(self) -> Iterator[KeyValue]:
        """Yield every live key and value from the start of the log, aborted ones left out.

        Records of a transaction count from its commit on, in the order they were written. OSError
        when the disk fails, UnreadableLogError for a batch that does not hold records.
        """
        try:
            yield from self._read_all()
        except MalformedRecordsError as error:
            raise UnreadableLogError(f"a batch is damaged: {error}", self.name) from error

    def _read_all(self) -> Iterator[KeyValue]:
        log = self._partition.log
        undecided: dict[int, list[KeyValue]] = {}
        for batch in log.batches(log.start_offset):
            if batch.is_control:
                marker = batch.control_marker()
                if marker is not None:
                    records = undecided.pop(batch.producer_id, [])
                    if marker.kind is ControlKind.COMMIT:
                        yield from records
            elif batch.is_transactional:
                undecided.setdefault(batch.producer_id, []).extend(batch.key_values())
            else:
                yield from batch.key_values()


def open_coordinator_log(
    table: PartitionTable, topic_name: str, index: int
) -> PartitionCoordinatorLog:
    """Return a partition of an internal topic as a log; OSError when it is not open."""
    topic = table.topic(topic_name)
    if topic is None or not 0 <= index < len(topic.partitions):
        raise OSError(errno.EIO, "the log is not open", f"{topic_name}-{index}")
    return PartitionCoordinatorLog(topic.partitions[index])
