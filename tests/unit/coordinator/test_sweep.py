"""Sweeping: limits of a decision, and smaller limits after the log refused a batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.coordinator import sweep
from kafkalite.coordinator.contract import CoordinatorRecord, Event
from kafkalite.coordinator.sweep import MAX_RECORDS, SweepDecision, SweepLimit
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError

if TYPE_CHECKING:
    import pytest

RECORD: CoordinatorRecord[object, object] = CoordinatorRecord("key", None)
TOO_LARGE = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)


def test_decision_is_full_by_examined_items_records_or_characters() -> None:
    assert not SweepDecision(max_examined=3, examined=2).is_full()
    assert SweepDecision(max_examined=3, examined=3).is_full()
    assert not SweepDecision(max_examined=3, max_records=2, records=[RECORD]).is_full()
    assert SweepDecision(max_examined=3, max_records=2, records=[RECORD] * 2).is_full()
    assert not SweepDecision(max_examined=3, characters=199_999).is_full()
    assert SweepDecision(max_examined=3, characters=200_000).is_full()


def test_events_of_a_decision_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep, "_MAX_EVENTS", 2)
    made = []

    def event() -> Event:
        made.append(Event("g", "expired", "gone", {}))
        return made[-1]

    decision = SweepDecision(max_examined=1)
    for _ in range(5):
        decision.add_event(event)
    assert decision.events == made
    assert len(made) == 2


def test_limit_is_halved_when_its_own_records_were_too_large() -> None:
    sweep_limit = SweepLimit()
    decision = sweep_limit.apply_to(SweepDecision(max_examined=1))
    assert decision.max_records == MAX_RECORDS
    sweep_limit.on_append_failed([], TOO_LARGE)
    sweep_limit.on_append_failed(decision.records, KafkaError(ErrorCode.NOT_COORDINATOR))
    assert sweep_limit.apply_to(SweepDecision(max_examined=1)).max_records == MAX_RECORDS
    for limit in (250, 125, 62, 31, 15, 7, 3, 1, 1):
        decision = sweep_limit.apply_to(SweepDecision(max_examined=1))
        sweep_limit.on_append_failed(decision.records, TOO_LARGE)
        assert sweep_limit.apply_to(SweepDecision(max_examined=1)).max_records == limit


def test_smaller_limit_of_a_decision_is_respected() -> None:
    assert SweepLimit().apply_to(SweepDecision(max_examined=1, max_records=50)).max_records == 50
