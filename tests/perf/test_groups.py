"""Small versions of the benchmarks of groups."""

from __future__ import annotations

import pytest

from tests.perf import groups_big, groups_expiry, groups_idle, groups_replay
from tests.perf.groups_bench import Row, format_row

pytestmark = pytest.mark.endurance


@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_a_group_is_stable_after_a_few_rounds(assignor: str) -> None:
    after_join, after_leave = groups_big.measure(assignor, members=20, partitions=200)
    assert after_join.heartbeats <= 20 * 5
    assert after_leave.heartbeats <= 20 * 6
    assert after_join.cpu_seconds > after_join.longest_seconds > 0


@pytest.mark.parametrize("mix", groups_replay.MIXES)
@pytest.mark.parametrize("per_batch", [1, 10])
def test_a_log_of_any_mix_is_replayed(mix: str, per_batch: int) -> None:
    replayed = groups_replay.measure(mix, per_batch, 1_000, rounds=1)
    assert replayed.per_second > 0 < replayed.iterated_per_second


def test_expiry_takes_many_short_steps() -> None:
    nothing, everything = groups_expiry.measure(3_000)
    assert 1 < nothing.steps < everything.steps


def test_a_restarted_broker_has_its_groups() -> None:
    idle = groups_idle.measure("consumer, a member, a commit", 200)
    assert idle.bytes_per_group < 100_000


def test_a_row_has_its_target() -> None:
    assert Row("commits", 51_000, "/s", 50_000).meets_target()
    assert not Row("memory", 3.5, "KB", 3.0, less_is_better=True).meets_target()
    assert "50,000" in format_row(Row("commits", 51_000, "/s", 50_000))
