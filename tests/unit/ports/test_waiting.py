"""Waiting: delivered once to all callbacks, in any order of `then` and `resolve`."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import pytest

from kafkalite.ports.waiting import Waiting, chain, gather, when

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


def test_callbacks_run_in_order_when_the_value_arrives() -> None:
    waiting: Waiting[int] = Waiting()
    notified: list[tuple[str, int]] = []
    waiting.then(lambda value: notified.append(("first", value)))
    waiting.then(lambda value: notified.append(("second", value)))
    assert (waiting.is_resolved, notified) == (False, [])
    waiting.resolve(7)
    assert (waiting.is_resolved, waiting.value) == (True, 7)
    waiting.then(lambda value: notified.append(("late", value)))
    assert notified == [("first", 7), ("second", 7), ("late", 7)]


def test_value_before_arrival_raises_lookup_error() -> None:
    waiting: Waiting[None] = Waiting()
    with pytest.raises(LookupError):
        _ = waiting.value
    waiting.resolve(None)
    with pytest.raises(RuntimeError, match="twice"):
        waiting.resolve(None)


def test_value_is_transformed_before_or_after_it_arrives() -> None:
    waiting: Waiting[int] = Waiting()
    before = when(waiting, str)
    waiting.resolve(7)
    after = when(waiting, str)
    assert isinstance(before, Waiting)
    assert isinstance(after, Waiting)
    assert (before.value, after.value, when(7, str)) == ("7", "7", "7")


def test_refusal_is_never_transformed() -> None:
    refusal = OSError("the disk is full")
    before: Waiting[int] = Waiting()
    mapped = before.map(lambda value: value + 1).map(str)
    notified: list[object] = []
    mapped.then(notified.append)
    before.refuse(refusal)
    assert notified == [refusal]
    assert before.map(lambda value: value + 1).value is refusal  # type: ignore[comparison-overlap]
    with pytest.raises(RuntimeError, match="twice"):
        before.resolve(1)


def test_abandon_calls_on_abandon_once() -> None:
    notified: list[str] = []
    waiting: Waiting[int] = Waiting(on_abandon=lambda: notified.append("gone"))
    mapped = waiting.map(str)
    assert not waiting.is_abandoned
    mapped.abandon()
    mapped.abandon()
    waiting.abandon()
    assert (notified, waiting.is_abandoned) == (["gone"], True)


def test_resolved_waiting_cannot_be_abandoned() -> None:
    notified: list[str] = []
    waiting: Waiting[int] = Waiting(on_abandon=lambda: notified.append("gone"))
    waiting.resolve(1)
    waiting.abandon()
    assert (notified, waiting.is_abandoned) == ([], False)


def test_abandon_without_a_callback_is_accepted() -> None:
    waiting: Waiting[int] = Waiting()
    waiting.abandon()
    waiting.resolve(1)
    assert waiting.is_abandoned


def leading_to(answer: Waiting[T]) -> Callable[[int], T | Waiting[T]]:
    """Return a step of a chain whose result may be a Waiting."""
    return lambda _: answer


def test_chain_waits_for_the_result_of_its_step() -> None:
    first: Waiting[int] = Waiting()
    second: Waiting[str] = Waiting()
    chained = chain(first, leading_to(second))
    assert isinstance(chained, Waiting)
    first.resolve(1)
    assert not chained.is_resolved
    second.resolve("two")
    assert chained.value == "two"
    assert chain(1, lambda value: value + 1) == 2


def test_exception_in_a_chain_is_a_refusal_and_can_be_recovered() -> None:
    first: Waiting[int] = Waiting()

    def fail(_: int) -> int:
        raise ValueError("no")

    chained = chain(first, fail)
    recovered = chain(chained, lambda value: value, lambda refusal: len(str(refusal)))
    passed_on = chain(chained, lambda value: value + 1)
    first.resolve(1)
    assert isinstance(chained, Waiting)
    assert isinstance(recovered, Waiting)
    assert isinstance(passed_on, Waiting)
    assert isinstance(chained.value, ValueError)
    assert recovered.value == 2
    assert passed_on.value is chained.value
    with pytest.raises(ValueError, match="no"):
        chain(1, fail)


def test_abandoning_a_chain_abandons_the_current_waiting() -> None:
    notified: list[str] = []
    first: Waiting[int] = Waiting(on_abandon=lambda: notified.append("first"))
    second: Waiting[int] = Waiting(on_abandon=lambda: notified.append("second"))
    chained = chain(first, leading_to(second))
    assert isinstance(chained, Waiting)
    first.resolve(1)
    chained.abandon()
    assert notified == ["second"]


def test_answers_are_gathered_in_order_with_refusals() -> None:
    notified: list[str] = []
    first: Waiting[int] = Waiting(on_abandon=lambda: notified.append("first"))
    last: Waiting[int] = Waiting(on_abandon=lambda: notified.append("last"))
    gathered = gather([first, 2, last])
    assert isinstance(gathered, Waiting)
    refusal = ValueError("no")
    last.refuse(refusal)
    assert not gathered.is_resolved
    gathered.abandon()
    assert notified == ["first"]
    first.resolve(1)
    assert gathered.value == [1, 2, refusal]
    assert gather([1, 2]) == [1, 2]
