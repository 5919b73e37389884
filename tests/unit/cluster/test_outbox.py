"""Outbox: intents are carried out immediately, or retried until they succeed."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from kafkalite.cluster import outbox
from kafkalite.cluster.outbox import INITIAL_RETRY_BACKOFF_MS, MAX_RETRY_BACKOFF_MS, Outbox
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.testing.clock import ManualClock


class Deliver(NamedTuple):
    """An intent."""

    what: str


class OutboxWithHandler:
    """An outbox whose carrier can be made to fail."""

    def __init__(self) -> None:
        self.clock = ManualClock(1_000)
        self.outbox = Outbox(self.clock)
        self.outbox.assign(Deliver, self.deliver)
        self.done: list[str] = []
        self.tried_ms: list[int] = []
        self.failures = 0

    def deliver(self, intent: Deliver) -> None:
        self.tried_ms.append(self.clock.now_ms())
        if self.failures:
            self.failures -= 1
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        self.done.append(intent.what)


def test_an_intent_is_carried_out_before_its_decision_returns() -> None:
    stage = OutboxWithHandler()
    stage.outbox.open()
    stage.outbox.carry_out(Deliver("a"))
    assert stage.done == ["a"]
    assert len(stage.outbox) == 0


def test_an_intent_before_the_opening_is_carried_out_at_the_opening() -> None:
    stage = OutboxWithHandler()
    stage.outbox.carry_out(Deliver("a"))
    stage.outbox.carry_out(Deliver("b"))
    assert stage.done == []
    stage.outbox.open()
    assert stage.done == ["a", "b"]


def test_failed_intents_are_retried_with_growing_delays() -> None:
    stage = OutboxWithHandler()
    stage.outbox.open()
    stage.failures = 9
    stage.outbox.carry_out(Deliver("a"))
    stage.clock.advance(200_000)
    gaps = [b - a for a, b in zip(stage.tried_ms, stage.tried_ms[1:], strict=False)]
    assert gaps == [
        INITIAL_RETRY_BACKOFF_MS,
        1_000,
        2_000,
        4_000,
        8_000,
        16_000,
        *[MAX_RETRY_BACKOFF_MS] * 3,
    ]
    assert stage.done == ["a"]
    assert len(stage.outbox) == 0


def test_a_delayed_intent_is_retried_like_any_other() -> None:
    stage = OutboxWithHandler()
    stage.outbox.open()
    stage.failures = 2
    stage.outbox.carry_out_later(Deliver("a"), 0)
    assert stage.tried_ms == []
    assert len(stage.outbox) == 1
    stage.clock.advance(10_000)
    assert stage.tried_ms == [
        1_000,
        1_000 + INITIAL_RETRY_BACKOFF_MS,
        2_000 + INITIAL_RETRY_BACKOFF_MS,
    ]
    assert stage.done == ["a"]


def test_an_intent_that_creates_another_is_completed_first() -> None:
    stage = OutboxWithHandler()
    order: list[str] = []

    def deliver(intent: Deliver) -> None:
        if intent.what == "a":
            stage.outbox.carry_out(Deliver("b"))
        order.append(intent.what)

    stage.outbox.assign(Deliver, deliver)
    stage.outbox.open()
    stage.outbox.carry_out(Deliver("a"))
    assert order == ["a", "b"]


def test_equal_intents_wait_only_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox, "MAX_TIMERS", 1)
    stage = OutboxWithHandler()
    stage.outbox.open()
    stage.failures = 4
    for what in ("a", "a", "b", "b"):
        stage.outbox.carry_out(Deliver(what))
    assert len(stage.outbox) == 2
    stage.clock.advance(10_000)
    assert stage.done == ["a", "b"]


def test_intents_beyond_the_timer_limit_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox, "MAX_TIMERS", 2)
    stage = OutboxWithHandler()
    stage.outbox.open()
    tried: list[str] = []
    is_open = False

    def deliver(intent: Deliver) -> None:
        tried.append(intent.what)
        if not is_open or intent.what == "never":
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        stage.done.append(intent.what)

    stage.outbox.assign(Deliver, deliver)
    intents = [f"intent {number}" for number in range(5)]
    for what in ("never", *intents):
        stage.outbox.carry_out(Deliver(what))
    assert len(stage.outbox) == 6
    tried.clear()
    stage.clock.advance(2_000)
    assert set(tried) == {"never", *intents}
    is_open = True
    stage.clock.advance(5 * MAX_RETRY_BACKOFF_MS)
    assert sorted(stage.done) == intents
    assert len(stage.outbox) == 1


def test_an_exception_in_one_intent_does_not_stop_the_outbox() -> None:
    stage = OutboxWithHandler()
    stage.outbox.open()
    with pytest.raises(KeyError):
        stage.outbox.carry_out("no carrier")
    stage.outbox.carry_out(Deliver("a"))
    assert stage.done == ["a"]


def test_closing_drops_waiting_intents(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = OutboxWithHandler()
    stage.outbox.open()
    monkeypatch.setattr(outbox, "MAX_TIMERS", 1)
    stage.failures = 2
    stage.outbox.carry_out(Deliver("a"))
    stage.outbox.carry_out(Deliver("b"))
    stage.outbox.close()
    stage.clock.advance(60_000)
    assert stage.done == []
    assert len(stage.outbox) == 0
