"""Journal: why things befell groups and transactional ids, kept in memory for whoever asks.

It is bounded whatever clients do. A subject, which is a group or a transactional id, has so many
entries of refusals and so many of everything else, so that a client that is refused again and again
cannot push the rebalances out. All subjects together have so many bytes. So many subjects are
known; the first to be forgotten are those of which nothing but refusals was ever noted, for anybody
can make these up. What is refused in the same words once more is counted, not written down anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from itertools import islice
from math import isfinite
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from kafkalite.coordinator.contract import SubjectKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalite.coordinator.contract import Event

MAX_SUBJECTS = 1_000
MAX_ENTRIES = 64
"""Entries of one subject, of refusals and of everything else each."""
MAX_BYTES = 8 * 1024 * 1024
MAX_TEXT = 1_000
"""Characters of a sentence; a longer one is cut."""
MAX_NAME = 256
"""Characters of an id, and of a text among facts."""
MAX_ITEMS = 32
"""Facts of an entry, and items of a list among them."""
MAX_DEPTH = 3
MAX_FACTS = 4_000
"""Characters of all facts of an entry; what does not fit is left out."""

REFUSAL_KINDS = frozenset(("refused", "fenced"))

_ENTRY_BYTES = 600
"""About what an entry takes besides its characters."""
_FACT_CHARACTERS = 20
"""What a fact counts for besides its own characters."""
_CUT = "…"

Fact: TypeAlias = "str | int | float | bool | list[Fact] | dict[str, Fact] | None"
"""What JSON can hold."""


class Entry(NamedTuple):
    """One thing that befell a group or a transactional id."""

    number: int
    """Grows with every note; a repetition gives an entry its newest number."""
    group: str | None
    transactional_id: str | None
    """Of these two, one is the id of what it befell, and the other is None."""
    kind: str
    text: str
    facts: Mapping[str, Fact]
    times: int
    """How often it did so in just these words."""
    first_ms: int
    """When it did first, in milliseconds since the Unix epoch by the broker's clock."""
    at_ms: int
    """When it did last."""


_Subject: TypeAlias = tuple[SubjectKind, str]
_Words: TypeAlias = tuple[str, str, str]
_by_number = attrgetter("number")


class _Pages:
    """The entries of one subject."""

    __slots__ = ("others", "refusals", "size")

    def __init__(self) -> None:
        self.refusals: dict[_Words, tuple[Entry, int]] = {}
        self.others: dict[_Words, tuple[Entry, int]] = {}
        self.size = 0

    def entries(self) -> list[Entry]:
        found = [entry for entry, _ in self.refusals.values()]
        found += [entry for entry, _ in self.others.values()]
        return sorted(found, key=_by_number)


class Journal:
    """What befell the groups and transactional ids of one cluster lately."""

    __slots__ = ("_bytes", "_known", "_max_bytes", "_max_entries", "_max_subjects", "_number",
                 "_refused_only")  # fmt: skip

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
        # Both in the order in which their subjects were last noted.
        self._known: dict[_Subject, _Pages] = {}
        self._refused_only: dict[_Subject, _Pages] = {}
        self._number = 0
        self._bytes = 0

    def note(self, event: Event, now_ms: int) -> None:
        """Keep an event, which happened at `now_ms`; the oldest make room for it."""
        subject = (event.of, _clipped(event.subject, MAX_NAME))
        text = _clipped(event.text, MAX_TEXT)
        facts = _Clipping().plain_facts(event.facts)
        words = (event.kind, text, repr(facts))
        size = _ENTRY_BYTES + _bytes_of(text) + 4 * _bytes_of(words[2])
        self._number += 1
        is_refusal = event.kind in REFUSAL_KINDS
        pages = self._pages(subject, is_refusal=is_refusal)
        chapter = pages.refusals if is_refusal else pages.others
        times, first_ms = 1, now_ms
        before = chapter.pop(words, None)
        if before is not None:
            times, first_ms = before[0].times + 1, before[0].first_ms
            self._shrink(pages, before[1])
        elif len(chapter) >= self._max_entries:
            self._shrink(pages, chapter.pop(next(iter(chapter)))[1])
        names = _names(subject)
        entry = Entry(self._number, *names, event.kind, text, facts, times, first_ms, now_ms)
        chapter[words] = (entry, size)
        pages.size += size
        self._bytes += size
        while self._bytes > self._max_bytes and self._count() > 1:
            self._forget_one(subject)

    def about(
        self, name: str, limit: int = 2 * MAX_ENTRIES, *, of: SubjectKind = SubjectKind.GROUP
    ) -> Sequence[Entry]:
        """Return what befell a subject, the latest `limit` entries, in the order of numbers."""
        subject = (of, _clipped(name, MAX_NAME))
        pages = self._known.get(subject) or self._refused_only.get(subject)
        return () if pages is None else _latest(pages.entries(), limit)

    def latest(self, limit: int = 2 * MAX_ENTRIES) -> Sequence[Entry]:
        """Return what befell anybody, the latest `limit` entries, in the order of numbers."""
        found: list[Entry] = []
        for pages in (*self._known.values(), *self._refused_only.values()):
            found += pages.entries()
        return _latest(sorted(found, key=_by_number), limit)

    def names(self, of: SubjectKind) -> Sequence[str]:
        """Return the ids of the subjects of a kind of which something is known, sorted."""
        known = (*self._known, *self._refused_only)
        return sorted(name for kind, name in known if kind is of)

    @property
    def bytes(self) -> int:
        """About how much memory the entries take."""
        return self._bytes

    def _pages(self, subject: _Subject, *, is_refusal: bool) -> _Pages:
        """Return a subject's pages, which are from now on the latest of their kind."""
        pages = self._known.pop(subject, None)
        if pages is None:
            pages = self._refused_only.pop(subject, None)
            if pages is None:
                while self._count() >= self._max_subjects:
                    self._forget_one(subject)
                pages = _Pages()
            if is_refusal:
                self._refused_only[subject] = pages
                return pages
        self._known[subject] = pages
        return pages

    def _count(self) -> int:
        return len(self._known) + len(self._refused_only)

    def _forget_one(self, kept: _Subject) -> None:
        """Forget the subject noted longest ago, of those only ever refused if there are any."""
        for subjects in (self._refused_only, self._known):
            oldest = next(iter(subjects), kept)
            if oldest != kept:
                self._bytes -= subjects.pop(oldest).size
                return

    def _shrink(self, pages: _Pages, size: int) -> None:
        pages.size -= size
        self._bytes -= size


def _names(subject: _Subject) -> tuple[str | None, str | None]:
    """Return the group's id and the transactional id; one of them is None."""
    kind, name = subject
    return (name, None) if kind is SubjectKind.GROUP else (None, name)


def _latest(entries: list[Entry], limit: int) -> Sequence[Entry]:
    return entries[-limit:] if limit > 0 else ()


def _clipped(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + _CUT


def _bytes_of(text: str) -> int:
    return len(text) if text.isascii() else 4 * len(text)


class _Clipping:
    """Makes facts into what JSON can hold, cut to size."""

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left = MAX_FACTS

    def plain_facts(self, facts: Mapping[str, object], depth: int = MAX_DEPTH) -> dict[str, Fact]:
        plain: dict[str, Fact] = {}
        for name, fact in islice(facts.items(), MAX_ITEMS):
            if self._left <= 0:
                break
            plain[self._text(str(name))] = self._plain(fact, depth)
        return plain

    def _plain(self, fact: object, depth: int) -> Fact:
        self._left -= _FACT_CHARACTERS
        if isinstance(fact, Enum):
            return fact.name if isinstance(fact.value, int) else self._text(str(fact.value))
        if fact is None or (isinstance(fact, bool | int | float) and isfinite(fact)):
            return fact
        if isinstance(fact, bytes | bytearray | memoryview):
            return self._text(bytes(fact[:MAX_NAME]).hex())
        if isinstance(fact, str) or not isinstance(fact, Iterable) or not depth:
            return self._text(str(fact))
        if isinstance(fact, Mapping):
            return self.plain_facts(fact, depth - 1)
        listed: list[Fact] = []
        for each in islice(fact, MAX_ITEMS):
            if self._left <= 0:
                break
            listed.append(self._plain(each, depth - 1))
        return listed

    def _text(self, text: str) -> str:
        clipped = _clipped(text, MAX_NAME)
        self._left -= len(clipped)
        return clipped
