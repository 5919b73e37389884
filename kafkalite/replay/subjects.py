"""Subjects: what requests are about that one node of several has to answer, API by API.

A request may be about several, of which the target's nodes have some each: it is then split, and
the answers to its parts are put together again.
"""

from __future__ import annotations

from collections import defaultdict
from copy import copy
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

FETCH, SHARE_FETCH, SHARE_ACKNOWLEDGE = 1, 78, 79
IN_SESSIONS = frozenset((FETCH, SHARE_FETCH, SHARE_ACKNOWLEDGE))
_NO_ID = bytes(16)
_TOPICS = ("name", "topic", "topic_id")
_INDEXES = ("index", "partition", "partition_index", "partition_id")
_KEYS = ("group_id", "transactional_id")


class Led(Enum):
    """What a node leads or coordinates; the value is what FindCoordinator calls it."""

    GROUP = 0
    TRANSACTION = 1
    PARTITION = -1


class Subject(NamedTuple):
    """One thing that one node answers for."""

    led: Led
    name: str | bytes
    """Of a group, a transactional id, or a topic, which may be told by its id."""
    partition: int = -1


@dataclass(frozen=True, slots=True)
class Spread:
    """Where an API's requests say what they are about, and its answers."""

    led: Led
    field: str = ""
    """Names the one thing, where there is only one."""
    rows: str = ""
    """The list of several; of topics, where it is about partitions."""
    parts: str = ""
    """In each of these, the list of partitions."""
    answers: str = ""
    """The list that answers `rows`."""
    answer_parts: str = "partitions"
    within: str = ""
    """The list in whose rows `rows` are; a request of such an API goes to one node as it is."""

    def subjects(self, request: Any) -> list[Subject]:  # noqa: ANN401 - a request of the API
        """Return what a request is about, in its order."""
        return [subject for subject, _, _ in self.each(request)]

    def each(self, request: Any) -> Iterator[tuple[Subject, Any, Any]]:  # noqa: ANN401
        """Yield each subject with the row, and the part of it, that names it."""
        owners = getattr(request, self.within) if self.within else (request,)
        rows = [row for each in owners for row in getattr(each, self.rows or "", None) or ()]
        for row in rows:
            if not self.parts:
                yield Subject(self.led, _first(row, _KEYS)), row, None
                continue
            topic = _first(row, _TOPICS)
            for part in getattr(row, self.parts):
                yield Subject(self.led, topic, _first(part, _INDEXES)), row, part
        if self.field and not rows and getattr(request, self.field):
            yield Subject(self.led, getattr(request, self.field)), None, None

    def split(self, request: Any, node_of: Callable[[Subject], int]) -> dict[int, Any]:  # noqa: ANN401
        """Return what of a request is for which node."""
        taken: defaultdict[int, list[tuple[Any, list[Any]]]] = defaultdict(list)
        for subject, row, part in self.each(request):
            rows = taken[node_of(subject)]
            if not rows or rows[-1][0] is not row:
                rows.append((row, []))
            rows[-1][1].append(part)
        return {node: self._part_of(request, rows) for node, rows in taken.items()}

    def without_rows(self, request: Any) -> Any:  # noqa: ANN401
        """Return a request that is about nothing: it goes on with what is known already."""
        return self._part_of(request, ())

    def _part_of(self, request: Any, rows: Sequence[tuple[Any, list[Any]]]) -> Any:  # noqa: ANN401
        kept = []
        for row, parts in rows:
            one = row
            if self.parts:
                one = copy(row)
                setattr(one, self.parts, parts)
            kept.append(one)
        part = copy(request)
        setattr(part, self.rows, kept)
        return part

    def refused(self, answer: Any, errors: Collection[int]) -> set[Subject]:  # noqa: ANN401
        """Return what an answer refuses by one of these errors."""
        return {subject for subject, row in self._answered(answer) if row.error_code in errors}

    def _answered(self, answer: Any) -> Iterator[tuple[Subject, Any]]:  # noqa: ANN401
        for row in getattr(answer, self.answers):
            if not self.parts:
                yield Subject(self.led, _first(row, _KEYS)), row
                continue
            topic = _first(row, _TOPICS)
            for part in getattr(row, self.answer_parts):
                yield Subject(self.led, topic, _first(part, _INDEXES)), part

    def without(self, answer: Any, subjects: Collection[Subject]) -> Any:  # noqa: ANN401
        """Return an answer that says nothing of these."""
        kept = [id(row) for subject, row in self._answered(answer) if subject not in subjects]
        rows = []
        for row in getattr(answer, self.answers):
            if not self.parts:
                rows += [row] if id(row) in kept else []
                continue
            one = copy(row)
            parts = [each for each in getattr(row, self.answer_parts) if id(each) in kept]
            setattr(one, self.answer_parts, parts)
            rows += [one] if parts else []
        whole = copy(answer)
        setattr(whole, self.answers, rows)
        return whole

    def joined(self, answers: Sequence[Any]) -> Any:  # noqa: ANN401
        """Put the answers to parts of a request together, as one node would have told them."""
        whole = copy(answers[0])
        by_topic: dict[object, Any] = {}
        rows = []
        for answer in answers:
            if getattr(answer, "error_code", 0) and not whole.error_code:
                whole.error_code = answer.error_code
            for row in getattr(answer, self.answers):
                known = by_topic.get(_first(row, _TOPICS)) if self.parts else None
                if known is not None:
                    parts = getattr(known, self.answer_parts) + getattr(row, self.answer_parts)
                    setattr(known, self.answer_parts, parts)
                    continue
                rows.append(copy(row))
                if self.parts:
                    by_topic[_first(row, _TOPICS)] = rows[-1]
        setattr(whole, self.answers, rows)
        return whole


def _first(row: Any, names: Sequence[str]) -> Any:  # noqa: ANN401 - a struct, or the value itself
    """Return the first of these fields that says anything; a plain value says itself."""
    if isinstance(row, str | int):
        return row
    for name in names:
        value = getattr(row, name, None)
        if value not in (None, "", _NO_ID):
            return value
    return ""


def _partitions(
    rows: str, parts: str = "partitions", answers: str = "", answer_parts: str = "partitions"
) -> Spread:
    return Spread(Led.PARTITION, "", rows, parts, answers or rows, answer_parts)


_OF_GROUP = Spread(Led.GROUP, "group_id")
_OF_TRANSACTION = Spread(Led.TRANSACTION, "transactional_id")

SPREAD: Mapping[int, Spread] = {
    0: _partitions("topic_data", "partition_data", "responses", "partition_responses"),
    FETCH: _partitions("topics", answers="responses"),
    2: _partitions("topics"),
    8: _OF_GROUP,
    9: Spread(Led.GROUP, "group_id", "groups", "", "groups"),
    11: _OF_GROUP,
    12: _OF_GROUP,
    13: _OF_GROUP,
    14: _OF_GROUP,
    15: Spread(Led.GROUP, "", "groups", "", "groups"),
    21: _partitions("topics"),
    22: _OF_TRANSACTION,
    23: _partitions("topics"),
    24: Spread(
        Led.TRANSACTION,
        "v3_and_below_transactional_id",
        "transactions",
        "",
        "results_by_transaction",
    ),
    25: _OF_TRANSACTION,
    26: _OF_TRANSACTION,
    27: Spread(Led.PARTITION, "", "topics", "partition_indexes", within="markers"),
    28: _OF_GROUP,
    42: Spread(Led.GROUP, "", "groups_names", "", "results"),
    47: _OF_GROUP,
    61: _partitions("topics", "partition_indexes"),
    65: Spread(Led.TRANSACTION, "", "transactional_ids", "", "transaction_states"),
    68: _OF_GROUP,
    69: Spread(Led.GROUP, "", "group_ids", "", "groups"),
    76: _OF_GROUP,
    77: Spread(Led.GROUP, "", "group_ids", "", "groups"),
    SHARE_FETCH: _partitions("topics", answers="responses"),
    SHARE_ACKNOWLEDGE: _partitions("topics", answers="responses"),
    88: _OF_GROUP,
    89: Spread(Led.GROUP, "", "group_ids", "", "groups"),
    90: Spread(Led.GROUP, "", "groups", "", "groups"),
    91: _OF_GROUP,
    92: _OF_GROUP,
}
"""By API; any node answers the others, or the one that a client chose for itself."""

DIVISIBLE = frozenset(
    api_key
    for api_key, spread in SPREAD.items()
    if spread.answers and not spread.within and api_key not in IN_SESSIONS
)
"""APIs of whose requests what was refused can be asked again alone."""
