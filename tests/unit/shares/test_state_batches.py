"""Combined state batches have the furthest state of each offset, and do not overlap."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalite.shares.state import StateBatch
from kafkalite.shares.state_batches import combine_batches

if TYPE_CHECKING:
    from collections.abc import Iterable


def b(first: int, last: int, state: int = 0, count: int = 1) -> StateBatch:
    return StateBatch(first, last, state, count)


@pytest.mark.parametrize(
    ("stored", "new", "combined"),
    [
        ([], [], []),
        ([b(0, 4)], [b(5, 9)], [b(0, 9)]),
        ([b(0, 4, 2)], [b(5, 9, 4)], [b(0, 4, 2), b(5, 9, 4)]),
        ([b(0, 9)], [b(0, 9, 2)], [b(0, 9, 2)]),
        ([b(0, 9, 0, 2)], [b(0, 9, 2, 1)], [b(0, 9, 0, 2)]),
        ([b(0, 9)], [b(3, 5, 2)], [b(0, 2), b(3, 5, 2), b(6, 9)]),
        ([b(3, 5, 2)], [b(0, 9)], [b(0, 2), b(3, 5, 2), b(6, 9)]),
        ([b(0, 5)], [b(3, 9, 2)], [b(0, 2), b(3, 9, 2)]),
        ([b(0, 5, 2)], [b(3, 9)], [b(0, 5, 2), b(6, 9)]),
        ([b(0, 9)], [b(5, 9, 2)], [b(0, 4), b(5, 9, 2)]),
        ([b(0, 9)], [b(2, 3)], [b(0, 9)]),
    ],
)
def test_overlapping_batches_are_combined(
    stored: list[StateBatch], new: list[StateBatch], combined: list[StateBatch]
) -> None:
    assert combine_batches(stored, new, -1) == tuple(combined)


def test_batches_before_the_start_are_removed() -> None:
    assert combine_batches([b(0, 4, 2), b(5, 9)], [b(20, 20)], 7) == (b(7, 9), b(20, 20))


BATCHES = st.lists(
    st.builds(
        lambda first, length, state, count: b(first, first + length, state, count),
        st.integers(0, 30),
        st.integers(0, 12),
        st.sampled_from([0, 2, 4]),
        st.integers(1, 3),
    ),
    max_size=8,
)


def states_by_offset(batches: Iterable[StateBatch], start: int) -> dict[int, tuple[int, int]]:
    """Return the largest count and state of each offset."""
    found: dict[int, tuple[int, int]] = {}
    for batch in batches:
        for offset in range(max(batch.first_offset, start), batch.last_offset + 1):
            state = (batch.delivery_count, batch.delivery_state)
            found[offset] = max(found.get(offset, state), state)
    return found


@given(stored=BATCHES, new=BATCHES, start=st.integers(-1, 35))
def test_each_offset_has_the_state_of_its_furthest_batch(
    stored: list[StateBatch], new: list[StateBatch], start: int
) -> None:
    combined = combine_batches(stored, new, start)
    assert states_by_offset(combined, start) == states_by_offset([*stored, *new], start)
    for earlier, later in pairwise(combined):
        assert earlier.last_offset < later.first_offset
