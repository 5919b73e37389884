"""Likeness: when two requests ask for the same, and how the answer to one becomes the other's.

Requests are told apart by what they are about. What a client or a broker made up by chance is left
out; topics count by name, whether they are asked for by name or by id.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from kafkalite.capture.model import Direction
from kafkalite.protocol.errors import KafkaError
from kafkalite.replay.mapping import COUNTERS, NAMES, Kind
from kafkalite.replay.masks import Treatment
from kafkalite.replay.shapes import shape_of
from kafkalite.storage.batch import split_batches
from kafkalite.storage.records import MalformedRecordsError

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator

    from kafkalite.protocol.message import Message
    from kafkalite.replay.shapes import Branch, Leaf, Shape

    NameOf = Callable[[bytes], str | None]

_NO_ID = bytes(16)
_TOPIC_NAMES = frozenset(("name", "topic", "topic_name"))
_MANNERS = frozenset(
    (
        "acks", "client_software_name", "client_software_version", "rebalance_timeout_ms",
        "session_timeout_ms", "timeout_ms", "transaction_timeout_ms",
    )
)  # fmt: skip
"""What a client is like, and how patient; it gets the answer that another got."""
_ECHOED = NAMES - {Kind.TOPIC_ID, Kind.NODE, Kind.SESSION}
"""What a client may have made up itself, and reads again in the answer."""


class Nearness(IntEnum):
    """How much of two requests must be the same."""

    SAME = 0
    """All but what was made up by chance."""
    ALIKE = 1
    """What they are about; records, offsets, epochs and the client's manners may differ."""


def likeness(api_key: int, request: Message, nearness: Nearness, name_of: NameOf) -> Hashable:
    """Return what is equal for two requests that ask for the same, whatever their versions."""
    return api_key, _of_struct(request, _telling(api_key, nearness), name_of)


@dataclass(frozen=True, slots=True, eq=False)
class _Telling:
    """The fields of a struct that tell requests apart."""

    plain: Callable[[Any], Hashable] | None
    """Gets all of those that are compared as they are."""
    lists: tuple[tuple[str, bool], ...]
    """Lists of plain values, and whether their order says nothing."""
    topic_ids: tuple[str, ...]
    topic_names: tuple[str, ...]
    records: tuple[str, ...]
    branches: tuple[tuple[Branch, _Telling], ...]


@cache
def _telling(api_key: int, nearness: Nearness) -> _Telling:
    return _telling_of(shape_of(api_key, None, Direction.REQUEST), nearness)


def _telling_of(shape: Shape, nearness: Nearness) -> _Telling:
    ids = [leaf for leaf in shape.leaves if leaf.mask.kind is Kind.TOPIC_ID]
    names = [leaf for leaf in shape.leaves if leaf.name in _TOPIC_NAMES and not leaf.is_list]
    rest = [each for each in shape.leaves if each not in ids + names and _counts(each, nearness)]
    records = [leaf for leaf in rest if leaf.mask.kind is Kind.RECORDS]
    plain = [leaf.name for leaf in rest if leaf not in records and not leaf.is_list]
    return _Telling(
        attrgetter(*plain) if plain else None,
        tuple((each.name, each.mask.treatment is Treatment.SET) for each in rest if each.is_list),
        tuple(leaf.name for leaf in ids),
        tuple(leaf.name for leaf in names),
        tuple(leaf.name for leaf in records),
        tuple((branch, _telling_of(branch.shape, nearness)) for branch in shape.branches),
    )


def _counts(leaf: Leaf, nearness: Nearness) -> bool:
    """Whether a field, which names no topic, tells requests apart."""
    kind, treatment = leaf.mask.kind, leaf.mask.treatment
    if treatment is Treatment.IGNORED or kind in NAMES or kind is Kind.OPAQUE:
        return False
    varies = kind is Kind.RECORDS or kind in COUNTERS or treatment is Treatment.PRESENCE
    return nearness is Nearness.SAME or not (varies or leaf.name in _MANNERS)


def _of_struct(message: Message, telling: _Telling, name_of: NameOf) -> tuple[Hashable, ...]:
    parts: list[Hashable] = []
    if telling.plain is not None:
        parts.append(telling.plain(message))
    for name, is_set in telling.lists:
        values = getattr(message, name)
        parts.append(None if values is None else tuple(sorted(values) if is_set else values))
    # Topics count by name, whether they are asked for by name or by id.
    for name in telling.topic_ids:
        topic_id = getattr(message, name)
        if topic_id != _NO_ID:
            parts.append(("topic", name_of(topic_id) or topic_id))
    for name in telling.topic_names:
        topic = getattr(message, name)
        if topic:
            parts.append(("topic", topic))
    parts += [tuple(_contents(getattr(message, name))) for name in telling.records]
    for branch, inner in telling.branches:
        found = getattr(message, branch.name)
        if found is None or not branch.is_list:
            parts.append(None if found is None else _of_struct(found, inner, name_of))
            continue
        rows = [_of_struct(each, inner, name_of) for each in found]
        parts.append(tuple(sorted(rows, key=repr) if branch.keys and len(rows) > 1 else rows))
    return tuple(parts)


def _contents(records: bytes | None) -> Iterator[Hashable]:
    """Yield what records say, without when and by whom; bytes that hold none as they are."""
    try:
        batches = split_batches(records or b"")
        if not batches:
            yield bytes(records or b"")
        for batch in batches:
            yield from batch.key_values()
    except (KafkaError, MalformedRecordsError):
        yield bytes(records or b"")


def echoes(
    api_key: int, recorded: Message, asked: Message
) -> dict[tuple[Kind, Hashable], Hashable]:
    """Return what the client that asks calls otherwise than the recorded one did."""
    shape = shape_of(api_key, None, Direction.REQUEST)
    return {
        (leaf.mask.kind, old): new
        for leaf in shape.leaves
        if leaf.mask.kind in _ECHOED
        and not leaf.is_list
        and (old := getattr(recorded, leaf.name))
        and (new := getattr(asked, leaf.name))
        and old != new
    }


def fit(
    api_key: int,
    response: Message,
    words: dict[tuple[Kind, Hashable], Hashable],
    id_of: Callable[[str], bytes | None],
    name_of: NameOf,
) -> None:
    """Make a recorded response one for the client that asks.

    Its own names stand where the recorded client's did, and topics are named both ways, so that
    every version finds its own.
    """
    shape = shape_of(api_key, None, Direction.RESPONSE)
    _fit_struct(response, shape, words, id_of, name_of)


def _fit_struct(
    message: Message,
    shape: Shape,
    words: dict[tuple[Kind, Hashable], Hashable],
    id_of: Callable[[str], bytes | None],
    name_of: NameOf,
) -> None:
    id_field = name_field = None
    for leaf in shape.leaves:
        value = getattr(message, leaf.name)
        if leaf.mask.kind is Kind.TOPIC_ID and not leaf.is_list:
            id_field = leaf.name
        elif leaf.name in _TOPIC_NAMES:
            name_field = leaf.name
        elif leaf.mask.kind in _ECHOED and not leaf.is_list and value:
            setattr(message, leaf.name, words.get((leaf.mask.kind, value), value))
    if id_field and name_field:
        topic_id, name = getattr(message, id_field), getattr(message, name_field)
        if topic_id == _NO_ID and name:
            setattr(message, id_field, id_of(name) or _NO_ID)
        elif not name and topic_id != _NO_ID:
            setattr(message, name_field, name_of(topic_id) or name)
    for branch in shape.branches:
        inner = getattr(message, branch.name)
        for each in inner if branch.is_list and inner else [inner] if inner else []:
            _fit_struct(each, branch.shape, words, id_of, name_of)
