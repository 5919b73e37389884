"""PartitionCoordinatorLog: one batch per decision, read back in order."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from kafkalite.coordinator.contract import UnreadableLogError
from kafkalite.coordinator.transactional_records import OpenRecords, TransactionEnd
from kafkalite.partitions.coordinator_log import PartitionCoordinatorLog, open_coordinator_log
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.storage.batch import (
    TRANSACTIONAL,
    BatchProducer,
    BatchView,
    ControlKind,
    ControlMarker,
    build_batch,
    build_control_batch,
)
from kafkalite.storage.crc import crc32c
from kafkalite.storage.record_format import NewRecord
from kafkalite.storage.transaction_marker import TransactionMarker

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.unit.data_plane import DataPlane

TOPIC = "__consumer_offsets"


@pytest.fixture
def log(plane: DataPlane) -> PartitionCoordinatorLog:
    plane.create(TOPIC)
    return open_coordinator_log(plane.table, TOPIC, 0)


def test_appended_records_are_read_back_in_order(
    plane: DataPlane, log: PartitionCoordinatorLog
) -> None:
    assert log.append([(b"a", b"1"), (b"b", None)], plane.clock.now_ms()) == 2
    assert log.append([(None, b"2")], plane.clock.now_ms()) == 3
    expected = [(b"a", b"1"), (b"b", None), (None, b"2")]
    assert list(log.read_all()) == expected
    plane.restart()
    assert list(open_coordinator_log(plane.table, TOPIC, 0).read_all()) == expected


def test_a_decision_is_one_batch(plane: DataPlane, log: PartitionCoordinatorLog) -> None:
    log.append([(b"a", b"1"), (b"b", b"2")], plane.clock.now_ms())
    (batch,) = plane.partition(TOPIC).log.batches(0)
    assert (batch.record_count, batch.max_timestamp) == (2, plane.clock.now_ms())


def test_append_above_max_message_bytes_is_refused(
    plane: DataPlane, log: PartitionCoordinatorLog
) -> None:
    most = plane.partition(TOPIC).log.config.max_message_bytes
    with pytest.raises(KafkaError) as refused:
        log.append([(b"a", b"1"), (b"b", bytes(most))], plane.clock.now_ms())
    assert refused.value.code is ErrorCode.MESSAGE_TOO_LARGE
    with pytest.raises(KafkaError) as refused:
        log.append([(bytes(most), None)], plane.clock.now_ms())
    assert refused.value.code is ErrorCode.MESSAGE_TOO_LARGE
    assert list(log.read_all()) == []


def test_flush_makes_appended_records_durable(
    plane: DataPlane, log: PartitionCoordinatorLog
) -> None:
    log.append([(b"a", b"1"), (b"b", b"2")], plane.clock.now_ms())
    log.flush()
    assert plane.partition(TOPIC).log.recovery_point == 2


def test_log_name_is_the_partition_name(log: PartitionCoordinatorLog) -> None:
    assert log.name == f"{TOPIC}-0"


def test_a_log_that_is_not_open_cannot_be_loaded(plane: DataPlane) -> None:
    with pytest.raises(OSError, match="not open"):
        open_coordinator_log(plane.table, TOPIC, 0)


def transactional(plane: DataPlane, producer_id: int, key: bytes) -> None:
    batch = build_batch(
        [NewRecord(key, b"", 0)],
        attributes=TRANSACTIONAL,
        producer=BatchProducer(producer_id, 0, 0),
    )
    plane.partition(TOPIC).append_internal(BatchView(batch), plane.clock.now_ms())


def end(plane: DataPlane, producer_id: int, kind: ControlKind) -> None:
    batch = build_control_batch(
        ControlMarker(kind, 0), producer_id=producer_id, producer_epoch=0, now_ms=0
    )
    plane.partition(TOPIC).append_internal(BatchView(batch), plane.clock.now_ms())


def test_only_committed_transactions_are_read(
    plane: DataPlane, log: PartitionCoordinatorLog
) -> None:
    for producer_id, key in ((1, b"committed"), (2, b"aborted"), (3, b"open")):
        transactional(plane, producer_id, key)
    log.append([(b"plain", b"")], plane.clock.now_ms())
    end(plane, 2, ControlKind.ABORT)
    end(plane, 1, ControlKind.COMMIT)
    end(plane, 7, ControlKind.COMMIT)
    assert [key for key, _ in log.read_all()] == [b"plain", b"committed"]


def test_overwritten_records_between_transactions_are_left_out(
    plane: DataPlane, log: PartitionCoordinatorLog
) -> None:
    for value in (b"1", b"2"):
        log.append([(b"a", value), (b"b", value)], plane.clock.now_ms())
    log.append([(b"a", None)], plane.clock.now_ms())
    transactional(plane, 1, b"a")
    log.append([(b"b", b"3")], plane.clock.now_ms())
    end(plane, 1, ControlKind.COMMIT)
    log.append([(b"b", b"4"), (b"b", b"5")], plane.clock.now_ms())
    assert list(log.read_latest()) == [
        (b"b", b"2"), (b"a", None), (b"b", b"3"), (b"a", b""), (b"b", b"5"),
    ]  # fmt: skip


class Writer(NamedTuple):
    """A producer that commits offsets in its transaction."""

    producer_id: int
    producer_epoch: int = 0

    def ends(self, *, is_commit: bool = True, version: int = 0) -> TransactionMarker:
        epoch = self.producer_epoch + (version == 2)
        return TransactionMarker(
            self.producer_id, epoch, 3, is_commit=is_commit, transaction_version=version
        )


def test_records_of_a_transaction_are_a_batch_of_their_producer(
    plane: DataPlane, log: PartitionCoordinatorLog
) -> None:
    assert log.append_transactional([(b"a", b"1"), (b"b", None)], Writer(5, 2), 1_000) == 2
    (batch,) = plane.partition(TOPIC).log.batches(0)
    assert (batch.is_transactional, batch.is_control) == (True, False)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (5, 2, 0)
    assert plane.partition(TOPIC).last_stable_offset == 0
    # In any number: coordinators do not check sequences.
    log.append_transactional([(b"a", b"2")], Writer(5, 2), 1_000)
    assert log.append_marker(Writer(5, 2).ends(), 1_000) == 4
    assert plane.partition(TOPIC).last_stable_offset == 4
    assert list(log.read_all()) == [(b"a", b"1"), (b"b", None), (b"a", b"2")]


def test_a_transaction_is_open_for_its_epoch_from_its_first_record_to_its_marker(
    plane: DataPlane, log: PartitionCoordinatorLog
) -> None:
    assert not log.is_in_transaction(Writer(5, 2))
    log.append_transactional([(b"a", b"1")], Writer(5, 2), 1_000)
    assert log.is_in_transaction(Writer(5, 2))
    assert not log.is_in_transaction(Writer(5, 3))
    plane.restart()
    log = open_coordinator_log(plane.table, TOPIC, 0)
    assert log.is_in_transaction(Writer(5, 2))
    log.append_marker(Writer(5, 2).ends(), 1_000)
    assert not log.is_in_transaction(Writer(5, 2))


@pytest.mark.parametrize("version", [0, 2])
def test_stale_producer_epoch_is_refused(
    plane: DataPlane, log: PartitionCoordinatorLog, version: int
) -> None:
    log.append_transactional([(b"a", b"1")], Writer(5, 2), 1_000)
    zombie = Writer(5, 1)
    attempts: list[Callable[[], object]] = [
        lambda: log.append_transactional([(b"a", b"2")], zombie, 1_000),
        lambda: log.append_marker(Writer(5, 0).ends(version=version), 1_000),
        lambda: log.is_in_transaction(zombie),
    ]
    for attempt in attempts:
        with pytest.raises(KafkaError) as refused:
            attempt()
        assert refused.value.code is ErrorCode.INVALID_PRODUCER_EPOCH
    assert plane.partition(TOPIC).end_offset == 1


def test_marker_with_the_same_epoch_ends_only_transactions_of_version_1(
    plane: DataPlane, log: PartitionCoordinatorLog
) -> None:
    log.append_transactional([(b"a", b"1")], Writer(5, 2), 1_000)
    with pytest.raises(KafkaError) as refused:
        log.append_marker(TransactionMarker(5, 2, 3, is_commit=True, transaction_version=2), 1_000)
    assert refused.value.code is ErrorCode.INVALID_PRODUCER_EPOCH
    assert plane.partition(TOPIC).end_offset == 1
    log.append_marker(Writer(5, 2).ends(version=2), 1_000)
    log.append_transactional([(b"a", b"1")], Writer(6, 2), 1_000)
    log.append_marker(Writer(6, 2).ends(), 1_000)
    with pytest.raises(KafkaError) as refused:
        log.append_marker(TransactionMarker(6, 2, 2, is_commit=True), 1_000)
    assert refused.value.code is ErrorCode.TRANSACTION_COORDINATOR_FENCED


def test_transactional_append_above_max_message_bytes_is_refused(
    plane: DataPlane, log: PartitionCoordinatorLog
) -> None:
    most = plane.partition(TOPIC).log.config.max_message_bytes
    with pytest.raises(KafkaError) as refused:
        log.append_transactional([(b"a", bytes(most))], Writer(5), 1_000)
    assert refused.value.code is ErrorCode.MESSAGE_TOO_LARGE
    assert not log.is_in_transaction(Writer(5))


def runs_of(log: PartitionCoordinatorLog) -> list[object]:
    """Return the runs of the log with their records."""
    runs: list[object] = []
    for run in log.read_sections():
        if isinstance(run, OpenRecords):
            runs.append((run.producer_id, list(run.records)))
        else:
            runs.append(run if isinstance(run, TransactionEnd) else list(run))
    return runs


def test_ended_transactions_are_merged_with_other_records(log: PartitionCoordinatorLog) -> None:
    first, second, third = Writer(1), Writer(2), Writer(3)
    log.append([(b"a", b"1"), (b"b", b"1")], 0)
    log.append_transactional([(b"a", b"2"), (b"c", b"2")], first, 0)
    log.append_transactional([(b"a", b"3")], second, 0)
    log.append([(b"b", b"4"), (b"d", b"4")], 0)
    log.append_transactional([(b"d", b"5")], third, 0)
    # The last written record counts, although its transaction was committed first.
    log.append_marker(second.ends(), 0)
    log.append_marker(third.ends(is_commit=False), 0)
    log.append_marker(first.ends(), 0)
    (before, after) = runs_of(log)
    assert before == [(b"a", b"1"), (b"b", b"1")]
    assert after == [(b"c", b"2"), (b"a", b"3"), (b"b", b"4"), (b"d", b"4")]


def test_log_is_unchanged_from_the_first_open_transaction_on(
    plane: DataPlane, log: PartitionCoordinatorLog
) -> None:
    opened, committed, aborted = Writer(1), Writer(2), Writer(3)
    log.append_transactional([(b"z", b"0")], aborted, 0)
    log.append_marker(aborted.ends(is_commit=False), 0)
    log.append_transactional([(b"a", b"1")], committed, 0)
    log.append_transactional([(b"a", b"2"), (b"b", b"2")], aborted, 0)
    log.append_transactional([(b"a", b"3")], opened, 0)
    log.append([(b"a", None)], 0)
    log.append([(b"a", b"4")], 0)
    log.append_transactional([(b"c", b"5")], committed, 0)
    log.append_marker(aborted.ends(is_commit=False), 0)
    log.append_marker(committed.ends(), 0)
    log.append_transactional([(b"z", b"6")], aborted, 0)
    expected = [
        [(b"a", b"1")],
        (1, [(b"a", b"3")]),
        [(b"a", None)],
        [(b"a", b"4")],
        (2, [(b"c", b"5")]),
        TransactionEnd(3, is_commit=False),
        TransactionEnd(2, is_commit=True),
        (3, [(b"z", b"6")]),
    ]
    assert runs_of(log) == expected
    plane.restart()
    assert runs_of(open_coordinator_log(plane.table, TOPIC, 0)) == expected


def test_many_committed_records_are_returned_in_parts(
    log: PartitionCoordinatorLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kafkalite.partitions.coordinator_log.MAX_KEYS", 3)
    for number in range(7):
        log.append_transactional([(b"%d" % number, b"")], Writer(1), 0)
    log.append_marker(Writer(1).ends(), 0)
    assert [len(run) for run in runs_of(log)] == [3, 3, 1]  # type: ignore[arg-type]


def test_batch_without_valid_records_makes_the_log_unreadable(
    plane: DataPlane, log: PartitionCoordinatorLog
) -> None:
    garbage = bytearray(build_batch([NewRecord(b"k", b"v", 1)]))
    garbage[61:] = b"\xff" * (len(garbage) - 61)
    garbage[17:21] = crc32c(garbage[21:], 0).to_bytes(4, "big")
    plane.partition(TOPIC).append_internal(BatchView(garbage), plane.clock.now_ms())
    with pytest.raises(UnreadableLogError, match="damaged") as refused:
        list(log.read_all())
    with pytest.raises(UnreadableLogError, match="damaged"):
        list(log.read_latest())
    with pytest.raises(UnreadableLogError, match="damaged"):
        list(log.read_sections())
    assert refused.value.filename == f"{TOPIC}-0"


@pytest.mark.parametrize("at", [11, 16, 30, -1])
def test_damaged_batch_is_reported_with_file_and_offset(
    plane: DataPlane, log: PartitionCoordinatorLog, at: int
) -> None:
    for value in (b"a", b"b", b"c"):
        log.append([(b"key", value)], plane.clock.now_ms())
    segment = plane.partition(TOPIC).log.segments[0]
    path = Path(segment.path(".log"))
    data = bytearray(path.read_bytes())
    size = len(data) // 3
    data[at + size if at >= 0 else at - size] ^= 1
    path.write_bytes(data)
    for read in (log.read_all, log.read_latest, log.read_sections):
        with pytest.raises(UnreadableLogError) as refused:
            list(read())
        assert refused.value.filename == str(path)
        assert refused.value.strerror == f"the batch at position {size} (offset 1) is damaged"


def test_append_without_enough_replicas_is_refused(
    plane: DataPlane, log: PartitionCoordinatorLog
) -> None:
    partition = plane.partition(TOPIC)
    partition.log.config = partition.log.config._replace(min_insync_replicas=2)
    assert log.append([(b"a", b"1")], plane.clock.now_ms()) == 1  # there is one replica
    partition.replicas = (1, 2)
    producer = BatchProducer(5, 0, 0)
    appends: tuple[Callable[[], int], ...] = (
        lambda: log.append([(b"a", b"2")], plane.clock.now_ms()),
        lambda: log.append_transactional([(b"a", b"2")], producer, plane.clock.now_ms()),
        lambda: log.append_marker(TransactionMarker(5, 0, 0, is_commit=True), plane.clock.now_ms()),
    )
    for append in appends:
        with pytest.raises(KafkaError) as refused:
            append()
        assert refused.value.code is ErrorCode.NOT_ENOUGH_REPLICAS
    with pytest.raises(KafkaError) as refused:
        appends[0]()
    assert refused.value.message is None
    assert refused.value.explanation == (
        f"{TOPIC}-0 has 1 of 2 replicas in sync, min.insync.replicas is 2"
    )
    assert list(log.read_all()) == [(b"a", b"1")]
    partition.isr = (1, 2)
    assert log.append([(b"a", b"2")], plane.clock.now_ms()) == 2
