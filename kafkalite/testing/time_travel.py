"""Earlier states of a broker in a test, and of the data directory of a stopped broker."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Protocol, TypeVar

from kafkalite.control.commands.bisect import Bisect
from kafkalite.control.time_travel.logs import DirectoryLogs
from kafkalite.control.time_travel.points import point_of
from kafkalite.control.time_travel.view import PastView
from kafkalite.ports.clock import AdjustableClock

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime
    from os import PathLike

    from kafkalite.control.group_status import GroupStatus
    from kafkalite.control.time_travel.bisection import FoundRecord
    from kafkalite.control.time_travel.view import PastTopic
    from kafkalite.control.transaction_reader import TransactionStatus
    from kafkalite.shares.state import ShareState

T = TypeVar("T")


class Run(Protocol):
    """Calls a function where the cluster runs."""

    def __call__(self, work: Callable[[], T], /) -> T:
        """Return the result of the function."""


def _now(work: Callable[[], T]) -> T:
    return work()


class BrokerAt:
    """The state of a cluster at a point in the past.

    With an offset, it is the state before this record of the log that has the group, the
    transactional id or the share partition. Members of classic groups are those in the log, as a
    broker knows them after a restart. All methods raise ValueError, with one sentence, for names
    that do not exist at the point, and if compaction has removed records before it.
    """

    def __init__(self, view: PastView, run: Run = _now) -> None:
        self._view = view
        self._run = run

    def __repr__(self) -> str:
        """Return the point."""
        return repr(self._view)

    def group(self, group_id: str) -> GroupStatus:
        """Return a group with its members and committed offsets, without coordinator and lag."""
        return self._run(lambda: self._view.group(group_id))

    def committed(self, group_id: str, topic: str, partition: int) -> int | None:
        """Return the committed offset of a group in a partition; None without one."""
        return self._run(lambda: self._view.committed(group_id, topic, partition))

    def transaction(self, transactional_id: str) -> TransactionStatus:
        """Return a transactional id with its transaction."""
        return self._run(lambda: self._view.transaction(transactional_id))

    def share_partition(self, group_id: str, topic: str, partition: int) -> ShareState | None:
        """Return the stored state of a share partition; None without one."""
        return self._run(lambda: self._view.share_partition(group_id, topic, partition))

    def topic(self, name: str) -> PastTopic:
        """Return a topic with its partitions; the point must be a time.

        The ends of the partitions follow from the timestamps of their records.
        """
        return self._run(lambda: self._view.topic(name))


class StoppedBroker:
    """The data directory of a broker that does not run, of kafkalite or of Kafka; it is only read.

    Raises ValueError if it has no metadata log.
    """

    def __init__(self, data_directory: str | PathLike[str]) -> None:
        self._logs = DirectoryLogs(os.fspath(data_directory), AdjustableClock().now_ms())

    def at(self, when: int | str | datetime) -> BrokerAt:
        """Return the state at a point, as `Broker.at` does."""
        return BrokerAt(PastView(self._logs, point_of(when, self._logs.now_ms)))

    def bisect(self, until: str, *, after: str | None = None, last: bool = False) -> FoundRecord:
        """Return the record that made a condition true, as `Broker.bisect` does."""
        bisection = Bisect(until, after, last).begin(self._logs)
        for _ in bisection.steps():
            pass
        return bisection.result()
