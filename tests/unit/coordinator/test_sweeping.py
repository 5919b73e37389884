"""Sweeping: a decision goes so far and no further, and shorter where the log found it too long."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.coordinator import sweeping
from kafkalite.coordinator.contract import CoordinatorRecord, Event
from kafkalite.coordinator.sweeping import TOMBSTONES_AT_ONCE, Pass, Stride
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError

if TYPE_CHECKING:
    import pytest

RECORD: CoordinatorRecord[object, object] = CoordinatorRecord("key", None)
TOO_LARGE = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)


def test_a_pass_is_full_by_what_it_looks_at_writes_or_names() -> None:
    assert not Pass(most_looks=3, looks=2).is_full()
    assert Pass(most_looks=3, looks=3).is_full()
    assert not Pass(most_looks=3, limit=2, records=[RECORD]).is_full()
    assert Pass(most_looks=3, limit=2, records=[RECORD] * 2).is_full()
    assert not Pass(most_looks=3, names=199_999).is_full()
    assert Pass(most_looks=3, names=200_000).is_full()


def test_no_more_is_told_than_will_be_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeping, "_EVENTS_AT_ONCE", 2)
    made = []

    def told() -> Event:
        made.append(Event("g", "expired", "gone", {}))
        return made[-1]

    done = Pass(most_looks=1)
    for _ in range(5):
        done.tell(told)
    assert done.events == made
    assert len(made) == 2


def test_a_stride_is_halved_when_its_own_records_were_too_large() -> None:
    stride = Stride()
    done = stride.begin(Pass(most_looks=1))
    assert done.limit == TOMBSTONES_AT_ONCE
    stride.on_append_failed([], TOO_LARGE)
    stride.on_append_failed(done.records, KafkaError(ErrorCode.NOT_COORDINATOR))
    assert stride.begin(Pass(most_looks=1)).limit == TOMBSTONES_AT_ONCE
    for limit in (250, 125, 62, 31, 15, 7, 3, 1, 1):
        done = stride.begin(Pass(most_looks=1))
        stride.on_append_failed(done.records, TOO_LARGE)
        assert stride.begin(Pass(most_looks=1)).limit == limit


def test_a_pass_that_wants_less_gets_less() -> None:
    assert Stride().begin(Pass(most_looks=1, limit=50)).limit == 50
