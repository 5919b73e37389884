"""Commits of a group, read from the log of its coordinator."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.control.console.commit_history import CommitCollector
from kafkalite.control.console.source import Commit
from kafkalite.coordinator.contract import CoordinatorRecord
from kafkalite.protocol._generated.records.offset_commit import OffsetCommitKey, OffsetCommitValue
from tests.unit.control.console.served_console import NOW_MS, ServedConsole, served_console

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture
async def console() -> AsyncIterator[ServedConsole]:
    async with served_console() as found:
        yield found


def commit(offset: int, group: str = "g") -> CoordinatorRecord[object, object]:
    key = OffsetCommitKey(group=group, topic="t", partition=0)
    return CoordinatorRecord(key, OffsetCommitValue(offset=offset, commit_timestamp=offset))


def test_commits_of_a_transaction_count_when_it_is_committed() -> None:
    collector = CommitCollector("g")
    collector.replay_transactional(1, commit(1))
    collector.replay_transactional(2, commit(2))
    collector.replay(commit(3))
    collector.replay(commit(4, "another"))
    collector.replay(CoordinatorRecord(OffsetCommitKey(group="g", topic="t", partition=0), None))
    collector.end_transaction(1, is_commit=True)
    collector.end_transaction(2, is_commit=False)
    assert [each.offset for each in collector.commits] == [3, 1]


def test_only_the_latest_commits_are_returned() -> None:
    collector = CommitCollector("g", limit=2)
    for offset in range(5):
        collector.replay(commit(offset))
    assert [each.offset for each in collector.commits] == [3, 4]
    assert collector.count == 5


async def test_each_commit_of_a_group_is_found(console: ServedConsole) -> None:
    await console.members.commit("shop", 1)
    console.clock.advance(10)
    await console.members.commit("shop", 2)
    await console.members.commit("other", 9)
    found = await console.source.commits("shop")
    assert [*found.commits] == [Commit("orders", 0, 1, NOW_MS), Commit("orders", 0, 2, NOW_MS + 10)]
    assert found.is_complete
