"""A partition as a coordinator's log: decisions appended batch by batch, and read back."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from kafkalite.coordinator.contract import UnreadableLogError
from kafkalite.coordinator.transactional import OpenRecords, TransactionEnd
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.storage.batch import (
    TRANSACTIONAL,
    BatchView,
    ControlKind,
    Producer,
    assemble,
    build_own_batch,
)
from kafkalite.storage.compaction import AbortedRanges
from kafkalite.storage.folding import MOST_KEYS
from kafkalite.storage.records import MalformedRecordsError, encode_key_values

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kafkalite.coordinator.transactional import Incarnation, KeyValue, Run
    from kafkalite.partitions.partition import Partition
    from kafkalite.partitions.table import PartitionTable
    from kafkalite.storage.folding import Folded
    from kafkalite.storage.log import Log
    from kafkalite.storage.marker import TransactionMarker

_FIRST_SEQUENCE = 0
"""Of every batch of a transaction: coordinators do not count what they write for a producer."""


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
        epoch = partition.leader_epoch
        return self._append(build_own_batch(records, now_ms, partition.end_offset, epoch), now_ms)

    def append_transactional(
        self, records: Sequence[KeyValue], producer: Incarnation, now_ms: int
    ) -> int:
        """Append one batch to a producer's transaction, as `append` does.

        KafkaError INVALID_PRODUCER_EPOCH for an epoch that has passed.
        """
        self.is_in_transaction(producer)
        batch = assemble(
            encode_key_values(records),
            base_offset=self._partition.end_offset,
            leader_epoch=self._partition.leader_epoch,
            attributes=TRANSACTIONAL,
            last_offset_delta=len(records) - 1,
            base_timestamp=now_ms,
            max_timestamp=now_ms,
            producer=Producer(producer.producer_id, producer.producer_epoch, _FIRST_SEQUENCE),
            record_count=len(records),
        )
        return self._append(batch, now_ms)

    def append_marker(self, marker: TransactionMarker, now_ms: int) -> int:
        """End a producer's transaction, and return the end offset; as Partition.append_marker."""
        return self._partition.append_marker(marker, now_ms)

    def is_in_transaction(self, producer: Incarnation) -> bool:
        """Whether a producer has a transaction open here, at this epoch.

        KafkaError INVALID_PRODUCER_EPOCH for an epoch that has passed.
        """
        return self._partition.log.producers.is_in_transaction(producer)

    def _append(self, batch: bytes, now_ms: int) -> int:
        partition = self._partition
        if len(batch) > partition.log.config.max_message_bytes:
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
        return self._read(log.folded(log.start_offset, log.end_offset))

    def read_runs(self) -> Iterator[Run]:
        """Yield the log by runs: folded as far as every transaction has ended, then as it is.

        What was decided is given without its markers, and without what was aborted. OSError and
        UnreadableLogError as from `read_all`.
        """
        log, stable_offset = self._partition.log, self._partition.last_stable_offset
        try:
            for folded in _decided(log, stable_offset):
                yield folded.items()
            for batch in log.batches(stable_offset):
                run = _run_of(batch)
                if run is not None:
                    yield run
        except MalformedRecordsError as error:
            raise self._damaged(error) from error

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
            raise self._damaged(error) from error

    def _damaged(self, error: MalformedRecordsError) -> UnreadableLogError:
        return UnreadableLogError(f"a batch is damaged: {error}", self.name)


def _decided(log: Log, stable_offset: int) -> Iterator[Folded]:
    """Yield what stands below an offset below which every transaction has ended.

    Of two records with one key the later one counts, whichever of their transactions was committed
    first: so committed records and plain ones are folded together.
    """
    aborted = AbortedRanges(log.aborted_transactions(log.start_offset, stable_offset))
    last: Folded = {}
    for run in log.folded(log.start_offset, stable_offset):
        if isinstance(run, dict):
            if not last:
                yield run
                continue
            pairs: Iterable[KeyValue] = run.items()
        elif run.is_control or aborted.contain(run):
            continue
        else:
            pairs = run.key_values()
        for key, value in pairs:
            last.pop(key, None)
            last[key] = value
        if len(last) >= MOST_KEYS:
            yield last
            last = {}
    if last:
        yield last


def _run_of(batch: BatchView) -> Run | None:
    """Return what a batch has to say; None for a control batch of a kind not known here."""
    if batch.is_control:
        marker = batch.control_marker()
        if marker is None:
            return None
        return TransactionEnd(batch.producer_id, marker.kind is ControlKind.COMMIT)
    records = list(batch.key_values())
    return OpenRecords(batch.producer_id, records) if batch.is_transactional else records


def open_coordinator_log(
    table: PartitionTable, topic_name: str, index: int
) -> PartitionCoordinatorLog:
    """Return a partition of an internal topic as a log; OSError when it is not open."""
    topic = table.topic(topic_name)
    if topic is None or not 0 <= index < len(topic.partitions):
        raise OSError(errno.EIO, "the log is not open", f"{topic_name}-{index}")
    return PartitionCoordinatorLog(topic.partitions[index])
