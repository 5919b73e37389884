"""The delays of a real Kafka: their distributions, and topics that are created late."""

from __future__ import annotations

from statistics import quantiles
from typing import TYPE_CHECKING

import pytest

from kafkalite.cluster.pace import (
    AUTO_CREATION_MS,
    COMPLETION_MS,
    DISCOVERY_MS,
    EPOCH_COMPLETION_MS,
    POSITIONS,
    PUBLICATION_MS,
    READY_MS,
    TLS_ANSWER_MS,
    Pace,
    quantile_ms,
)
from kafkalite.ports.seeded_entropy import SeededEntropy
from kafkalite.testing.clock import ManualClock

if TYPE_CHECKING:
    from collections.abc import Sequence


@pytest.mark.parametrize(
    "table",
    [
        AUTO_CREATION_MS,
        COMPLETION_MS,
        EPOCH_COMPLETION_MS,
        PUBLICATION_MS,
        TLS_ANSWER_MS,
        *DISCOVERY_MS.values(),
        *READY_MS.values(),
    ],
)
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


def test_topics_are_created_after_the_delay_of_their_table() -> None:
    clock = ManualClock()
    pace = Pace(clock, SeededEntropy())
    created: list[tuple[str, ...]] = []
    quantiles = [500.0] * len(POSITIONS)
    pace.create_later(["a"], lambda names: created.append(tuple(names)), quantiles)
    clock.advance(499)
    assert created == []
    clock.advance(1)
    assert created == [("a",)]


def test_publications_have_the_distribution_of_their_table() -> None:
    """Those without a delay are made at once, and `close` cancels the others."""
    clock = ManualClock()
    pace = Pace(clock, SeededEntropy(1))
    published_ms: list[int] = []
    began_ms = clock.now_ms()
    for _ in range(4_000):
        pace.publish_later(lambda: published_ms.append(clock.now_ms() - began_ms))
    at_once = len(published_ms)
    assert published_ms == [0] * at_once
    assert 0.15 < at_once / 4_000 < 0.25
    clock.advance(10)
    assert 0.95 < len(published_ms) / 4_000 < 0.97
    pace.close()
    clock.advance(100)
    assert max(published_ms) <= 10


def test_answers_to_handshakes_have_the_distribution_of_their_table() -> None:
    pace = Pace(ManualClock(), SeededEntropy(1))
    delays_ms = quantiles((pace.tls_answer_s() * 1_000 for _ in range(4_000)), n=20)
    assert [delays_ms[4], delays_ms[9], delays_ms[14]] == pytest.approx(TLS_ANSWER_MS[2:5], abs=1)


def test_coordinators_are_released_after_a_delay_unless_it_is_closed() -> None:
    clock = ManualClock()
    pace = Pace(clock, SeededEntropy())
    released: list[str] = []
    for topic in READY_MS:
        pace.release_later(topic, lambda topic=topic: released.append(topic))  # type: ignore[misc]
    clock.advance(461)
    assert released == []
    clock.advance(1917)
    assert sorted(released) == sorted(READY_MS)
    pace.release_later(next(iter(READY_MS)), lambda: released.append("closed"))
    pace.close()
    clock.advance(3_000)
    assert "closed" not in released
