"""Loading: records of a log are replayed; invalid entries end the loading."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pytest

from kafkalite.coordinator.contract import CoordinatorRecord, UnreadableLogError
from kafkalite.coordinator.loading import replay_latest, replay_log, replay_transactions
from kafkalite.coordinator.serde import CoordinatorSerde
from kafkalite.protocol._generated.records.group_metadata import GroupMetadataKey
from kafkalite.storage.transaction_marker import TransactionMarker
from kafkalite.testing.coordinator_log import Entry, MemoryCoordinatorLog

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalite.coordinator.contract import CoordinatorResult
    from kafkalite.protocol.errors import KafkaError

Record = CoordinatorRecord[object, object]

SERDE = CoordinatorSerde(lambda _: 0)
TOMBSTONE = SERDE.encode(CoordinatorRecord(GroupMetadataKey(group="g"), None))
FROM_A_LATER_VERSION: Entry = (b"\x7f\xff", b"")


class Producer(NamedTuple):
    """A producer with a transaction."""

    producer_id: int
    producer_epoch: int = 0


def tombstone(group_id: str) -> Entry:
    return SERDE.encode(CoordinatorRecord(GroupMetadataKey(group=group_id), None))


def record(group_id: str) -> Record:
    return CoordinatorRecord(GroupMetadataKey(group=group_id), None)


class RecordingMachine:
    """Records the calls of a loading, in order."""

    def __init__(self) -> None:
        self.replayed: list[object] = []

    def replay(self, record: Record) -> None:
        self.replayed.append(record)

    def replay_transactional(self, producer_id: int, record: Record) -> None:
        self.replayed.append((producer_id, record))

    def end_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        self.replayed.append((producer_id, is_commit))

    def on_loaded(self, now_ms: int) -> CoordinatorResult[None]:
        raise AssertionError(now_ms)

    def on_timer(self, event: object, now_ms: int) -> CoordinatorResult[None]:
        raise AssertionError(event, now_ms)

    def on_append_failed(
        self, records: Sequence[Record], error: KafkaError, now_ms: int
    ) -> CoordinatorResult[None]:
        raise AssertionError(records, error, now_ms)


def test_every_known_record_is_replayed_and_every_entry_counted() -> None:
    machine = RecordingMachine()
    log = MemoryCoordinatorLog([TOMBSTONE, FROM_A_LATER_VERSION, TOMBSTONE])
    assert replay_log(log, SERDE, machine) == 3
    assert machine.replayed == [CoordinatorRecord(GroupMetadataKey(group="g"), None)] * 2


@pytest.mark.parametrize(
    "damaged",
    [
        (b"\x00", b""),
        (b"\x00\x02\x00\x09g", b""),
        (TOMBSTONE[0], b""),
        (TOMBSTONE[0], b"\x7f\xff"),
        (TOMBSTONE[0], b"\x00\x00\x00"),
    ],
    ids=["no type", "key cut short", "empty value", "unknown value version", "value cut short"],
)
def test_invalid_entry_is_reported_with_its_number(damaged: Entry) -> None:
    machine = RecordingMachine()
    with pytest.raises(UnreadableLogError, match="entry 1 is not a record") as failure:
        replay_log(MemoryCoordinatorLog([TOMBSTONE, damaged]), SERDE, machine)
    assert failure.value.filename == "memory-0"
    assert len(machine.replayed) == 1


def test_replay_latest_applies_the_last_record_of_each_key() -> None:
    machine = RecordingMachine()
    entries = [TOMBSTONE, FROM_A_LATER_VERSION, TOMBSTONE, FROM_A_LATER_VERSION]
    replay_latest(MemoryCoordinatorLog(entries), SERDE, machine)
    assert machine.replayed == [CoordinatorRecord(GroupMetadataKey(group="g"), None)]


def log_with_transactions() -> MemoryCoordinatorLog:
    """Return a log where 1 was committed, 2 aborted, 3 is open, and 4 was committed later."""
    log = MemoryCoordinatorLog()
    for producer_id, group_id, is_commit in ((1, "a", True), (2, "b", False)):
        producer = Producer(producer_id)
        log.append_transactional([tombstone(group_id)], producer, 0)
        log.append_marker(TransactionMarker(*producer, 0, is_commit=is_commit), 0)
    log.append([tombstone("c")], 0)
    log.append_transactional([tombstone("d")], Producer(4), 0)
    log.append_transactional([tombstone("e"), tombstone("f")], Producer(3), 0)
    log.append_transactional([tombstone("g")], Producer(4), 0)
    log.append([FROM_A_LATER_VERSION, tombstone("h")], 0)
    log.append_marker(TransactionMarker(4, 0, 0, is_commit=True), 0)
    return log


def test_committed_records_are_applied_and_open_ones_replayed_as_transactional() -> None:
    machine = RecordingMachine()
    replay_transactions(log_with_transactions(), SERDE, machine)
    assert machine.replayed == [
        record("a"), record("c"), record("d"),
        (3, record("e")), (3, record("f")), (4, record("g")), record("h"), (4, True),
    ]  # fmt: skip


def test_invalid_transactional_entry_is_reported_with_its_number() -> None:
    log = log_with_transactions()
    log.append_transactional([(b"\x00", b"")], Producer(3), 0)
    with pytest.raises(UnreadableLogError, match="entry 8 is not a record"):
        replay_transactions(log, SERDE, RecordingMachine())


def test_replay_without_transactions_applies_committed_records_only() -> None:
    for replay in (replay_log, replay_latest):
        machine = RecordingMachine()
        replay(log_with_transactions(), SERDE, machine)
        expected = [record(group_id) for group_id in ("a", "c", "d", "g", "h")]
        assert machine.replayed == expected
