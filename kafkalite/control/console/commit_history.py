"""The latest commits and assignments of a group, from the log of its coordinator."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from kafkalite.control.console.assignment_history import AssignmentCollector
from kafkalite.control.console.source import Commit, CommitHistory
from kafkalite.control.time_travel.replay import GroupReplay, needle_of
from kafkalite.protocol._generated.records.offset_commit import OffsetCommitKey, OffsetCommitValue

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalite.control.console.log_tail import LogTail
    from kafkalite.coordinator.contract import CoordinatorRecord

MAX_COMMITS: Final = 2_000
"""The maximum number of commits, the latest, that are returned."""


class CommitCollector:
    """The latest commits of a group, as the machine of a log of `__consumer_offsets`.

    Those of a transaction count when it is committed.
    """

    def __init__(self, group: str, limit: int = MAX_COMMITS) -> None:
        self._group = group
        self._pending: dict[int, list[Commit]] = {}
        self.commits: deque[Commit] = deque(maxlen=limit)
        self.count = 0
        """The number of all commits."""

    def replay(self, record: CoordinatorRecord[object, object]) -> None:
        """Add the commit of a record; other records have no effect."""
        self._add(self._commits_in(record))

    def replay_transactional(
        self, producer_id: int, record: CoordinatorRecord[object, object]
    ) -> None:
        """Hold the commit of a record until the transaction ends."""
        self._pending.setdefault(producer_id, []).extend(self._commits_in(record))

    def end_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        """Add or drop the commits of a transaction."""
        commits = self._pending.pop(producer_id, [])
        if is_commit:
            self._add(commits)

    def _add(self, commits: list[Commit]) -> None:
        self.commits += commits
        self.count += len(commits)

    def _commits_in(self, record: CoordinatorRecord[object, object]) -> list[Commit]:
        key, value = record
        if not isinstance(key, OffsetCommitKey) or not isinstance(value, OffsetCommitValue):
            return []
        if key.group != self._group:
            return []
        return [Commit(key.topic, key.partition, value.offset, value.commit_timestamp)]


async def read_commits(
    tail: LogTail, group: str, topic_name: Callable[[bytes], str | None]
) -> CommitHistory:
    """Return the latest commits and assignments of a group.

    `topic_name` returns the name of a topic with an id. Raises TimeTravelError for a log that is
    damaged.
    """
    collector, needle = CommitCollector(group), needle_of(group)
    assignments = AssignmentCollector(group, topic_name)
    replay = GroupReplay(tail.name, (needle,), collector)
    async for batch in tail.batches(needle):
        for applied in replay.apply(batch):
            record = replay.decoded(applied)
            if not isinstance(record, str):
                assignments.note(applied.timestamp_ms, record)
    is_complete = tail.is_complete and collector.count <= len(collector.commits)
    return CommitHistory(tuple(collector.commits), is_complete, tuple(assignments.assignments))
