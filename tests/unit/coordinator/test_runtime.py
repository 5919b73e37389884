"""CoordinatorRuntime: decide, append, replay, timers and replies, with a simple state machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
from kafkalite.coordinator.event_history import EventHistory
from kafkalite.coordinator.java_order import java_string_hash
from kafkalite.coordinator.runtime import CoordinatorRuntime, partition_of
from kafkalite.ports.waiting import Waiting
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.testing.clock import ManualClock
from kafkalite.testing.coordinator_log import Entry, MemoryCoordinatorLog

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Record = CoordinatorRecord[object, object]


class TextSerde:
    """Keys and values are text."""

    def encode(self, record: Record) -> tuple[bytes | None, bytes | None]:
        assert isinstance(record.key, str)
        value = record.value
        return record.key.encode(), value.encode() if isinstance(value, str) else None

    def decode(self, key: bytes | None, value: bytes | None) -> Record | None:
        if key is None or key == b"foreign":
            return None
        return CoordinatorRecord(key.decode(), None if value is None else value.decode())


class Register:
    """A machine that stores the last value of each key."""

    def __init__(self) -> None:
        self.values: dict[object, object] = {}
        self.failed: list[Record] = []
        self.loaded_at_ms: int | None = None

    def replay(self, record: Record) -> None:
        if record.value is None:
            self.values.pop(record.key, None)
        else:
            self.values[record.key] = record.value

    def on_loaded(self, now_ms: int) -> CoordinatorResult[None]:
        self.loaded_at_ms = now_ms
        return CoordinatorResult(response=None)

    def on_timer(self, event: object, now_ms: int) -> CoordinatorResult[None]:
        return CoordinatorResult(response=None, records=[CoordinatorRecord(event, str(now_ms))])

    def on_append_failed(
        self, records: Sequence[Record], error: KafkaError, now_ms: int
    ) -> CoordinatorResult[None]:
        del error, now_ms
        self.failed.extend(records)
        return CoordinatorResult(
            response=None, events=[Event("g", "rebalance", "all join again", {})]
        )


class BrokenLog(MemoryCoordinatorLog):
    """A log that cannot be replayed."""

    def __init__(self, fault: Exception) -> None:
        super().__init__()
        self.fault = fault

    def read_latest(self) -> Iterable[Entry]:
        raise self.fault


class Stage:
    """A runtime of one shard, with its log and clock."""

    def __init__(self, log: MemoryCoordinatorLog | None = None) -> None:
        self.clock = ManualClock(1_000)
        self.log = log or MemoryCoordinatorLog()
        self.unreadable: set[int] = set()
        self.faults: dict[int, Exception] = {}
        self.history = EventHistory()
        self.carried_out_intents: list[tuple[object, int]] = []
        self.runtime = CoordinatorRuntime(
            clock=self.clock,
            serde=TextSerde(),
            partition_count=lambda: 50,
            open_log=self.open_log,
            make_machine=lambda _: Register(),
            history=self.history,
            carry_out=lambda intent: self.carried_out_intents.append(
                (intent, len(self.log.entries))
            ),
        )
        self.runtime.set_leaders([7])

    def open_log(self, partition: int) -> MemoryCoordinatorLog:
        if partition in self.unreadable:
            raise OSError(5, "input/output error")
        if partition in self.faults:
            return BrokenLog(self.faults[partition])
        return self.log

    @property
    def values(self) -> dict[object, object]:
        return self.runtime.read(0, lambda machine, _: dict(machine.values))


def put(key: str, value: str | None) -> CoordinatorResult[str]:
    return CoordinatorResult(response="done", records=[CoordinatorRecord(key, value)])


def test_a_decision_is_appended_then_replayed_then_answered() -> None:
    stage = Stage()
    assert stage.runtime.write(0, lambda _, now_ms: put("a", str(now_ms))) == "done"
    assert stage.log.entries == [(b"a", b"1000")]
    assert stage.values == {"a": "1000"}


def test_refused_decision_has_no_effect() -> None:
    stage = Stage()

    def refuse(*_: object) -> CoordinatorResult[str]:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)

    with pytest.raises(KafkaError):
        stage.runtime.write(0, refuse)
    assert stage.log.entries == []


def test_a_refusal_with_records_is_raised_once_they_are_appended() -> None:
    stage = Stage()
    refusal = KafkaError(ErrorCode.FENCED_MEMBER_EPOCH)
    result = CoordinatorResult[str](refusal, [CoordinatorRecord("a", "1")])
    with pytest.raises(KafkaError) as raised:
        stage.runtime.write(0, lambda *_: result)
    assert raised.value is refusal
    assert (stage.log.entries, stage.values) == ([(b"a", b"1")], {"a": "1"})
    stage.log.next_error = OSError(28, "disk full")
    with pytest.raises(KafkaError) as raised:
        stage.runtime.write(0, lambda *_: result)
    assert raised.value.code is not ErrorCode.FENCED_MEMBER_EPOCH


@pytest.mark.parametrize(
    ("failure", "code"),
    [
        (OSError(28, "disk full"), ErrorCode.NOT_COORDINATOR),
        (KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER), ErrorCode.NOT_COORDINATOR),
        (KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS), ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (KafkaError(ErrorCode.MESSAGE_TOO_LARGE), ErrorCode.UNKNOWN_SERVER_ERROR),
        (KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH), ErrorCode.INVALID_PRODUCER_EPOCH),
    ],
)
def test_failed_append_replays_nothing_and_returns_the_coordinators_error(
    failure: Exception, code: ErrorCode
) -> None:
    stage = Stage()
    stage.log.next_error = failure
    with pytest.raises(KafkaError) as refusal:
        stage.runtime.write(0, lambda *_: put("a", "1"))
    assert refusal.value.code is code
    assert stage.values == {}
    failed = stage.runtime.read(0, lambda machine, _: machine.failed)
    assert failed == [CoordinatorRecord("a", "1")]


def with_event(text: str) -> CoordinatorResult[None]:
    return CoordinatorResult(
        response=None,
        records=[CoordinatorRecord("a", "1")],
        events=[Event("g", "rebalance", text, {"epoch": 2})],
    )


def test_events_are_stored_once_the_records_are_appended() -> None:
    stage = Stage()
    stage.runtime.write(0, lambda *_: with_event("m1 joined"))
    stage.log.next_error = OSError(28, "disk full")
    with pytest.raises(KafkaError):
        stage.runtime.write(0, lambda *_: with_event("m2 joined"))
    joined, failed = stage.history.about("g")
    assert (joined.text, joined.at_ms) == ("m1 joined", 1_000)
    assert joined.facts == {"epoch": 2}
    assert failed.text == "all join again"


def test_an_intent_is_carried_out_once_the_records_are_in_the_log() -> None:
    stage = Stage()
    result = CoordinatorResult(
        response="done", records=[CoordinatorRecord("a", "1")], intents=["first", "second"]
    )
    stage.runtime.write(0, lambda *_: result)
    assert stage.carried_out_intents == [("first", 1), ("second", 1)]
    stage.log.next_error = OSError(28, "no space left on device")
    with pytest.raises(KafkaError):
        stage.runtime.write(0, lambda *_: result)
    assert len(stage.carried_out_intents) == 2


def test_intents_are_ignored_without_carry_out() -> None:
    runtime = CoordinatorRuntime(
        clock=ManualClock(),
        serde=TextSerde(),
        partition_count=lambda: 1,
        open_log=lambda _: MemoryCoordinatorLog(),
        make_machine=lambda _: Register(),
    )
    runtime.set_leaders([7])
    answer = runtime.write(0, lambda *_: CoordinatorResult(response="done", intents=["undone"]))
    assert answer == "done"


def test_restart_replays_the_log_and_skips_unknown_records() -> None:
    stage = Stage()
    stage.runtime.write(0, lambda *_: put("a", "1"))
    stage.runtime.write(0, lambda *_: put("b", "2"))
    stage.runtime.write(0, lambda *_: put("a", None))
    stage.log.entries.append((b"foreign", b"?"))
    again = Stage(stage.log)
    assert again.values == {"b": "2"}
    assert again.runtime.read(0, lambda machine, _: machine.loaded_at_ms) == 1_000


def test_a_parked_request_is_answered_by_a_later_decision() -> None:
    stage = Stage()
    answer: str | Waiting[str] = stage.runtime.write(
        0, lambda *_: CoordinatorResult(response=ParkedRequest(Ticket(1)))
    )
    assert isinstance(answer, Waiting)
    assert not answer.is_resolved
    stage.runtime.write(
        0,
        lambda *_: CoordinatorResult(
            response=None, replies=[Reply(Ticket(1), "now"), Reply(Ticket(99), "unknown")]
        ),
    )
    assert answer.value == "now"


def test_a_decision_may_park_and_reply_at_once() -> None:
    stage = Stage()
    answer: str | Waiting[str] = stage.runtime.write(
        0,
        lambda *_: CoordinatorResult(
            response=ParkedRequest(Ticket(1)), replies=[Reply(Ticket(1), "at once")]
        ),
    )
    assert isinstance(answer, Waiting)
    assert answer.value == "at once"


def test_parked_request_is_refused_when_the_append_of_its_reply_fails() -> None:
    stage = Stage()
    answer: str | Waiting[str] = stage.runtime.write(
        0, lambda *_: CoordinatorResult(response=ParkedRequest(Ticket(1)))
    )
    assert isinstance(answer, Waiting)
    stage.log.next_error = OSError(28, "disk full")
    with pytest.raises(KafkaError):
        stage.runtime.write(
            0,
            lambda *_: CoordinatorResult(
                response=None,
                records=[CoordinatorRecord("a", "1")],
                replies=[Reply(Ticket(1), "never")],
            ),
        )
    refusal: object = answer.value
    assert isinstance(refusal, KafkaError)
    assert refusal.code is ErrorCode.NOT_COORDINATOR


def test_reply_to_an_abandoned_request_is_dropped() -> None:
    stage = Stage()
    answer: str | Waiting[str] = stage.runtime.write(
        0, lambda *_: CoordinatorResult(response=ParkedRequest(Ticket(1)))
    )
    assert isinstance(answer, Waiting)
    answer.abandon()
    stage.runtime.write(
        0,
        lambda *_: CoordinatorResult(response=None, replies=[Reply(Ticket(1), "too late")]),
    )
    assert not answer.is_resolved


def set_timer(key: str, deadline_ms: int) -> CoordinatorResult[None]:
    return CoordinatorResult(response=None, timers=[SetTimer(key, deadline_ms, key)])


def test_a_timer_is_a_decision_at_its_deadline() -> None:
    stage = Stage()
    stage.runtime.write(0, lambda _, now_ms: set_timer("late", now_ms + 50))
    stage.runtime.write(0, lambda _, now_ms: set_timer("early", now_ms + 20))
    stage.clock.advance(19)
    assert stage.values == {}
    stage.clock.advance(1)
    assert stage.values == {"early": "1020"}
    stage.clock.advance(100)
    assert stage.values == {"early": "1020", "late": "1050"}


def test_ticks_are_skipped_when_time_jumps() -> None:
    stage = Stage()
    rounds = []

    class Ticking(Register):
        def on_timer(self, event: object, now_ms: int) -> CoordinatorResult[None]:
            rounds.append(now_ms)
            again = SetTimer("tick", now_ms + 10, event, is_periodic=True)
            return CoordinatorResult(response=None, timers=[again])

    stage.runtime = CoordinatorRuntime(
        clock=stage.clock,
        serde=TextSerde(),
        partition_count=lambda: 50,
        open_log=stage.open_log,
        make_machine=lambda _: Ticking(),
    )
    stage.runtime.set_leaders([7])
    stage.runtime.write(0, lambda *_: set_timer("tick", 1_010))
    stage.clock.advance(9_010)
    assert rounds[0] == 1_010
    assert rounds[-1] > 10_000
    assert len(rounds) < 40


def test_a_timer_moved_back_fires_once_at_its_new_deadline() -> None:
    stage = Stage()
    stage.runtime.write(0, lambda _, now_ms: set_timer("a", now_ms + 20))
    stage.runtime.write(0, lambda _, now_ms: set_timer("a", now_ms + 60))
    stage.clock.advance(59)
    assert stage.values == {}
    stage.clock.advance(1)
    assert stage.values == {"a": "1060"}


def test_timer_is_retried_after_a_failed_append() -> None:
    stage = Stage()
    stage.runtime.write(0, lambda _, now_ms: set_timer("a", now_ms + 20))
    stage.log.next_error = OSError(28, "disk full")
    stage.clock.advance(20)
    assert stage.values == {}
    stage.clock.advance(500)
    assert stage.values == {"a": "1520"}


def test_only_the_leader_locates_a_key() -> None:
    stage = Stage()
    shard = stage.runtime.locate("any", 7)
    assert shard.partition == 0
    with pytest.raises(KafkaError) as refusal:
        stage.runtime.locate("any", 8)
    assert refusal.value.code is ErrorCode.NOT_COORDINATOR
    stage.runtime.set_leaders([8])
    assert stage.runtime.locate("any", 8).partition == 0
    assert list(stage.runtime.shards_led_by(7)) == []


def test_a_new_leader_loads_its_shard_from_the_log() -> None:
    stage = Stage()
    old = stage.runtime.locate("any", 7)
    waiting: str | Waiting[str] = stage.runtime.write(
        0, lambda *_: CoordinatorResult(response=ParkedRequest(Ticket(1)))
    )
    stage.runtime.set_leaders([8])
    assert stage.runtime.locate("any", 8) is not old
    assert isinstance(waiting, Waiting)
    assert isinstance(waiting.value, KafkaError)
    assert waiting.value.code is ErrorCode.NOT_COORDINATOR


def test_a_partition_without_a_leader_has_no_coordinator() -> None:
    stage = Stage()
    stage.runtime.set_leaders([-1])
    for node_id in (7, -1):
        with pytest.raises(KafkaError) as refusal:
            stage.runtime.locate("any", node_id)
        assert refusal.value.code is ErrorCode.NOT_COORDINATOR
    stage.runtime.set_leaders([7])
    assert stage.runtime.locate("any", 7).leader_id == 7


def test_an_unreachable_leader_has_no_coordinator() -> None:
    stage = Stage()
    stage.runtime.set_unreachable_nodes(frozenset((7,)))
    with pytest.raises(KafkaError):
        stage.runtime.locate("any", 7)
    stage.runtime.set_unreachable_nodes(frozenset())
    assert stage.runtime.locate("any", 7).leader_id == 7


def test_without_the_log_topic_locate_returns_not_coordinator() -> None:
    stage = Stage()
    waiting: str | Waiting[str] = stage.runtime.write(
        0, lambda *_: CoordinatorResult(response=ParkedRequest(Ticket(1)))
    )
    stage.runtime.write(0, lambda _, now_ms: set_timer("a", now_ms + 20))
    stage.runtime.stop()
    assert isinstance(waiting, Waiting)
    assert isinstance(waiting.value, KafkaError)
    assert stage.clock.next_deadline_ms is None
    with pytest.raises(KafkaError):
        stage.runtime.locate("any", 7)
    assert stage.runtime.partition_for("g") == partition_of("g", 50)


def test_new_partitions_are_loaded_and_keys_stay_where_they_are() -> None:
    """Until the topic is led again, after it was deleted or after a restart."""
    stage = Stage()
    assert partition_of("a", 2) == 1
    stage.runtime.locate("a", 7)
    stage.runtime.set_leaders([7, 7])
    assert stage.runtime.locate("a", 7).partition == 0
    assert len(stage.runtime.shards()) == 2
    stage.runtime.set_leaders(())
    stage.runtime.set_leaders([7, 7])
    assert stage.runtime.locate("a", 7).partition == 1


def test_a_log_that_cannot_be_read_moves_no_key_to_another_partition() -> None:
    stage = Stage()
    stage.runtime.set_leaders(())
    stage.unreadable = {3}
    with pytest.raises(OSError, match="input/output"):
        stage.runtime.set_leaders([7] * 5)
    keys = [f"group-{number}" for number in range(40)]
    assert {stage.runtime.partition_for(key) for key in keys} == set(range(5))
    for key in keys:
        partition = partition_of(key, 5)
        if partition != 3:
            assert stage.runtime.locate(key, 7).partition == partition
        else:
            with pytest.raises(KafkaError) as refusal:
                stage.runtime.locate(key, 7)
            assert refusal.value.code is ErrorCode.NOT_COORDINATOR
    stage.unreadable = set()
    stage.runtime.set_leaders([7] * 5)
    assert [stage.runtime.locate(key, 7).partition for key in keys] == [
        partition_of(key, 5) for key in keys
    ]


@pytest.mark.parametrize("fault", [UnreadableLogError("not ours", "log-3"), KeyError("no group")])
def test_unreadable_log_affects_only_its_partition(fault: Exception) -> None:
    """For example a log with foreign records, which stays unreadable until it is repaired."""
    stage = Stage()
    stage.faults = {3: fault}
    for _ in range(2):
        stage.runtime.set_leaders([7] * 5)
        assert stage.runtime.unreadable == {3: fault}
        assert [shard.partition for shard in stage.runtime.shards()] == [0, 1, 2, 4]
    with pytest.raises(KafkaError) as refusal:
        stage.runtime.write(3, lambda *_: put("a", "1"))
    assert refusal.value.code is ErrorCode.NOT_COORDINATOR
    stage.runtime.set_leaders(())
    assert stage.runtime.unreadable == {}


def test_cache_of_located_keys_is_limited() -> None:
    stage = Stage()
    for number in range(20_000):
        stage.runtime.locate(f"group-{number}", 7)
    assert len(stage.runtime._shard_cache) <= 16_384
    before = len(stage.runtime._shard_cache)
    stage.runtime.locate("long" * 100, 7)
    assert len(stage.runtime._shard_cache) == before


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", 0),
        ("a", 97),
        ("group", 98629247),
        ("hello world", 1794106052),
        ("The quick brown fox", -1739336029),
        ("polygenelubricants", -(1 << 31)),
        ("🐙", 1772412),
    ],
)
def test_the_hash_is_javas(text: str, code: int) -> None:
    assert java_string_hash(text) == code


def test_the_hash_without_a_positive_counterpart_counts_as_zero() -> None:
    assert partition_of("polygenelubricants", 50) == 0
    assert partition_of("a", 50) == 97 % 50


def test_a_partition_with_an_empty_log_is_loaded_by_its_first_use() -> None:
    logs = [MemoryCoordinatorLog(), MemoryCoordinatorLog()]
    opened: list[int] = []

    def open_log(partition: int) -> MemoryCoordinatorLog:
        opened.append(partition)
        return logs[partition]

    runtime = CoordinatorRuntime(
        clock=ManualClock(),
        serde=TextSerde(),
        partition_count=lambda: 2,
        open_log=open_log,
        make_machine=lambda _: Register(),
        is_log_empty=lambda partition: not logs[partition].entries,
    )
    runtime.set_leaders([7, 7])
    assert (opened, runtime.shards(), runtime.partitions_without_shard()) == ([], [], [])
    runtime.write(1, lambda *_: put("a", "1"))
    runtime.set_leaders([8, 8])
    assert opened == [1, 1]  # the other one has the new leader without being loaded
    assert (runtime.partitions_led_by(7), runtime.partitions_led_by(8)) == ([], [0, 1])
    key = next(name for name in map(str, range(9)) if runtime.partition_for(name) == 0)
    with pytest.raises(KafkaError, match="NOT_COORDINATOR"):
        runtime.locate(key, 7)
    assert runtime.locate(key, 8).leader_id == 8
    runtime.set_leaders([])
    with pytest.raises(KafkaError, match="NOT_COORDINATOR"):
        runtime.shard_for(key)
