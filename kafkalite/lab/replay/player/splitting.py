"""`RequestLayout`: finds the routing keys of a request, splits requests by node, merges responses.

A routing key is a partition, a group or a transactional id. Only its leader or coordinator can
respond. If the routing keys of a request belong to different nodes, the request is split, and the
responses to its parts are merged.
"""

from __future__ import annotations

from collections import defaultdict
from copy import copy
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.catalogue import ROWS, AnsweringNode, keys_where

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from kafkalite.protocol.catalogue import Fields, Row

FETCH, SHARE_FETCH = int(ApiKey.FETCH), int(ApiKey.SHARE_FETCH)
SESSION_APIS = keys_where(lambda row: row.request.session)
_NO_ID = bytes(16)
_TOPIC_FIELDS = ("name", "topic", "topic_id")
_PARTITION_FIELDS = ("index", "partition", "partition_index", "partition_id")
_ID_FIELDS = ("group_id", "transactional_id")


class LeaderKind(Enum):
    """Kinds of objects with a leader or coordinator; values are key types of FindCoordinator."""

    GROUP = 0
    TRANSACTION = 1
    PARTITION = -1


class RoutingKey(NamedTuple):
    """A partition, group or transactional id, which one node leads or coordinates."""

    kind: LeaderKind
    name: str | bytes
    """The group id, the transactional id, or the name or id of the topic."""
    partition: int = -1


@dataclass(frozen=True, slots=True)
class RequestLayout:
    """The fields with the routing keys in requests and responses of an API."""

    kind: LeaderKind
    key_field: str = ""
    """The field with the routing key, if a request has only one."""
    request_rows: str = ""
    """The list of routing keys, or of topics if the routing keys are partitions."""
    request_partitions: str = ""
    """The list of partitions in a row of `request_rows`."""
    response_rows: str = ""
    """The list in the response that corresponds to `request_rows`."""
    response_partitions: str = "partitions"
    outer_rows: str = ""
    """The list whose rows contain `request_rows`; requests of such an API are not split."""

    def routing_keys(self, request: Any) -> list[RoutingKey]:  # noqa: ANN401 - a request of the API
        """Return the routing keys of a request, in order."""
        return [routing_key for routing_key, _, _ in self.keyed_rows(request)]

    def keyed_rows(self, request: Any) -> Iterator[tuple[RoutingKey, Any, Any]]:  # noqa: ANN401
        """Yield (routing key, row, row of its partition) for each key; None for missing rows."""
        structs = getattr(request, self.outer_rows) if self.outer_rows else (request,)
        rows = [
            row
            for struct in structs
            for row in getattr(struct, self.request_rows or "", None) or ()
        ]
        for row in rows:
            if not self.request_partitions:
                yield RoutingKey(self.kind, _first_value(row, _ID_FIELDS)), row, None
                continue
            topic = _first_value(row, _TOPIC_FIELDS)
            for partition_row in getattr(row, self.request_partitions):
                yield (
                    RoutingKey(self.kind, topic, _first_value(partition_row, _PARTITION_FIELDS)),
                    row,
                    partition_row,
                )
        if self.key_field and not rows and getattr(request, self.key_field):
            yield RoutingKey(self.kind, getattr(request, self.key_field)), None, None

    def split(self, request: Any, node_of: Callable[[RoutingKey], int]) -> dict[int, Any]:  # noqa: ANN401
        """Return node → the part of the request for that node."""
        rows_by_node: defaultdict[int, list[tuple[Any, list[Any]]]] = defaultdict(list)
        for routing_key, row, partition_row in self.keyed_rows(request):
            rows = rows_by_node[node_of(routing_key)]
            if not rows or rows[-1][0] is not row:
                rows.append((row, []))
            rows[-1][1].append(partition_row)
        return {node: self._copy_with_rows(request, rows) for node, rows in rows_by_node.items()}

    def without_rows(self, request: Any) -> Any:  # noqa: ANN401
        """Return a request without routing keys, to continue a session."""
        return self._copy_with_rows(request, ())

    def _copy_with_rows(self, request: Any, rows: Sequence[tuple[Any, list[Any]]]) -> Any:  # noqa: ANN401
        copied_rows = []
        for row, partition_rows in rows:
            copied_row = row
            if self.request_partitions:
                copied_row = copy(row)
                setattr(copied_row, self.request_partitions, partition_rows)
            copied_rows.append(copied_row)
        copied = copy(request)
        setattr(copied, self.request_rows, copied_rows)
        return copied

    def refused_keys(self, response: Any, errors: Collection[int]) -> set[RoutingKey]:  # noqa: ANN401
        """Return the routing keys with one of these errors in a response."""
        return {
            routing_key
            for routing_key, row in self._keyed_response_rows(response)
            if row.error_code in errors
        }

    def _keyed_response_rows(self, response: Any) -> Iterator[tuple[RoutingKey, Any]]:  # noqa: ANN401
        for row in getattr(response, self.response_rows):
            if not self.request_partitions:
                yield RoutingKey(self.kind, _first_value(row, _ID_FIELDS)), row
                continue
            topic = _first_value(row, _TOPIC_FIELDS)
            for partition_row in getattr(row, self.response_partitions):
                yield (
                    RoutingKey(self.kind, topic, _first_value(partition_row, _PARTITION_FIELDS)),
                    partition_row,
                )

    def remove_keys(self, response: Any, routing_keys: Collection[RoutingKey]) -> Any:  # noqa: ANN401
        """Return a response without these routing keys."""
        remaining = [
            id(row)
            for routing_key, row in self._keyed_response_rows(response)
            if routing_key not in routing_keys
        ]
        rows = []
        for row in getattr(response, self.response_rows):
            if not self.request_partitions:
                rows += [row] if id(row) in remaining else []
                continue
            remaining_row = copy(row)
            partition_rows = [
                partition_row
                for partition_row in getattr(row, self.response_partitions)
                if id(partition_row) in remaining
            ]
            setattr(remaining_row, self.response_partitions, partition_rows)
            rows += [remaining_row] if partition_rows else []
        copied = copy(response)
        setattr(copied, self.response_rows, rows)
        return copied

    def merge(self, responses: Sequence[Any]) -> Any:  # noqa: ANN401
        """Merge the responses to the parts of a request into one response."""
        merged = copy(responses[0])
        by_topic: dict[object, Any] = {}
        rows = []
        for response in responses:
            if getattr(response, "error_code", 0) and not merged.error_code:
                merged.error_code = response.error_code
            for row in getattr(response, self.response_rows):
                merged_row = (
                    by_topic.get(_first_value(row, _TOPIC_FIELDS))
                    if self.request_partitions
                    else None
                )
                if merged_row is not None:
                    partition_rows = getattr(merged_row, self.response_partitions) + getattr(
                        row, self.response_partitions
                    )
                    setattr(merged_row, self.response_partitions, partition_rows)
                    continue
                rows.append(copy(row))
                if self.request_partitions:
                    by_topic[_first_value(row, _TOPIC_FIELDS)] = rows[-1]
        setattr(merged, self.response_rows, rows)
        return merged


def _first_value(row: Any, names: Sequence[str]) -> Any:  # noqa: ANN401 - a struct, or the value itself
    """Return the first value in these fields that is set; return a plain value unchanged."""
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
    responses, response_partitions = _topics_and_partitions(row.response)
    return RequestLayout(LeaderKind.PARTITION, "", rows, inner, responses, response_partitions)


def _topics_and_partitions(fields: Fields) -> tuple[str, str]:
    """Return the names of the list of topics and of the list of partitions in a topic."""
    topics = (fields.topic or fields.topic_id).split()[0].rpartition(".")[0]
    partition = fields.partition.split()[0].removeprefix(f"{topics}.")
    return topics, partition.partition(".")[0]


def _coordinator_layout(
    kind: LeaderKind, request_fields: str, response_fields: str
) -> RequestLayout:
    """Return the layout of an API about one or several groups or transactional ids."""
    rows = [
        field_path.rpartition(".")[0] for field_path in request_fields.split() if "." in field_path
    ]
    plain = [field_path for field_path in request_fields.split() if "." not in field_path]
    responses = response_fields.split(maxsplit=1)[0].rpartition(".")[0] if response_fields else ""
    if responses and not rows:
        rows, plain = plain, []
    return RequestLayout(kind, "".join(plain), "".join(rows), "", responses)


def _request_layout(row: Row) -> RequestLayout | None:
    if row.node is AnsweringNode.PARTITION_LEADER:
        return _partition_layout(row)
    if row.node is AnsweringNode.GROUP_COORDINATOR:
        return _coordinator_layout(LeaderKind.GROUP, row.request.group, row.response.group)
    if row.node is AnsweringNode.TRANSACTION_COORDINATOR:
        return _coordinator_layout(
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
"""APIs whose refused routing keys can be retried alone."""
