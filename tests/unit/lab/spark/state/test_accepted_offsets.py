"""Accepted offsets, reduced by tasks to the last of each partition in a bucket of time."""

from __future__ import annotations

from typing import Final, NamedTuple

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from kafkalite.lab.spark.stages.projection import type_at
from kafkalite.lab.spark.state.accepted_offsets import (
    last_per_bucket,
    transactional_or_not_accepted,
)

OFFSET_COMMIT: Final = 8
BUCKET: Final = 10_000
FOREVER_MS: Final = 2**63 - 1
UNANSWERED, ACCEPTED, REFUSED = None, 0, 25


class Commit(NamedTuple):
    group_id: str
    partitions: list[int]
    end_us: int
    retention_ms: int
    outcome: int | None

    @property
    def is_plain(self) -> bool:
        return self.outcome == ACCEPTED and bool(self.partitions)


COMMITS: Final = st.builds(
    Commit,
    st.sampled_from("ab"),
    st.lists(st.integers(0, 2), max_size=2, unique=True),
    st.integers(0, 3 * BUCKET),
    st.sampled_from([-1, 5, 1_000, FOREVER_MS]),
    st.sampled_from([UNANSWERED, ACCEPTED, ACCEPTED, REFUSED]),
)


def table_of(commits: list[Commit]) -> pa.Table:
    def topics(each: Commit, **field: int | None) -> list[object]:
        partitions = [{"partition_index": number, **field} for number in each.partitions]
        return [{"name": "t", "partitions": partitions}]

    asked = [topics(each, committed_offset=at) for at, each in enumerate(commits)]
    answered = [
        None if commit.outcome is None else topics(commit, error_code=commit.outcome)
        for commit in commits
    ]
    columns = {
        "group_id": pa.array([commit.group_id for commit in commits], pa.string()),
        "member_id": pa.array(["m" for _ in commits], pa.string()),
        "end_us": pa.array(
            [None if commit.outcome is None else commit.end_us for commit in commits], pa.int64()
        ),
        "position": pa.array(range(len(commits)), pa.int64()),
        "retention_ms": pa.array([commit.retention_ms for commit in commits], pa.int64()),
        "request_topics": pa.array(asked, type_at(OFFSET_COMMIT, "request.topics")),
        "response_topics": pa.array(answered, type_at(OFFSET_COMMIT, "response.topics")),
    }
    return pa.table(columns)


def bucket_of(each: Commit) -> int:
    is_short = each.retention_ms >= 0 and each.retention_ms * 1000 < BUCKET
    return each.end_us if is_short else each.end_us - each.end_us % BUCKET


@given(st.lists(COMMITS, max_size=20))
def test_last_commit_of_each_partition_and_bucket_remains(
    commits: list[Commit],
) -> None:
    by_bucket: dict[tuple[str, int, int], list[int]] = {}
    for number, each in enumerate(commits):
        for partition in each.partitions if each.is_plain else ():
            by_bucket.setdefault((each.group_id, partition, bucket_of(each)), []).append(number)
    expected = {
        key: (
            min(commits[number].end_us for number in numbers),
            max(numbers, key=lambda each: (commits[each].end_us, each)),
        )
        for key, numbers in by_bucket.items()
    }
    found = last_per_bucket(table_of(commits), BUCKET).to_pylist()
    assert len(found) == len(expected)
    for row in found:
        is_short = 0 <= row["retention_ms"] * 1000 < BUCKET
        bucket_us = row["at_us"] - (0 if is_short else row["at_us"] % BUCKET)
        first_us, last = expected[row["group_id"], row["partition"], bucket_us]
        assert (row["first_us"], row["committed_offset"]) == (first_us, last)
        assert (row["at_us"], row["retention_ms"]) == (commits[last].end_us, commits[last][3])


@given(st.lists(COMMITS, max_size=20))
def test_other_commits_are_those_answered_but_not_entirely_accepted(
    commits: list[Commit],
) -> None:
    rows = table_of(commits)
    left = [
        number
        for number, each in enumerate(commits)
        if each.outcome is not UNANSWERED and not each.is_plain
    ]
    assert transactional_or_not_accepted(rows)["position"].to_pylist() == left
    in_transactions = rows.append_column("transactional_id", pa.nulls(len(commits), pa.string()))
    answered = [number for number, each in enumerate(commits) if each.outcome is not UNANSWERED]
    assert transactional_or_not_accepted(in_transactions)["position"].to_pylist() == answered
