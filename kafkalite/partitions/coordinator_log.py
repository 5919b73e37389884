"""PartitionCoordinatorLog: a partition as the log of a coordinator."""

from __future__ import annotations

import errno
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kafkalite.coordinator.contract import UnreadableLogError
from kafkalite.coordinator.transactional_records import OpenRecords, TransactionEnd
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.storage.batch import (
    TRANSACTIONAL,
    BatchProducer,
    BatchView,
    ControlKind,
    assemble,
    build_key_value_batch,
)
from kafkalite.storage.disk_health import DamagedFileError, FileUse
from kafkalite.storage.latest_by_key import MAX_KEYS
from kafkalite.storage.record_format import MalformedRecordsError, encode_key_values

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kafkalite.coordinator.transactional_records import KeyValue, LogSection
    from kafkalite.partitions.partition import Partition
    from kafkalite.partitions.table import PartitionTable
    from kafkalite.storage.latest_by_key import LatestByKey
    from kafkalite.storage.log import Log
    from kafkalite.storage.producer_state import HasProducer
    from kafkalite.storage.transaction_marker import TransactionMarker

_FIRST_SEQUENCE = 0
"""Sequence of every transactional batch; coordinator logs do not check sequences."""


class PartitionCoordinatorLog:
    """Implements the CoordinatorLog protocol on one partition."""

    __slots__ = ("_partition",)

    def __init__(self, partition: Partition) -> None:
        self._partition = partition

    @property
    def name(self) -> str:
        """Topic, dash and index of the partition."""
        return self._partition.name

    @property
    def max_batch_bytes(self) -> int:
        """The topic's max.message.bytes."""
        return self._partition.log.config.max_message_bytes

    def append(self, records: Sequence[KeyValue], now_ms: int) -> int:
        """Append one batch, all or nothing, and return the end offset; raises OSError on failure.

        Raises KafkaError NOT_ENOUGH_REPLICAS if fewer replicas are in sync than the topic's
        min.insync.replicas, or if a replica in sync does not follow: answers of coordinators do not
        wait for replicas, so an election could remove the records. Raises KafkaError
        MESSAGE_TOO_LARGE if the batch is larger than the topic's max.message.bytes, which limits
        the size of a group. The limit also applies to tombstones: as in Kafka, a deletion whose
        tombstones do not fit into one batch is refused.
        """
        partition = self._partition
        epoch = partition.leader_epoch
        return self._append(
            build_key_value_batch(records, now_ms, partition.end_offset, epoch), now_ms
        )

    def flush(self) -> None:
        """Sync everything that was appended; raises OSError when the disk fails."""
        self._partition.log.flush()

    def append_transactional(
        self, records: Sequence[KeyValue], producer: HasProducer, now_ms: int
    ) -> int:
        """Append one batch to a producer's transaction, as `append` does.

        Raises KafkaError INVALID_PRODUCER_EPOCH for a stale epoch.
        """
        self.is_in_transaction(producer)  # raises for a stale epoch
        batch = assemble(
            encode_key_values(records),
            base_offset=self._partition.end_offset,
            leader_epoch=self._partition.leader_epoch,
            attributes=TRANSACTIONAL,
            last_offset_delta=len(records) - 1,
            base_timestamp=now_ms,
            max_timestamp=now_ms,
            producer=BatchProducer(producer.producer_id, producer.producer_epoch, _FIRST_SEQUENCE),
            record_count=len(records),
        )
        return self._append(batch, now_ms)

    def append_marker(self, marker: TransactionMarker, now_ms: int) -> int:
        """End a producer's transaction, and return the end offset; see Partition.append_marker.

        Raises KafkaError NOT_ENOUGH_REPLICAS as `append` does, too.
        """
        if self._partition.has_lagging_isr:
            raise _not_enough_replicas(self._partition)
        return self._partition.append_marker(marker, now_ms)

    def is_in_transaction(self, producer: HasProducer) -> bool:
        """Whether a producer has an open transaction here, at this epoch.

        Raises KafkaError INVALID_PRODUCER_EPOCH for a stale epoch.
        """
        return self._partition.log.producers.is_in_transaction(producer)

    def _append(self, batch: bytes, now_ms: int) -> int:
        partition = self._partition
        config = partition.log.config
        # The first conditions are false nearly always, and cost no call of a property.
        if (partition.views and partition.has_lagging_isr) or (
            len(partition.isr) < config.min_insync_replicas and not partition.has_enough_replicas
        ):
            raise _not_enough_replicas(partition)
        if len(batch) > config.max_message_bytes:
            raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE)
        return partition.append_internal(BatchView(batch), now_ms, are_offsets_assigned=True)

    def read_all(self) -> Iterator[KeyValue]:
        """Yield all keys and values from the start of the log, except aborted ones.

        Records of a transaction are yielded when it commits, in the order in which they were
        written. Raises OSError when the disk fails, UnreadableLogError for a damaged batch or one
        without records.
        """
        log = self._partition.log
        return self._read(log.batches(log.start_offset, check_crc=True))

    def read_latest(self) -> Iterator[KeyValue]:
        """Yield the same as `read_all`, without most records that a later record overwrites.

        Between two transactional batches, only the last record of each key is yielded.
        """
        log = self._partition.log
        return self._read(log.read_latest_by_key(log.start_offset, log.end_offset))

    def read_sections(self) -> Iterator[LogSection]:
        """Yield the latest values up to the last stable offset, then all records, in sections.

        Markers and aborted records below the last stable offset are omitted. Raises the errors of
        `read_all`.
        """
        log, stable_offset = self._partition.log, self._partition.last_stable_offset
        with self._report_read_result():
            for latest in _committed_records(log, stable_offset):
                yield latest.items()
            for batch in log.batches(stable_offset, check_crc=True):
                section = _section_of(batch)
                if section is not None:
                    yield section

    def _read(self, runs: Iterable[LatestByKey | BatchView]) -> Iterator[KeyValue]:
        open_records: dict[int, list[KeyValue]] = {}
        with self._report_read_result():
            for run in runs:
                if isinstance(run, dict):
                    yield from run.items()
                elif run.is_control:
                    marker = run.control_marker()
                    if marker is not None:
                        records = open_records.pop(run.producer_id, [])
                        if marker.kind is ControlKind.COMMIT:
                            yield from records
                elif run.is_transactional:
                    open_records.setdefault(run.producer_id, []).extend(run.key_values())
                else:
                    yield from run.key_values()

    @contextmanager
    def _report_read_result(self) -> Iterator[None]:
        """Report success or failure of a read; raises UnreadableLogError if the log is damaged."""
        log = self._partition.log
        try:
            if log.damage_errors:
                raise log.damage_errors[0]
            yield
        except MalformedRecordsError as error:
            raise UnreadableLogError(f"a batch is damaged: {error}", self.name) from error
        except DamagedFileError as error:
            log.health.report_failure(log.directory, error, FileUse.READING)
            raise UnreadableLogError(error.reason, error.path) from error
        except OSError as error:
            log.health.report_failure(log.directory, error, FileUse.READING)
            raise
        log.health.report_success(log.directory, FileUse.READING)


def _committed_records(log: Log, stable_offset: int) -> Iterator[LatestByKey]:
    """Yield the committed records below `stable_offset`, where every transaction has ended.

    If two records have the same key, the later one counts, even if its transaction was committed
    first. So committed records and non-transactional ones are treated the same.
    """
    from kafkalite.storage.compaction import AbortedRanges  # noqa: PLC0415 - not needed by a start

    aborted = AbortedRanges(log.aborted_transactions(log.start_offset, stable_offset))
    latest: LatestByKey = {}
    for run in log.read_latest_by_key(log.start_offset, stable_offset):
        if isinstance(run, dict):
            if not latest:
                yield run
                continue
            pairs: Iterable[KeyValue] = run.items()
        elif run.is_control or aborted.contains(run):
            continue
        else:
            pairs = run.key_values()
        for key, value in pairs:
            latest.pop(key, None)
            latest[key] = value
        if len(latest) >= MAX_KEYS:
            yield latest
            latest = {}
    if latest:
        yield latest


def _section_of(batch: BatchView) -> LogSection | None:
    """Return the content of a batch; None for a control batch of an unknown type."""
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
    """Return a partition of an internal topic as a log; raises OSError when it is not open."""
    topic = table.topic(topic_name)
    try:
        partition = None if topic is None else topic.open_partition(index)
    except KafkaError:  # it is offline
        partition = None
    if partition is None:
        raise OSError(errno.EIO, "the log is not open", f"{topic_name}-{index}")
    return PartitionCoordinatorLog(partition)


def _not_enough_replicas(partition: Partition) -> KafkaError:
    """Return the error of a partition whose replicas could lose records, with the reason."""
    if partition.has_enough_replicas:
        reason = f"{partition.name} does not accept records while a replica in sync lags"
        return KafkaError(
            ErrorCode.NOT_ENOUGH_REPLICAS,
            facts={"rule": "lagging-replica", "partition": partition.name},
            explanation=reason,
        )
    in_sync, replicas = len(partition.isr), len(partition.replicas)
    minimum = partition.log.config.min_insync_replicas
    return KafkaError(
        ErrorCode.NOT_ENOUGH_REPLICAS,
        facts={
            "rule": "min.insync.replicas",
            "partition": partition.name,
            "in_sync": in_sync,
            "replicas": replicas,
            "min.insync.replicas": minimum,
        },
        explanation=(
            f"{partition.name} has {in_sync} of {replicas} replicas in sync, "
            f"min.insync.replicas is {minimum}"
        ),
    )
