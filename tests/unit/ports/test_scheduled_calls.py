"""ScheduledCalls: due calls in order, and cancelled calls."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kafkalite.ports.scheduled_calls import ScheduledCalls


def named(calls: ScheduledCalls, until_ms: int, newest: int | None = None) -> list[int]:
    found = []
    while (due := calls.pop_due(until_ms, newest)) is not None:
        due[1]()
        found.append(due[0])
    return found


def nothing() -> None:
    """Do nothing."""


def test_calls_are_ordered_by_deadline_then_by_request() -> None:
    calls, called = ScheduledCalls(), list[str]()
    for name, deadline_ms in (("late", 20), ("first", 10), ("second", 10)):
        calls.add(deadline_ms, lambda name=name: called.append(name))  # type: ignore[misc]
    assert calls.next_deadline_ms() == 10
    assert named(calls, 19) == [10, 10]
    assert called == ["first", "second"]
    assert len(calls) == 1


def test_a_cancelled_call_is_never_due() -> None:
    calls = ScheduledCalls()
    due = calls.add(10, nothing)
    due.cancel()
    due.cancel()
    assert len(calls) == 0
    assert calls.next_deadline_ms() is None
    assert calls.pop_due(100) is None


def test_cancel_after_the_call_has_no_effect() -> None:
    calls = ScheduledCalls()
    due = calls.add(10, nothing)
    assert named(calls, 10) == [10]
    due.cancel()
    assert len(calls) == 0


def test_calls_added_after_a_given_number_are_not_returned() -> None:
    calls = ScheduledCalls()
    calls.add(10, nothing)
    newest = calls.latest_number
    calls.add(5, nothing)
    calls.add(10, nothing)
    assert named(calls, 10, newest) == [10]
    assert len(calls) == 2
    assert named(calls, 10) == [5, 10]


@given(st.lists(st.tuples(st.integers(0, 50), st.booleans(), st.booleans())))
def test_queue_equals_a_sorted_list_with_cancellations(
    requests: list[tuple[int, bool, bool]],
) -> None:
    calls = ScheduledCalls()
    dues = [(deadline_ms, calls.add(deadline_ms, nothing)) for deadline_ms, _, _ in requests * 3]
    active = []
    for (deadline_ms, due), (_, cancelled, again) in zip(dues, requests * 3, strict=True):
        if cancelled:
            due.cancel()
        else:
            active.append(deadline_ms)
        if again:
            due.cancel()
            if not cancelled:
                active.pop()
    assert len(calls) == len(active)
    assert named(calls, 50) == sorted(active)


def test_cancelled_calls_are_removed_from_the_heap() -> None:
    calls = ScheduledCalls()
    calls.add(1, nothing)
    for _ in range(10_000):
        calls.add(1_000_000, nothing).cancel()
    assert len(calls._heap) < 200
