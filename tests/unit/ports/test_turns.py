"""Pauses of long tasks."""

from __future__ import annotations

import gc
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from kafkalite.ports import turns
from kafkalite.ports.turns import (
    ELEMENTS_PER_PAUSE,
    PausingList,
    ThreadCall,
    chunks,
    clear_in_steps,
    end_turn,
    in_steps,
    items_in_steps,
    iterate_with_pauses,
    pause,
    pausing,
    pop_items,
    run_in_thread,
    without_pauses,
)
from tests.unit.ports.worker_tasks import LONG, OVER, worker_with

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable


def turns_taken(task: Callable[[], None]) -> int:
    """Run a task whose every turn ends at once; return the number of turns."""
    worker = worker_with(task)
    count = 1
    while worker.take_turn(OVER) is not None:
        count += 1
    worker.end()
    return count


def test_worker_pauses_after_its_turn_and_continues() -> None:
    seen: list[str] = []

    def task() -> None:
        seen.append("one")
        pause()
        seen.append("two")

    worker = worker_with(task)
    assert worker.take_turn(OVER) is worker
    assert seen == ["one"]
    assert worker.take_turn(OVER) is None
    assert seen == ["one", "two"]
    worker.end()


def test_a_pause_returns_at_once_while_the_turn_lasts() -> None:
    pauses = turns.pause_count
    worker = worker_with(pause)
    assert worker.take_turn(LONG) is None
    assert turns.pause_count == pauses
    worker.end()


def test_a_turn_can_be_ended_before_its_time() -> None:
    pauses = turns.pause_count
    worker = worker_with(end_turn)
    assert worker.take_turn(LONG) is worker
    assert worker.take_turn(LONG) is None
    assert turns.pause_count == pauses + 1
    worker.task = lambda: without_pauses(end_turn)
    assert worker.take_turn(LONG) is None
    worker.end()


def test_outside_of_a_worker_nothing_pauses_or_uses_threads() -> None:
    pauses = turns.pause_count
    pause()
    end_turn()
    assert run_in_thread(lambda: "done") == "done"
    assert turns.pause_count == pauses


def test_pauses_are_counted() -> None:
    pauses = turns.pause_count

    def task() -> None:
        pause()
        pause()

    assert turns_taken(task) == 3
    assert turns.pause_count == pauses + 2


def test_waiting_for_a_thread_counts_as_a_pause() -> None:
    pauses = turns.pause_count
    worker = worker_with(lambda: run_in_thread(lambda: None))
    waited_for = worker.take_turn(LONG)
    assert isinstance(waited_for, ThreadCall)
    assert turns.pause_count == pauses + 1
    worker.end()


def test_run_in_thread_returns_the_result() -> None:
    results: list[object] = []
    worker = worker_with(lambda: results.append(run_in_thread(lambda: 6 * 7)))
    waited_for = worker.take_turn(LONG)
    assert isinstance(waited_for, ThreadCall)
    assert results == []
    waited_for.run()
    assert worker.take_turn(LONG) is None
    assert results == [42]
    worker.end()


def test_run_in_thread_raises_the_exception() -> None:
    failures: list[str] = []

    def fail() -> None:
        raise ValueError("damaged")

    def task() -> None:
        try:
            run_in_thread(fail)
        except ValueError as error:
            failures.append(str(error))

    worker = worker_with(task)
    waited_for = worker.take_turn(LONG)
    assert isinstance(waited_for, ThreadCall)
    waited_for.run()
    assert worker.take_turn(LONG) is None
    assert failures == ["damaged"]
    worker.end()


def test_exception_of_a_thread_refers_to_nothing_after_it_was_handled() -> None:
    class Argument:
        pass

    def fail(argument: Argument) -> None:
        raise ValueError(argument)

    def task() -> None:
        argument = Argument()
        with suppress(ValueError):
            run_in_thread(lambda: fail(argument))

    worker = worker_with(task)
    gc.collect()
    gc.disable()
    try:
        waited_for = worker.take_turn(LONG)
        assert isinstance(waited_for, ThreadCall)
        waited_for.run()
        del waited_for
        assert worker.take_turn(LONG) is None
        # A weak reference of another library raises an error if its class is read.
        assert not [each for each in gc.get_objects() if type(each) is Argument]
    finally:
        gc.enable()
    worker.end()


def test_few_elements_are_not_copied() -> None:
    few = list(range(ELEMENTS_PER_PAUSE))
    assert in_steps(few) is few


@pytest.mark.parametrize(
    "count", [ELEMENTS_PER_PAUSE + 1, 5 * ELEMENTS_PER_PAUSE, 5 * ELEMENTS_PER_PAUSE + 1]
)
def test_iteration_pauses_after_a_fixed_number_of_elements(count: int) -> None:
    seen: list[int] = []
    assert (
        turns_taken(lambda: seen.extend(in_steps(range(count)))) == 1 + count // ELEMENTS_PER_PAUSE
    )
    assert seen == list(range(count))


def test_many_elements_are_copied() -> None:
    table = dict.fromkeys(range(2 * ELEMENTS_PER_PAUSE))
    seen: list[int] = []
    worker = worker_with(lambda: seen.extend(in_steps(table.keys())))
    worker.take_turn(OVER)
    table.clear()
    while worker.take_turn(OVER) is not None:
        pass
    assert seen == list(range(2 * ELEMENTS_PER_PAUSE))
    worker.end()


@pytest.mark.parametrize("view", [dict.keys, dict.values, dict.items])
def test_view_of_few_elements_is_copied(
    view: Callable[[dict[int, int]], Collection[object]],
) -> None:
    table = {1: 1, 2: 2}
    seen: list[object] = []

    def task() -> None:
        for element in in_steps(view(table)):
            pause()
            seen.append(element)

    worker = worker_with(task)
    worker.take_turn(OVER)
    table[3] = 3
    while worker.take_turn(OVER) is not None:
        pass
    assert len(seen) == 2
    worker.end()


def test_without_pauses_does_not_pause() -> None:
    seen: list[int] = []
    elements = iterate_with_pauses(range(10 * ELEMENTS_PER_PAUSE))
    assert turns_taken(lambda: without_pauses(lambda: seen.extend(elements))) == 1
    assert len(seen) == 10 * ELEMENTS_PER_PAUSE
    assert without_pauses(lambda: "outside of a worker") == "outside of a worker"


def test_without_pauses_uses_no_thread() -> None:
    seen: list[str] = []
    assert (
        turns_taken(lambda: without_pauses(lambda: run_in_thread(lambda: seen.append("done")))) == 1
    )
    assert seen == ["done"]


def test_chunks_contain_all_elements_and_pause_in_between() -> None:
    seen: list[list[int]] = []
    task = lambda: seen.extend(map(list, chunks(range(7), 3)))  # noqa: E731
    assert turns_taken(task) == 4
    assert seen == [[0, 1, 2], [3, 4, 5], [6]]
    assert list(chunks([], 3)) == [[]]


@pytest.mark.parametrize("make", [list, dict.fromkeys])
def test_release_empties_in_steps(
    make: Callable[[range], list[int] | dict[int, None]],
) -> None:
    elements = make(range(3 * ELEMENTS_PER_PAUSE + 1))
    assert turns_taken(lambda: clear_in_steps(elements)) == 4
    assert not elements


@pytest.mark.parametrize("count", [0, 3, ELEMENTS_PER_PAUSE, 3 * ELEMENTS_PER_PAUSE + 1])
def test_items_are_yielded_in_order(count: int) -> None:
    elements = {number: -number for number in range(count)}
    assert list(items_in_steps(elements)) == list(elements.items())


def test_iteration_over_many_items_pauses() -> None:
    elements = dict.fromkeys(range(3 * ELEMENTS_PER_PAUSE))
    seen: list[object] = []
    assert turns_taken(lambda: seen.extend(items_in_steps(elements))) == 4
    assert seen == list(elements.items())


def test_items_are_removed_in_order() -> None:
    elements = {number: -number for number in range(3)}
    items = list(elements.items())
    popped = pop_items(elements)
    assert next(popped) == items[0]
    assert list(elements.items()) == items[1:]
    assert list(popped) == items[1:]
    assert not elements


def add_up(numbers: Iterable[int], sums: list[int]) -> None:
    sums.append(sum(numbers))


def test_a_long_list_pauses_while_it_is_iterated() -> None:
    numbers = list(range(4 * ELEMENTS_PER_PAUSE))
    paused, sums = pausing(numbers), list[int]()
    assert paused == numbers
    assert turns_taken(lambda: add_up(paused, sums)) == 5
    assert turns_taken(lambda: add_up(list(paused), sums)) == 5
    assert turns_taken(lambda: add_up(in_steps(paused), sums)) == 5
    assert sums == [sum(numbers)] * 3


def test_a_short_list_is_itself() -> None:
    numbers = list(range(ELEMENTS_PER_PAUSE))
    assert pausing(numbers) is numbers


def test_a_decision_and_a_slice_of_a_long_list_do_not_pause() -> None:
    paused, sums = PausingList(range(4 * ELEMENTS_PER_PAUSE)), list[int]()
    assert turns_taken(lambda: without_pauses(lambda: add_up(paused, sums))) == 1
    assert turns_taken(lambda: add_up(paused[:], sums)) == 1
