"""Waiting: delivered once, to whoever asked, in whatever order asking and answering happen."""

from __future__ import annotations

import pytest

from kafkalite.ports.waiting import Waiting, when


def test_callbacks_run_when_the_value_arrives_in_the_order_they_came() -> None:
    waiting: Waiting[int] = Waiting()
    heard: list[tuple[str, int]] = []
    waiting.then(lambda value: heard.append(("first", value)))
    waiting.then(lambda value: heard.append(("second", value)))
    assert (waiting.is_resolved, heard) == (False, [])
    waiting.resolve(7)
    assert (waiting.is_resolved, waiting.value) == (True, 7)
    waiting.then(lambda value: heard.append(("late", value)))
    assert heard == [("first", 7), ("second", 7), ("late", 7)]


def test_a_value_is_there_or_asking_for_it_is_a_mistake() -> None:
    waiting: Waiting[None] = Waiting()
    with pytest.raises(LookupError):
        _ = waiting.value
    waiting.resolve(None)
    with pytest.raises(RuntimeError, match="twice"):
        waiting.resolve(None)


def test_an_answer_may_be_transformed_before_or_after_it_is_there() -> None:
    waiting: Waiting[int] = Waiting()
    before = when(waiting, str)
    waiting.resolve(7)
    after = when(waiting, str)
    assert isinstance(before, Waiting)
    assert isinstance(after, Waiting)
    assert (before.value, after.value, when(7, str)) == ("7", "7", "7")


def test_a_refusal_is_never_taken_for_a_value() -> None:
    refusal = OSError("the disk is full")
    before: Waiting[int] = Waiting()
    mapped = before.map(lambda value: value + 1).map(str)
    heard: list[object] = []
    mapped.then(heard.append)
    before.refuse(refusal)
    assert heard == [refusal]
    assert before.map(lambda value: value + 1).value is refusal  # type: ignore[comparison-overlap]
    with pytest.raises(RuntimeError, match="twice"):
        before.resolve(1)


def test_whoever_holds_resources_hears_once_that_the_asker_is_gone() -> None:
    heard: list[str] = []
    waiting: Waiting[int] = Waiting(on_abandon=lambda: heard.append("gone"))
    mapped = waiting.map(str)
    assert not waiting.is_abandoned
    mapped.abandon()
    mapped.abandon()
    waiting.abandon()
    assert (heard, waiting.is_abandoned) == (["gone"], True)


def test_an_answer_that_was_given_cannot_be_abandoned() -> None:
    heard: list[str] = []
    waiting: Waiting[int] = Waiting(on_abandon=lambda: heard.append("gone"))
    waiting.resolve(1)
    waiting.abandon()
    assert (heard, waiting.is_abandoned) == ([], False)


def test_nobody_need_care() -> None:
    waiting: Waiting[int] = Waiting()
    waiting.abandon()
    waiting.resolve(1)
    assert waiting.is_abandoned
