"""The delays of a real Kafka: their distributions, and topics that are created late."""

from __future__ import annotations

from statistics import quantiles
from typing import TYPE_CHECKING

import pytest

from kafkalite.cluster.pace import (
    AUTO_CREATION_MS,
    COMPLETION_MS,
    EPOCH_COMPLETION_MS,
    POSITIONS,
    Pace,
    quantile_ms,
)
from kafkalite.ports.seeded_entropy import SeededEntropy
from kafkalite.testing.clock import ManualClock

if TYPE_CHECKING:
    from collections.abc import Sequence


@pytest.mark.parametrize("table", [AUTO_CREATION_MS, COMPLETION_MS, EPOCH_COMPLETION_MS])
def test_the_quantiles_of_a_table_are_interpolated(table: Sequence[float]) -> None:
    assert [quantile_ms(table, position) for position in POSITIONS[:-1]] == pytest.approx(
        table[:-1]
    )
    assert quantile_ms(table, 0.15) == pytest.approx((table[1] + table[2]) / 2)
    assert table[-2] < quantile_ms(table, 0.999999) < table[-1]


@pytest.mark.parametrize(("version", "table"), [(1, COMPLETION_MS), (2, EPOCH_COMPLETION_MS)])
def test_delays_have_the_distribution_of_their_table(version: int, table: Sequence[float]) -> None:
    pace = Pace(ManualClock(), SeededEntropy(1))
    delays = quantiles((pace.completion_ms(version) for _ in range(4_000)), n=20)
    assert [delays[4], delays[9], delays[14]] == pytest.approx(table[2:5], abs=0.6)
    assert delays[18] == pytest.approx(table[5], abs=3)


def test_a_seed_repeats_the_delays() -> None:
    one, other = (Pace(ManualClock(), SeededEntropy(7)) for _ in range(2))
    delays = [one.completion_ms(1) for _ in range(50)]
    assert delays == [other.completion_ms(1) for _ in range(50)]
    assert len(set(delays)) > 3


def test_topics_are_created_once_after_a_delay() -> None:
    clock = ManualClock()
    pace = Pace(clock, SeededEntropy())
    created: list[tuple[str, ...]] = []
    pace.create_later(["a", "b", "a"], lambda names: created.append(tuple(names)))
    pace.create_later(["b", "c"], lambda names: created.append(tuple(names)))
    pace.create_later(["a"], lambda names: created.append(tuple(names)))
    clock.advance(23)
    assert created == []
    clock.advance(52)
    assert sorted(created) == [("a", "b"), ("c",)]
    pace.create_later(["a"], lambda names: created.append(tuple(names)))
    clock.advance(75)
    assert created[2:] == [("a",)]


def test_close_cancels_creations_that_may_be_requested_again() -> None:
    clock = ManualClock()
    pace = Pace(clock, SeededEntropy())
    created: list[tuple[str, ...]] = []
    pace.create_later(["a"], lambda names: created.append(tuple(names)))
    pace.close()
    clock.advance(75)
    assert created == []
    pace.create_later(["a"], lambda names: created.append(tuple(names)))
    clock.advance(75)
    assert created == [("a",)]
