"""Likeness: when two requests ask for the same, and how the answer to one becomes the other's.

Requests are told apart by what they are about. What a client or a broker made up by chance is left
out; topics count by name, whether they are asked for by name or by id.
"""

from __future__ import annotations

from enum import IntEnum
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
    from kafkalite.replay.shapes import Leaf, Shape

    NameOf = Callable[[bytes], str | None]

_NO_ID = bytes(16)
_TOPIC_NAMES = frozenset(("name", "topic", "topic_name"))
_SOFTWARE = frozenset(("client_software_name", "client_software_version"))
"""What a client says of itself; it gets the answer that another got."""
_ECHOED = NAMES - {Kind.TOPIC_ID, Kind.NODE, Kind.SESSION}
"""What a client may have made up itself, and reads again in the answer."""


class Nearness(IntEnum):
    """How much of two requests must be the same."""

    SAME = 0
    """All but what was made up by chance."""
    ALIKE = 1
    """What they are about; records, offsets, epochs and the client's software may differ."""


def likeness(api_key: int, request: Message, nearness: Nearness, name_of: NameOf) -> Hashable:
    """Return what is equal for two requests that ask for the same, whatever their versions."""
    shape = shape_of(api_key, None, Direction.REQUEST)
    return api_key, _of_struct(request, shape, nearness, name_of)


def _of_struct(
    message: Message, shape: Shape, nearness: Nearness, name_of: NameOf
) -> tuple[Hashable, ...]:
    parts: list[Hashable] = []
    for leaf in shape.leaves:
        value = getattr(message, leaf.name)
        found = _topic(leaf, value, name_of)
        parts.append(_of_leaf(leaf, value, nearness) if found is None else found)
    for branch in shape.branches:
        inner = getattr(message, branch.name)
        if inner is None or not branch.is_list:
            row = None if inner is None else _of_struct(inner, branch.shape, nearness, name_of)
            parts.append((branch.name, row))
            continue
        rows = [_of_struct(each, branch.shape, nearness, name_of) for each in inner]
        parts.append((branch.name, tuple(sorted(rows, key=repr) if branch.keys else rows)))
    return tuple(part for part in parts if part)


def _topic(leaf: Leaf, value: Any, name_of: NameOf) -> Hashable:  # noqa: ANN401 - of any leaf
    """Return a topic by its name, however it is named; None where the field names none."""
    if leaf.mask.kind is Kind.TOPIC_ID:
        return () if value == _NO_ID else ("topic", name_of(value) or value)
    if leaf.name in _TOPIC_NAMES and not leaf.is_list:
        return ("topic", value) if value else ()
    return None


def _of_leaf(leaf: Leaf, value: Any, nearness: Nearness) -> Hashable:  # noqa: ANN401 - of any leaf
    kind, treatment = leaf.mask.kind, leaf.mask.treatment
    if treatment is Treatment.IGNORED or kind in NAMES:
        return None
    if nearness is Nearness.ALIKE and leaf.name in _SOFTWARE:
        return None
    if kind is Kind.RECORDS:
        return None if nearness is Nearness.ALIKE else (leaf.name, tuple(_contents(value)))
    if kind in COUNTERS or kind is Kind.OPAQUE or treatment is Treatment.PRESENCE:
        return None if nearness is Nearness.ALIKE or kind is Kind.OPAQUE else (leaf.name, value)
    if isinstance(value, list):
        return leaf.name, tuple(sorted(value) if treatment is Treatment.SET else value)
    return leaf.name, value


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
