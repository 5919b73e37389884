"""LiveSource: what the console reads from a running broker, in its event loop."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack, suppress
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeVar

from kafkalite.control.command_table import CommandError, running_cluster
from kafkalite.control.commands.requests import recorded
from kafkalite.control.console.command_lines import lines_of
from kafkalite.control.console.commit_history import read_commits
from kafkalite.control.console.log_tail import log_tail
from kafkalite.control.console.record_browser import read_window
from kafkalite.control.console.record_changes import RecordChanges
from kafkalite.control.console.source import (
    NEWEST,
    CommitHistory,
    RequestPage,
    Subject,
    TopicRecords,
)
from kafkalite.control.console.topic_settings import read_settings
from kafkalite.control.console.transaction_history import read_moments
from kafkalite.control.time_travel.logs import RunningLogs
from kafkalite.control.time_travel.points import Point
from kafkalite.control.time_travel.replay import partition_of_key
from kafkalite.control.time_travel.view import PastView
from kafkalite.control.turns import REQUESTS_PER_TURN, in_turns, result_in_turns
from kafkalite.control.waiting import Changes, deadline_after
from kafkalite.metadata.internal_topics import OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from kafkalite.ports.watchers import Watchers
from kafkalite.protocol.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kafkalite.cluster.cluster import Cluster
    from kafkalite.control.command_table import Command
    from kafkalite.control.commands.requests import RecordedRequest
    from kafkalite.control.console.command_lines import CommandLines
    from kafkalite.control.console.log_tail import LogTail
    from kafkalite.control.console.source import (
        RecordSearch,
        RecordWindow,
        RequestsUntil,
        Setting,
        TransactionMoment,
    )
    from kafkalite.control.group_status import GroupStatus
    from kafkalite.control.request_filter import RequestFilter
    from kafkalite.partitions.partition import Partition
    from kafkalite.server.broker import Broker

Answer = TypeVar("Answer")

MAX_EXAMINED: Final = 2_000
"""The maximum number of requests, the latest, that a page compares with its filter."""
_COMPARED_PER_TURN: Final = 1_000


class LiveSource:
    """A running broker as the source of the console; see ConsoleSource."""

    is_live: Final = True

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._past_lock = asyncio.Lock()
        self._metadata: tuple[Cluster, Watchers] | None = None
        """A cluster, and what is notified of each change of its metadata."""

    @property
    def name(self) -> str:
        """The id of the cluster."""
        return self._broker.cluster_id

    async def ask(self, command: Command[Answer]) -> Answer:
        """Return the answer to a command, after its execution."""
        return await command.perform(self._broker)

    def command_lines(self, command: Command[Any], url: str) -> Sequence[CommandLines]:
        """Return a command as a request to the endpoint at `url`, and as a line of a shell."""
        return (lines_of(command, url),)

    async def past_group(self, group: str, at_ms: int) -> GroupStatus:
        """Return a group as it was at a time; raises TimeTravelError if that is not known."""
        # One after another: each takes turns, and a slider asks for many.
        async with self._past_lock:
            return await result_in_turns(self._view(at_ms).group_steps(group))

    def _view(self, at_ms: int) -> PastView:
        return PastView(RunningLogs(running_cluster(self._broker)), Point(time_ms=at_ms))

    async def commits(self, group: str) -> CommitHistory:
        """Return the latest commits and assignments; raises TimeTravelError without a log."""
        tail = self._tail(OFFSETS_TOPIC, group)
        if tail is None:
            return CommitHistory((), is_complete=True)
        return await read_commits(
            tail, group, running_cluster(self._broker).metadata.image.topic_name
        )

    async def transaction_moments(self, transactional_id: str) -> Sequence[TransactionMoment]:
        """Return the latest states of a transactional id; raises TimeTravelError without a log."""
        tail = self._tail(TRANSACTION_STATE_TOPIC, transactional_id)
        return () if tail is None else await read_moments(tail, transactional_id)

    def _tail(self, topic: str, key: str) -> LogTail | None:
        """Return the end of the coordinator's log with a key; None if there is no such topic."""
        cluster = running_cluster(self._broker)
        image = cluster.metadata.image
        if topic not in image.topics:
            return None
        return log_tail(cluster, topic, partition_of_key(image, topic, key))

    async def settings(self, topic: str) -> Sequence[Setting]:
        """Return the settings of a topic by name."""
        return await read_settings(self._broker, topic)

    async def records(self, search: RecordSearch) -> RecordWindow:
        """Return the records of a partition that a search selects."""
        return await read_window(self._broker, search)

    @property
    def logs_requests(self) -> bool:
        """Whether requests are logged."""
        return self._broker.logs_requests

    async def latest_requests(
        self, selected: RequestFilter, limit: int, until: RequestsUntil = NEWEST
    ) -> RequestPage:
        """Return the latest requests that are selected; none if requests are not logged."""
        if not self.logs_requests:
            return RequestPage((), 0, 0, 0)
        log, pending = self._broker.request_log, self._broker.request_log.pending()
        end = log.last_number if until.before is None else until.before - 1
        since = max(selected.since, end - MAX_EXAMINED)
        if until.time_ms is not None:
            since = selected.since
        requests = [each for each in log.after(since) if each.number is None or each.number <= end]
        if until.before is None:
            requests += pending
        if until.time_ms is not None:
            limit_ms = until.time_ms
            requests = [each for each in requests if each.exchange.received_ms <= limit_ms]
        found: list[RecordedRequest] = []
        examined = 0
        async for each in in_turns(islice(reversed(requests), MAX_EXAMINED), REQUESTS_PER_TURN):
            if len(found) == limit:
                break
            examined += 1
            if selected.matches(each):
                found.append(recorded(each))
        first = log.last_number - (len(log) - len(pending)) + 1
        remaining = requests[: len(requests) - examined]
        next_before = since + 1 if first <= since and since > selected.since else None
        if remaining:
            next_before = (remaining[-1].number or end) + 1
        return RequestPage(found, log.last_number, examined, len(log), next_before)

    async def requests_at(
        self, selected: RequestFilter, at_ms: int, limit: int
    ) -> Sequence[RecordedRequest]:
        """Return selected requests that were served at a time; none if requests are not logged."""
        if not self.logs_requests:
            return ()
        log = self._broker.request_log
        found = []
        async for each in in_turns([*log.after(0), *log.pending()][::-1], _COMPARED_PER_TURN):
            answered_ms = each.exchange.answered_ms
            is_served = each.exchange.received_ms <= at_ms and (
                answered_ms is None or at_ms <= answered_ms
            )
            if is_served and selected.matches(each):
                found.append(recorded(each))
                if len(found) == limit:
                    break
        return found

    async def find_requests(
        self, selected: RequestFilter, is_match: Callable[[RecordedRequest], bool], limit: int
    ) -> RequestPage:
        """Return the latest requests that are selected and match; none if they are not logged."""
        if not self.logs_requests:
            return RequestPage((), 0, 0, 0)
        log = self._broker.request_log
        found: list[RecordedRequest] = []
        examined = 0
        async for each in in_turns(log.after(0)[::-1], _COMPARED_PER_TURN):
            if not selected.matches(each):
                continue
            examined += 1
            request = recorded(each)
            if is_match(request):
                found.append(request)
            if len(found) == limit or examined == MAX_EXAMINED:
                break
            if examined % REQUESTS_PER_TURN == 0:
                await asyncio.sleep(0)
        return RequestPage(found, log.last_number, examined, len(log))

    async def request(self, number: int) -> RecordedRequest | None:
        """Return the request with a number; None if the log does not have it."""
        if not self.logs_requests:
            return None
        found = next(iter(self._broker.request_log.after(number - 1)), None)
        return None if found is None or found.number != number else recorded(found)

    def changes(self, subjects: Sequence[Subject | TopicRecords]) -> LiveChanges:
        """Return what waits for changes; none are missed from the call on."""
        records = [each for each in subjects if isinstance(each, TopicRecords)]
        return LiveChanges(
            partial(self._watchers, [each for each in subjects if isinstance(each, Subject)]),
            [RecordChanges(partial(_partitions, self._broker, each)) for each in records],
        )

    def _watchers(self, subjects: Sequence[Subject]) -> Sequence[Watchers] | None:
        """Return the present watchers of some subjects; None while the broker is not running.

        The first is that of the metadata: each page has nodes or topics, and a restored snapshot
        replaces everything.
        """
        cluster = self._broker.cluster
        if cluster is None:
            return None
        found = (self._watchers_of(cluster, each) for each in subjects)
        return [self._metadata_watchers(cluster), *(each for each in found if each is not None)]

    def _watchers_of(self, cluster: Cluster, subject: Subject) -> Watchers | None:
        if subject is Subject.HISTORY:
            return cluster.history.watchers
        if subject is Subject.GROUPS:
            return cluster.groups.watchers
        if subject is Subject.TRANSACTIONS:
            return cluster.transactions.watchers
        if subject is Subject.FAULTS:
            return self._broker.faults.watchers
        return self._broker.request_log.watchers if self.logs_requests else None

    def _metadata_watchers(self, cluster: Cluster) -> Watchers:
        """Return what is notified of each change of the metadata of a cluster."""
        if self._metadata is None or self._metadata[0] is not cluster:
            watchers = Watchers()
            cluster.subscribe(lambda _image, _delta: watchers.notify())
            self._metadata = cluster, watchers
        return self._metadata[1]


def _partitions(broker: Broker, records: TopicRecords) -> Sequence[Partition]:
    """Return the partitions that exist, and are available."""
    found: list[Partition] = []
    with suppress(CommandError):  # the broker stops, or its state is replaced
        hosted = running_cluster(broker).partitions.topic(records.topic)
        for index in range(records.first, records.last + 1):
            with suppress(KafkaError):  # it is offline
                partition = None if hosted is None else hosted.partition(index)
                if partition is None:
                    break
                found.append(partition)
    return found


class LiveChanges:
    """Waits for changes of a broker; see SourceChanges."""

    def __init__(
        self,
        find: Callable[[], Sequence[Watchers] | None],
        records: Sequence[RecordChanges],
    ) -> None:
        """Watch records, and what `find` returns: something else after a snapshot is restored."""
        self._find = find
        self._records = records
        self._stack = ExitStack()
        self._watch(find() or ())

    def _watch(self, found: Sequence[Watchers]) -> None:
        self._found = found
        self._changes = self._stack.enter_context(Changes(*self._records, *found))

    async def next(self, seconds: float) -> bool:
        """Return whether something changed since the previous call, or changes in this time."""
        found = self._find()
        if found is not None and found != self._found:
            self.close()
            self._watch(found)
            return True
        for each in self._records:
            each.resume()
        return await self._changes.next(deadline_after(round(seconds * 1000)))

    def close(self) -> None:
        """Stop watching."""
        self._stack.close()
