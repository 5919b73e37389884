"""Fetch sessions remember what was wanted and told, and nothing else (KIP-227)."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalite.partitions.fetch_sessions import (
    EVICTION_MS,
    FINAL_EPOCH,
    FIRST_EPOCH,
    NO_SESSION,
    FetchContext,
    FetchSessions,
    PartitionKey,
    Wanted,
    next_epoch,
)
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.messages.fetch import FetchResponse
from kafkalite.testing.clock import ManualClock
from kafkalite.testing.entropy import SeededEntropy

PartitionData = FetchResponse.PartitionData
Answers = dict[PartitionKey, PartitionData]


class Broker:
    """Fetch sessions, and partitions as they are told to be."""

    def __init__(self, slots: int = 3) -> None:
        self.clock = ManualClock(0)
        self.sessions = FetchSessions(slots=slots, clock=self.clock, entropy=SeededEntropy())

    def begin(
        self,
        session_id: int = NO_SESSION,
        epoch: int = FIRST_EPOCH,
        *wanted: tuple[str, int, int],
        forgotten: tuple[tuple[str, int], ...] = (),
        uses_topic_ids: bool = False,
    ) -> FetchContext:
        return self.sessions.begin(
            session_id,
            epoch,
            [Wanted(topic, index, offset, 1000) for topic, index, offset in wanted],
            forgotten,
            uses_topic_ids=uses_topic_ids,
        )

    def session(self, *names: str, uses_topic_ids: bool = False) -> int:
        """Make a session of one partition per name."""
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
    session_id, told = context.finish(
        [
            (one, given_answers.get((one.topic, one.index)) or PartitionData(log_start_offset=0))
            for one in context.wanted
        ]
    )
    return session_id, [(one.topic, one.index) for one, _ in told]


def refusal(context: object, *arguments: object, **named: object) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        context(*arguments, **named)  # type: ignore[operator]
    return caught.value.code


def test_a_full_fetch_gets_a_session_and_all_its_partitions() -> None:
    broker = Broker()
    session_id, told = finish(broker.begin(NO_SESSION, FIRST_EPOCH, ("a", 0, 5), ("b", 1, 0)))
    assert session_id > 0
    assert told == [("a", 0), ("b", 1)]
    assert len(broker.sessions) == 1


def test_a_final_fetch_gets_none_and_ends_the_one_it_names() -> None:
    broker = Broker()
    session_id = broker.session("a")
    context = broker.begin(session_id, FINAL_EPOCH, ("a", 0, 0))
    assert finish(context) == (NO_SESSION, [("a", 0)])
    assert len(broker.sessions) == 0


def test_an_incremental_fetch_is_told_news_only() -> None:
    broker = Broker()
    session_id = broker.session("a", "b", "c", "d", "e", "f")
    context = broker.begin(session_id, 1)
    assert [one.topic for one in context.wanted] == ["a", "b", "c", "d", "e", "f"]
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


def test_what_was_told_is_not_told_again_except_after_an_error() -> None:
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


def test_a_partition_that_was_served_waits_longest() -> None:
    broker = Broker()
    session_id = broker.session("a", "b", "c")
    finish(broker.begin(session_id, 1), {("a", 0): PartitionData(records=b"r")})
    assert [one.topic for one in broker.begin(session_id, 2).wanted] == ["b", "c", "a"]


def test_partitions_are_added_changed_and_forgotten() -> None:
    broker = Broker()
    session_id = broker.session("a", "b")
    context = broker.begin(session_id, 1, ("a", 0, 7), ("c", 0, 1), forgotten=(("b", 0), ("x", 9)))
    assert [(one.topic, one.fetch_offset) for one in context.wanted] == [("a", 7), ("c", 1)]


def test_a_session_that_wants_nothing_more_ends() -> None:
    broker = Broker()
    session_id = broker.session("a")
    assert finish(broker.begin(session_id, 1, forgotten=(("a", 0),))) == (NO_SESSION, [])
    assert refusal(broker.begin, session_id, 2) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_session_must_be_known_at_its_epoch_and_of_its_kind() -> None:
    broker = Broker()
    session_id = broker.session("a")
    assert refusal(broker.begin, session_id + 1, 1) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert refusal(broker.begin, session_id, 2) == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert (
        refusal(broker.begin, session_id, 1, uses_topic_ids=True)
        == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    )
    finish(broker.begin(session_id, 1))
    assert refusal(broker.begin, session_id, 1) == ErrorCode.INVALID_FETCH_SESSION_EPOCH


def test_a_fetch_overtaken_by_another_in_its_session_is_refused() -> None:
    broker = Broker()
    session_id = broker.session("a")
    waiting = broker.begin(session_id, 1)
    broker.begin(session_id, 2)
    assert refusal(finish, waiting) == ErrorCode.INVALID_FETCH_SESSION_EPOCH


def test_epochs_count_on_from_one_after_the_largest() -> None:
    assert next_epoch(FIRST_EPOCH) == 1
    assert next_epoch(2**31 - 1) == 1
    assert next_epoch(FINAL_EPOCH) == FINAL_EPOCH


def test_without_a_free_slot_there_is_no_session() -> None:
    broker = Broker(slots=1)
    broker.session("a")
    assert broker.session("b") == NO_SESSION
    assert Broker(slots=0).session("a") == NO_SESSION


def test_a_stale_session_gives_way() -> None:
    broker = Broker(slots=2)
    stale = broker.session("a")
    broker.clock.advance(1)
    broker.session("b")
    broker.clock.advance(EVICTION_MS)
    assert broker.session("c") != NO_SESSION
    assert refusal(broker.begin, stale, 1) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_an_old_session_gives_way_to_a_larger_one() -> None:
    broker = Broker(slots=2)
    large, small = broker.session("a", "b", "c"), broker.session("d", "e")
    broker.clock.advance(EVICTION_MS + 1)
    for session_id in (large, small):
        finish(broker.begin(session_id, 1))
    assert broker.session("f", "g") == NO_SESSION
    assert broker.session("f", "g", "h") != NO_SESSION
    assert refusal(broker.begin, small, 2) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    finish(broker.begin(large, 2))


def test_a_young_session_gives_way_to_none() -> None:
    broker = Broker(slots=1)
    broker.session("a")
    broker.clock.advance(EVICTION_MS)
    assert broker.session("b", "c", "d") == NO_SESSION


@dataclass
class Twin:
    """A session as the protocol describes it, told naively from its whole history."""

    wanted: dict[str, int] = field(default_factory=dict)
    last_told: dict[str, tuple[int, int] | None] = field(default_factory=dict)

    def fetch(
        self,
        changes: dict[str, int],
        forgotten: set[str],
        state: dict[str, tuple[int, int, bool]],
    ) -> tuple[dict[str, int], set[str]]:
        for name, offset in changes.items():
            self.wanted[name] = offset
        for name in forgotten:
            self.wanted.pop(name, None)
            self.last_told.pop(name, None)
        told = set()
        for name in self.wanted:
            start, end, has_records = state[name]
            if has_records or self.last_told.get(name) != (start, end):
                told.add(name)
            self.last_told[name] = (start, end)
        return dict(self.wanted), told


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
def test_a_session_tells_what_its_naive_twin_tells(
    steps: list[tuple[dict[str, int], set[str], dict[str, tuple[int, int, bool]]]],
) -> None:
    broker = Broker()
    twin = Twin()
    session_id, epoch = NO_SESSION, FIRST_EPOCH
    for changes, forgotten, state in steps:
        if session_id == NO_SESSION:
            twin = Twin()
            epoch = FIRST_EPOCH
        context = broker.begin(
            session_id,
            epoch,
            *((name, 0, offset) for name, offset in changes.items()),
            forgotten=tuple((name, 0) for name in forgotten),
        )
        expected_wanted, expected_told = twin.fetch(
            changes, set() if session_id == NO_SESSION else forgotten, state
        )
        answers: Answers = {
            (name, 0): PartitionData(
                log_start_offset=start, high_watermark=end, records=b"r" if has_records else b""
            )
            for name, (start, end, has_records) in state.items()
        }
        wanted = {str(one.topic): one.fetch_offset for one in context.wanted}
        if session_id == NO_SESSION or expected_wanted:
            assert wanted == expected_wanted
            session_id, told = finish(context, answers)
            assert {name for name, _ in told} == expected_told
        else:
            session_id, _ = finish(context, answers)
        epoch = next_epoch(epoch)
        if not expected_wanted and epoch > 1:
            assert session_id == NO_SESSION
