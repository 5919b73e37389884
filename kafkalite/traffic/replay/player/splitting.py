"""`RequestLayout`: finds the subjects of a request, splits requests by node, merges responses.

A subject is a partition, a group or a transactional id. Only its leader or coordinator can answer.
If the subjects of a request are on different nodes, the request is split, and the responses to its
parts are merged.
"""

from __future__ import annotations

from collections import defaultdict
from copy import copy
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.catalogue import ROWS, AnsweringNode, keys_where

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from kafkalite.protocol.catalogue import Fields, Row

FETCH, SHARE_FETCH = int(ApiKey.FETCH), int(ApiKey.SHARE_FETCH)
SESSION_APIS = keys_where(lambda row: row.request.session)
_NO_ID = bytes(16)
_TOPICS = ("name", "topic", "topic_id")
_INDEXES = ("index", "partition", "partition_index", "partition_id")
_KEYS = ("group_id", "transactional_id")


class LeaderKind(Enum):
    """Kinds of objects with a leader or coordinator; values are key types of FindCoordinator."""

    GROUP = 0
    TRANSACTION = 1
    PARTITION = -1


class Subject(NamedTuple):
    """A partition, group or transactional id, which one node leads or coordinates."""

    kind: LeaderKind
    name: str | bytes
    """The group id, the transactional id, or the name or id of the topic."""
    partition: int = -1


@dataclass(frozen=True, slots=True)
class RequestLayout:
    """The fields with the subjects in requests and responses of an API."""

    kind: LeaderKind
    subject_field: str = ""
    """The field with the subject, if a request has only one."""
    request_rows: str = ""
    """The list of subjects, or of topics if the subjects are partitions."""
    request_partitions: str = ""
    """The list of partitions in a row of `request_rows`."""
    response_rows: str = ""
    """The list in the response that corresponds to `request_rows`."""
    response_partitions: str = "partitions"
    outer_rows: str = ""
    """The list whose rows contain `request_rows`; requests of such an API are not split."""

    def subjects(self, request: Any) -> list[Subject]:  # noqa: ANN401 - a request of the API
        """Return the subjects of a request, in order."""
        return [subject for subject, _, _ in self.subject_rows(request)]

    def subject_rows(self, request: Any) -> Iterator[tuple[Subject, Any, Any]]:  # noqa: ANN401
        """Yield (subject, row, row of its partition) for each subject; None for missing rows."""
        structs = getattr(request, self.outer_rows) if self.outer_rows else (request,)
        rows = [
            row
            for struct in structs
            for row in getattr(struct, self.request_rows or "", None) or ()
        ]
        for row in rows:
            if not self.request_partitions:
                yield Subject(self.kind, _first_value(row, _KEYS)), row, None
                continue
            topic = _first_value(row, _TOPICS)
            for part in getattr(row, self.request_partitions):
                yield Subject(self.kind, topic, _first_value(part, _INDEXES)), row, part
        if self.subject_field and not rows and getattr(request, self.subject_field):
            yield Subject(self.kind, getattr(request, self.subject_field)), None, None

    def split(self, request: Any, node_of: Callable[[Subject], int]) -> dict[int, Any]:  # noqa: ANN401
        """Return node → the part of the request for that node."""
        rows_by_node: defaultdict[int, list[tuple[Any, list[Any]]]] = defaultdict(list)
        for subject, row, part in self.subject_rows(request):
            rows = rows_by_node[node_of(subject)]
            if not rows or rows[-1][0] is not row:
                rows.append((row, []))
            rows[-1][1].append(part)
        return {node: self._part_of(request, rows) for node, rows in rows_by_node.items()}

    def without_rows(self, request: Any) -> Any:  # noqa: ANN401
        """Return a request without subjects, which continues a session."""
        return self._part_of(request, ())

    def _part_of(self, request: Any, rows: Sequence[tuple[Any, list[Any]]]) -> Any:  # noqa: ANN401
        rows_of_part = []
        for row, parts in rows:
            row_of_part = row
            if self.request_partitions:
                row_of_part = copy(row)
                setattr(row_of_part, self.request_partitions, parts)
            rows_of_part.append(row_of_part)
        part = copy(request)
        setattr(part, self.request_rows, rows_of_part)
        return part

    def refused_subjects(self, answer: Any, errors: Collection[int]) -> set[Subject]:  # noqa: ANN401
        """Return the subjects with one of these errors in a response."""
        return {
            subject for subject, row in self._subject_answers(answer) if row.error_code in errors
        }

    def _subject_answers(self, answer: Any) -> Iterator[tuple[Subject, Any]]:  # noqa: ANN401
        for row in getattr(answer, self.response_rows):
            if not self.request_partitions:
                yield Subject(self.kind, _first_value(row, _KEYS)), row
                continue
            topic = _first_value(row, _TOPICS)
            for part in getattr(row, self.response_partitions):
                yield Subject(self.kind, topic, _first_value(part, _INDEXES)), part

    def remove_subjects(self, answer: Any, subjects: Collection[Subject]) -> Any:  # noqa: ANN401
        """Return a response without these subjects."""
        remaining = [
            id(row) for subject, row in self._subject_answers(answer) if subject not in subjects
        ]
        rows = []
        for row in getattr(answer, self.response_rows):
            if not self.request_partitions:
                rows += [row] if id(row) in remaining else []
                continue
            remaining_row = copy(row)
            parts = [
                part for part in getattr(row, self.response_partitions) if id(part) in remaining
            ]
            setattr(remaining_row, self.response_partitions, parts)
            rows += [remaining_row] if parts else []
        copied = copy(answer)
        setattr(copied, self.response_rows, rows)
        return copied

    def merge(self, answers: Sequence[Any]) -> Any:  # noqa: ANN401
        """Merge the responses to the parts of a request into one response."""
        merged = copy(answers[0])
        by_topic: dict[object, Any] = {}
        rows = []
        for answer in answers:
            if getattr(answer, "error_code", 0) and not merged.error_code:
                merged.error_code = answer.error_code
            for row in getattr(answer, self.response_rows):
                merged_row = (
                    by_topic.get(_first_value(row, _TOPICS)) if self.request_partitions else None
                )
                if merged_row is not None:
                    parts = getattr(merged_row, self.response_partitions) + getattr(
                        row, self.response_partitions
                    )
                    setattr(merged_row, self.response_partitions, parts)
                    continue
                rows.append(copy(row))
                if self.request_partitions:
                    by_topic[_first_value(row, _TOPICS)] = rows[-1]
        setattr(merged, self.response_rows, rows)
        return merged


def _first_value(row: Any, names: Sequence[str]) -> Any:  # noqa: ANN401 - a struct, or the value itself
    """Return the value of the first of these fields that has one; return a plain value as it is."""
    if isinstance(row, str | int):
        return row
    for name in names:
        value = getattr(row, name, None)
        if value not in (None, "", _NO_ID):
            return value
    return ""


def _partition_layout(row: Row) -> RequestLayout:
    """Return the layout of an API about partitions, from its catalogue row."""
    path, inner = _topics_and_partitions(row.request)
    outer_rows, _, rows = path.rpartition(".")
    if outer_rows:
        return RequestLayout(LeaderKind.PARTITION, "", rows, inner, outer_rows=outer_rows)
    answers, answer_parts = _topics_and_partitions(row.response)
    return RequestLayout(LeaderKind.PARTITION, "", rows, inner, answers, answer_parts)


def _topics_and_partitions(fields: Fields) -> tuple[str, str]:
    """Return the names of the list of topics and of the list of partitions in a topic."""
    topics = (fields.topic or fields.topic_id).split()[0].rpartition(".")[0]
    partition = fields.partition.split()[0].removeprefix(f"{topics}.")
    return topics, partition.partition(".")[0]


def _key_layout(kind: LeaderKind, request_fields: str, response_fields: str) -> RequestLayout:
    """Return the layout of an API about one or several groups or transactional ids."""
    rows = [
        field_path.rpartition(".")[0] for field_path in request_fields.split() if "." in field_path
    ]
    plain = [field_path for field_path in request_fields.split() if "." not in field_path]
    answers = response_fields.split(maxsplit=1)[0].rpartition(".")[0] if response_fields else ""
    if answers and not rows:
        rows, plain = plain, []
    return RequestLayout(kind, "".join(plain), "".join(rows), "", answers)


def _request_layout(row: Row) -> RequestLayout | None:
    if row.node is AnsweringNode.PARTITION_LEADER:
        return _partition_layout(row)
    if row.node is AnsweringNode.GROUP_COORDINATOR:
        return _key_layout(LeaderKind.GROUP, row.request.group, row.response.group)
    if row.node is AnsweringNode.TRANSACTION_COORDINATOR:
        return _key_layout(
            LeaderKind.TRANSACTION, row.request.transactional_id, row.response.transactional_id
        )
    return None


REQUEST_LAYOUTS: Mapping[int, RequestLayout] = {
    int(key): layout for key, row in ROWS.items() if (layout := _request_layout(row)) is not None
}
"""By API key; requests of other APIs can be sent to any node."""

PARTLY_RETRIABLE_APIS = frozenset(
    api_key
    for api_key, layout in REQUEST_LAYOUTS.items()
    if layout.response_rows and not layout.outer_rows and api_key not in SESSION_APIS
)
"""APIs whose refused subjects can be retried alone."""
