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
    world = BatchedStage()
    first, second = world.write("a"), world.write("b", "2")
    assert world.values == {"a": "1", "b": "2"}
    assert world.batched.batches == []
    world.window.flush()
    assert world.batched.batches == [[(b"a", b"1"), (b"b", b"2")]]
    assert (first.value, second.value) == ("done", "done")
    world.window.flush()
    assert len(world.batched.batches) == 1


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
    world = BatchedStage()
    independent = world.ask(CoordinatorResult("nothing to see"))
    world.write("a")
    dependent = world.ask(CoordinatorResult("seen"))
    world.fail()
    assert independent.value == "nothing to see"
    assert error_of(dependent) is ErrorCode.NOT_COORDINATOR


def test_a_refusal_with_records_is_the_answer_once_they_are_appended() -> None:
    world = BatchedStage()
    refusal = KafkaError(ErrorCode.FENCED_MEMBER_EPOCH)
    result = CoordinatorResult[str](
        refusal, [CoordinatorRecord("a", "1")], events=[Event("g", "fenced", "m fenced", {})]
    )
    answer = world.ask(result)
    world.window.flush()
    assert error_of(answer) is ErrorCode.FENCED_MEMBER_EPOCH
    assert [event.text for event in world.history.about("g")] == ["m fenced"]
    answer = world.ask(result)
    world.fail()
    assert error_of(answer) is ErrorCode.NOT_COORDINATOR


def test_effects_happen_once_the_records_are_appended() -> None:
    world = BatchedStage()
    parked: str | Waiting[str] = world.runtime.write(
        0, lambda *_: CoordinatorResult(response=ParkedRequest(Ticket(1)))
    )
    assert isinstance(parked, Waiting)
    world.ask(
        CoordinatorResult(
            "done",
            [CoordinatorRecord("a", "1")],
            replies=[Reply(Ticket(1), "go on")],
            timers=[SetTimer("t", 1_020, "t")],
            events=[Event("g", "joined", "m joined", {})],
            intents=["notify others"],
        )
    )
    world.clock.advance(30)
    assert not parked.is_resolved
    assert (list(world.history.about("g")), world.carried_out_intents) == ([], [])
    world.window.flush()
    assert parked.value == "go on"
    assert [event.text for event in world.history.about("g")] == ["m joined"]
    assert world.carried_out_intents == [("notify others", 1)]
    world.clock.advance(0)
    assert world.values["t"]


def test_write_outside_of_the_window_flushes_pending_writes_first() -> None:
    world = BatchedStage()
    pending = world.write("a")
    world.runtime.write(0, lambda *_: put("b", "2"))
    assert world.batched.batches == [[(b"a", b"1")], [(b"b", b"2")]]
    assert pending.value == "done"


def test_failed_flush_reloads_the_shard_and_refuses_every_write() -> None:
    world = BatchedStage()
    world.runtime.write(0, lambda *_: put("a", "before"))
    answers = [world.write("a", "after"), world.write("b"), world.ask(CoordinatorResult("seen"))]
    assert world.values == {"a": "after", "b": "1"}
    world.fail()
    assert [error_of(answer) for answer in answers] == [ErrorCode.NOT_COORDINATOR] * 3
    assert world.values == {"a": "before"}
    world.runtime.write(0, lambda *_: put("b", "1"))
    assert world.values == {"a": "before", "b": "1"}


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
    world = BatchedStage()
    answer = world.write("a")
    world.log.next_error = failure
    world.window.flush()
    assert error_of(answer) is code
    assert (world.values, world.batched.entries) == ({}, [])


def test_dropped_shard_refuses_parked_requests_and_cancels_timers() -> None:
    world = BatchedStage()
    parked: str | Waiting[str] = world.runtime.write(
        0, lambda *_: CoordinatorResult(response=ParkedRequest(Ticket(1)))
    )
    world.runtime.write(0, lambda _, now_ms: set_timer("t", now_ms + 20))
    world.write("a")
    world.fail()
    assert error_of(parked) is ErrorCode.NOT_COORDINATOR
    assert world.clock.next_deadline_ms is None
    world.clock.advance(100)
    assert world.values == {}


def test_write_to_a_dropped_shard_returns_not_coordinator() -> None:
    world = BatchedStage()
    shard = world.runtime.locate("any", 7)
    world.write("a")
    world.fail()
    assert world.runtime.locate("any", 7) is not shard
    for is_open in (False, True):
        world.window.is_open = is_open
        with pytest.raises(KafkaError) as refused:
            shard.write(lambda *_: put("b", "2"))
        assert refused.value.code is ErrorCode.NOT_COORDINATOR
    assert world.batched.entries == []


def test_full_disk_causes_one_reload_and_one_refusal_per_write() -> None:
    world = BatchedStage()
    world.write("a")
    world.batched.is_full = True
    world.window.flush()
    reads = world.batched.reads
    world.window.is_open = True
    for _ in range(3):
        with pytest.raises(KafkaError) as refused:
            world.runtime.write(0, lambda *_: put("a", "2"))
        assert refused.value.code is ErrorCode.NOT_COORDINATOR
    assert (world.batched.reads, world.values) == (reads, {})
    world.batched.is_full = False
    assert world.runtime.write(0, lambda *_: put("a", "3")) == "done"
    world.window.is_open = False
    world.write("b")
    world.write("c")
    world.window.flush()
    assert [len(batch) for batch in world.batched.batches] == [1, 2]
    assert world.values == {"a": "3", "b": "1", "c": "1"}


def test_shard_that_cannot_be_reloaded_has_no_coordinator() -> None:
    world = BatchedStage()
    world.runtime.write(0, lambda *_: put("a", "1"))
    answer = world.write("b")
    world.batched.is_unreadable = True
    world.fail()
    assert error_of(answer) is ErrorCode.NOT_COORDINATOR
    for _ in range(3):
        with pytest.raises(KafkaError) as refused:
            world.runtime.locate("any", 7)
        assert refused.value.code is ErrorCode.NOT_COORDINATOR
        world.clock.advance(RELOAD_MS)
    world.batched.is_unreadable = False
    world.clock.advance(RELOAD_MS)
    assert world.values == {"a": "1"}
    assert world.clock.next_deadline_ms is None


def test_no_reload_is_tried_once_the_topic_is_gone() -> None:
    world = BatchedStage()
    world.write("b")
    world.batched.is_unreadable = True
    world.fail()
    world.runtime.stop()
    assert world.clock.next_deadline_ms is None


def test_new_leadership_loads_shards_whose_reload_failed() -> None:
    world = BatchedStage()
    world.write("b")
    world.batched.is_unreadable = True
    world.fail()
    world.batched.is_unreadable = False
    world.runtime.set_leaders([8])
    assert world.runtime.locate("any", 8).partition == 0
    assert world.clock.next_deadline_ms is None


def test_inconsistent_log_is_unreadable_on_reload() -> None:
    world = BatchedStage()
    world.write("b")
    world.faults[0] = fault = UnreadableLogError("not ours", "log-0")
    world.fail()
    assert world.runtime.unreadable == {0: fault}
    with pytest.raises(KafkaError):
        world.runtime.locate("any", 7)


def test_pending_writes_are_refused_when_the_topic_is_deleted() -> None:
    world = BatchedStage()
    answer = world.write("a")
    world.runtime.stop()
    assert error_of(answer) is ErrorCode.NOT_COORDINATOR
    world.window.flush()
    assert world.batched.entries == []


def test_full_batch_is_flushed_before_the_next_write() -> None:
    world = BatchedStage()
    world.batched.max_batch_bytes = 5_000
    for _ in range(20):
        world.write("a")
    world.window.flush()
    sizes = [len(batch) for batch in world.batched.batches]
    assert sum(sizes) == 20
    assert len(set(sizes[:-1])) == 1
    assert 1 < sizes[0] < 10


def many(count: int, value: str = "1") -> CoordinatorResult[str]:
    records = [CoordinatorRecord[object, object](f"{number}", value) for number in range(count)]
    return CoordinatorResult("done", records)


def test_the_records_of_a_large_write_are_measured() -> None:
    world = BatchedStage()
    world.batched.max_batch_bytes = 8_000
    world.write("a")
    for _ in range(2):
        world.ask(many(150))
    world.write("b")
    world.window.flush()
    assert [len(batch) for batch in world.batched.batches] == [1 + 150, 150 + 1]
    assert world.batched.batches[0][:2] == [(b"a", b"1"), (b"0", b"1")]


def test_write_is_refused_with_the_batch_that_had_to_be_flushed_first() -> None:
    world = BatchedStage()
    world.batched.max_batch_bytes = 1_000
    first = world.write("a")
    world.batched.is_full = True
    assert error_of(world.write("a")) is error_of(first) is ErrorCode.NOT_COORDINATOR
    assert world.values == {}


def test_a_write_too_large_for_any_batch_is_refused_alone() -> None:
    world = BatchedStage()
    world.batched.max_batch_bytes = 10_000
    first = world.write("a")

    def too_large(records: list[Entry], now_ms: int) -> int:
        if sum(len(value or b"") for _, value in records) > 10_000:
            raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE)
        return append(records, now_ms)

    append = world.batched.append
    world.batched.append = too_large  # type: ignore[method-assign]
    assert error_of(world.ask(many(10, "x" * 1_001))) is ErrorCode.UNKNOWN_SERVER_ERROR
    assert first.value == "done"
    assert world.values == {"a": "1"}
    assert world.ask(many(10, "x" * 1_000)).value == "done"
    assert [len(batch) for batch in world.batched.batches] == [1, 10]


def test_exception_in_a_replay_fails_the_batch_and_reloads_the_state() -> None:
    world = BatchedStage()
    world.runtime.write(0, lambda *_: put("a", "before"))
    pending = world.write("a", "after")
    with pytest.raises(TypeError):
        world.ask(CoordinatorResult("done", [CoordinatorRecord("b", "1"), broken()]))
    assert error_of(pending) is ErrorCode.UNKNOWN_SERVER_ERROR
    world.window.flush()
    assert world.values == {"a": "before"}
    assert len(world.batched.batches) == 1


def test_exception_in_an_append_fails_the_batch_and_is_reported() -> None:
    world = BatchedStage()
    world.runtime.write(0, lambda *_: put("a", "before"))
    pending = world.write("a", "after")
    world.ask(CoordinatorResult("done", [CoordinatorRecord(7, "a key that is no text")]))
    world.window.flush()
    assert isinstance(pending.value, AssertionError)
    assert world.values == {"a": "before"}
    world.write("a", "next")
    world.window.flush()
    assert world.values == {"a": "next"}


def test_exception_in_one_effect_does_not_prevent_others() -> None:
    world = BatchedStage()
    timer = SetTimer(broken().key, 1_020, "t")  # which no table can keep
    pending = world.ask(CoordinatorResult("done", [CoordinatorRecord("a", "1")], timers=[timer]))
    world.ask(CoordinatorResult("done", [CoordinatorRecord("b", "1")], intents=["notify others"]))
    world.window.flush()
    assert isinstance(pending.value, TypeError)
    assert world.carried_out_intents == [("notify others", 2)]
    assert world.values == {"a": "1", "b": "1"}


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
    world = BatchedStage()
    world.batched.is_full = True

    def begin(machine: Register, now_ms: int) -> CoordinatorResult[None]:
        del machine, now_ms
        return CoordinatorResult(None, [CoordinatorRecord("begun", "1")])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Register, "on_loaded", begin)
        world.write("a")
        world.window.flush()
        with pytest.raises(KafkaError):
            world.runtime.locate("any", 7)
        world.batched.is_full = False
        world.clock.advance(RELOAD_MS)
    assert world.values == {"begun": "1"}
