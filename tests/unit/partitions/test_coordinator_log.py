"""A coordinator's log gives back what was appended, one batch per decision."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.coordinator.contract import UnreadableLogError
from kafkalite.partitions.coordinator_log import PartitionCoordinatorLog, open_coordinator_log
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.storage.batch import (
    TRANSACTIONAL,
    BatchView,
    ControlKind,
    ControlMarker,
    Producer,
    build_batch,
    build_control_batch,
)
from kafkalite.storage.records import NewRecord

if TYPE_CHECKING:
    from tests.unit.data_plane import DataPlane

TOPIC = "__consumer_offsets"


@pytest.fixture
def log(plane: DataPlane) -> PartitionCoordinatorLog:
    plane.create(TOPIC)
    return open_coordinator_log(plane.table, TOPIC, 0)


def test_what_was_appended_is_read_back_in_order(
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


def test_no_decision_is_larger_than_the_topic_takes(
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


def test_it_is_called_as_the_partition_is(log: PartitionCoordinatorLog) -> None:
    assert log.name == f"{TOPIC}-0"


def test_a_log_that_is_not_open_cannot_be_loaded(plane: DataPlane) -> None:
    with pytest.raises(OSError, match="not open"):
        open_coordinator_log(plane.table, TOPIC, 0)


def transactional(plane: DataPlane, producer_id: int, key: bytes) -> None:
    batch = build_batch(
        [NewRecord(key, b"", 0)], attributes=TRANSACTIONAL, producer=Producer(producer_id, 0, 0)
    )
    plane.partition(TOPIC).append_own(BatchView(batch), plane.clock.now_ms())


def end(plane: DataPlane, producer_id: int, kind: ControlKind) -> None:
    batch = build_control_batch(
        ControlMarker(kind, 0), producer_id=producer_id, producer_epoch=0, now_ms=0
    )
    plane.partition(TOPIC).append_own(BatchView(batch), plane.clock.now_ms())


def test_only_committed_transactions_count(plane: DataPlane, log: PartitionCoordinatorLog) -> None:
    for producer_id, key in ((1, b"committed"), (2, b"aborted"), (3, b"open")):
        transactional(plane, producer_id, key)
    log.append([(b"plain", b"")], plane.clock.now_ms())
    end(plane, 2, ControlKind.ABORT)
    end(plane, 1, ControlKind.COMMIT)
    end(plane, 7, ControlKind.COMMIT)
    assert [key for key, _ in log.read_all()] == [b"plain", b"committed"]


def test_what_is_overwritten_between_transactions_is_left_out(
    plane: DataPlane, log: PartitionCoordinatorLog
) -> None:
    for value in (b"1", b"2"):
        log.append([(b"a", value), (b"b", value)], plane.clock.now_ms())
    log.append([(b"a", None)], plane.clock.now_ms())
    transactional(plane, 1, b"a")
    log.append([(b"b", b"3")], plane.clock.now_ms())
    end(plane, 1, ControlKind.COMMIT)
    log.append([(b"b", b"4"), (b"b", b"5")], plane.clock.now_ms())
    assert list(log.read_last()) == [
        (b"b", b"2"), (b"a", None), (b"b", b"3"), (b"a", b""), (b"b", b"5"),
    ]  # fmt: skip


def test_a_batch_that_holds_no_records_makes_the_log_unreadable(
    plane: DataPlane, log: PartitionCoordinatorLog
) -> None:
    garbage = bytearray(build_batch([NewRecord(b"k", b"v", 1)]))
    garbage[61:] = b"\xff" * (len(garbage) - 61)
    plane.partition(TOPIC).append_own(BatchView(garbage), plane.clock.now_ms())
    with pytest.raises(UnreadableLogError, match="damaged") as refused:
        list(log.read_all())
    with pytest.raises(UnreadableLogError, match="damaged"):
        list(log.read_last())
    assert refused.value.filename == f"{TOPIC}-0"
