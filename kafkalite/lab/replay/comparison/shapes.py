"""Shapes: the fields of a request or response in one version, each with its comparison rule.

Shapes are compiled once from the message specifications, so that walking a message needs no
lookups by field name.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from kafkalite.capture.model import Direction
from kafkalite.lab.replay.comparison.field_rules import (
    COMPOSITE_KEYS,
    OPTIONAL_ROWS,
    ROW_KEYS,
    FieldRule,
    field_rule,
)
from kafkalite.protocol import codec
from kafkalite.protocol.catalogue import ROWS
from kafkalite.protocol.spec import load_spec, snake_case
from kafkalite.protocol.versions import Versions

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafkalite.lab.replay.rewriting.id_mapping import IdMapping, Scope, ValueKind
    from kafkalite.protocol.message import Message
    from kafkalite.protocol.spec import FieldSpec, StructSpec

_GROUP_FIELDS = ("group_id",)
_MEMBER_FIELDS = ("member_id",)
_TOPIC_FIELDS = ("name", "topic", "topic_name", "topic_id")
_PARTITION_FIELDS = ("partition_index", "partition", "index", "partition_id")
_PRODUCER_FIELDS = (
    "producer_id",
    "v3_and_below_producer_id",
    "ongoing_txn_producer_id",
)


@dataclass(frozen=True, slots=True)
class Leaf:
    """A field that holds a plain value or a list of plain values."""

    name: str
    path: str
    is_list: bool
    rule: FieldRule
    is_error_code: bool
    """Whether the field is an error code of a response."""


@dataclass(frozen=True, slots=True)
class Branch:
    """A field that holds a struct or a list of structs."""

    name: str
    path: str
    is_list: bool
    keys: tuple[str, ...]
    """Key fields of the rows; empty if rows correspond by position."""
    is_composite: bool
    """Whether all key fields together identify a row; otherwise the first one with a value does."""
    rule: FieldRule
    is_optional: bool
    """Whether a row without an error may occur in only one of two responses."""
    shape: Shape


@dataclass(frozen=True, slots=True)
class Shape:
    """The fields of a struct in one version."""

    leaves: tuple[Leaf, ...]
    branches: tuple[Branch, ...]
    group_fields: tuple[str, ...]
    """Names of the fields with a group id."""
    member_fields: tuple[str, ...]
    """Names of the fields with a member id."""
    topic_fields: tuple[str, ...]
    """Names of the fields with a topic name or id."""
    partition_fields: tuple[str, ...]
    """Names of the fields with a partition index."""
    producer_fields: tuple[str, ...]
    """Names of the fields with a producer id."""
    kinds: frozenset[ValueKind]
    """Kinds of ids and counters in the struct and in all structs below it."""

    def scope(self, message: Message, outer: Scope, mapping: IdMapping) -> Scope:
        """Return the scope of counters in a recorded struct, which is inside the scope `outer`."""
        scope = outer
        for name in self.group_fields:
            scope = scope._replace(group=getattr(message, name) or scope.group)
        for name in self.member_fields:
            scope = scope._replace(member=getattr(message, name) or scope.member)
        for name in self.topic_fields:
            topic = getattr(message, name)
            if topic and topic != _NO_ID:
                name_or_id = (
                    mapping.topic_names.get(topic, topic) if isinstance(topic, bytes) else topic
                )
                scope = scope._replace(topic=name_or_id)
                break
        for name in self.partition_fields:
            scope = scope._replace(partition=getattr(message, name))
        for name in self.producer_fields:
            if getattr(message, name) >= 0:
                scope = scope._replace(producer=getattr(message, name))
        return scope


_NO_ID = bytes(16)


@cache
def shape_of(
    api_key: int, version: int | None, direction: Direction, other_version: int | None = None
) -> Shape:
    """Return the shape of an API's requests or responses; raises KeyError for an unknown key.

    If `version` is None, the shape has the fields of all versions. If `other_version` is given, the
    shape has only the fields that both versions have.
    """
    api = codec.api_name(api_key)
    spec = load_spec("apis", f"{snake_case(api)}_{direction.name.lower()}")
    versions = [
        Versions(number, number) for number in (version, other_version) if number is not None
    ]
    is_response = direction is Direction.RESPONSE
    errors = frozenset(ROWS[api_key].errors.split() if is_response else ())
    return _Compiler(api, spec.structs, versions or [spec.versions], errors).compile_struct(
        "", spec.fields
    )


@dataclass(frozen=True, slots=True)
class _Compiler:
    """Compiles the shapes of one message's structs."""

    api: str
    structs: Mapping[str, StructSpec]
    versions: Sequence[Versions]
    errors: frozenset[str]

    def compile_struct(self, prefix: str, fields: Sequence[FieldSpec]) -> Shape:
        """Return the shape of a struct; `prefix` is the struct's path and a dot, or empty."""
        leaves: list[Leaf] = []
        branches: list[Branch] = []
        for field in fields:
            if not all(map(field.versions.overlap, self.versions)):
                continue
            path = f"{prefix}{field.attribute}"
            struct = self.structs.get(field.type)
            if struct is None:
                rule, is_error_code = field_rule(self.api, path), path in self.errors
                leaves.append(Leaf(field.attribute, path, field.is_array, rule, is_error_code))
            else:
                branches.append(
                    self._branch(field, path, self.compile_struct(f"{path}.", struct.fields))
                )
        plain_names = {leaf.name for leaf in leaves if not leaf.is_list}
        inner_kinds = [branch.shape.kinds for branch in branches]
        own_kinds = {leaf.rule.kind for leaf in leaves if leaf.rule.kind is not None}
        return Shape(
            tuple(leaves),
            tuple(branches),
            _select_names(_GROUP_FIELDS, plain_names),
            _select_names(_MEMBER_FIELDS, plain_names),
            _select_names(_TOPIC_FIELDS, plain_names),
            _select_names(_PARTITION_FIELDS, plain_names),
            _select_names(_PRODUCER_FIELDS, plain_names),
            frozenset(own_kinds).union(*inner_kinds),
        )

    def _branch(self, field: FieldSpec, path: str, inner: Shape) -> Branch:
        name = field.attribute
        fields = {leaf.name for leaf in inner.leaves}
        keys = tuple(key for key in ROW_KEYS.get(name, ()) if key in fields)
        return Branch(
            name,
            path,
            field.is_array,
            keys if field.is_array else (),
            name in COMPOSITE_KEYS,
            field_rule(self.api, path),
            (self.api, path) in OPTIONAL_ROWS,
            inner,
        )


def _select_names(names: Sequence[str], fields: set[str]) -> tuple[str, ...]:
    return tuple(name for name in names if name in fields)
