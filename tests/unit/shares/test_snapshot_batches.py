"""Groups of states: in order, within the size limit, and complete."""

from __future__ import annotations

from kafkalite.shares.snapshot_batches import snapshot_batches
from kafkalite.shares.state import ShareKey, ShareState, StateBatch


def state(batches: int = 0) -> ShareState:
    return ShareState(0, 0, 0, 0, 0, (StateBatch(0, 0, 2, 1),) * batches, 0, 0)


def key(index: int, group_id: str = "g") -> ShareKey:
    return ShareKey(group_id, bytes(16), index)


def test_states_are_grouped_in_order() -> None:
    states = [(key(index), state()) for index in range(7)]
    found = list(snapshot_batches(states, max_bytes=350))
    assert [len(portion) for portion in found] == [3, 3, 1]
    assert [each for portion in found for each in portion] == [each for each, _ in states]


def test_batches_and_long_names_count_for_the_size() -> None:
    states = [(key(0), state(10)), (key(1), state()), (key(2, "\u00fc" * 125), state())]
    assert [len(portion) for portion in snapshot_batches(states, max_bytes=341)] == [1, 1, 1]
    assert [len(portion) for portion in snapshot_batches(states, max_bytes=352)] == [1, 1, 1]
    assert [len(portion) for portion in snapshot_batches(states, max_bytes=451)] == [2, 1]


def test_too_large_state_is_a_group_and_no_states_give_none() -> None:
    assert list(snapshot_batches([(key(0), state(999))], max_bytes=1)) == [[key(0)]]
    assert list(snapshot_batches([])) == []
