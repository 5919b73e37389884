"""EventHistory: recent events of groups, transactional ids, topics and clients, for `explain`.

All sizes are limited, because clients cause the events. A subject is a group, a transactional id, a
topic or the address of a client. Each subject has a maximum number of refusals and a maximum number
of other entries, so a client that is refused again and again cannot displace the rebalances. The
number of subjects and the bytes of all entries are limited as well. Clients, and other subjects
that have only refusals or were only created, are removed first, because any client can invent such
ids. A repeated refusal with the same text is counted, not stored again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from itertools import islice
from math import isfinite
from operator import attrgetter
from typing import TYPE_CHECKING, TypeAlias

from kafkalite.coordinator.contract import CREATED, SUBJECTS
from kafkalite.coordinator.member_clients import MemberClient, MemberClients
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.ports.texts import truncate
from kafkalite.ports.watchers import Watchers
from kafkalite.protocol.acl_operations import Entity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalite.coordinator.contract import Event

MAX_SUBJECTS = 1_000
MAX_ENTRIES = 64
"""Maximum number of refusals, and of other entries, of one subject."""
MAX_BYTES = 8 * 1024 * 1024
MAX_TEXT_LENGTH = 1_000
"""Maximum characters of an event's text; a longer one is truncated."""
MAX_NAME_LENGTH = 256
"""Maximum characters of an id, and of a text among the facts."""
MAX_ITEMS = 32
"""Maximum facts of an entry, and items of a list among them."""
MAX_DEPTH = 3
MAX_FACTS_LENGTH = 4_000
"""Maximum characters of all facts of an entry; further facts are omitted."""

DEFAULT_EXPLAIN_ENTRIES = 2 * MAX_ENTRIES
"""The number of entries that a reader gets, if it does not give one."""

REFUSAL_KINDS = frozenset(("refused", "fenced"))

_ENTRY_BYTES = 600
"""Approximate bytes of an entry without its texts."""
_FACT_CHARACTERS = 20
"""Characters that are counted for each fact in addition to its text."""

Fact: TypeAlias = "str | int | float | bool | list[Fact] | dict[str, Fact] | None"
"""A value that JSON can represent."""


class Entry(NamedTuple):
    """One event of a group, a transactional id, a topic or a client."""

    number: int
    """Grows with every event; a repetition gives an entry a new number."""
    group: str | None
    transactional_id: str | None
    topic: str | None
    client: str | None
    """Exactly one of `group`, `transactional_id`, `topic` and `client` is set."""
    kind: str
    """The kind of event in one word, such as "rebalance", "refused" or "joined"."""
    text: str
    """The event and its reason in one sentence."""
    facts: Mapping[str, Fact]
    """Values in the text by name, such as the member id; the names depend on the kind."""
    times: int
    """Number of events with exactly this text."""
    first_ms: int
    """When it first happened, in milliseconds since the Unix epoch by the broker's clock."""
    at_ms: int
    """When it last happened."""
    members: tuple[MemberClient, ...] = ()
    """The clients of the members that the text and the facts of a group's event name."""


_Subject: TypeAlias = tuple[Entity, str]
_TextKey: TypeAlias = tuple[str, str, str]
_by_number = attrgetter("number")


class _SubjectEntries:
    """The entries of one subject."""

    __slots__ = ("last_number", "members", "others", "refusals", "size")

    def __init__(self) -> None:
        self.last_number = 0
        self.members = MemberClients()
        self.refusals: dict[_TextKey, tuple[Entry, int]] = {}
        self.others: dict[_TextKey, tuple[Entry, int]] = {}
        self.size = 0

    def copy(self) -> _SubjectEntries:
        copy = _SubjectEntries()
        copy.last_number, copy.size = self.last_number, self.size
        copy.members = self.members.copy()
        copy.refusals, copy.others = self.refusals.copy(), self.others.copy()
        return copy

    def entries(self) -> list[Entry]:
        entries_of_all = [entry for entry, _ in self.refusals.values()]
        entries_of_all += [entry for entry, _ in self.others.values()]
        return sorted(entries_of_all, key=_by_number)


class EventHistory:
    """Recent events of the groups, transactional ids, topics and clients of one cluster."""

    __slots__ = (
        "_bytes",
        "_max_bytes",
        "_max_entries",
        "_max_subjects",
        "_number",
        "_removed_first",
        "_subjects",
        "watchers",
    )  # fmt: skip

    def __init__(
        self,
        *,
        max_subjects: int = MAX_SUBJECTS,
        max_entries: int = MAX_ENTRIES,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        self._max_subjects = max_subjects
        self._max_entries = max_entries
        self._max_bytes = max_bytes
        # Both are ordered by the latest events of their subjects.
        self._subjects: dict[_Subject, _SubjectEntries] = {}
        self._removed_first: dict[_Subject, _SubjectEntries] = {}
        """Clients, and subjects that have only refusals or were only created."""
        self._number = 0
        self._bytes = 0
        self.watchers = Watchers()
        """Are notified of each event."""

    def copy(self) -> EventHistory:
        """Return a history with the same entries and limits, and without watchers."""
        copy = EventHistory(
            max_subjects=self._max_subjects,
            max_entries=self._max_entries,
            max_bytes=self._max_bytes,
        )
        copy.become(self)
        return copy

    def become(self, other: EventHistory) -> None:
        """Have the entries of another history; the numbers of later ones grow nevertheless."""
        self._subjects = {name: each.copy() for name, each in other._subjects.items()}
        self._removed_first = {name: each.copy() for name, each in other._removed_first.items()}
        self._number = max(self._number, other._number)
        self._bytes = other._bytes

    def until(self, time_ms: int) -> EventHistory:
        """Return a history as it was at a time, as far as entries remain; see `entry_at`."""
        past = EventHistory(
            max_subjects=self._max_subjects,
            max_entries=self._max_entries,
            max_bytes=self._max_bytes,
        )
        for entry in self.after(-1):
            earlier = entry_at(entry, time_ms)
            if earlier is not None:
                past._add_entry(earlier)
        past._number = self._number
        return past

    @classmethod
    def of(cls, entries: Iterable[Entry]) -> EventHistory:
        """Return a history with these entries, which are in the order of numbers."""
        history = cls()
        for entry in entries:
            history._add_entry(entry)
        return history

    def _add_entry(self, entry: Entry) -> None:
        """Add an entry of another history."""
        names = (entry.group, entry.transactional_id, entry.topic, entry.client)
        subject = next(
            (kind, name) for kind, name in zip(SUBJECTS, names, strict=True) if name is not None
        )
        is_refusal = entry.kind in REFUSAL_KINDS
        is_removed_first = is_refusal or entry.kind == CREATED or subject[0] is Entity.CLIENT
        entries = self._find_or_create_entries(subject, is_removed_first=is_removed_first)
        by_text = entries.refusals if is_refusal else entries.others
        text_key = (entry.kind, entry.text, repr(entry.facts))
        size = _ENTRY_BYTES + _estimate_bytes(entry.text) + 4 * _estimate_bytes(text_key[2])
        by_text[text_key] = (entry, size)
        for member in entry.members:
            size += entries.members.learn(member._asdict())
        entries.last_number = self._number = entry.number
        entries.size += size
        self._bytes += size

    @property
    def last_number(self) -> int:
        """The number of the latest entry."""
        return self._number

    def add(self, event: Event, now_ms: int) -> None:
        """Store an event that happened at `now_ms`; at a limit, the oldest entries are removed."""
        subject = (event.subject_kind, truncate(event.subject, MAX_NAME_LENGTH))
        text = truncate(event.text, MAX_TEXT_LENGTH)
        facts = _FactConverter().convert_facts(event.facts)
        text_key = (event.kind, text, repr(facts))
        size = _ENTRY_BYTES + _estimate_bytes(text) + 4 * _estimate_bytes(text_key[2])
        self._number += 1
        is_refusal = event.kind in REFUSAL_KINDS
        is_removed_first = (
            is_refusal or event.kind == CREATED or event.subject_kind is Entity.CLIENT
        )
        entries = self._find_or_create_entries(subject, is_removed_first=is_removed_first)
        by_text = entries.refusals if is_refusal else entries.others
        members = self._members(entries, event.subject_kind, text, facts, is_refusal=is_refusal)
        times, first_ms = 1, now_ms
        earlier = by_text.pop(text_key, None)
        if earlier is not None:
            times, first_ms = earlier[0].times + 1, earlier[0].first_ms
            self._subtract_size(entries, earlier[1])
        elif len(by_text) >= self._max_entries:
            self._subtract_size(entries, by_text.pop(next(iter(by_text)))[1])
        group, transactional_id, topic, client = (
            subject[1] if event.subject_kind is kind else None for kind in SUBJECTS
        )
        entry = Entry(
            self._number,
            group,
            transactional_id,
            topic,
            client,
            event.kind,
            text,
            facts,
            times,
            first_ms,
            now_ms,
            members,
        )
        by_text[text_key] = (entry, size)
        entries.last_number = entry.number
        entries.size += size
        self._bytes += size
        while self._bytes > self._max_bytes and self._subject_count() > 1:
            self._remove_oldest_subject(subject)
        self.watchers.notify()

    def _members(
        self,
        entries: _SubjectEntries,
        kind: Entity,
        text: str,
        facts: Mapping[str, Fact],
        *,
        is_refusal: bool,
    ) -> tuple[MemberClient, ...]:
        """Return the clients of the members that an event of a group names."""
        if kind is not Entity.GROUP:
            return ()
        # Any client can be refused with a member id that it made up.
        if not is_refusal:
            size = entries.members.learn(facts)
            entries.size += size
            self._bytes += size
        return entries.members.named_in(text, facts)

    def about(
        self, name: str, limit: int = DEFAULT_EXPLAIN_ENTRIES, *, of: Entity = Entity.GROUP
    ) -> Sequence[Entry]:
        """Return the latest `limit` entries of a subject, in the order of numbers.

        `of` is the kind of the subject.
        """
        subject = (of, truncate(name, MAX_NAME_LENGTH))
        entries = self._subjects.get(subject) or self._removed_first.get(subject)
        return () if entries is None else _last_entries(entries.entries(), limit)

    def latest(self, limit: int = DEFAULT_EXPLAIN_ENTRIES) -> Sequence[Entry]:
        """Return the latest `limit` entries of all subjects, in the order of numbers."""
        entries_of_all: list[Entry] = []
        for entries in (*self._subjects.values(), *self._removed_first.values()):
            entries_of_all += entries.entries()
        return _last_entries(sorted(entries_of_all, key=_by_number), limit)

    def after(self, number: int) -> Sequence[Entry]:
        """Return the entries of all subjects with larger numbers, in the order of numbers."""
        found: list[Entry] = []
        for subjects in (self._subjects, self._removed_first):
            for entries in reversed(subjects.values()):
                if entries.last_number <= number:
                    break
                found += (each for each in entries.entries() if each.number > number)
        return sorted(found, key=_by_number)

    def names(self, of: Entity) -> Sequence[str]:
        """Return the ids of all subjects of a kind that have entries, sorted."""
        known = (*self._subjects, *self._removed_first)
        return sorted(name for kind, name in known if kind is of)

    @property
    def bytes(self) -> int:
        """Approximate memory that the entries take."""
        return self._bytes

    def _find_or_create_entries(
        self, subject: _Subject, *, is_removed_first: bool
    ) -> _SubjectEntries:
        """Return the entries of a subject, and make it the most recent one."""
        entries = self._subjects.pop(subject, None)
        if entries is None:
            entries = self._removed_first.pop(subject, None)
            if entries is None:
                while self._subject_count() >= self._max_subjects:
                    self._remove_oldest_subject(subject)
                entries = _SubjectEntries()
            if is_removed_first:
                self._removed_first[subject] = entries
                return entries
        self._subjects[subject] = entries
        return entries

    def _subject_count(self) -> int:
        return len(self._subjects) + len(self._removed_first)

    def _remove_oldest_subject(self, current: _Subject) -> None:
        """Remove the least recent subject, not `current`, of those that are removed first."""
        for subjects in (self._removed_first, self._subjects):
            oldest = next(iter(subjects), current)
            if oldest != current:
                self._bytes -= subjects.pop(oldest).size
                return

    def _subtract_size(self, entries: _SubjectEntries, size: int) -> None:
        entries.size -= size
        self._bytes -= size


def entry_at(entry: Entry, time_ms: int) -> Entry | None:
    """Return an entry as it was at a time; None if the event happened later.

    One that was repeated later is the first event, because only its time and that of the last
    event are known.
    """
    if entry.at_ms <= time_ms:
        return entry
    if entry.first_ms > time_ms:
        return None
    return entry._replace(times=1, at_ms=entry.first_ms)


def _last_entries(entries: list[Entry], limit: int) -> Sequence[Entry]:
    return entries[-limit:] if limit > 0 else ()


def _estimate_bytes(text: str) -> int:
    return len(text) if text.isascii() else 4 * len(text)


class _FactConverter:
    """Converts facts to values that JSON can represent, truncated to the limits."""

    __slots__ = ("_remaining_characters",)

    def __init__(self) -> None:
        self._remaining_characters = MAX_FACTS_LENGTH

    def convert_facts(self, facts: Mapping[str, object], depth: int = MAX_DEPTH) -> dict[str, Fact]:
        converted: dict[str, Fact] = {}
        for name, fact in islice(facts.items(), MAX_ITEMS):
            if self._remaining_characters <= 0:
                break
            converted[self._convert_text(str(name))] = self._convert(fact, depth)
        return converted

    def _convert(self, fact: object, depth: int) -> Fact:
        self._remaining_characters -= _FACT_CHARACTERS
        if isinstance(fact, Enum):
            return fact.name if isinstance(fact.value, int) else self._convert_text(str(fact.value))
        if fact is None or (isinstance(fact, bool | int | float) and isfinite(fact)):
            return fact
        if isinstance(fact, bytes | bytearray | memoryview):
            return self._convert_text(bytes(fact[:MAX_NAME_LENGTH]).hex())
        if isinstance(fact, str) or not isinstance(fact, Iterable) or not depth:
            return self._convert_text(str(fact))
        if isinstance(fact, Mapping):
            return self.convert_facts(fact, depth - 1)
        items: list[Fact] = []
        for item in islice(fact, MAX_ITEMS):
            if self._remaining_characters <= 0:
                break
            items.append(self._convert(item, depth - 1))
        return items

    def _convert_text(self, text: str) -> str:
        truncated = truncate(text, MAX_NAME_LENGTH)
        self._remaining_characters -= len(truncated)
        return truncated
