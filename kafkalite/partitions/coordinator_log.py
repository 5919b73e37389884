"""A partition as a coordinator's log: decisions appended batch by batch, and read back."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from kafkalite.coordinator.contract import UnreadableLogError
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.storage.batch import BatchView, ControlKind, build_own_batch
from kafkalite.storage.records import MalformedRecordsError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kafkalite.partitions.partition import Partition
    from kafkalite.partitions.table import PartitionTable
    from kafkalite.storage.folding import Folded

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
        group may remember within bounds. Tombstones have to keep to it as well: Kafka refuses to
        delete at once what does not fit one batch.
        """
        partition = self._partition
        log = partition.log
        batch = build_own_batch(records, now_ms, log.end_offset, partition.leader_epoch)
        if len(batch) > log.config.max_message_bytes:
            raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE)
        return partition.append_own(BatchView(batch), now_ms, is_placed=True)

    def read_all(self) -> Iterator[KeyValue]:
        """Yield every live key and value from the start of the log, aborted ones left out.

        Records of a transaction count from its commit on, in the order they were written. OSError
        when the disk fails, UnreadableLogError for a batch that does not hold records.
        """
        log = self._partition.log
        return self._read(log.batches(log.start_offset))

    def read_last(self) -> Iterator[KeyValue]:
        """As `read_all`, but leave out most of what is overwritten later on.

        Between two batches of transactions only the last value of a key is given, at its place.
        """
        log = self._partition.log
        return self._read(log.folded(log.start_offset))

    def _read(self, runs: Iterable[Folded | BatchView]) -> Iterator[KeyValue]:
        undecided: dict[int, list[KeyValue]] = {}
        try:
            for run in runs:
                if isinstance(run, dict):
                    yield from run.items()
                elif run.is_control:
                    marker = run.control_marker()
                    if marker is not None:
                        records = undecided.pop(run.producer_id, [])
                        if marker.kind is ControlKind.COMMIT:
                            yield from records
                elif run.is_transactional:
                    undecided.setdefault(run.producer_id, []).extend(run.key_values())
                else:
                    yield from run.key_values()
        except MalformedRecordsError as error:
            raise UnreadableLogError(f"a batch is damaged: {error}", self.name) from error


def open_coordinator_log(
    table: PartitionTable, topic_name: str, index: int
) -> PartitionCoordinatorLog:
    """Return a partition of an internal topic as a log; OSError when it is not open."""
    topic = table.topic(topic_name)
    if topic is None or not 0 <= index < len(topic.partitions):
        raise OSError(errno.EIO, "the log is not open", f"{topic_name}-{index}")
    return PartitionCoordinatorLog(topic.partitions[index])
