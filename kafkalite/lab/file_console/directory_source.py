"""DirectorySource: what the console reads from the data directory of a broker."""

from __future__ import annotations

import asyncio
import shlex
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

from kafkalite.control.command_table import CommandError
from kafkalite.control.commands.clock import ClockState, ShowClock
from kafkalite.control.commands.explain import Explain, Explanation, described
from kafkalite.control.commands.groups import ListGroups, ShowGroup
from kafkalite.control.commands.records import ReadRecords
from kafkalite.control.commands.topics import (
    ListedTopic,
    ListTopics,
    PartitionStatus,
    ShowTopic,
    TopicList,
    TopicStatus,
)
from kafkalite.control.commands.transactions import (
    ListTransactions,
    TransactionList,
    transaction_answer,
)
from kafkalite.control.console.command_lines import CommandLines
from kafkalite.control.console.commit_history import read_commits
from kafkalite.control.console.log_tail import MAX_RECORDS, LogTail
from kafkalite.control.console.record_browser import window_of
from kafkalite.control.console.source import NEWEST, CommitHistory, RequestPage, Setting
from kafkalite.control.console.transaction_history import read_moments
from kafkalite.control.group_reader import (
    UnknownGroupError,
    epoch_and_members,
    status_of_past,
)
from kafkalite.control.group_status import GroupList, GroupOffset, ListedGroup
from kafkalite.control.time_travel.points import Point
from kafkalite.control.time_travel.replay import partition_of_key
from kafkalite.control.time_travel.view import PastView
from kafkalite.control.topic_records import UnknownTopicError, no_partition_text
from kafkalite.control.transaction_reader import status_of
from kafkalite.coordinator.event_history import EventHistory
from kafkalite.groups.share.group import ShareGroup
from kafkalite.lab.file_console.logged_events import group_entries
from kafkalite.lab.file_console.opened_directory import OpenedDirectory
from kafkalite.metadata.internal_topics import (
    OFFSETS_TOPIC,
    SHARE_STATE_TOPIC,
    TRANSACTION_STATE_TOPIC,
)
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.ports.similar_names import similar_names_hint
from kafkalite.ports.times import iso_of
from kafkalite.protocol.uuids import uuid_to_text
from kafkalite.shares.state import ShareKey

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from kafkalite.control.command_table import Command
    from kafkalite.control.commands.requests import RecordedRequest
    from kafkalite.control.console.source import (
        RecordSearch,
        RecordWindow,
        RequestsUntil,
        SourceChanges,
        Subject,
        TopicRecords,
        TransactionMoment,
    )
    from kafkalite.control.group_status import GroupStatus
    from kafkalite.control.request_filter import RequestFilter
    from kafkalite.groups.share.share_partitions import NamedPartitions
    from kafkalite.metadata.image import BrokerImage, MetadataImage, TopicImage
    from kafkalite.partitions.partition import Partition
    from kafkalite.ports.clock import Clock
    from kafkalite.shares.state import ShareState

Answer = TypeVar("Answer")

_TOPIC_SETTING: Final = "dynamic topic config"
_NO_NODE: Final = -1


class DirectorySummary(NamedTuple):
    """What a data directory has, for the first page."""

    path: str
    cluster_id: str
    node_id: str
    was_shut_down_cleanly: bool
    features: Sequence[tuple[str, int]]
    brokers: Sequence[BrokerImage]
    topics: int
    partitions: int
    """Number of partitions of all topics but the internal ones, also of those without files."""


class DirectorySource:
    """A data directory as the source of the console; see ConsoleSource."""

    is_live: Final = False
    logs_requests: Final = False

    def __init__(self, path: str, clock: Clock) -> None:
        """Open the directory, without a change; raises TimeTravelError without a metadata log."""
        self._path = path
        self._directory = OpenedDirectory(path, clock)
        self._lock = threading.Lock()
        """Held by a thread that reads the directory."""
        self._cluster_id = self._directory.properties.get("cluster.id", "")

    def close(self) -> None:
        """Close the files."""
        with self._lock:
            self._directory.close()

    @property
    def name(self) -> str:
        """The name of the directory."""
        return self._path.rstrip("/").rpartition("/")[2] or self._path

    async def _read(self, read: Callable[..., Answer], *arguments: object) -> Answer:
        """Return what a function reads in a thread; raises CommandError for unreadable files."""

        def locked() -> Answer:
            with self._lock:
                try:
                    return read(*arguments)
                except OSError as error:
                    place = error.filename or self._path
                    raise CommandError(f"{place} cannot be read: {error.strerror}") from error

        return await asyncio.to_thread(locked)

    async def summary(self) -> DirectorySummary:
        """Return what the directory has."""
        return await self._read(self._summary)

    def _summary(self) -> DirectorySummary:
        directory, image = self._directory, self._directory.image
        topics = [each for each in image.topics.values() if not each.is_internal]
        return DirectorySummary(
            path=self._path,
            cluster_id=self._cluster_id,
            node_id=directory.properties.get("node.id", ""),
            was_shut_down_cleanly=directory.was_shut_down_cleanly,
            features=sorted(image.features.items()),
            brokers=[image.brokers[each] for each in sorted(image.brokers)],
            topics=len(topics),
            partitions=sum(len(each.partitions) for each in topics),
        )

    # -- commands --------------------------------------------------------------------------

    async def ask(self, command: Command[Answer]) -> Answer:
        """Return the answer to a command; raises CommandError for one about a running broker."""
        answer = self._ANSWERS.get(type(command))
        if answer is None:
            raise CommandError("a data directory cannot answer this: it needs a running broker")
        found: Answer = await self._read(answer, self, command)
        return found

    def _show_clock(self, _: ShowClock) -> ClockState:
        now_ms = self._directory.now_ms
        return ClockState(now_ms, iso_of(now_ms), "real", 1.0)

    def _list_topics(self, _: ListTopics) -> TopicList:
        topics = self._directory.image.topics
        return TopicList(tuple(_listed(topics[each]) for each in sorted(topics)))

    def _topic(self, name: str) -> TopicImage:
        topics = self._directory.image.topics
        found = topics.get(name)
        if found is None:
            hint = similar_names_hint(name, topics)
            raise UnknownTopicError(f"there is no topic {name[:249]!r}{hint}")
        return found

    def _show_topic(self, command: ShowTopic) -> TopicStatus:
        topic = self._topic(command.topic)
        return TopicStatus(
            name=topic.name,
            topic_id=uuid_to_text(topic.topic_id),
            internal=topic.is_internal,
            config=dict(self._directory.image.topic_config(topic.name)),
            partitions=tuple(map(self._status, self._directory.partitions(topic))),
        )

    def _status(self, partition: Partition) -> PartitionStatus:
        high_watermark = self._directory.high_watermark(partition)
        return PartitionStatus(
            partition=partition.index,
            leader=partition.leader,
            leader_epoch=partition.leader_epoch,
            replicas=tuple(partition.replicas),
            isr=tuple(partition.isr),
            start_offset=partition.log_start_offset,
            end_offset=partition.end_offset,
            high_watermark=high_watermark,
            last_stable_offset=min(high_watermark, partition.last_stable_offset),
        )

    def _list_groups(self, _: ListGroups) -> GroupList:
        found = [
            ListedGroup(
                group_id=each.group_id,
                type=each.group_type.value,
                protocol_type=each.protocol_type,
                state=each.state_name(),
                coordinator=partition.leader,
                members=epoch_and_members(each)[1],
            )
            for partition, machine in self._directory.machines(OFFSETS_TOPIC)
            for each in machine.directory.groups.values()
        ]
        return GroupList(tuple(sorted(found, key=_id_of)))

    def _show_group(self, command: ShowGroup) -> GroupStatus:
        name = command.group
        image = self._directory.image
        group = machine = leader = None
        if OFFSETS_TOPIC in image.topics:
            index = partition_of_key(image, OFFSETS_TOPIC, name)
            machine = self._directory.machine(OFFSETS_TOPIC, index)
            group = None if machine is None else machine.group(name)
            leader = image.topics[OFFSETS_TOPIC].partitions[index].leader
        if group is None or machine is None:
            known = [each.group_id for each in self._list_groups(ListGroups()).groups]
            hint = similar_names_hint(name, known)
            raise UnknownGroupError(f"there is no group {name[:249]!r}{hint}")
        status = status_of_past(group, machine, image)
        coordinator = None if leader in {None, _NO_NODE} else leader
        found = status.offsets
        if isinstance(group, ShareGroup):
            found = tuple(self._share_offsets(group, image))
        offsets = tuple(map(self._with_lag, found))
        return replace(status, coordinator=coordinator, offsets=offsets)

    def _share_offsets(self, group: ShareGroup, image: MetadataImage) -> Iterator[GroupOffset]:
        """Yield the start offsets of a share group, as its coordinators stored them."""
        for topic_id, named in sorted(
            group.share_partitions().initialized.items(), key=_named_topic
        ):
            for index in sorted(named.partitions):
                key = ShareKey(group.group_id, topic_id, index)
                place = partition_of_key(image, SHARE_STATE_TOPIC, key.text)
                machine = self._directory.machine(SHARE_STATE_TOPIC, place)
                state: ShareState | None = None if machine is None else machine.state(key)
                is_known = state is not None and state.start_offset >= 0
                yield GroupOffset(
                    topic=named.name,
                    partition=index,
                    offset=state.start_offset if state is not None and is_known else None,
                    leader_epoch=state.leader_epoch if state is not None and is_known else None,
                    metadata="",
                    committed_ms=None,
                    end_offset=None,
                    lag=None,
                    member_id=None,
                )

    def _with_lag(self, offset: GroupOffset) -> GroupOffset:
        """Return an offset with the end of its partition, if the directory has it."""
        topic = self._directory.image.topics.get(offset.topic)
        if topic is None or offset.partition >= len(topic.partitions):
            return offset
        partition = self._directory.partition(topic, offset.partition)
        if partition is None or offset.offset is None:
            return offset
        end_offset = self._directory.high_watermark(partition)
        return replace(offset, end_offset=end_offset, lag=max(0, end_offset - offset.offset))

    def _list_transactions(self, _: ListTransactions) -> TransactionList:
        now_ms, history = self._directory.now_ms, EventHistory()
        found = [
            transaction_answer(status_of(each, history, now_ms))
            for _, machine in self._directory.machines(TRANSACTION_STATE_TOPIC)
            for each in machine.transactions()
        ]
        return TransactionList(tuple(sorted(found, key=_transactional_id_of)))

    def _explain(self, command: Explain) -> Explanation:
        """Return the events of a group; a data directory has no others."""
        image, now_ms = self._directory.image, self._directory.now_ms
        entries = []
        if command.group is not None and OFFSETS_TOPIC in image.topics:
            index = partition_of_key(image, OFFSETS_TOPIC, command.group)
            if self._directory.machine(OFFSETS_TOPIC, index) is not None:
                entries = group_entries(self._directory.logs, index, command.group, image)
        shown = tuple(map(described, entries[-command.limit :]))
        return Explanation(now_ms, iso_of(now_ms), (), (), (), (), shown)

    _ANSWERS: ClassVar[Mapping[type, Callable[[DirectorySource, Any], Any]]] = {
        ShowClock: _show_clock,
        ListTopics: _list_topics,
        ShowTopic: _show_topic,
        ListGroups: _list_groups,
        ShowGroup: _show_group,
        ListTransactions: _list_transactions,
        Explain: _explain,
    }

    # -- groups and transactions -----------------------------------------------------------

    async def past_group(self, group: str, at_ms: int) -> GroupStatus:
        """Return a group as it was at a time; raises TimeTravelError if that is not known."""
        return await self._read(self._past_group, group, at_ms)

    def _past_group(self, group: str, at_ms: int) -> GroupStatus:
        return PastView(self._directory.logs, Point(time_ms=at_ms)).group(group)

    async def commits(self, group: str) -> CommitHistory:
        """Return the latest commits of a group; raises TimeTravelError for a damaged log."""
        tail = await self._read(self._tail, OFFSETS_TOPIC, group)
        if tail is None:
            return CommitHistory((), is_complete=True)
        return await read_commits(tail, group, self._directory.image.topic_name)

    async def transaction_moments(self, transactional_id: str) -> Sequence[TransactionMoment]:
        """Return the latest states of a transactional id, oldest first; raises TimeTravelError."""
        tail = await self._read(self._tail, TRANSACTION_STATE_TOPIC, transactional_id)
        return () if tail is None else await read_moments(tail, transactional_id)

    def _tail(self, topic: str, key: str) -> LogTail | None:
        """Return the end of the coordinator's log with a key; None if there is no such log."""
        image = self._directory.image
        if topic not in image.topics:
            return None
        index = partition_of_key(image, topic, key)
        partition = self._directory.partition(image.topics[topic], index)
        if partition is None:
            return None
        log = partition.log
        first_offset = max(log.start_offset, log.end_offset - MAX_RECORDS)
        return LogTail(log, partition.name, first_offset, log.end_offset)

    # -- topics ----------------------------------------------------------------------------

    async def settings(self, topic: str) -> Sequence[Setting]:
        """Return the settings of a topic by name; the directory has no others."""
        return await self._read(self._settings, topic)

    def _settings(self, topic: str) -> Sequence[Setting]:
        config = self._directory.image.topic_config(topic)
        return [
            Setting(name, value, _TOPIC_SETTING, is_changed=True, about="")
            for name, value in sorted(config.items())
        ]

    async def records(self, search: RecordSearch) -> RecordWindow:
        """Return the records of a partition that a search selects."""
        return await window_of(await self._read(self._partition, search), search)

    def _partition(self, search: RecordSearch) -> Partition:
        topic = self._topic(search.topic)
        count = len(topic.partitions)
        if not 0 <= search.partition < count:
            raise CommandError(no_partition_text(search.topic, search.partition, count))
        partition = self._directory.partition(topic, search.partition)
        if partition is None:
            raise CommandError(f"the directory has no replica of {search.topic}-{search.partition}")
        return partition

    # -- requests, which a data directory does not have ------------------------------------

    async def latest_requests(
        self, selected: RequestFilter, limit: int, until: RequestsUntil = NEWEST
    ) -> RequestPage:
        """Return no requests."""
        del selected, limit, until
        return RequestPage((), 0, 0, 0)

    async def requests_at(
        self, selected: RequestFilter, at_ms: int, limit: int
    ) -> Sequence[RecordedRequest]:
        """Return no requests."""
        del selected, at_ms, limit
        return ()

    async def find_requests(
        self, selected: RequestFilter, is_match: Callable[[RecordedRequest], bool], limit: int
    ) -> RequestPage:
        """Return no requests."""
        del selected, is_match, limit
        return RequestPage((), 0, 0, 0)

    async def request(self, number: int) -> RecordedRequest | None:
        """Return None."""
        del number
        return None

    # -- the same in a shell ---------------------------------------------------------------

    def command_lines(self, command: Command[Any], url: str) -> Sequence[CommandLines]:
        """Return the lines of a shell that read the same from the directory."""
        del url
        lines = self._LINES.get(type(command))
        if lines is None:
            return (_line("Check what became of the records.", "check", self._path),)
        return lines(self, command)

    def _group_lines(self, command: ShowGroup) -> Sequence[CommandLines]:
        condition = f"members({_quoted(command.group)}) == 0"
        return (
            _line(
                "Find the record after which the group had no members.",
                *("bisect", "--data-dir", self._path, "--last", "--until", condition),
            ),
        )

    def _record_lines(self, command: ReadRecords) -> Sequence[CommandLines]:
        offset, index = command.start, command.partition or 0
        file = self._directory.segment_with(command.topic, index, offset)
        if file is None:
            return ()
        shell = shlex.join(["kafka-dump-log", "--print-data-log", "--files", file])
        return (CommandLines("", "", "", shell, "Print the segment with Kafka's tool."),)

    def _no_lines(self, _: Any) -> Sequence[CommandLines]:  # noqa: ANN401 - any command
        return ()

    _LINES: ClassVar[Mapping[type, Callable[[DirectorySource, Any], Sequence[CommandLines]]]] = {
        ShowGroup: _group_lines,
        ReadRecords: _record_lines,
        Explain: _no_lines,
    }

    def changes(self, subjects: Sequence[Subject | TopicRecords]) -> SourceChanges | None:
        """Return None: a reload shows what has changed."""
        del subjects
        return None


def _line(purpose: str, *words: str) -> CommandLines:
    return CommandLines("", "", "", shlex.join(["kafkalite", *words]), purpose)


def _quoted(name: str) -> str:
    return name if all(each.isalnum() or each in "._-" for each in name) else f"'{name}'"


def _listed(image: TopicImage) -> ListedTopic:
    first = image.partitions[0].replicas if image.partitions else ()
    return ListedTopic(image.name, len(image.partitions), len(first), image.is_internal)


def _named_topic(item: tuple[bytes, NamedPartitions]) -> str:
    return item[1].name


def _id_of(group: ListedGroup) -> str:
    return group.group_id


def _transactional_id_of(answer: Any) -> str:  # noqa: ANN401 - a TransactionAnswer
    name: str = answer.transactional_id
    return name
