"""Shapes: what an API's messages are made of in one version, with what is known of each field.

Compiled once from the specs, so that walking a message looks nothing up by name.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from kafkalite.protocol import codec
from kafkalite.protocol.spec import load_spec, snake_case
from kafkalite.protocol.versions import Versions
from kafkalite.replay.masks import COMPOSITE, KEYS, OPTIONAL_ROWS, Mask, mask_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafkalite.capture.model import Direction
    from kafkalite.protocol.message import Message
    from kafkalite.protocol.spec import FieldSpec, StructSpec
    from kafkalite.replay.mapping import Kind, Scope
    from kafkalite.replay.mapping import Mapping as Meaning

_GROUPS = ("group_id",)
_TOPICS = ("name", "topic", "topic_name", "topic_id")
_PARTITIONS = ("partition_index", "partition", "index", "partition_id")
_PRODUCERS = (
    "producer_id",
    "v3_and_below_producer_id",
    "ongoing_txn_producer_id",
)


@dataclass(frozen=True, slots=True)
class Leaf:
    """A field of plain values, or a list of them."""

    name: str
    path: str
    is_list: bool
    mask: Mask


@dataclass(frozen=True, slots=True)
class Branch:
    """A field of structs: one, or a list."""

    name: str
    path: str
    is_list: bool
    keys: tuple[str, ...]
    """What tells the rows apart; none where their order does."""
    is_composite: bool
    """Whether it takes all keys to tell rows apart, not the first that says anything."""
    mask: Mask
    is_optional: bool
    """Whether a row may be in one of two answers alone."""
    shape: Shape


@dataclass(frozen=True, slots=True)
class Shape:
    """The fields of a struct in one version."""

    leaves: tuple[Leaf, ...]
    branches: tuple[Branch, ...]
    groups: tuple[str, ...]
    topics: tuple[str, ...]
    partitions: tuple[str, ...]
    producers: tuple[str, ...]
    kinds: frozenset[Kind]
    """What the broker invents of it, and of all below."""

    def scope(self, message: Message, outer: Scope, meaning: Meaning) -> Scope:
        """Return whose counters stand in a recorded message."""
        found = outer
        for name in self.groups:
            found = found._replace(group=getattr(message, name) or found.group)
        for name in self.topics:
            topic = getattr(message, name)
            if topic and topic != _NO_ID:
                known = meaning.topics.get(topic, topic) if isinstance(topic, bytes) else topic
                found = found._replace(topic=known)
                break
        for name in self.partitions:
            found = found._replace(partition=getattr(message, name))
        for name in self.producers:
            if getattr(message, name) >= 0:
                found = found._replace(producer=getattr(message, name))
        return found


_NO_ID = bytes(16)


@cache
def shape_of(
    api_key: int, version: int | None, direction: Direction, other: int | None = None
) -> Shape:
    """Return the shape of an API's requests or responses; KeyError for an unknown key.

    Without a version it has the fields of all; with an `other` one those that are in both.
    """
    api = codec.api_name(api_key)
    spec = load_spec("apis", f"{snake_case(api)}_{direction.name.lower()}")
    wanted = [Versions(each, each) for each in (version, other) if each is not None]
    return _shape(api, "", spec.fields, spec.structs, wanted or [spec.versions])


def _shape(
    api: str,
    prefix: str,
    fields: Sequence[FieldSpec],
    structs: Mapping[str, StructSpec],
    wanted: Sequence[Versions],
) -> Shape:
    leaves: list[Leaf] = []
    branches: list[Branch] = []
    for field in fields:
        if not all(map(field.versions.overlap, wanted)):
            continue
        name = field.attribute
        path = f"{prefix}{name}"
        struct = structs.get(field.type)
        if struct is None:
            leaves.append(Leaf(name, path, field.is_array, mask_of(api, path)))
            continue
        inner = _shape(api, f"{path}.", struct.fields, structs, wanted)
        there = {leaf.name for leaf in inner.leaves}
        keys = tuple(key for key in KEYS.get(name, ()) if key in there)
        branches.append(
            Branch(
                name,
                path,
                field.is_array,
                keys if field.is_array else (),
                name in COMPOSITE,
                mask_of(api, path),
                (api, path) in OPTIONAL_ROWS,
                inner,
            )
        )
    plain = {leaf.name for leaf in leaves if not leaf.is_list}
    below = [branch.shape.kinds for branch in branches]
    own = {leaf.mask.kind for leaf in leaves if leaf.mask.kind is not None}
    return Shape(
        tuple(leaves),
        tuple(branches),
        _among(_GROUPS, plain),
        _among(_TOPICS, plain),
        _among(_PARTITIONS, plain),
        _among(_PRODUCERS, plain),
        frozenset(own).union(*below),
    )


def _among(names: Sequence[str], there: set[str]) -> tuple[str, ...]:
    return tuple(name for name in names if name in there)
