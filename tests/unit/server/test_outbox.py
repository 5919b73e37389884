"""Outbox: intents are carried out at once, or again and again until it works."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.server import outbox
from kafkalite.server.outbox import FIRST_RETRY_MS, LAST_RETRY_MS, Outbox
from kafkalite.testing.clock import ManualClock


class Deliver(NamedTuple):
    """An intent."""

    what: str


class Stage:
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
    stage = Stage()
    stage.outbox.open()
    stage.outbox.carry_out(Deliver("a"))
    assert stage.done == ["a"]
    assert len(stage.outbox) == 0


def test_what_comes_before_the_opening_is_kept_for_it() -> None:
    stage = Stage()
    stage.outbox.carry_out(Deliver("a"))
    stage.outbox.carry_out(Deliver("b"))
    assert stage.done == []
    stage.outbox.open()
    assert stage.done == ["a", "b"]


def test_what_fails_is_tried_again_later_and_later() -> None:
    stage = Stage()
    stage.outbox.open()
    stage.failures = 9
    stage.outbox.carry_out(Deliver("a"))
    stage.clock.advance(200_000)
    gaps = [b - a for a, b in zip(stage.tried_ms, stage.tried_ms[1:], strict=False)]
    assert gaps == [FIRST_RETRY_MS, 1_000, 2_000, 4_000, 8_000, 16_000, *[LAST_RETRY_MS] * 3]
    assert stage.done == ["a"]
    assert len(stage.outbox) == 0


def test_an_intent_for_later_is_no_sooner_tried_again_than_any() -> None:
    stage = Stage()
    stage.outbox.open()
    stage.failures = 2
    stage.outbox.carry_out_later(Deliver("a"), 0)
    assert stage.tried_ms == []
    assert len(stage.outbox) == 1
    stage.clock.advance(10_000)
    assert stage.tried_ms == [1_000, 1_000 + FIRST_RETRY_MS, 2_000 + FIRST_RETRY_MS]
    assert stage.done == ["a"]


def test_an_intent_that_leads_to_another_is_finished_first() -> None:
    stage = Stage()
    order: list[str] = []

    def deliver(intent: Deliver) -> None:
        if intent.what == "a":
            stage.outbox.carry_out(Deliver("b"))
        order.append(intent.what)

    stage.outbox.assign(Deliver, deliver)
    stage.outbox.open()
    stage.outbox.carry_out(Deliver("a"))
    assert order == ["a", "b"]


def test_the_same_intent_waits_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox, "MOST_WAITING", 1)
    stage = Stage()
    stage.outbox.open()
    stage.failures = 4
    for what in ("a", "a", "b", "b"):
        stage.outbox.carry_out(Deliver(what))
    assert len(stage.outbox) == 2
    stage.clock.advance(10_000)
    assert stage.done == ["a", "b"]


def test_more_than_have_a_timer_of_their_own_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox, "MOST_WAITING", 2)
    stage = Stage()
    stage.outbox.open()
    tried: list[str] = []
    is_open = False

    def deliver(intent: Deliver) -> None:
        tried.append(intent.what)
        if not is_open or intent.what == "never":
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        stage.done.append(intent.what)

    stage.outbox.assign(Deliver, deliver)
    wanted = [f"intent {number}" for number in range(5)]
    for what in ("never", *wanted):
        stage.outbox.carry_out(Deliver(what))
    assert len(stage.outbox) == 6
    tried.clear()
    stage.clock.advance(2_000)
    assert set(tried) == {"never", *wanted}
    is_open = True
    stage.clock.advance(5 * LAST_RETRY_MS)
    assert sorted(stage.done) == wanted
    assert len(stage.outbox) == 1


def test_a_fault_in_one_intent_leaves_the_outbox_working() -> None:
    stage = Stage()
    stage.outbox.open()
    with pytest.raises(KeyError):
        stage.outbox.carry_out("nobody carries this")
    stage.outbox.carry_out(Deliver("a"))
    assert stage.done == ["a"]


def test_closing_gives_up_what_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage()
    stage.outbox.open()
    monkeypatch.setattr(outbox, "MOST_WAITING", 1)
    stage.failures = 2
    stage.outbox.carry_out(Deliver("a"))
    stage.outbox.carry_out(Deliver("b"))
    stage.outbox.close()
    stage.clock.advance(60_000)
    assert stage.done == []
    assert len(stage.outbox) == 0
