"""Portions of states: in their order, none too large, and none left out."""

from __future__ import annotations

from kafkalite.shares.portions import portions
from kafkalite.shares.state import ShareKey, ShareState, StateBatch


def state(batches: int = 0) -> ShareState:
    return ShareState(0, 0, 0, 0, 0, (StateBatch(0, 0, 2, 1),) * batches, 0, 0)


def key(index: int, group_id: str = "g") -> ShareKey:
    return ShareKey(group_id, bytes(16), index)


def test_states_are_told_off_in_their_order() -> None:
    states = [(key(index), state()) for index in range(7)]
    found = list(portions(states, most_bytes=350))
    assert [len(portion) for portion in found] == [3, 3, 1]
    assert [each for portion in found for each in portion] == [each for each, _ in states]


def test_batches_and_long_names_count() -> None:
    states = [(key(0), state(10)), (key(1), state()), (key(2, "\u00fc" * 125), state())]
    assert [len(portion) for portion in portions(states, most_bytes=341)] == [1, 1, 1]
    assert [len(portion) for portion in portions(states, most_bytes=352)] == [1, 1, 1]
    assert [len(portion) for portion in portions(states, most_bytes=451)] == [2, 1]


def test_a_state_that_is_too_large_comes_alone_and_nothing_makes_no_portion() -> None:
    assert list(portions([(key(0), state(999))], most_bytes=1)) == [[key(0)]]
    assert list(portions([])) == []
