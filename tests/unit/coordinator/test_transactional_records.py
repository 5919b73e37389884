"""Records of transactions in a shard: appended at once, applied when the transaction ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pytest

from kafkalite.coordinator.contract import CoordinatorRecord, CoordinatorResult, Event
from kafkalite.coordinator.event_history import EventHistory
from kafkalite.coordinator.loading import replay_transactions
from kafkalite.coordinator.runtime import CoordinatorRuntime
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.storage.transaction_marker import TransactionMarker
from kafkalite.testing.clock import ManualClock
from kafkalite.testing.coordinator_log import MemoryCoordinatorLog
from tests.unit.coordinator.test_runtime import Record, Register, TextSerde

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalite.coordinator.active_shard import ActiveShard


class Producer(NamedTuple):
    """A producer with a transaction."""

    producer_id: int
    producer_epoch: int = 0

    def marker(self, *, is_commit: bool) -> TransactionMarker:
        return TransactionMarker(*self, 0, is_commit=is_commit)


class Ledger(Register):
    """A register that stores transactional records separately until their transaction ends."""

    def __init__(self) -> None:
        super().__init__()
        self.open: dict[int, list[Record]] = {}

    def replay_transactional(self, producer_id: int, record: Record) -> None:
        self.open.setdefault(producer_id, []).append(record)

    def end_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        for record in self.open.pop(producer_id, ()):
            if is_commit:
                self.replay(record)


class Stage:
    """A shard with a Ledger."""

    def __init__(self, log: MemoryCoordinatorLog | None = None) -> None:
        self.log = log or MemoryCoordinatorLog()
        self.history = EventHistory()
        self.runtime = CoordinatorRuntime(
            clock=ManualClock(1_000),
            serde=TextSerde(),
            partition_count=lambda: 1,
            open_log=lambda _: self.log,
            make_machine=lambda _: Ledger(),
            history=self.history,
            replay_all=replay_transactions,
        )
        self.runtime.set_leaders([7])

    @property
    def shard(self) -> ActiveShard[Ledger]:
        return self.runtime.shards()[0]

    def put(self, key: str, value: str, producer: Producer) -> object:
        result = CoordinatorResult(
            "done",
            records=[CoordinatorRecord(key, value)],
            events=[Event("g", "noted", f"{key} is {value}", {})],
        )
        return self.shard.write_transactional(producer, lambda *_: result)

    @property
    def values(self) -> dict[object, object]:
        return self.shard.machine.values


def test_records_of_a_transaction_apply_at_its_commit() -> None:
    stage = Stage()
    first, second = Producer(1), Producer(2)
    assert stage.put("a", "1", first) == "done"
    stage.put("b", "2", second)
    assert [entry.text for entry in stage.history.about("g")] == ["a is 1", "b is 2"]
    assert (stage.values, len(stage.log.entries)) == ({}, 2)
    stage.shard.end_transaction(first.marker(is_commit=True))
    stage.shard.end_transaction(second.marker(is_commit=False))
    assert stage.values == {"a": "1"}
    assert stage.shard.machine.open == {}


def test_a_decision_without_records_begins_no_transaction() -> None:
    stage = Stage()
    answer = stage.shard.write_transactional(Producer(1), lambda *_: CoordinatorResult("nothing"))
    assert answer == "nothing"
    assert not stage.shard.is_in_transaction(Producer(1))


def test_open_transactions_are_open_after_loading() -> None:
    stage = Stage()
    stage.put("a", "1", Producer(1))
    again = Stage(stage.log)
    assert again.shard.machine.open == {1: [CoordinatorRecord("a", "1")]}
    assert again.values == {}
    again.shard.end_transaction(Producer(1).marker(is_commit=True))
    assert again.values == {"a": "1"}
    assert Stage(stage.log).values == {"a": "1"}


def test_a_transaction_is_open_at_its_own_epoch_until_it_ends() -> None:
    stage = Stage()
    assert not stage.shard.is_in_transaction(Producer(1, 5))
    stage.put("a", "1", Producer(1, 5))
    assert stage.shard.is_in_transaction(Producer(1, 5))
    assert not stage.shard.is_in_transaction(Producer(1, 6))
    stage.shard.end_transaction(Producer(1, 5).marker(is_commit=True))
    assert not stage.shard.is_in_transaction(Producer(1, 5))


def test_producer_with_a_stale_epoch_is_refused() -> None:
    stage = Stage()
    stage.put("a", "1", Producer(1, 5))
    zombie = Producer(1, 4)
    attempts: list[Callable[[], object]] = [
        lambda: stage.put("a", "2", zombie),
        lambda: stage.shard.end_transaction(zombie.marker(is_commit=True)),
        lambda: stage.shard.is_in_transaction(zombie),
    ]
    for attempt in attempts:
        with pytest.raises(KafkaError) as refusal:
            attempt()
        assert refusal.value.code is ErrorCode.INVALID_PRODUCER_EPOCH
    assert len(stage.log.entries) == 1
    assert stage.shard.machine.open == {1: [CoordinatorRecord("a", "1")]}


def test_failed_transactional_append_returns_the_coordinators_error() -> None:
    stage = Stage()
    stage.log.next_error = OSError(28, "disk full")
    with pytest.raises(KafkaError) as refusal:
        stage.put("a", "1", Producer(1))
    assert refusal.value.code is ErrorCode.NOT_COORDINATOR
    assert stage.shard.machine.failed == [CoordinatorRecord("a", "1")]
    assert stage.shard.machine.open == {}


def test_marker_that_cannot_be_written_has_no_effect() -> None:
    stage = Stage()
    stage.put("a", "1", Producer(1))
    stage.log.next_error = OSError(28, "disk full")
    with pytest.raises(OSError, match="disk full"):
        stage.shard.end_transaction(Producer(1).marker(is_commit=True))
    assert stage.values == {}
    assert stage.shard.is_in_transaction(Producer(1))
