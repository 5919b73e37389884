"""Agenda: what is due, in order, and what was cancelled."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kafkalite.ports.agenda import Agenda


def named(agenda: Agenda, until_ms: int, newest: int | None = None) -> list[int]:
    found = []
    while (due := agenda.pop_due(until_ms, newest)) is not None:
        due[1]()
        found.append(due[0])
    return found


def nothing() -> None:
    """Be called."""


def test_calls_are_due_by_deadline_then_in_the_order_asked_for() -> None:
    agenda, called = Agenda(), list[str]()
    for name, deadline_ms in (("late", 20), ("first", 10), ("second", 10)):
        agenda.add(deadline_ms, lambda name=name: called.append(name))  # type: ignore[misc]
    assert agenda.next_deadline_ms() == 10
    assert named(agenda, 19) == [10, 10]
    assert called == ["first", "second"]
    assert len(agenda) == 1


def test_a_cancelled_call_is_never_due() -> None:
    agenda = Agenda()
    due = agenda.add(10, nothing)
    due.cancel()
    due.cancel()
    assert len(agenda) == 0
    assert agenda.next_deadline_ms() is None
    assert agenda.pop_due(100) is None


def test_to_cancel_what_was_called_is_harmless() -> None:
    agenda = Agenda()
    due = agenda.add(10, nothing)
    assert named(agenda, 10) == [10]
    due.cancel()
    assert len(agenda) == 0


def test_calls_asked_for_later_can_be_passed_over_and_stay() -> None:
    agenda = Agenda()
    agenda.add(10, nothing)
    newest = agenda.newest
    agenda.add(5, nothing)
    agenda.add(10, nothing)
    assert named(agenda, 10, newest) == [10]
    assert len(agenda) == 2
    assert named(agenda, 10) == [5, 10]


@given(st.lists(st.tuples(st.integers(0, 50), st.booleans(), st.booleans())))
def test_it_agrees_with_a_sorted_list_however_many_are_cancelled(
    wishes: list[tuple[int, bool, bool]],
) -> None:
    agenda = Agenda()
    dues = [(deadline_ms, agenda.add(deadline_ms, nothing)) for deadline_ms, _, _ in wishes * 3]
    wanted = []
    for (deadline_ms, due), (_, cancelled, again) in zip(dues, wishes * 3, strict=True):
        if cancelled:
            due.cancel()
        else:
            wanted.append(deadline_ms)
        if again:
            due.cancel()
            if not cancelled:
                wanted.pop()
    assert len(agenda) == len(wanted)
    assert named(agenda, 50) == sorted(wanted)


def test_many_cancelled_calls_take_no_room() -> None:
    agenda = Agenda()
    agenda.add(1, nothing)
    for _ in range(10_000):
        agenda.add(1_000_000, nothing).cancel()
    assert len(agenda._heap) < 200
