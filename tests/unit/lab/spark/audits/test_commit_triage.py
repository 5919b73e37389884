"""Triage of commits: those that need no check are counted, the others remain."""

from __future__ import annotations

from collections import Counter
from typing import Final, NamedTuple

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalite.lab.spark.audits.commit_triage import KnownGroups, triage
from kafkalite.lab.spark.state.commits import outcomes

HOUR: Final = 3_600_000_000
TOPICS: Final = pa.list_(
    pa.struct([("partitions", pa.list_(pa.struct([("error_code", pa.int16())])))])
)
EPOCH, GENERATION = 5, 9
WITH_EPOCHS, CLASSIC, UNSEEN = "with epochs", "classic", "unseen"
INTERVAL: Final = (10, 20)
"""The interval in which the member was at its epoch, and the classic group at its generation."""


class Commit(NamedTuple):
    group_id: str
    member_id: str | None
    commit_epoch: int | None
    start_us: int
    end_us: int | None
    errors: list[list[int]] | None

    @property
    def answer(self) -> list[dict[str, list[dict[str, int]]]] | None:
        if self.errors is None:
            return None
        return [{"partitions": [{"error_code": error} for error in topic]} for topic in self.errors]

    @property
    def all_errors(self) -> list[int]:
        return [error for topic in self.errors or [] for error in topic]

    @property
    def is_accepted(self) -> bool:
        return bool(self.all_errors) and not any(self.all_errors)

    @property
    def is_within(self) -> bool:
        from_us, until_us = INTERVAL
        return from_us <= self.start_us and self.end_us is not None and self.end_us < until_us


COMMITS: Final = st.builds(
    Commit,
    st.sampled_from([WITH_EPOCHS, CLASSIC, UNSEEN]),
    st.sampled_from(["", "m", "n", None]),
    st.sampled_from([EPOCH, GENERATION, -1, None]),
    st.integers(8, 22),
    st.sampled_from([12, 19, 20, HOUR, None]),
    st.none() | st.lists(st.lists(st.sampled_from([0, 0, 0, 25]), max_size=2), max_size=2),
)


def known() -> KnownGroups:
    (from_us, until_us), texts = INTERVAL, pa.string()
    interval = {"from_us": [from_us], "until_us": [until_us]}
    epoch, generation = (pa.array([kind], pa.int32()) for kind in (EPOCH, GENERATION))
    members = {"group_id": [WITH_EPOCHS], "member_id": ["m"], "commit_epoch": epoch, **interval}
    return KnownGroups(
        with_epochs=pa.array([WITH_EPOCHS], texts),
        with_generations=pa.array([CLASSIC], texts),
        member_intervals=pa.table(members),
        group_intervals=pa.table({"group_id": [CLASSIC], "commit_epoch": generation, **interval}),
    )


def kind_of(commit: Commit) -> str | None:
    epoch = -1 if commit.commit_epoch is None else commit.commit_epoch
    is_known = commit.is_within and commit.is_accepted
    if (commit.group_id, commit.member_id, epoch) == (WITH_EPOCHS, "m", EPOCH):
        return "epoch" if is_known else None
    if commit.errors is not None and not commit.member_id and epoch < 0:
        return "simple"
    if commit.errors is not None and commit.group_id == UNSEEN:
        return "unknown"
    if (commit.group_id, epoch) == (CLASSIC, GENERATION) and is_known:
        return "generation"
    return None


def table_of(commits: list[Commit]) -> pa.Table:
    kinds = {
        "group_id": pa.string(),
        "member_id": pa.string(),
        "commit_epoch": pa.int32(),
        "start_us": pa.int64(),
        "end_us": pa.int64(),
    }
    columns = {
        name: pa.array([getattr(commit, name) for commit in commits], kind)
        for name, kind in kinds.items()
    }
    answers = pa.array([commit.answer for commit in commits], TOPICS)
    return pa.table({**columns, "position": range(len(commits)), "response_topics": answers})


@given(st.lists(COMMITS, max_size=30))
def test_every_commit_is_either_counted_or_left_to_check(commits: list[Commit]) -> None:
    found = triage(table_of(commits), known()).to_pylist()
    to_check = [row["position"] for row in found if row["commit_kind"] is None]
    assert to_check == [number for number, each in enumerate(commits) if kind_of(each) is None]
    counted, refused = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for commit in commits:
        if kind := kind_of(commit):
            counted[kind, commit.group_id] += 1
            refused[kind, commit.group_id] += any(commit.all_errors)
    sums = [row for row in found if row["commit_kind"] is not None]
    assert {(row["commit_kind"], row["group_id"]): row["commits"] for row in sums} == counted
    assert all(refused[row["commit_kind"], row["group_id"]] == row["refused"] for row in sums)


def test_commits_are_counted_by_hour() -> None:
    early = Commit(UNSEEN, "m", 1, HOUR - 1, HOUR + 1, [[0]])
    late = early._replace(start_us=2 * HOUR + 1)
    found = triage(table_of([early, late, late]), known())
    assert found.select(["start_us", "commits"]).to_pylist() == [
        {"start_us": 0, "commits": 1},
        {"start_us": 2 * HOUR, "commits": 2},
    ]


@pytest.mark.parametrize(
    "answer",
    [None, [{"partitions": None}], [{"partitions": [{"error_code": None}, {"error_code": 0}]}]],
)
def test_incomplete_response_leaves_its_request_to_check(answer: object) -> None:
    found = outcomes(pa.chunked_array([pa.array([answer], TOPICS)]))
    assert [row.tolist() for row in found] == [[False], [False], [False]]
