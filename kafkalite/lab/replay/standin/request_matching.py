"""Keys for matching requests with recorded ones, and adaptation of recorded responses.

Two requests with equal keys match. Values that a client or a broker generates are not part of a
key. A topic is part of the key by its name, even if the request has its id.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from kafkalite.capture.model import Direction
from kafkalite.lab.replay.comparison.field_rules import Treatment
from kafkalite.lab.replay.comparison.shapes import shape_of
from kafkalite.lab.replay.rewriting.id_mapping import COUNTER_KINDS, ID_KINDS, ValueKind
from kafkalite.protocol.errors import KafkaError
from kafkalite.storage.batch import split_batches
from kafkalite.storage.record_format import MalformedRecordsError

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator

    from kafkalite.lab.replay.comparison.shapes import Branch, Leaf, Shape
    from kafkalite.protocol.message import Message

    NameOf = Callable[[bytes], str | None]

_NO_ID = bytes(16)
_TOPIC_NAMES = frozenset(("name", "topic", "topic_name"))
_CLIENT_SETTINGS = frozenset(
    (
        "acks", "client_software_name", "client_software_version", "rebalance_timeout_ms",
        "session_timeout_ms", "timeout_ms", "transaction_timeout_ms",
    )
)  # fmt: skip
"""Fields with client settings. They have little effect on the response."""
_ECHOED_KINDS = ID_KINDS - {ValueKind.TOPIC_ID, ValueKind.NODE, ValueKind.SESSION}
"""Kinds of ids that a client may generate itself and that responses repeat."""


class Similarity(IntEnum):
    """The fields in which two requests must be equal."""

    EXACT = 0
    """All except generated values."""
    SIMILAR = 1
    """Like `EXACT`, but records, offsets, epochs and client settings may differ."""


def request_key(
    api_key: int, request: Message, similarity: Similarity, name_of: NameOf
) -> Hashable:
    """Return the key of a request, which is independent of its version.

    `name_of` returns the name of a topic id.
    """
    return api_key, _struct_key(request, _key_fields(api_key, similarity), name_of)


@dataclass(frozen=True, slots=True, eq=False)
class _KeyFields:
    """The fields of a struct that are part of a request key."""

    plain: Callable[[Any], Hashable] | None
    """Returns the values of all plain fields."""
    lists: tuple[tuple[str, bool], ...]
    """Lists of plain values, and whether they are unordered."""
    topic_ids: tuple[str, ...]
    topic_names: tuple[str, ...]
    records: tuple[str, ...]
    branches: tuple[tuple[Branch, _KeyFields], ...]


@cache
def _key_fields(api_key: int, similarity: Similarity) -> _KeyFields:
    return _key_fields_of(shape_of(api_key, None, Direction.REQUEST), similarity)


def _key_fields_of(shape: Shape, similarity: Similarity) -> _KeyFields:
    ids = [leaf for leaf in shape.leaves if leaf.rule.kind is ValueKind.TOPIC_ID]
    names = [leaf for leaf in shape.leaves if leaf.name in _TOPIC_NAMES and not leaf.is_list]
    other_leaves = [
        leaf
        for leaf in shape.leaves
        if leaf not in ids + names and _is_part_of_key(leaf, similarity)
    ]
    records = [leaf for leaf in other_leaves if leaf.rule.kind is ValueKind.RECORDS]
    plain = [leaf.name for leaf in other_leaves if leaf not in records and not leaf.is_list]
    return _KeyFields(
        attrgetter(*plain) if plain else None,
        tuple(
            (leaf.name, leaf.rule.treatment is Treatment.SET)
            for leaf in other_leaves
            if leaf.is_list
        ),
        tuple(leaf.name for leaf in ids),
        tuple(leaf.name for leaf in names),
        tuple(leaf.name for leaf in records),
        tuple((branch, _key_fields_of(branch.shape, similarity)) for branch in shape.branches),
    )


def _is_part_of_key(leaf: Leaf, similarity: Similarity) -> bool:
    """Whether a field that does not name a topic is part of the key."""
    kind, treatment = leaf.rule.kind, leaf.rule.treatment
    if treatment is Treatment.IGNORED or kind in ID_KINDS or kind is ValueKind.OPAQUE:
        return False
    varies = kind is ValueKind.RECORDS or kind in COUNTER_KINDS or treatment is Treatment.PRESENCE
    return similarity is Similarity.EXACT or not (varies or leaf.name in _CLIENT_SETTINGS)


def _struct_key(message: Message, fields: _KeyFields, name_of: NameOf) -> tuple[Hashable, ...]:
    parts: list[Hashable] = []
    if fields.plain is not None:
        parts.append(fields.plain(message))
    for name, is_set in fields.lists:
        values = getattr(message, name)
        parts.append(None if values is None else tuple(sorted(values) if is_set else values))

    for name in fields.topic_ids:
        topic_id = getattr(message, name)
        if topic_id != _NO_ID:
            parts.append(("topic", name_of(topic_id) or topic_id))
    for name in fields.topic_names:
        topic = getattr(message, name)
        if topic:
            parts.append(("topic", topic))
    parts += [tuple(_record_contents(getattr(message, name))) for name in fields.records]
    for branch, inner in fields.branches:
        value = getattr(message, branch.name)
        if value is None or not branch.is_list:
            parts.append(None if value is None else _struct_key(value, inner, name_of))
            continue
        rows = [_struct_key(row, inner, name_of) for row in value]
        parts.append(tuple(sorted(rows, key=repr) if branch.keys and len(rows) > 1 else rows))
    return tuple(parts)


def _record_contents(records: bytes | None) -> Iterator[Hashable]:
    """Yield keys and values of records; yield the bytes themselves if they are malformed."""
    try:
        batches = split_batches(records or b"")
        if not batches:
            yield bytes(records or b"")
        for batch in batches:
            yield from batch.key_values()
    except (KafkaError, MalformedRecordsError):
        yield bytes(records or b"")


def id_replacements(
    api_key: int, recorded: Message, request: Message
) -> dict[tuple[ValueKind, Hashable], Hashable]:
    """Return (kind, recorded id) → id for ids of the client that differ from the recorded ones."""
    shape = shape_of(api_key, None, Direction.REQUEST)
    return {
        (leaf.rule.kind, old): new
        for leaf in shape.leaves
        if leaf.rule.kind in _ECHOED_KINDS
        and not leaf.is_list
        and (old := getattr(recorded, leaf.name))
        and (new := getattr(request, leaf.name))
        and old != new
    }


def adapt_response(
    api_key: int,
    response: Message,
    replacements: dict[tuple[ValueKind, Hashable], Hashable],
    id_of: Callable[[str], bytes | None],
    name_of: NameOf,
) -> None:
    """Adapt a recorded response to another client, in place.

    `replacements` are the result of `id_replacements`. Topics get both their name and their id, so
    that the response can be encoded in every version.
    """
    shape = shape_of(api_key, None, Direction.RESPONSE)
    _adapt_struct(response, shape, replacements, id_of, name_of)


def _adapt_struct(
    message: Message,
    shape: Shape,
    replacements: dict[tuple[ValueKind, Hashable], Hashable],
    id_of: Callable[[str], bytes | None],
    name_of: NameOf,
) -> None:
    id_field = name_field = None
    for leaf in shape.leaves:
        value = getattr(message, leaf.name)
        if leaf.rule.kind is ValueKind.TOPIC_ID and not leaf.is_list:
            id_field = leaf.name
        elif leaf.name in _TOPIC_NAMES:
            name_field = leaf.name
        elif leaf.rule.kind in _ECHOED_KINDS and not leaf.is_list and value:
            setattr(message, leaf.name, replacements.get((leaf.rule.kind, value), value))
    if id_field and name_field:
        topic_id, name = getattr(message, id_field), getattr(message, name_field)
        if topic_id == _NO_ID and name:
            setattr(message, id_field, id_of(name) or _NO_ID)
        elif not name and topic_id != _NO_ID:
            setattr(message, name_field, name_of(topic_id) or name)
    for branch in shape.branches:
        inner = getattr(message, branch.name)
        for row in inner if branch.is_list and inner else [inner] if inner else []:
            _adapt_struct(row, branch.shape, replacements, id_of, name_of)
