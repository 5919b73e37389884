"""Fetch sessions store requested and reported partitions (KIP-227)."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalite.partitions.fetch_sessions import (
    FINAL_EPOCH,
    FIRST_EPOCH,
    MIN_EVICTION_AGE_MS,
    NO_SESSION,
    FetchContext,
    FetchSessions,
    PartitionKey,
    RequestedPartition,
    SessionlessFetch,
    next_epoch,
)
from kafkalite.ports.seeded_entropy import SeededEntropy
from kafkalite.ports.turns import ELEMENTS_PER_PAUSE
from kafkalite.ports.workers import Worker
from kafkalite.protocol._generated.messages.fetch import FetchResponse
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.testing.clock import ManualClock

if TYPE_CHECKING:
    from collections.abc import Callable

PartitionData = FetchResponse.PartitionData
Answers = dict[PartitionKey, PartitionData]


class Broker:
    """Fetch sessions, and the responses of partitions."""

    def __init__(self, max_sessions: int = 3) -> None:
        self.clock = ManualClock(0)
        self.sessions = FetchSessions(
            max_sessions=max_sessions, clock=self.clock, entropy=SeededEntropy()
        )

    def begin(
        self,
        session_id: int = NO_SESSION,
        epoch: int = FIRST_EPOCH,
        *requested: tuple[str, int, int],
        forgotten: tuple[tuple[str, int], ...] = (),
        uses_topic_ids: bool = False,
    ) -> FetchContext:
        return self.sessions.begin(
            session_id,
            epoch,
            [RequestedPartition(topic, index, offset, 1000) for topic, index, offset in requested],
            forgotten,
            uses_topic_ids=uses_topic_ids,
        )

    def session(self, *names: str, uses_topic_ids: bool = False) -> int:
        """Create a session of one partition per name."""
        context = self.begin(
            NO_SESSION,
            FIRST_EPOCH,
            *((name, 0, 0) for name in names),
            uses_topic_ids=uses_topic_ids,
        )
        session_id, _ = finish(context)
        return session_id


def finish(context: FetchContext, answers: Answers | None = None) -> tuple[int, list[PartitionKey]]:
    """Answer a fetch; partitions that are not given are empty at offset 0."""
    given_answers = answers or {}
    session_id, reported = context.finish(
        [
            (one, given_answers.get((one.topic, one.index)) or PartitionData(log_start_offset=0))
            for one in context.requested
        ]
    )
    return session_id, [(one.topic, one.index) for one, _ in reported]


def refusal(context: object, *arguments: object, **named: object) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        context(*arguments, **named)  # type: ignore[operator]
    return caught.value.code


def test_final_fetch_closes_its_session() -> None:
    broker = Broker()
    session_id = broker.session("a")
    context = broker.begin(session_id, FINAL_EPOCH, ("a", 0, 0))
    assert finish(context) == (NO_SESSION, [("a", 0)])
    assert len(broker.sessions) == 0


def test_incremental_fetch_returns_changes_only() -> None:
    broker = Broker()
    session_id = broker.session("a", "b", "c", "d", "e", "f")
    context = broker.begin(session_id, 1)
    assert [one.topic for one in context.requested] == ["a", "b", "c", "d", "e", "f"]
    news: Answers = {
        ("b", 0): PartitionData(log_start_offset=0, records=b"r"),
        ("c", 0): PartitionData(log_start_offset=0, high_watermark=9),
        ("d", 0): PartitionData(log_start_offset=3),
        ("e", 0): PartitionData(log_start_offset=0, error_code=ErrorCode.OFFSET_OUT_OF_RANGE),
        ("f", 0): PartitionData(
            log_start_offset=0, diverging_epoch=FetchResponse.EpochEndOffset(epoch=1, end_offset=2)
        ),
    }
    assert finish(context, news) == (session_id, [(name, 0) for name in "bcdef"])


def test_reported_offsets_are_not_repeated_except_after_an_error() -> None:
    broker = Broker()
    session_id = broker.session("a", "b")
    news: Answers = {
        ("a", 0): PartitionData(log_start_offset=0, high_watermark=9),
        ("b", 0): PartitionData(log_start_offset=0, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER),
    }
    finish(broker.begin(session_id, 1), news)
    still: Answers = {("a", 0): PartitionData(log_start_offset=0, high_watermark=9)}
    assert finish(broker.begin(session_id, 2), still) == (session_id, [("b", 0)])
    assert finish(broker.begin(session_id, 3), still) == (session_id, [])


def test_served_partition_moves_to_the_end() -> None:
    broker = Broker()
    session_id = broker.session("a", "b", "c")
    finish(broker.begin(session_id, 1), {("a", 0): PartitionData(records=b"r")})
    assert [one.topic for one in broker.begin(session_id, 2).requested] == ["b", "c", "a"]


def test_the_expected_incarnation_of_a_partition_changes_with_the_request() -> None:
    broker = Broker()
    session_id = broker.session("a")
    for epoch in (7, -1):
        row = RequestedPartition("a", 0, 0, 1000, incarnation_epoch=epoch)
        session_epoch = 1 if epoch == 7 else 2
        context = broker.sessions.begin(session_id, session_epoch, [row], (), uses_topic_ids=False)
        assert [one.incarnation_epoch for one in context.requested] == [epoch]


def test_the_partitions_of_a_session_are_known() -> None:
    broker = Broker()
    session_id, _ = finish(broker.begin(NO_SESSION, 0, ("a", 0, 0), ("a", 1, 0), ("b", 0, 0)))
    assert broker.sessions.partitions_of(session_id) == [("a", 0), ("a", 1), ("b", 0)]
    broker.begin(session_id, 1, forgotten=(("b", 0),))
    assert broker.sessions.partitions_of(session_id) == [("a", 0), ("a", 1)]
    assert broker.sessions.partitions_of(NO_SESSION) == []


def test_session_without_partitions_is_closed() -> None:
    broker = Broker()
    session_id = broker.session("a")
    assert finish(broker.begin(session_id, 1, forgotten=(("a", 0),))) == (NO_SESSION, [])
    assert refusal(broker.begin, session_id, 2) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_another_kind_of_topic_reference_is_refused() -> None:
    broker = Broker()
    session_id = broker.session("a")
    code = refusal(broker.begin, session_id, 1, uses_topic_ids=True)
    assert code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


def test_fetch_after_a_newer_one_in_its_session_is_refused() -> None:
    broker = Broker()
    session_id = broker.session("a")
    waiting = broker.begin(session_id, 1)
    broker.begin(session_id, 2)
    assert refusal(finish, waiting) == ErrorCode.INVALID_FETCH_SESSION_EPOCH


def test_epoch_after_the_largest_is_one() -> None:
    assert next_epoch(FIRST_EPOCH) == 1
    assert next_epoch(2**31 - 1) == 1
    assert next_epoch(FINAL_EPOCH) == FINAL_EPOCH


def test_without_a_free_slot_there_is_no_session() -> None:
    broker = Broker(max_sessions=1)
    broker.session("a")
    assert broker.session("b") == NO_SESSION
    assert Broker(max_sessions=0).session("a") == NO_SESSION


def test_stale_session_is_evicted() -> None:
    broker = Broker(max_sessions=2)
    stale = broker.session("a")
    broker.clock.advance(1)
    broker.session("b")
    broker.clock.advance(MIN_EVICTION_AGE_MS)
    assert broker.session("c") != NO_SESSION
    assert refusal(broker.begin, stale, 1) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_old_session_is_evicted_for_a_larger_one() -> None:
    broker = Broker(max_sessions=2)
    large, small = broker.session("a", "b", "c"), broker.session("d", "e")
    broker.clock.advance(MIN_EVICTION_AGE_MS + 1)
    for session_id in (large, small):
        finish(broker.begin(session_id, 1))
    assert broker.session("f", "g") == NO_SESSION
    assert broker.session("f", "g", "h") != NO_SESSION
    assert refusal(broker.begin, small, 2) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    finish(broker.begin(large, 2))


def test_young_session_is_not_evicted() -> None:
    broker = Broker(max_sessions=1)
    broker.session("a")
    broker.clock.advance(MIN_EVICTION_AGE_MS)
    assert broker.session("b", "c", "d") == NO_SESSION


@dataclass
class ModelSession:
    """A simple model of a session that stores everything it reported."""

    requested: dict[str, int] = field(default_factory=dict)
    last_reported: dict[str, tuple[int, int] | None] = field(default_factory=dict)

    def fetch(
        self,
        changes: dict[str, int],
        forgotten: set[str],
        state: dict[str, tuple[int, int, bool]],
    ) -> tuple[dict[str, int], set[str]]:
        for name, offset in changes.items():
            self.requested[name] = offset
        for name in forgotten:
            self.requested.pop(name, None)
            self.last_reported.pop(name, None)
        reported = set()
        for name in self.requested:
            start, end, has_records = state[name]
            if has_records or self.last_reported.get(name) != (start, end):
                reported.add(name)
            self.last_reported[name] = (start, end)
        return dict(self.requested), reported


NAMES = "abcd"
STEPS = st.lists(
    st.tuples(
        st.dictionaries(st.sampled_from(NAMES), st.integers(0, 9)),
        st.sets(st.sampled_from(NAMES), max_size=2),
        st.fixed_dictionaries(
            {name: st.tuples(st.integers(0, 2), st.integers(3, 5), st.booleans()) for name in NAMES}
        ),
    ),
    max_size=12,
)


@given(STEPS)
def test_session_equals_a_simple_model(
    steps: list[tuple[dict[str, int], set[str], dict[str, tuple[int, int, bool]]]],
) -> None:
    broker = Broker()
    model = ModelSession()
    session_id, epoch = NO_SESSION, FIRST_EPOCH
    for changes, forgotten, state in steps:
        if session_id == NO_SESSION:
            model = ModelSession()
            epoch = FIRST_EPOCH
        context = broker.begin(
            session_id,
            epoch,
            *((name, 0, offset) for name, offset in changes.items()),
            forgotten=tuple((name, 0) for name in forgotten),
        )
        expected_requested, expected_reported = model.fetch(
            changes, set() if session_id == NO_SESSION else forgotten, state
        )
        answers: Answers = {
            (name, 0): PartitionData(
                log_start_offset=start, high_watermark=end, records=b"r" if has_records else b""
            )
            for name, (start, end, has_records) in state.items()
        }
        requested = {str(one.topic): one.fetch_offset for one in context.requested}
        if session_id == NO_SESSION or expected_requested:
            assert requested == expected_requested
            session_id, reported = finish(context, answers)
            assert {name for name, _ in reported} == expected_reported
        else:
            session_id, _ = finish(context, answers)
        epoch = next_epoch(epoch)
        if not expected_requested and epoch > 1:
            assert session_id == NO_SESSION


# --- while a fetch pauses ------------------------------------------------------------------------


def run_to_first_pause(task: Callable[[], object]) -> tuple[Worker, list[object]]:
    """Run a task up to its first pause; its result or KafkaError is appended to the list."""
    outcome: list[object] = []

    def run() -> None:
        try:
            outcome.append(task())
        except KafkaError as error:
            outcome.append(error.code)

    worker = Worker()
    worker.task = run
    assert worker.take_turn(0.0) is worker
    return worker, outcome


PAUSING_PARTITIONS = tuple(("t", index, 0) for index in range(ELEMENTS_PER_PAUSE + 1))


def test_epoch_is_used_once_while_a_fetch_pauses() -> None:
    broker = Broker()
    session_id = broker.session("t")
    worker, outcome = run_to_first_pause(lambda: broker.begin(session_id, 1, *PAUSING_PARTITIONS))
    with pytest.raises(KafkaError) as refused:
        broker.begin(session_id, 1)
    assert refused.value.code is ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert worker.take_turn(inf) is None
    assert len(outcome) == 1
    worker.end()


def test_session_can_be_closed_while_its_fetch_pauses() -> None:
    broker = Broker()
    session_id = broker.session("t")
    forgotten = tuple((topic, index) for topic, index, _ in PAUSING_PARTITIONS)
    worker, outcome = run_to_first_pause(lambda: broker.begin(session_id, 1, forgotten=forgotten))
    broker.begin(session_id, FINAL_EPOCH)
    assert worker.take_turn(inf) is None
    assert isinstance(outcome[0], SessionlessFetch)
    worker.end()


def test_session_created_during_a_pause_takes_the_slot() -> None:
    broker = Broker(max_sessions=1)
    requested = [
        RequestedPartition(topic, index, offset, 1000)
        for topic, index, offset in PAUSING_PARTITIONS
    ]
    worker, outcome = run_to_first_pause(
        lambda: broker.sessions.create(requested, uses_topic_ids=False)
    )
    assert broker.session("t") != NO_SESSION
    assert worker.take_turn(inf) is None
    assert outcome == [NO_SESSION]
    assert len(broker.sessions) == 1
    worker.end()
