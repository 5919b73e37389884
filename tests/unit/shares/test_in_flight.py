"""Batches in flight: runs of records with equal state, split and joined."""

from __future__ import annotations

from functools import partial

from hypothesis import given
from hypothesis import strategies as st

from kafkalite.shares.in_flight import InFlightBatch, InFlightBatches, Run
from kafkalite.shares.state import DeliveryState

A, Q = DeliveryState.AVAILABLE, DeliveryState.ACQUIRED


def faring(state: DeliveryState, run: Run) -> Run:
    return run._replace(state=state)


def batch(first: int, last: int) -> InFlightBatch:
    return InFlightBatch([Run(first, last, Q, 1, "m", 9)])


def test_part_with_another_state_is_split_and_joined_again() -> None:
    one = batch(0, 9)
    one.change(3, 5, lambda run: run._replace(state=A))
    assert [(run.first, run.last, run.state) for run in one.runs] == [
        (0, 2, Q), (3, 5, A), (6, 9, Q),
    ]  # fmt: skip
    assert [(run.first, run.last) for run in one.runs_between(2, 4)] == [(2, 2), (3, 4)]
    assert (one.first, one.last, one.size) == (0, 9, 10)
    one.change(3, 5, lambda run: run._replace(state=Q))
    assert one.runs == batch(0, 9).runs


def test_inverted_range_has_no_runs() -> None:
    one = batch(0, 9)
    one.change(5, 3, lambda run: run._replace(state=A))
    assert list(one.runs_between(5, 3)) == []
    assert one.runs == batch(0, 9).runs


def test_copy_is_independent() -> None:
    one = batch(0, 9)
    two = one.copy()
    two.change(0, 9, lambda run: run._replace(state=A))
    assert one.only_run.state is Q
    assert one.run_at(9) == one.only_run
    assert one.run_at(10) is None
    assert "0-9" in repr(two)


def test_batches_are_found_by_offset() -> None:
    in_flight = InFlightBatches()
    for first in (20, 0, 10):
        in_flight.put(batch(first, first + 4))
    assert [each.first for each in in_flight.batches] == [0, 10, 20]
    assert (in_flight.first, in_flight.last) == (0, 24)
    found = in_flight.floor(17)
    assert found is not None
    assert found.first == 10
    assert in_flight.floor(-1) is None
    assert [each.first for each in in_flight.starting_between(1, 20)] == [10, 20]
    following = in_flight.after(10)
    assert following is not None
    assert following.first == 20
    assert in_flight.after(20) is None
    in_flight.put(batch(10, 12))
    assert [each.last for each in in_flight.batches] == [4, 12, 24]
    in_flight.remove_through(10)
    assert [each.first for each in in_flight.batches] == [20]


@given(
    st.lists(
        st.tuples(st.integers(0, 29), st.integers(0, 29), st.sampled_from(DeliveryState)),
        max_size=12,
    )
)
def test_runs_equal_single_records(
    changes: list[tuple[int, int, DeliveryState]],
) -> None:
    one = batch(0, 29)
    records = dict.fromkeys(range(30), Q)
    for first, last, state in changes:
        one.change(first, last, partial(faring, state))
        records |= dict.fromkeys(range(first, last + 1), state)
    assert {
        offset: run.state for run in one.runs for offset in range(run.first, run.last + 1)
    } == records
    neighbours = zip(one.runs, one.runs[1:], strict=False)
    assert all(a.last + 1 == b.first and a.state is not b.state for a, b in neighbours)
