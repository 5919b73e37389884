"""Group commit: one batch for concurrent writes, and a reload of the shard if its append fails."""

from __future__ import annotations

import pytest

from kafkalite.coordinator.contract import (
    CoordinatorRecord,
    CoordinatorResult,
    Event,
    ParkedRequest,
    Reply,
    SetTimer,
    Ticket,
    UnreadableLogError,
)
from kafkalite.coordinator.group_commit import (
    MAX_ESTIMATED_RECORDS,
    MAX_RECORD_EXCESS_BYTES,
    CommitWindow,
    PendingBatch,
    encode_and_measure,
    encode_batch,
)
from kafkalite.ports.waiting import Waiting
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.storage.batch import build_key_value_batch
from kafkalite.testing.coordinator_log import Entry, MemoryCoordinatorLog
from kafkalite.wire.session import Deferred
from tests.unit.coordinator.test_runtime import Register, Stage, TextSerde, put, set_timer

FULL = OSError(28, "disk full")
RELOAD_MS = 500


class BatchLog(MemoryCoordinatorLog):
    """A log that records its batches, and can refuse appends or reads."""

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[list[Entry]] = []
        self.is_full = False
        self.is_unreadable = False
        self.reads = 0

    def append(self, records: list[Entry], now_ms: int) -> int:  # type: ignore[override]
        if self.is_full:
            raise FULL
        end_offset = super().append(records, now_ms)
        self.batches.append(list(records))
        return end_offset

    def read_latest(self) -> list[Entry]:
        self.reads += 1
        if self.is_unreadable:
            raise OSError(5, "input/output error")
        return list(super().read_latest())


class BatchedStage(Stage):
    """A runtime whose writes are batched between `begin` and `flush`."""

    def __init__(self) -> None:
        self.batched = BatchLog()
        super().__init__(self.batched)
        self.window = self.runtime.window

    def write(self, key: str, value: str = "1") -> Deferred:
        """Write with the window open."""
        return self.ask(put(key, value))

    def ask(self, result: CoordinatorResult[str]) -> Deferred:
        self.window.is_open = True
        self.window.joined_batch = None
        try:
            written = self.runtime.write(0, lambda *_: result)
        except KafkaError as refusal:
            return Deferred(refusal, self.window.joined_batch, lambda *_: 0)
        finally:
            self.window.is_open = False
        return Deferred(written, self.window.joined_batch, lambda *_: 0)

    def fail(self) -> None:
        """Flush to a full disk, which has space again afterwards."""
        self.batched.is_full = True
        self.window.flush()
        self.batched.is_full = False


def error_of(answer: object) -> ErrorCode:
    assert isinstance(answer, Deferred | Waiting)
    refusal: object = answer.value
    assert isinstance(refusal, KafkaError)
    return refusal.code


def test_writes_are_replayed_at_once_and_appended_as_one_batch() -> None:
    stage = BatchedStage()
    first, second = stage.write("a"), stage.write("b", "2")
    assert stage.values == {"a": "1", "b": "2"}
    assert stage.batched.batches == []
    stage.window.flush()
    assert stage.batched.batches == [[(b"a", b"1"), (b"b", b"2")]]
    assert (first.value, second.value) == ("done", "done")
    stage.window.flush()
    assert len(stage.batched.batches) == 1


def test_each_shard_has_its_own_batch() -> None:
    flushed: list[str] = []

    class Shard:
        def __init__(self, name: str) -> None:
            self.name = name

        def flush(self) -> None:
            flushed.append(self.name)

    window = CommitWindow()
    window.add(Shard("one"))
    window.add(Shard("two"))
    window.flush()
    window.flush()
    assert flushed == ["one", "two"]


def test_an_answer_that_may_depend_on_pending_records_waits_for_them() -> None:
    stage = BatchedStage()
    independent = stage.ask(CoordinatorResult("nothing to see"))
    stage.write("a")
    dependent = stage.ask(CoordinatorResult("seen"))
    stage.fail()
    assert independent.value == "nothing to see"
    assert error_of(dependent) is ErrorCode.NOT_COORDINATOR


def test_a_refusal_with_records_is_the_answer_once_they_are_appended() -> None:
    stage = BatchedStage()
    refusal = KafkaError(ErrorCode.FENCED_MEMBER_EPOCH)
    result = CoordinatorResult[str](
        refusal, [CoordinatorRecord("a", "1")], events=[Event("g", "fenced", "m fenced", {})]
    )
    answer = stage.ask(result)
    stage.window.flush()
    assert error_of(answer) is ErrorCode.FENCED_MEMBER_EPOCH
    assert [event.text for event in stage.history.about("g")] == ["m fenced"]
    answer = stage.ask(result)
    stage.fail()
    assert error_of(answer) is ErrorCode.NOT_COORDINATOR


def test_effects_happen_once_the_records_are_appended() -> None:
    stage = BatchedStage()
    parked: str | Waiting[str] = stage.runtime.write(
        0, lambda *_: CoordinatorResult(response=ParkedRequest(Ticket(1)))
    )
    assert isinstance(parked, Waiting)
    stage.ask(
        CoordinatorResult(
            "done",
            [CoordinatorRecord("a", "1")],
            replies=[Reply(Ticket(1), "go on")],
            timers=[SetTimer("t", 1_020, "t")],
            events=[Event("g", "joined", "m joined", {})],
            intents=["notify others"],
        )
    )
    stage.clock.advance(30)
    assert not parked.is_resolved
    assert (list(stage.history.about("g")), stage.carried_out_intents) == ([], [])
    stage.window.flush()
    assert parked.value == "go on"
    assert [event.text for event in stage.history.about("g")] == ["m joined"]
    assert stage.carried_out_intents == [("notify others", 1)]
    stage.clock.advance(0)
    assert stage.values["t"]


def test_write_outside_of_the_window_flushes_pending_writes_first() -> None:
    stage = BatchedStage()
    pending = stage.write("a")
    stage.runtime.write(0, lambda *_: put("b", "2"))
    assert stage.batched.batches == [[(b"a", b"1")], [(b"b", b"2")]]
    assert pending.value == "done"


def test_failed_flush_reloads_the_shard_and_refuses_every_write() -> None:
    stage = BatchedStage()
    stage.runtime.write(0, lambda *_: put("a", "before"))
    answers = [stage.write("a", "after"), stage.write("b"), stage.ask(CoordinatorResult("seen"))]
    assert stage.values == {"a": "after", "b": "1"}
    stage.fail()
    assert [error_of(answer) for answer in answers] == [ErrorCode.NOT_COORDINATOR] * 3
    assert stage.values == {"a": "before"}
    stage.runtime.write(0, lambda *_: put("b", "1"))
    assert stage.values == {"a": "before", "b": "1"}


@pytest.mark.parametrize(
    ("failure", "code"),
    [
        (OSError(28, "disk full"), ErrorCode.NOT_COORDINATOR),
        (KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER), ErrorCode.NOT_COORDINATOR),
        (KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS), ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (KafkaError(ErrorCode.RECORD_LIST_TOO_LARGE), ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_append_error_is_translated_as_in_kafka(failure: Exception, code: ErrorCode) -> None:
    stage = BatchedStage()
    answer = stage.write("a")
    stage.log.next_error = failure
    stage.window.flush()
    assert error_of(answer) is code
    assert (stage.values, stage.batched.entries) == ({}, [])


def test_dropped_shard_refuses_parked_requests_and_cancels_timers() -> None:
    stage = BatchedStage()
    parked: str | Waiting[str] = stage.runtime.write(
        0, lambda *_: CoordinatorResult(response=ParkedRequest(Ticket(1)))
    )
    stage.runtime.write(0, lambda _, now_ms: set_timer("t", now_ms + 20))
    stage.write("a")
    stage.fail()
    assert error_of(parked) is ErrorCode.NOT_COORDINATOR
    assert stage.clock.next_deadline_ms is None
    stage.clock.advance(100)
    assert stage.values == {}


def test_write_to_a_dropped_shard_returns_not_coordinator() -> None:
    stage = BatchedStage()
    shard = stage.runtime.locate("any", 7)
    stage.write("a")
    stage.fail()
    assert stage.runtime.locate("any", 7) is not shard
    for is_open in (False, True):
        stage.window.is_open = is_open
        with pytest.raises(KafkaError) as refused:
            shard.write(lambda *_: put("b", "2"))
        assert refused.value.code is ErrorCode.NOT_COORDINATOR
    assert stage.batched.entries == []


def test_full_disk_causes_one_reload_and_one_refusal_per_write() -> None:
    stage = BatchedStage()
    stage.write("a")
    stage.batched.is_full = True
    stage.window.flush()
    reads = stage.batched.reads
    stage.window.is_open = True
    for _ in range(3):
        with pytest.raises(KafkaError) as refused:
            stage.runtime.write(0, lambda *_: put("a", "2"))
        assert refused.value.code is ErrorCode.NOT_COORDINATOR
    assert (stage.batched.reads, stage.values) == (reads, {})
    stage.batched.is_full = False
    assert stage.runtime.write(0, lambda *_: put("a", "3")) == "done"
    stage.window.is_open = False
    stage.write("b")
    stage.write("c")
    stage.window.flush()
    assert [len(batch) for batch in stage.batched.batches] == [1, 2]
    assert stage.values == {"a": "3", "b": "1", "c": "1"}


def test_shard_that_cannot_be_reloaded_has_no_coordinator() -> None:
    stage = BatchedStage()
    stage.runtime.write(0, lambda *_: put("a", "1"))
    answer = stage.write("b")
    stage.batched.is_unreadable = True
    stage.fail()
    assert error_of(answer) is ErrorCode.NOT_COORDINATOR
    for _ in range(3):
        with pytest.raises(KafkaError) as refused:
            stage.runtime.locate("any", 7)
        assert refused.value.code is ErrorCode.NOT_COORDINATOR
        stage.clock.advance(RELOAD_MS)
    stage.batched.is_unreadable = False
    stage.clock.advance(RELOAD_MS)
    assert stage.values == {"a": "1"}
    assert stage.clock.next_deadline_ms is None


def test_no_reload_is_tried_once_the_topic_is_gone() -> None:
    stage = BatchedStage()
    stage.write("b")
    stage.batched.is_unreadable = True
    stage.fail()
    stage.runtime.stop()
    assert stage.clock.next_deadline_ms is None


def test_new_leadership_loads_shards_whose_reload_failed() -> None:
    stage = BatchedStage()
    stage.write("b")
    stage.batched.is_unreadable = True
    stage.fail()
    stage.batched.is_unreadable = False
    stage.runtime.set_leaders([8])
    assert stage.runtime.locate("any", 8).partition == 0
    assert stage.clock.next_deadline_ms is None


def test_inconsistent_log_is_unreadable_on_reload() -> None:
    stage = BatchedStage()
    stage.write("b")
    stage.faults[0] = fault = UnreadableLogError("not ours", "log-0")
    stage.fail()
    assert stage.runtime.unreadable == {0: fault}
    with pytest.raises(KafkaError):
        stage.runtime.locate("any", 7)


def test_pending_writes_are_refused_when_the_topic_is_deleted() -> None:
    stage = BatchedStage()
    answer = stage.write("a")
    stage.runtime.stop()
    assert error_of(answer) is ErrorCode.NOT_COORDINATOR
    stage.window.flush()
    assert stage.batched.entries == []


def test_full_batch_is_flushed_before_the_next_write() -> None:
    stage = BatchedStage()
    stage.batched.max_batch_bytes = 5_000
    for _ in range(20):
        stage.write("a")
    stage.window.flush()
    sizes = [len(batch) for batch in stage.batched.batches]
    assert sum(sizes) == 20
    assert len(set(sizes[:-1])) == 1
    assert 1 < sizes[0] < 10


def many(count: int, value: str = "1") -> CoordinatorResult[str]:
    records = [CoordinatorRecord[object, object](f"{number}", value) for number in range(count)]
    return CoordinatorResult("done", records)


def test_the_records_of_a_large_write_are_measured() -> None:
    stage = BatchedStage()
    stage.batched.max_batch_bytes = 8_000
    stage.write("a")
    for _ in range(2):
        stage.ask(many(150))
    stage.write("b")
    stage.window.flush()
    assert [len(batch) for batch in stage.batched.batches] == [1 + 150, 150 + 1]
    assert stage.batched.batches[0][:2] == [(b"a", b"1"), (b"0", b"1")]


def test_write_is_refused_with_the_batch_that_had_to_be_flushed_first() -> None:
    stage = BatchedStage()
    stage.batched.max_batch_bytes = 1_000
    first = stage.write("a")
    stage.batched.is_full = True
    assert error_of(stage.write("a")) is error_of(first) is ErrorCode.NOT_COORDINATOR
    assert stage.values == {}


def test_a_write_too_large_for_any_batch_is_refused_alone() -> None:
    stage = BatchedStage()
    stage.batched.max_batch_bytes = 10_000
    first = stage.write("a")

    def too_large(records: list[Entry], now_ms: int) -> int:
        if sum(len(value or b"") for _, value in records) > 10_000:
            raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE)
        return append(records, now_ms)

    append = stage.batched.append
    stage.batched.append = too_large  # type: ignore[method-assign]
    assert error_of(stage.ask(many(10, "x" * 1_001))) is ErrorCode.UNKNOWN_SERVER_ERROR
    assert first.value == "done"
    assert stage.values == {"a": "1"}
    assert stage.ask(many(10, "x" * 1_000)).value == "done"
    assert [len(batch) for batch in stage.batched.batches] == [1, 10]


def test_exception_in_a_replay_fails_the_batch_and_reloads_the_state() -> None:
    stage = BatchedStage()
    stage.runtime.write(0, lambda *_: put("a", "before"))
    pending = stage.write("a", "after")
    with pytest.raises(TypeError):
        stage.ask(CoordinatorResult("done", [CoordinatorRecord("b", "1"), broken()]))
    assert error_of(pending) is ErrorCode.UNKNOWN_SERVER_ERROR
    stage.window.flush()
    assert stage.values == {"a": "before"}
    assert len(stage.batched.batches) == 1


def test_exception_in_an_append_fails_the_batch_and_is_reported() -> None:
    stage = BatchedStage()
    stage.runtime.write(0, lambda *_: put("a", "before"))
    pending = stage.write("a", "after")
    stage.ask(CoordinatorResult("done", [CoordinatorRecord(7, "a key that is no text")]))
    stage.window.flush()
    assert isinstance(pending.value, AssertionError)
    assert stage.values == {"a": "before"}
    stage.write("a", "next")
    stage.window.flush()
    assert stage.values == {"a": "next"}


def test_exception_in_one_effect_does_not_prevent_others() -> None:
    stage = BatchedStage()
    timer = SetTimer(broken().key, 1_020, "t")  # which no table can keep
    pending = stage.ask(CoordinatorResult("done", [CoordinatorRecord("a", "1")], timers=[timer]))
    stage.ask(CoordinatorResult("done", [CoordinatorRecord("b", "1")], intents=["notify others"]))
    stage.window.flush()
    assert isinstance(pending.value, TypeError)
    assert stage.carried_out_intents == [("notify others", 2)]
    assert stage.values == {"a": "1", "b": "1"}


def broken() -> CoordinatorRecord[object, object]:
    """Return a record that can be encoded but not replayed."""

    class Unhashable(str):
        __slots__ = ()
        __hash__ = None  # type: ignore[assignment]

    return CoordinatorRecord(Unhashable("c"), "1")


@pytest.mark.parametrize("count", [1, 4, 5, 300])
@pytest.mark.parametrize("length", [0, 1, 63, 64, 100_000])
def test_no_batch_is_larger_than_it_was_measured(count: int, length: int) -> None:
    serde = TextSerde()
    write: list[CoordinatorRecord[object, object]] = [
        CoordinatorRecord("k" * length, "v" * length)
    ] * (count - 1)
    write.append(CoordinatorRecord("k", None))
    batch = PendingBatch(10**9)
    entries, size = encode_and_measure(write, serde)
    if count <= MAX_ESTIMATED_RECORDS:
        size = count * (2 * length + MAX_RECORD_EXCESS_BYTES)
        batch.records += write
    else:
        batch.records += entries
    batch.remaining_bytes -= size
    assert encode_batch(batch, serde) == entries == [serde.encode(record) for record in write]
    assert len(build_key_value_batch(entries, 1_700_000_000_000)) <= 10**9 - batch.remaining_bytes


def test_shard_whose_first_write_fails_is_loaded_later() -> None:
    stage = BatchedStage()
    stage.batched.is_full = True

    def begin(machine: Register, now_ms: int) -> CoordinatorResult[None]:
        del machine, now_ms
        return CoordinatorResult(None, [CoordinatorRecord("begun", "1")])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Register, "on_loaded", begin)
        stage.write("a")
        stage.window.flush()
        with pytest.raises(KafkaError):
            stage.runtime.locate("any", 7)
        stage.batched.is_full = False
        stage.clock.advance(RELOAD_MS)
    assert stage.values == {"begun": "1"}
