"""The command that shows the history of groups, transactional ids, topics and clients."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Final

from kafkalite.config.typed_json import About, to_json
from kafkalite.control.command_table import (
    CommandError,
    Family,
    Row,
    Words,
    running_cluster,
)
from kafkalite.control.turns import answer_pieces, in_turns
from kafkalite.control.waiting import Changes, keep_alive_deadline
from kafkalite.coordinator.contract import SUBJECTS
from kafkalite.coordinator.event_history import (
    DEFAULT_EXPLAIN_ENTRIES,
    MAX_ENTRIES,
    MAX_SUBJECTS,
    entry_at,
)
from kafkalite.metadata.internal_topics import OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from kafkalite.ports.similar_names import similar_names_hint
from kafkalite.ports.times import duration_ms, instant_ms, iso_of
from kafkalite.protocol.acl_operations import Entity

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence

    from kafkalite.coordinator.event_history import Entry
    from kafkalite.coordinator.member_clients import MemberClient
    from kafkalite.server.broker import Broker

MAX_EXPLAIN_ENTRIES = 10_000

_KIND_WIDTH: Final = 12
_SUBJECT_WIDTH: Final = 20
_MAX_SUBJECT_WIDTH: Final = 40
_STREAMED_PER_TURN: Final = 40
_ALL: Final = MAX_ENTRIES * 2 * MAX_SUBJECTS
"""No history has more entries."""


@dataclass(frozen=True, slots=True)
class NamedMember:
    """A member of a group, and its client."""

    member_id: Annotated[str, About("Member id.")]
    client_id: Annotated[str, About("Client id.")]
    client_host: Annotated[str, About("Address of the client.")]


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One entry of the history of a group, a transactional id, a topic or a client."""

    number: Annotated[
        int, About("Grows with every event; an event that is repeated gets a new number.")
    ]
    group: Annotated[str | None, About("The group id; null for an event of another subject.")]
    transactional_id: Annotated[
        str | None, About("The transactional id; null for an event of another subject.")
    ]
    topic: Annotated[str | None, About("The topic; null for an event of another subject.")]
    client: Annotated[
        str | None, About("The address of the client; null for an event of another subject.")
    ]
    kind: Annotated[
        str, About("The kind of event in one word, such as `rebalance`, `refused` or `joined`.")
    ]
    text: Annotated[str, About("The event and its reason in one sentence.")]
    facts: Annotated[
        dict[str, object],
        About("Values in the text by name, such as the member id; the names depend on the kind."),
    ]
    times: Annotated[int, About("Number of events with this text.")]
    first_ms: Annotated[
        int, About("Time of the first of them, in milliseconds since the Unix epoch.")
    ]
    first_iso: Annotated[str, About("The same time in ISO 8601, UTC.")]
    at_ms: Annotated[int, About("Time of the last of them, in milliseconds since the Unix epoch.")]
    at_iso: Annotated[str, About("The same time in ISO 8601, UTC.")]
    members: Annotated[
        tuple[NamedMember, ...],
        About("The clients of the members that the text and the facts name, at most 20."),
    ]


@dataclass(frozen=True, slots=True)
class Explanation:
    """The history of groups, transactional ids, topics and clients, oldest entry first."""

    now_ms: Annotated[int, About("The broker's time in milliseconds since the Unix epoch.")]
    iso: Annotated[str, About("The same time in ISO 8601, UTC.")]
    groups: Annotated[tuple[str, ...], About("Ids of all groups that have a history.")]
    transactional_ids: Annotated[
        tuple[str, ...], About("All transactional ids that have a history.")
    ]
    topics: Annotated[tuple[str, ...], About("All topics that have a history.")]
    clients: Annotated[tuple[str, ...], About("The addresses of all clients that have a history.")]
    entries: Annotated[tuple[HistoryEntry, ...], About("The latest entries, at most `limit`.")]


def _read_since(text: str) -> str:
    """Return a text that `--since` takes; raises ValueError for another one."""
    since_ms(text, 0)
    return text


def since_ms(text: str, now_ms: int) -> int:
    """Return the time that is named, or that was a duration ago; raises ValueError."""
    if "-" in text:
        return instant_ms(text)
    try:
        return now_ms - duration_ms(text)
    except ValueError as error:
        raise ValueError(
            f"{text[:40]!r} is neither a duration, such as 15m, nor a time, such as "
            "2026-03-01T12:00:00Z"
        ) from error


@dataclass(frozen=True, slots=True)
class _EntryFilter:
    """Selects entries of the history."""

    AT_MOST_ONE: ClassVar = tuple(each.value for each in SUBJECTS)

    group: Annotated[str | None, About("only this group [all]", metavar="ID")] = None
    transactional_id: Annotated[
        str | None, About("only this transactional id [all]", metavar="ID")
    ] = None
    topic: Annotated[str | None, About("only this topic [all]", metavar="NAME")] = None
    client: Annotated[
        str | None, About("only clients at this address [all]", metavar="ADDRESS")
    ] = None
    limit: Annotated[
        int,
        About(
            f"only this many entries, the latest [{DEFAULT_EXPLAIN_ENTRIES}]",
            minimum=1,
            maximum=MAX_EXPLAIN_ENTRIES,
            metavar="NUMBER",
        ),
    ] = DEFAULT_EXPLAIN_ENTRIES
    since: Annotated[
        str | None,
        About(
            "only entries of the last 15m, or another duration, by the broker's clock, or from a "
            "time on, such as 2026-03-01T12:00:00Z [all]",
            parse=_read_since,
            metavar="TIME",
        ),
    ] = None

    def __post_init__(self) -> None:
        if sum(getattr(self, name) is not None for name in self.AT_MOST_ONE) > 1:
            raise CommandError(
                "explain takes one group, one transactional id, one topic or one client"
            )
        if isinstance(self.since, str):
            _read_since(self.since)

    def entries(self, broker: Broker) -> Sequence[Entry]:
        """Return the entries of the history; those of an unknown id are none."""
        limit = max(0, min(self.limit, MAX_EXPLAIN_ENTRIES))
        return self._entries_since(self._entries_of_subject(broker, limit), broker.clock.now_ms())

    def _entries_since(self, found: Sequence[Entry], now_ms: int) -> Sequence[Entry]:
        if self.since is None:
            return found
        first_ms = since_ms(self.since, now_ms)
        return [each for each in found if each.at_ms >= first_ms]

    def _entries_of_subject(self, broker: Broker, limit: int) -> Sequence[Entry]:
        for kind in SUBJECTS:
            name = getattr(self, kind.value)
            if name is not None:
                return broker.history.about(name, limit, of=kind)
        return broker.history.latest(limit)


@dataclass(frozen=True, slots=True)
class Explain(_EntryFilter):
    """Return the history of a group, a transactional id, a topic or a client, or of all of them.

    A client is an address, such as 127.0.0.1.
    """

    at: Annotated[
        str | None,
        About(
            "the history as it was at an earlier point: 5m ago, or another duration, a time, such "
            "as 2026-03-01T12:00:00Z, or before the record at an offset of a log, such as "
            "__consumer_offsets-7:42; the name of the log may be omitted for one group or "
            "transactional id [now]",
            metavar="POINT",
        ),
    ] = None

    def entries(self, broker: Broker) -> Sequence[Entry]:
        """Return the entries of the history; raises TimeTravelError for an invalid point.

        An event that was repeated after the point is the first one.
        """
        if self.at is None:
            return _EntryFilter.entries(self, broker)
        time_ms = self._time_ms(broker, self.at)
        past = (entry_at(each, time_ms) for each in self._entries_of_subject(broker, _ALL))
        found = self._entries_since([each for each in past if each is not None], time_ms)
        limit = max(0, min(self.limit, MAX_EXPLAIN_ENTRIES))
        return found[-limit:] if limit else ()

    def _time_ms(self, broker: Broker, at: str) -> int:
        """Return the time of a point."""
        from kafkalite.control.time_travel.past_snapshot import time_of  # noqa: PLC0415 - rarely used
        from kafkalite.control.time_travel.points import point_of  # noqa: PLC0415
        from kafkalite.control.time_travel.replay import log_of_key  # noqa: PLC0415

        point = point_of(at, broker.clock.now_ms())
        key = self.transactional_id if self.group is None else self.group
        if point.end_offset is not None and point.log is None and key is not None:
            topic = TRANSACTION_STATE_TOPIC if self.group is None else OFFSETS_TOPIC
            image = running_cluster(broker).metadata.image
            point = point._replace(log=log_of_key(image, topic, key))
        return time_of(broker, point)

    async def perform(self, broker: Broker) -> Explanation:
        """Return the history."""
        now_ms, history = broker.clock.now_ms(), broker.history
        return Explanation(
            now_ms,
            iso_of(now_ms),
            groups=tuple(history.names(Entity.GROUP)),
            transactional_ids=tuple(history.names(Entity.TRANSACTIONAL_ID)),
            topics=tuple(history.names(Entity.TOPIC)),
            clients=tuple(history.names(Entity.CLIENT)),
            entries=tuple([described(each) async for each in in_turns(self.entries(broker))]),
        )


@dataclass(frozen=True, slots=True)
class FollowHistory(_EntryFilter):
    """Send entries of the history, and each further one, as server-sent events.

    The stream begins with the entries that `GET /v1/explain` returns. It ends when the client
    disconnects. An event that is repeated is sent again.
    """

    async def perform(self, broker: Broker) -> HistoryEntry:
        """Raise CommandError: the stream has no end."""
        del broker
        raise CommandError("a stream of entries has no end: read /v1/explain/stream")

    async def events(self, broker: Broker) -> AsyncIterator[str]:
        """Yield the events; a client that reads slowly misses those that leave the history."""
        history = broker.history
        yield ": history\n\n"
        entries = self.entries(broker)
        with Changes(history.watchers) as changes:
            while True:
                number = history.last_number
                async for entry in in_turns(entries, _STREAMED_PER_TURN):
                    data = json.dumps(to_json(described(entry)), ensure_ascii=False)
                    yield f"id: {entry.number}\nevent: entry\ndata: {data}\n\n"
                if not await changes.next(keep_alive_deadline()):
                    yield ": no entry\n\n"  # fails if the client has disconnected
                entries = [each for each in history.after(number) if self._is_about_subject(each)]

    def _is_about_subject(self, entry: Entry) -> bool:
        return all(getattr(self, name) in {None, getattr(entry, name)} for name in self.AT_MOST_ONE)


def described(entry: Entry) -> HistoryEntry:
    """Return an entry of the history as answers have it."""
    values = entry._asdict() | {"members": tuple(NamedMember(*each) for each in entry.members)}
    return HistoryEntry(**values, first_iso=iso_of(entry.first_ms), at_iso=iso_of(entry.at_ms))


def _lines(found: Explanation, given: Mapping[str, object]) -> list[str]:
    subject = next(
        ((name, f"{given[name]}") for name in Explain.AT_MOST_ONE if name in given), None
    )
    if not found.entries:
        return [f"no entries about {_subject_text(subject)}{_similar_names(found, subject)}"]
    return list(_entry_lines(found.entries, is_unfiltered=subject is None))


def _entry_lines(entries: Sequence[HistoryEntry], *, is_unfiltered: bool) -> Iterator[str]:
    """Yield entries as lines with aligned columns."""
    subject_width = 0
    if is_unfiltered:
        widest = max((len(_subject_of(each)) for each in entries), default=0)
        subject_width = min(widest, _MAX_SUBJECT_WIDTH)
    kind_width = max((len(each.kind) for each in entries), default=0) + 1
    names = member_names(entries)
    return (_entry_line(each, subject_width, kind_width, names) for each in entries)


def _similar_names(found: Explanation, subject: tuple[str, str] | None) -> str:
    """Return the end of a sentence with similar names of subjects that have entries."""
    if subject is None:
        return ""
    kind, name = subject
    return similar_names_hint(name, getattr(found, f"{kind}s"))


def _subject_text(subject: tuple[str, str] | None) -> str:
    if subject is None:
        return "any group, transactional id, topic or client"
    kind, name = subject
    return f"a {kind.replace('_', ' ')} {name!r}{_address_hint(name) if kind == 'client' else ''}"


def _address_hint(client: str) -> str:
    """Return the end of a sentence about the address of a client, if it is the name of a host."""
    from ipaddress import ip_address  # noqa: PLC0415 - for an empty answer only

    try:
        ip_address(client)
    except ValueError:
        return "; write the address of a client as numbers, such as 127.0.0.1"
    return ""


def lines_of(entries: Sequence[Entry], *, has_subjects: bool = True) -> Iterator[str]:
    """Yield entries of the history as lines with aligned columns, by default with subjects."""
    return _entry_lines([described(each) for each in entries], is_unfiltered=has_subjects)


def json_of(entries: Sequence[Entry]) -> object:
    """Return entries of the history as values of JSON, as `GET /v1/explain` has them."""
    return to_json(tuple(map(described, entries)))


def named_texts(entries: Sequence[HistoryEntry]) -> list[str]:
    """Return the texts of entries, with the names of members in place of their ids."""
    names = member_names(entries)
    return [_named_text(each, names) for each in entries]


def member_names(entries: Iterable[HistoryEntry]) -> Mapping[str, str]:
    """Return the name of each member that entries name, by its id."""
    return _short_names(member for each in entries for member in each.members)


def lines_of_failure(entries: Sequence[Entry]) -> list[str]:
    """Return entries of the history as lines below the text of a failed expectation."""
    return [f"  explain: {line}" for line in lines_of(entries)]


def _followed_line(entry: HistoryEntry, given: Mapping[str, object]) -> str:
    """Return an entry as one line that is aligned with the lines of other entries."""
    is_unfiltered = not given.keys() & set(_EntryFilter.AT_MOST_ONE)
    subject_width = _SUBJECT_WIDTH if is_unfiltered else 0
    return _entry_line(entry, subject_width, _KIND_WIDTH, _short_names(entry.members))


def _subject_of(entry: HistoryEntry) -> str:
    return entry.group or entry.transactional_id or entry.topic or entry.client or ""


def _entry_line(
    entry: HistoryEntry, subject_width: int, kind_width: int, names: Mapping[str, str]
) -> str:
    subject = f" {_subject_of(entry):<{subject_width}}" if subject_width else ""
    repeated = f" ({entry.times} times since {entry.first_iso})" if entry.times > 1 else ""
    text = _named_text(entry, names)
    return f"{entry.at_iso}{subject} {f'{entry.kind}:':<{kind_width}} {text}{repeated}"


def _named_text(entry: HistoryEntry, names: Mapping[str, str]) -> str:
    """Return the text of an entry with the names of its members in place of their ids."""
    text, parts, end = entry.text, [], 0
    for start, _, member_id in sorted(_places(text, entry.members)):
        if start >= end:
            parts += [text[end:start], names[member_id]]
            end = start + len(member_id)
    return "".join((*parts, text[end:]))


def _places(text: str, members: Iterable[NamedMember]) -> Iterator[tuple[int, int, str]]:
    """Yield where a text has the ids of members: start, length, negated, and id.

    They are no parts of longer words. A regular expression would be compiled for each text, which
    takes milliseconds.
    """
    for member_id in {each.member_id for each in members if each.member_id}:
        start = text.find(member_id)
        while start >= 0:
            end = start + len(member_id)
            if not (_is_in_id(text[start - 1 : start]) or _is_in_id(text[end : end + 1])):
                yield start, -len(member_id), member_id
            start = text.find(member_id, start + 1)


def _is_in_id(character: str) -> bool:
    return character.isalnum() or (bool(character) and character in "_+/-")


def _short_names(members: Iterable[NamedMember | MemberClient]) -> dict[str, str]:
    """Return client id, host and the beginning of the member id, by member id."""
    known = {each.member_id: each for each in members}
    ids = {member_id: _distinctive(member) for member_id, member in known.items()}
    length = _ID_LENGTH
    while len({each[:length] for each in ids.values()}) < len(set(ids.values())):
        length += _ID_LENGTH // 2
    return {
        member_id: f"{member.client_id}@{member.client_host} ({_shortened(ids[member_id], length)})"
        for member_id, member in known.items()
    }


def _distinctive(member: NamedMember | MemberClient) -> str:
    """Return the part of a member id that differs from those of the client's other members.

    The id of a classic member begins with the client id or the instance id, followed by a UUID.
    """
    match = _UUID_AT_END.search(member.member_id)
    return member.member_id if match is None else match[0]


def _shortened(member_id: str, length: int) -> str:
    # An ellipsis in place of a few characters would be no shorter.
    return member_id if len(member_id) <= length + _ID_LENGTH // 2 else f"{member_id[:length]}…"


_ID_LENGTH: Final = 8
_UUID_AT_END: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$")

COLOURS: Final = {
    "refused:": "red",
    "fenced:": "red",
    "expired:": "yellow",
    "rebalance:": "yellow",
    "joined:": "green",
}

_ABOUT = "Show the history of groups, transactional ids, topics and clients, with reasons."

COMMANDS = Family(
    (
        Row(
            Explain,
            Explanation,
            "GET",
            "/v1/explain",
            (Words("explain"),),
            _lines,
            pieces=answer_pieces,
            colours=COLOURS,
        ),
        Row(
            FollowHistory,
            HistoryEntry,
            "GET",
            "/v1/explain/stream",
            (
                Words(
                    "explain",
                    "print further entries when they are made, until Ctrl-C",
                    flag="follow",
                ),
            ),
            lambda entry, given: [_followed_line(entry, given)],
            pieces=lambda command, broker: command.events(broker),
            media_type="text/event-stream",
            colours=COLOURS,
        ),
    ),
    {"explain": _ABOUT},
)
