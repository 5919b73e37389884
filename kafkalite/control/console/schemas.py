"""Schema: a schema of a registry, with the schemas that it uses, and the bytes that name it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalite.ports.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

AVRO, JSON, PROTOBUF = "AVRO", "JSON", "PROTOBUF"
KINDS: Final = (AVRO, JSON, PROTOBUF)
"""The types of schemas, as registries name them."""

_MAGIC: Final = b"\x00"
_FRAME_BYTES: Final = 5


class SchemaError(ValueError):
    """A schema is not available, or a value cannot be decoded; the text is one sentence."""


class Schema(NamedTuple):
    """A schema of a registry."""

    schema_id: int
    kind: str
    """One of KINDS."""
    text: str
    """JSON; of PROTOBUF, a FileDescriptorProto in Base64."""
    used: Sequence[UsedSchema] = ()
    """The schemas that it uses, each after those that it uses itself."""


class UsedSchema(NamedTuple):
    """A schema that another one uses."""

    name: str
    """The name by which it is used: of PROTOBUF, the path of an import."""
    text: str


class Frame(NamedTuple):
    """The id of a schema, and a value in its format, as Confluent's serializers write them."""

    schema_id: int
    payload: bytes


def frame_of(content: bytes | None) -> Frame | None:
    """Return the parts of bytes that begin with 0 and the id of a schema; None for others."""
    if content is None or len(content) < _FRAME_BYTES or content[:1] != _MAGIC:
        return None
    return Frame(int.from_bytes(content[1:_FRAME_BYTES], "big"), content[_FRAME_BYTES:])
