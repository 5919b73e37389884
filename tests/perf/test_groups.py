"""The measurements of groups, made small: they run, and what must not grow does not."""

from __future__ import annotations

import pytest

from tests.perf import groups_big, groups_expiry, groups_idle, groups_replay
from tests.perf.groups_bench import Row, line


@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_a_group_comes_to_rest_in_a_few_rounds(assignor: str) -> None:
    joined, left = groups_big.measure(assignor, members=20, partitions=200)
    assert joined.heartbeats <= 20 * 5
    assert left.heartbeats <= 20 * 6
    assert joined.cpu_seconds > joined.longest_seconds > 0


@pytest.mark.parametrize("mix", groups_replay.MIXES)
@pytest.mark.parametrize("per_batch", [1, 10])
def test_a_log_of_any_mix_is_replayed(mix: str, per_batch: int) -> None:
    replayed = groups_replay.measure(mix, per_batch, 10_000)
    assert replayed.per_second > 0 < replayed.floor_per_second


def test_expiry_takes_many_short_steps() -> None:
    nothing, everything = groups_expiry.measure(3_000)
    assert 1 < nothing.steps < everything.steps


def test_a_broker_starts_with_the_groups_it_had() -> None:
    idle = groups_idle.measure("consumer, a member, a commit", 200)
    assert idle.bytes_per_group < 100_000


def test_a_row_says_what_was_promised() -> None:
    assert Row("commits", 51_000, "/s", 50_000).is_kept()
    assert not Row("memory", 3.5, "KB", 3.0, less_is_better=True).is_kept()
    assert "50,000" in line(Row("commits", 51_000, "/s", 50_000))
