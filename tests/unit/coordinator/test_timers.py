"""TimerQueue: set, cancel and due timers."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kafkalite.coordinator.contract import CancelTimer, SetTimer
from kafkalite.coordinator.timers import TimerQueue


def test_events_come_due_in_the_order_of_their_deadlines() -> None:
    queue = TimerQueue()
    queue.set("b", 20, "second")
    queue.set("a", 10, "first")
    assert queue.next_deadline_ms() == 10
    assert [queue.pop_due(20), queue.pop_due(20), queue.pop_due(20)] == ["first", "second", None]


def test_nothing_is_due_before_its_deadline() -> None:
    queue = TimerQueue()
    queue.set("a", 10, "event")
    assert queue.pop_due(9) is None
    assert queue.pop_due(10) == "event"


def test_setting_a_timer_again_replaces_its_deadline_and_event() -> None:
    queue = TimerQueue()
    queue.apply([SetTimer("a", 10, "old"), SetTimer("a", 30, "new")])
    assert queue.next_deadline_ms() == 30
    assert queue.pop_due(30) == "new"
    assert queue.pop_due(30) is None


def test_a_cancelled_event_never_comes_due() -> None:
    queue = TimerQueue()
    queue.apply([SetTimer("a", 10, "event"), CancelTimer("a"), CancelTimer("unknown")])
    assert queue.next_deadline_ms() is None
    assert len(queue) == 0


def test_cancelled_entries_are_removed_from_the_heap() -> None:
    queue = TimerQueue()
    for deadline_ms in range(10_000):
        queue.set("a", deadline_ms, deadline_ms)
    assert len(queue._heap) < 100
    assert queue.pop_due(10_000) == 9_999


@given(
    st.lists(
        st.one_of(
            st.builds(SetTimer, st.integers(0, 5), st.integers(0, 50), st.integers()),
            st.builds(CancelTimer, st.integers(0, 5)),
        )
    ),
    st.integers(0, 50),
)
def test_queue_equals_a_plain_dict(changes: list[SetTimer | CancelTimer], now_ms: int) -> None:
    queue = TimerQueue()
    queue.apply(changes)
    model: dict[object, tuple[int, int, object]] = {}
    for order, change in enumerate(changes):
        if isinstance(change, SetTimer):
            model[change.key] = (change.deadline_ms, order, change.event)
        else:
            model.pop(change.key, None)
    due = [event for deadline_ms, _, event in sorted(model.values(), key=lambda held: held[:2])
           if deadline_ms <= now_ms]  # fmt: skip
    popped = []
    while len(queue) and (deadline := queue.next_deadline_ms()) is not None and deadline <= now_ms:
        popped.append(queue.pop_due(now_ms))
    assert popped == due
