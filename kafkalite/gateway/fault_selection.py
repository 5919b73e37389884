"""The requests, and the rows in them, that the match of a fault selects.

A match with a topic selects the rows of that topic if the API answers topics one by one, as the
rows of the catalogue say. The same is true for partitions, groups and transactional ids. Other
fields of a match, and all fields for other APIs, select whole requests.
"""

# ruff: noqa: ANN401 - requests and rows of any API
from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from kafkalite.coordinator.contract import SUBJECTS
from kafkalite.gateway.fault_rules import MAX_VERSION
from kafkalite.gateway.selection_filter import request_filter
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.protocol.acl_operations import Entity
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.catalogue import entities_in_request, row
from kafkalite.protocol.rows import depth_of_refusal, depths_with_errors, paths_of_rows, split
from kafkalite.shares.sessions import SessionKey
from kafkalite.storage.batch import HEADER_SIZE, MAGIC_2, BatchView

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kafkalite.gateway.call import Call
    from kafkalite.gateway.fault_rules import Match
    from kafkalite.protocol.error_codes import ErrorCode
    from kafkalite.protocol.errors import KafkaError
    from kafkalite.protocol.rows import SplitRequest

ENTITIES: Final = {
    "group": (Entity.GROUP,),
    "member": (Entity.MEMBER,),
    "topic": (Entity.TOPIC, Entity.TOPIC_ID),
    "partition": (Entity.PARTITION,),
    "transactional_id": (Entity.TRANSACTIONAL_ID,),
    "producer_id": (Entity.PRODUCER_ID,),
}
"""Field of a match → the entities of a request that it is compared with."""


def may_select(match: Match, key: ApiKey) -> bool:
    """Return whether a match may select requests of an API."""
    if match.api is not None and match.api is not key:
        return False
    return all(getattr(match, field) is None or has_entity(key, field) for field in ENTITIES)


def has_entity(key: ApiKey, field: str) -> bool:
    """Return whether requests of an API have the entity that a field of a match refers to."""
    return any(_places(key, entity) for entity in ENTITIES[field])


def _places(key: ApiKey, entity: Entity) -> list[str]:
    """Return the places of an entity in requests; record batches have producer ids."""
    fields = row(key).request
    records = fields.records if entity is Entity.PRODUCER_ID else ""
    return [*getattr(fields, entity.value).split(), *records.split()]


class _RowField(NamedTuple):
    """A field of rows that contains an entity."""

    entity: Entity
    depth: int
    name: str
    """Empty if rows are plain values."""
    condition: tuple[str, int] | None
    """A field of the same struct, and the value that it must have."""

    def equals(self, value: object, call: Call, request: Any, path: Sequence[Any]) -> bool:
        """Return whether a row, which is last but for the rows inside it, has an entity."""
        found = path[self.depth]
        struct = found
        if self.name:
            found = getattr(found, self.name)
        else:
            struct = path[self.depth - 1] if self.depth else request
        if self.condition is not None and getattr(struct, self.condition[0]) != self.condition[1]:
            return False
        if self.entity is Entity.PRODUCER_ID and not isinstance(found, int):
            found = _producer_id(found)
        return (_topic_name(call, found) if self.entity is Entity.TOPIC_ID else found) == value


def _producer_id(records: bytes | memoryview | None) -> int | None:
    """Return the producer id of the first of some record batches; None if there is none."""
    if records is None or len(records) < HEADER_SIZE:
        return None
    batch = BatchView(records)
    return batch.producer_id if batch.magic == MAGIC_2 and batch.has_producer_id else None


def _conditions(match: Match) -> Iterator[Callable[[Call], bool]]:
    """Yield what must be true for the context of a request."""
    if match.client_id is not None:
        is_client_id = name_pattern(match.client_id)
        yield lambda call: is_client_id(call.client_id or "")
    if match.software is not None:
        is_software = name_pattern(match.software)
        yield lambda call: is_software(" ".join(call.context.client_software or ()))
    if match.principal is not None:
        is_principal = name_pattern(match.principal)
        yield lambda call: is_principal(call.principal)
    if match.min_version is not None or match.max_version is not None:
        highest = MAX_VERSION if match.max_version is None else match.max_version
        versions = range(match.min_version or 0, highest + 1)
        yield lambda call: call.api_version in versions
    if match.node is not None:
        yield lambda call: call.node.id == match.node
    if match.listener is not None:
        yield lambda call: call.listener == match.listener


def name_pattern(text: str) -> Callable[[str], bool]:
    """Return whether a name is this one; `*` stands for any characters."""
    if "*" not in text:
        return lambda name: name == text
    first, *between, last = text.split("*")

    def matches(name: str) -> bool:
        """Find each part behind the one before: the time is linear, as that of no pattern of re."""
        position, end = len(first), len(name) - len(last)
        if position > end or not (name.startswith(first) and name.endswith(last)):
            return False
        for part in between:
            position = name.find(part, position, end)
            if position < 0:
                return False
            position += len(part)
        return True

    return matches


class Selection:
    """The requests and rows of one API that a match selects; `may_select` must be true."""

    __slots__ = (
        "_conditions",
        "_key",
        "_match",
        "_request_fields",
        "_row_fields",
        "depth",
        "may_select",
    )

    def __init__(self, key: ApiKey, match: Match) -> None:
        self._key = key
        self._match = match
        self._conditions = tuple(_conditions(match))
        # The software of a client may become known, so the filter does not compare it.
        self.may_select = request_filter(key, match, _conditions(replace(match, software=None)))
        """(call, request) → False if the match never selects an equal request of the connection."""
        fields = {
            field: value for field in ENTITIES if (value := getattr(match, field)) is not None
        }
        found = {field: tuple(_fields_of_rows(key, field)) for field in fields}
        self._row_fields = {
            field: (fields[field], places) for field, places in found.items() if places
        }
        self._request_fields = {field: value for field, value in fields.items() if not found[field]}
        self.depth = max(
            (each.depth for _, places in self._row_fields.values() for each in places), default=-1
        )
        """The depth of the rows that are selected; -1 if whole requests are selected."""

    @property
    def has_rows(self) -> bool:
        """Whether rows are selected, and not whole requests."""
        return self.depth >= 0

    @property
    def stands_for_request(self) -> bool:
        """Whether an error in all rows is the error of a whole request."""
        depth = depth_of_refusal(self._key)
        return depth is not None and self.depth <= depth

    @property
    def rows_text(self) -> str:
        """The selected rows, such as "topic orders partition 3"."""
        return " ".join(
            f"{field.replace('_', ' ')} {value}" for field, (value, _) in self._row_fields.items()
        )

    @property
    def subjects(self) -> list[tuple[Entity, str]]:
        """The subjects of events about the selected rows."""
        return [
            (Entity(field), value)
            for field, (value, _) in self._row_fields.items()
            if Entity(field) in SUBJECTS
        ]

    def names(self, field: str, request: Any) -> list[str]:
        """Return the groups, or transactional ids, that a request names and the match selects.

        `field` is that of the match.
        """
        required = getattr(self._match, field)
        (entity,) = ENTITIES[field]
        found = dict.fromkeys(entities_in_request(self._key, entity, request))
        return [each for each in found if each and required in {None, each}]

    def partitions(self, call: Call, request: Any) -> list[tuple[str, int]]:
        """Return the partitions that a request reads or writes and the match selects.

        They have the names of their topics; those of unknown topic ids are omitted.
        """
        named = entities_in_request(self._key, Entity.PARTITION, request)
        found = dict.fromkeys(
            (_topic_name(call, topic), index)
            for topic, index in (*named, *self._partitions_of_session(call, request))
        )
        return [
            (topic, index)
            for topic, index in found
            if topic is not None and self._is_partition(topic, index)
        ]

    def selects(self, call: Call, request: Any) -> bool:
        """Return whether the match selects a request, or at least one of its rows."""
        for condition in self._conditions:
            if not condition(call):
                return False
        return self._has_request_fields(call, request) and (
            not self.has_rows
            or any(
                self._selects_row(call, request, path)
                for path in paths_of_rows(self._key, request, self.depth)
            )
            or any(
                self._is_partition(_topic_name(call, topic), index)
                for topic, index in self._partitions_of_session(call, request)
            )
        )

    def split(self, call: Call, request: Any, error: KafkaError) -> SplitRequest:
        """Return a request without the selected rows, which get an error."""

        def error_of(path: Sequence[Any]) -> KafkaError | None:
            return error if self._selects_row(call, request, path) else None

        return split(self._key, request, self.depth, error_of)

    def selects_partition(self, call: Call, topic: str | bytes, partition: int) -> bool:
        """Return whether a partition of an answer is selected; the topic is a name or an id."""
        return self._is_partition(_topic_name(call, topic), partition)

    def row_fault(self, code: ErrorCode) -> Callable[[str, int], ErrorCode | None]:
        """Return a function for `Call.row_fault`: (topic, partition) → error code or None."""
        return lambda topic, partition: code if self._is_partition(topic, partition) else None

    def _is_partition(self, topic: str | None, partition: int) -> bool:
        match = self._match
        return match.topic in {None, topic} and match.partition in {None, partition}

    def _selects_row(self, call: Call, request: Any, path: Sequence[Any]) -> bool:
        return all(
            any(each.equals(value, call, request, path) for each in places)
            for value, places in self._row_fields.values()
        )

    def _has_request_fields(self, call: Call, request: Any) -> bool:
        return all(
            any(
                self._is_entity(call, entity, each, value)
                for entity in ENTITIES[field]
                for each in entities_in_request(self._key, entity, request)
            )
            for field, value in self._request_fields.items()
        )

    def _is_entity(self, call: Call, entity: Entity, found: Any, value: object) -> bool:
        if entity is Entity.PARTITION:
            return self._is_partition(_topic_name(call, found.topic), found.partition)
        return (_topic_name(call, found) if entity is Entity.TOPIC_ID else found) == value

    def _partitions_of_session(self, call: Call, request: Any) -> Sequence[tuple[str | bytes, int]]:
        """Return the partitions that a request reads without naming them."""
        node = call.node
        if self._key is ApiKey.FETCH and request.session_epoch > 0:
            return node.partitions.fetch_sessions(node.id).partitions_of(request.session_id)
        if self._key is ApiKey.SHARE_FETCH and request.share_session_epoch > 0:
            session = SessionKey(request.group_id, request.member_id)
            return node.share_partitions.sessions(node.id).partitions_of(session)
        return ()


def _topic_name(call: Call, topic: str | bytes) -> str | None:
    """Return the name of a topic, which may be given by its id; None for an unknown id."""
    return topic if isinstance(topic, str) else call.node.image.topic_name(topic)


def _fields_of_rows(key: ApiKey, field: str) -> Iterator[_RowField]:
    """Yield the fields of rows with errors that a field of a match is compared with."""
    properties = row(key)
    if properties.rows is None:
        return
    depths = depths_with_errors(key)
    steps = properties.rows.requested.split(".")
    lists = [".".join(steps[: depth + 1]) for depth in range(len(steps))]
    for entity in ENTITIES[field]:
        for place in _places(key, entity):
            path, mark, condition = place.partition("?")
            owner, _, last = path.rpartition(".")
            required = condition.partition("=")
            needed = (required[0], int(required[2])) if mark else None
            rows, name = (path, "") if path in lists else (owner, last)
            if rows in lists and lists.index(rows) in depths:
                yield _RowField(entity, lists.index(rows), name, needed)
