"""The command that shows the history of groups, transactional ids, topics and clients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

from kafkalite.config.typed_json import About
from kafkalite.control.command_table import CommandError, Family, Row, Words
from kafkalite.coordinator.contract import SUBJECTS
from kafkalite.coordinator.event_history import MAX_ENTRIES
from kafkalite.ports.times import iso_of
from kafkalite.protocol.acl_operations import Entity

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafkalite.coordinator.event_history import Entry
    from kafkalite.server.broker import Broker

MAX_EXPLAIN_ENTRIES = 10_000
DEFAULT_EXPLAIN_ENTRIES = 2 * MAX_ENTRIES


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


@dataclass(frozen=True, slots=True)
class Explain:
    """Return the history of a group, a transactional id, a topic or a client, or of all of them.

    A client is an address, such as 127.0.0.1.
    """

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

    def __post_init__(self) -> None:
        if sum(getattr(self, name) is not None for name in self.AT_MOST_ONE) > 1:
            raise CommandError(
                "explain takes one group, one transactional id, one topic or one client"
            )

    def entries(self, broker: Broker) -> Sequence[Entry]:
        """Return the entries of the history; those of an unknown id are none."""
        limit = max(0, min(self.limit, MAX_EXPLAIN_ENTRIES))
        for kind in SUBJECTS:
            name = getattr(self, kind.value)
            if name is not None:
                return broker.history.about(name, limit, of=kind)
        return broker.history.latest(limit)

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
            entries=tuple(map(_described, self.entries(broker))),
        )


def _described(entry: Entry) -> HistoryEntry:
    return HistoryEntry(
        **entry._asdict(), first_iso=iso_of(entry.first_ms), at_iso=iso_of(entry.at_ms)
    )


def _lines(found: Explanation, given: Mapping[str, object]) -> list[str]:
    subject = next(
        ((name, f"{given[name]}") for name in Explain.AT_MOST_ONE if name in given), None
    )
    if not found.entries:
        return [f"no entries about {_subject_text(subject)}"]
    return [_entry_line(entry, is_unfiltered=subject is None) for entry in found.entries]


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


def line_of(entry: Entry) -> str:
    """Return an entry of the history as one line, with its subject."""
    return _entry_line(_described(entry), is_unfiltered=True)


def _entry_line(entry: HistoryEntry, *, is_unfiltered: bool) -> str:
    name = entry.group or entry.transactional_id or entry.topic or entry.client
    subject = f" {name}" if is_unfiltered else ""
    repeated = f" ({entry.times} times since {entry.first_iso})" if entry.times > 1 else ""
    return f"{entry.at_iso}{subject} {entry.kind}: {entry.text}{repeated}"


_ABOUT = "Show the history of groups, transactional ids, topics and clients, with reasons."

COMMANDS = Family(
    (Row(Explain, Explanation, "GET", "/v1/explain", (Words("explain"),), _lines),),
    {"explain": _ABOUT},
)
