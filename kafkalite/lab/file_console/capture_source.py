"""CaptureSource: what the console reads from captures."""

from __future__ import annotations

import asyncio
import shlex
import threading
from array import array
from bisect import bisect_left
from collections import OrderedDict, deque
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

from kafkalite.capture.reading.captures import ignore
from kafkalite.capture.reading.merging import packets
from kafkalite.capture.reading.messages import error_name, response_version
from kafkalite.control.command_table import CommandError
from kafkalite.control.commands.explain import Explain, Explanation, described
from kafkalite.control.commands.groups import ListGroups, ShowGroup
from kafkalite.control.commands.requests import ListRequests, RecordedRequest
from kafkalite.control.commands.transactions import ListTransactions, TransactionList
from kafkalite.control.console.assignment_history import MAX_ASSIGNMENTS
from kafkalite.control.console.command_lines import CommandLines
from kafkalite.control.console.commit_history import MAX_COMMITS
from kafkalite.control.console.source import NEWEST, CommitHistory, RequestPage
from kafkalite.control.group_reader import UnknownGroupError
from kafkalite.control.group_status import GroupList
from kafkalite.control.time_travel.points import TimeTravelError
from kafkalite.lab.checker.groups.requests import GroupRequests, milliseconds, time_of
from kafkalite.lab.checker.groups.timeline import timeline
from kafkalite.lab.file_console.captured_records import records_in
from kafkalite.lab.file_console.group_states import (
    GroupState,
    assignments_of,
    commits_of,
    without_silent_members,
)
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.ports.similar_names import similar_names_hint
from kafkalite.ports.times import iso_of
from kafkalite.ports.units import NANOSECONDS_PER_MICROSECOND, NANOSECONDS_PER_MILLISECOND
from kafkalite.protocol import codec
from kafkalite.server.request_log import request_fields, response_fields

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from kafkalite.capture.formats.capture_files import Packet
    from kafkalite.capture.model import Exchange, Problem
    from kafkalite.capture.reading.problems import Problems
    from kafkalite.control.command_table import Command
    from kafkalite.control.console.source import (
        RecordSearch,
        RecordWindow,
        RequestsUntil,
        Setting,
        SourceChanges,
        Subject,
        TopicRecords,
        TransactionMoment,
    )
    from kafkalite.control.group_status import GroupStatus
    from kafkalite.control.request_filter import RequestFilter
    from kafkalite.coordinator.event_history import Entry
    from kafkalite.lab.checker.collecting import Observation
    from kafkalite.lab.file_console.capture_index import CaptureIndex
    from kafkalite.lab.file_console.captured_records import CapturedRecord
    from kafkalite.lab.file_console.group_states import CapturedGroup

Answer = TypeVar("Answer")

_MAX_EXAMINED: Final = 5_000
"""The maximum number of requests, the latest, that are compared with a record."""
_CACHED_GROUPS: Final = 2
_NO_NODE: Final = -1


class CapturedPlace(NamedTuple):
    """Where a request is in a capture."""

    file: str
    offset: int
    """Offset of the packet in which it begins."""
    packet: int | None
    """Number of the packet, from 1, as other programs count; None if it was not looked for."""
    connection: str
    position: int
    """Number of the request in its connection, from 0."""
    broker: str


@dataclass(frozen=True, slots=True)
class CapturedRequest(RecordedRequest):
    """A request with its place in a capture, and its latency in microseconds."""

    place: CapturedPlace
    latency_us: float | None
    records: Sequence[CapturedRecord]
    """The first records that were written or read; none in a list of requests."""
    has_more_records: bool


class CaptureSummary(NamedTuple):
    """What captures have, for their first page."""

    files: Sequence[str]
    requests: int
    connections: int
    groups: int
    transactional_ids: int
    first_ms: int
    last_ms: int
    apis: Sequence[tuple[str, int]]
    """Names of APIs with the numbers of their requests, the most frequent first."""
    errors: Sequence[tuple[str, int]]
    problems: Sequence[Problem]
    brokers: Sequence[str]


class _GroupRead(NamedTuple):
    """The requests of a group, decoded, and its time line."""

    requests: Sequence[Observation]
    entries: Sequence[Entry]


class CaptureSource:
    """Captures as the source of the console; see ConsoleSource."""

    is_live: Final = False
    logs_requests: Final = True

    def __init__(
        self, paths: Sequence[str], index: CaptureIndex, problems: Problems, ports: Sequence[int]
    ) -> None:
        self._paths = paths
        self._index = index
        self._problems = problems
        self._ports = ports
        self._groups: OrderedDict[str, _GroupRead] = OrderedDict()
        self._packets: dict[str, array[int]] = {}
        """File → the offsets of its packets."""
        self._lock = threading.Lock()
        """Held by a thread that reads a group or a file."""

    def close(self) -> None:
        """Delete the temporary file."""
        self._index.close()

    @property
    def name(self) -> str:
        """The names of the files."""
        first = self._paths[0].rstrip("/").rpartition("/")[2]
        return first if len(self._paths) == 1 else f"{first} and {len(self._paths) - 1} more"

    @property
    def now_ms(self) -> int:
        """The time of the last exchange."""
        return milliseconds(self._index.last_ns)

    def summary(self) -> CaptureSummary:
        """Return what the captures have."""
        index = self._index
        apis = sorted(index.api_counts.items(), key=_most_frequent)
        errors = sorted(index.error_counts.items(), key=_most_frequent)
        return CaptureSummary(
            files=index.files,
            requests=len(index),
            connections=len(index.connections),
            groups=len(index.groups),
            transactional_ids=len(index.transactions),
            first_ms=milliseconds(index.first_ns),
            last_ms=self.now_ms,
            apis=[(_api_name(key), count) for key, count in apis],
            errors=[(error_name(code), count) for code, count in errors],
            problems=[*self._problems],
            brokers=sorted({f"{each.broker}" for each in index.connections}),
        )

    # -- commands --------------------------------------------------------------------------

    async def ask(self, command: Command[Answer]) -> Answer:
        """Return the answer to a command; raises CommandError for one about a running broker."""
        answer = self._ANSWERS.get(type(command))
        if answer is None:
            raise CommandError("a capture cannot answer this: it needs a running broker")
        found: Answer = await asyncio.to_thread(answer, self, command)
        return found

    def _list_groups(self, _: ListGroups) -> GroupList:
        groups = self._index.groups
        return GroupList(tuple(groups[each].state.listed() for each in sorted(groups)))

    def _show_group(self, command: ShowGroup) -> GroupStatus:
        status = self._known_group(command.group).state.status()
        return without_silent_members(status, self._read_group(command.group).entries)

    def _known_group(self, name: str) -> CapturedGroup:
        found = self._index.groups.get(name)
        if found is None:
            hint = similar_names_hint(name, self._index.groups)
            raise UnknownGroupError(f"{_no_members(name)}{hint}")
        return found

    def _list_transactions(self, _: ListTransactions) -> TransactionList:
        now_ms = self.now_ms
        return TransactionList(tuple(each.answer(now_ms) for each in self._index.transactions))

    def _explain(self, command: Explain) -> Explanation:
        """Return the events of a group, of a transactional id, or of all transactional ids."""
        entries: Sequence[Entry] = ()
        if command.group is not None:
            if command.group in self._index.groups:
                entries = self._read_group(command.group).entries
        elif command.transactional_id is not None:
            found = self._index.transactions.find(command.transactional_id)
            entries = () if found is None else [*found.entries]
        elif command.topic is None and command.client is None:
            entries = [each for state in self._index.transactions for each in state.entries]
            entries = sorted(entries, key=_at_ms)
        now_ms = self.now_ms
        return Explanation(
            now_ms,
            iso_of(now_ms),
            groups=tuple(self._index.groups),
            transactional_ids=tuple(each.name for each in self._index.transactions),
            topics=(),
            clients=(),
            entries=tuple(map(described, entries[-command.limit :])),
        )

    _ANSWERS: ClassVar[Mapping[type, Callable[[CaptureSource, Any], Any]]] = {
        ListGroups: _list_groups,
        ShowGroup: _show_group,
        ListTransactions: _list_transactions,
        Explain: _explain,
    }

    # -- groups and transactions -----------------------------------------------------------

    def _read_group(self, name: str) -> _GroupRead:
        """Return the requests of a group; those of the latest groups are cached."""
        with self._lock:
            found = self._groups.get(name)
            if found is None:
                requests = GroupRequests()
                requests.topic_names = self._index.topic_names
                for number, until_ns in self._index.groups[name].requests():
                    seen = self._index.observation(number)
                    later = until_ns > time_of(seen)
                    requests.add(replace(seen, until_ns=until_ns) if later else seen)
                found = _GroupRead(requests.of(name), timeline(requests, name))
                self._groups[name] = found
                if len(self._groups) > _CACHED_GROUPS:
                    self._groups.popitem(last=False)
            self._groups.move_to_end(name)
            return found

    async def past_group(self, group: str, at_ms: int) -> GroupStatus:
        """Return a group as it was at a time, as far as the captures show it."""
        return await asyncio.to_thread(self._past_group, group, at_ms)

    def _past_group(self, group: str, at_ms: int) -> GroupStatus:
        if group not in self._index.groups:
            raise TimeTravelError(_no_members(group))
        state = GroupState(group)
        for each in self._read_group(group).requests:
            if milliseconds(time_of(each)) > at_ms:
                break
            state.add(each, self._index.topic_names)
        earlier = [each for each in self._read_group(group).entries if each.at_ms <= at_ms]
        return without_silent_members(state.status(), earlier)

    async def commits(self, group: str) -> CommitHistory:
        """Return the latest commits and assignments of a group."""
        return await asyncio.to_thread(self._commits, group)

    def _commits(self, group: str) -> CommitHistory:
        found = self._index.groups.get(group)
        if found is None:
            return CommitHistory((), is_complete=True)
        requests, names = self._read_group(group).requests, self._index.topic_names
        commits = list(commits_of(requests, names))
        is_complete = found.is_complete and len(commits) <= MAX_COMMITS
        assignments = list(assignments_of(group, requests, names))[-MAX_ASSIGNMENTS:]
        return CommitHistory(tuple(commits[-MAX_COMMITS:]), is_complete, assignments)

    async def transaction_moments(self, transactional_id: str) -> Sequence[TransactionMoment]:
        """Return the latest states of a transactional id, oldest first."""
        found = self._index.transactions.find(transactional_id)
        return () if found is None else tuple(found.moments)

    # -- topics, which captures do not have ------------------------------------------------

    async def settings(self, topic: str) -> Sequence[Setting]:
        """Raise CommandError."""
        del topic
        raise CommandError("captures have no settings of topics")

    async def records(self, search: RecordSearch) -> RecordWindow:
        """Raise CommandError."""
        del search
        raise CommandError("captures have requests, and no logs of partitions")

    # -- requests --------------------------------------------------------------------------

    async def latest_requests(
        self, selected: RequestFilter, limit: int, until: RequestsUntil = NEWEST
    ) -> RequestPage:
        """Return the latest requests that are selected."""
        return await asyncio.to_thread(self._latest_requests, selected, limit, until)

    def _latest_requests(
        self, selected: RequestFilter, limit: int, until: RequestsUntil
    ) -> RequestPage:
        count, since = len(self._index), selected.since
        found: list[RecordedRequest] = []
        is_selected = self._index.matching(selected)
        number = begin = count if until.before is None else min(count, until.before - 1)
        if until.time_ms is not None:
            until_ns = (until.time_ms + 1) * NANOSECONDS_PER_MILLISECOND
            while number > since and not self._index.was_sent_before(number, until_ns):
                number -= 1
            begin = number
        while number > since and len(found) < limit:
            if is_selected(number):
                found.append(self._recorded(number))
            number -= 1
        next_before = number + 1 if number > since else None
        return RequestPage(found, count, begin - number, count, next_before)

    async def requests_at(
        self, selected: RequestFilter, at_ms: int, limit: int
    ) -> Sequence[RecordedRequest]:
        """Return selected requests that were served at a time, newest first."""
        return await asyncio.to_thread(self._requests_at, selected, at_ms, limit)

    def _requests_at(
        self, selected: RequestFilter, at_ms: int, limit: int
    ) -> Sequence[RecordedRequest]:
        is_selected = self._index.matching(selected)
        from_ns = at_ms * NANOSECONDS_PER_MILLISECOND
        until_ns = from_ns + NANOSECONDS_PER_MILLISECOND - 1
        found: deque[int] = deque(maxlen=limit)
        for number in range(1, len(self._index) + 1):
            if self._index.was_served_at(number, from_ns, until_ns) and is_selected(number):
                found.append(number)
        return [self._recorded(each) for each in reversed(found)]

    async def find_requests(
        self, selected: RequestFilter, is_match: Callable[[RecordedRequest], bool], limit: int
    ) -> RequestPage:
        """Return the latest requests that are selected and match."""
        return await asyncio.to_thread(self._find_requests, selected, is_match, limit)

    def _find_requests(
        self, selected: RequestFilter, is_match: Callable[[RecordedRequest], bool], limit: int
    ) -> RequestPage:
        count = len(self._index)
        is_selected = self._index.matching(selected)
        found: list[RecordedRequest] = []
        examined = 0
        for number in range(count, 0, -1):
            if not is_selected(number):
                continue
            examined += 1
            request = self._recorded(number)
            if is_match(request):
                found.append(request)
            if len(found) == limit or examined == _MAX_EXAMINED:
                break
        return RequestPage(found, count, examined, count)

    async def request(self, number: int) -> RecordedRequest | None:
        """Return the request with a number, with its records and the number of its packet."""
        if not 0 < number <= len(self._index):
            return None
        return await asyncio.to_thread(self._recorded, number, is_whole=True)

    def _recorded(self, number: int, *, is_whole: bool = False) -> CapturedRequest:
        exchange = self._index.exchange(number)
        packet = self._packet_of(exchange.file, exchange.offset) if is_whole else None
        names, seen = self._index.names(number), self._index.observation(number)
        records, has_more = records_in(seen, self._index.topic_names) if is_whole else ([], False)
        connection = exchange.connection
        sent_ms, latency_us = milliseconds(exchange.sent_ns), _latency_us(exchange)
        return CapturedRequest(
            number=number,
            api=_api_name(exchange.api_key),
            version=exchange.api_version,
            correlation_id=exchange.correlation_id,
            received_ms=sent_ms,
            received_iso=iso_of(sent_ms),
            latency_ms=None if latency_us is None else round(latency_us / 1_000),
            node=_NO_NODE if connection.node_id is None else connection.node_id,
            listener=connection.listener or "",
            client=f"{connection.client}",
            client_id=exchange.client_id,
            software=None,
            principal="",
            groups=names.groups,
            topics=names.topics,
            transactional_ids=names.transactional_ids,
            request_bytes=len(exchange.request),
            answer_bytes=0 if exchange.response is None else len(exchange.response),
            errors=tuple(map(error_name, names.errors)),
            reasons=(),
            fault=None,
            closed="the capture has no answer" if exchange.response is None else None,
            request=_request_fields(exchange, seen),
            response=_response_fields(exchange, seen),
            place=CapturedPlace(
                exchange.file,
                exchange.offset,
                packet,
                f"{connection}",
                exchange.position,
                f"{connection.broker}",
            ),
            latency_us=latency_us,
            records=records,
            has_more_records=has_more,
        )

    def _packet_of(self, file: str, offset: int) -> int | None:
        """Return the number of the packet at an offset; None if the file has changed."""
        with self._lock:
            offsets = self._packets.get(file)
            if offsets is None:
                found: Iterator[Packet] = packets(file, ignore)
                offsets = self._packets[file] = array("q", (each.offset for each in found))
        place = bisect_left(offsets, offset)
        return place + 1 if place < len(offsets) and offsets[place] == offset else None

    # -- the same in a shell ---------------------------------------------------------------

    def command_lines(self, command: Command[Any], url: str) -> Sequence[CommandLines]:
        """Return the lines of a shell that print the same from the captures."""
        del url
        lines = self._LINES.get(type(command))
        return () if lines is None else lines(self, command)

    def _requests_lines(self, command: ListRequests) -> Sequence[CommandLines]:
        conditions = {
            "--api": None if command.api is None else codec.api_name(command.api),
            "--client": command.client_id,
            "--group": command.group,
            "--topic": command.topic,
        }
        given = [text for name, value in conditions.items() if value for text in (name, value)]
        if not given and command.since and command.since < len(self._index):
            return self._lines_of_request(command.since + 1)
        if command.error is not None:
            given.append("--errors")
        return (self._line("Print the requests and their answers.", "show", *self._paths, *given),)

    def _lines_of_request(self, number: int) -> Sequence[CommandLines]:
        exchange = self._index.exchange(number)
        file, port = exchange.file, exchange.connection.broker.port
        offset = f"{exchange.offset}"
        lines = [self._line("Print the request.", "show", file, "--offset", offset, "--json")]
        packet = self._packet_of(file, exchange.offset)
        if packet is not None:
            words = ("tshark", "-r", file, "-d", f"tcp.port=={port},kafka", "-V")
            shell = shlex.join([*words, "-Y", f"frame.number=={packet}"])
            lines.append(CommandLines("", "", "", shell, "Print the packet with Wireshark."))
        return lines

    def _explain_lines(self, command: Explain) -> Sequence[CommandLines]:
        if command.group is None:
            return ()
        captures = [text for each in self._paths for text in ("--capture", each)]
        words = ("explain", *captures, "--group", command.group)
        return (self._line("Print the time line of the group.", *words),)

    def _line(self, purpose: str, *words: str) -> CommandLines:
        ports = [text for each in self._ports for text in ("--port", f"{each}")]
        return CommandLines("", "", "", shlex.join(["kafkalite", *words, *ports]), purpose)

    _LINES: ClassVar[Mapping[type, Callable[[CaptureSource, Any], Sequence[CommandLines]]]] = {
        ListRequests: _requests_lines,
        Explain: _explain_lines,
    }

    def changes(self, subjects: Sequence[Subject | TopicRecords]) -> SourceChanges | None:
        """Return None: captures do not change."""
        del subjects
        return None


def _no_members(group: str) -> str:
    return f"the captures have no requests of members of the group {group[:249]!r}"


def _api_name(api_key: int) -> str:
    return codec.api_name(api_key) if api_key in codec.api_keys() else f"API {api_key}"


def _latency_us(exchange: Exchange) -> float | None:
    answered_ns = exchange.answered_ns
    if answered_ns is None or exchange.response is None:
        return None
    return (answered_ns - exchange.sent_ns) / NANOSECONDS_PER_MICROSECOND


def _request_fields(exchange: Exchange, seen: Observation) -> dict[str, Any]:
    if seen.request is None:
        return {"omitted": f"{len(exchange.request)} bytes that cannot be decoded"}
    size = len(exchange.request)
    return request_fields(seen.request, exchange.api_key, exchange.api_version, size)


def _response_fields(exchange: Exchange, seen: Observation) -> dict[str, Any] | None:
    if exchange.response is None:
        return None
    size = len(exchange.response)
    if seen.response is None:
        return {"omitted": f"{size} bytes that cannot be decoded"}
    version = response_version(exchange.response, exchange.api_key, exchange.api_version)
    return response_fields(seen.response, exchange.api_key, version, size)


def _most_frequent(item: tuple[int, int]) -> tuple[int, int]:
    return -item[1], item[0]


def _at_ms(entry: Entry) -> int:
    return entry.at_ms
