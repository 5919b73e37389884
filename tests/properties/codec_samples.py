"""Random messages for codec properties, from a seed that a failure reports.

Lengths at the boundaries of varints are drawn on purpose: `draw_with_length` gives such a length to
each string, blob and array of a message in turn, at any depth.
"""

from __future__ import annotations

import os
import struct
from functools import cache
from random import Random
from typing import TYPE_CHECKING, Any, Final

from construct import Bytes, Construct, Flag, FormatField

from kafkalite.protocol.primitives import KafkaArray, KafkaBytes, KafkaString, KafkaStruct
from kafkalite.protocol.spec import MessageSpec, load_specs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalite.protocol.message import Message

IS_LONG: Final = os.environ.get("HYPOTHESIS_PROFILE") == "long"
EDGES: Final = (126, 127, 128, 16383, 16384)
ROW_EDGES: Final = (126, 127, 128)
_UNKNOWN_TAGS: Final = (40, 41, 127, 128, 16384)
_TEXTS: Final = ("", "", "a", "name", "ünïcode", "\N{SNOWMAN}", "x" * 126, "x" * 127, "x" * 300)


@cache
def all_specs() -> dict[str, MessageSpec]:
    """Return the specs of all messages by name."""
    return {spec.name: spec for spec in load_specs()}


def counted_nodes(tree: KafkaStruct) -> list[tuple[Construct, ...]]:
    """Return the paths from the root of a tree to all its strings, blobs and arrays."""
    return list(_counted_paths((tree,)))


def _counted_paths(path: tuple[Construct, ...]) -> Iterator[tuple[Construct, ...]]:
    node = path[-1]
    if isinstance(node, KafkaStruct):
        for field in (*node.shape.fields, *node.shape.tagged.values()):
            yield from _counted_paths((*path, field.subcon))
    elif isinstance(node, KafkaString | KafkaBytes):
        yield path
    elif isinstance(node, KafkaArray):
        yield path
        yield from _counted_paths((*path, node.subcon))


class Samples:
    """Draws messages of a tree from one seed."""

    def __init__(self, seed: str, *, with_unknown_tags: bool = True) -> None:
        self._random = Random(seed)  # noqa: S311 - it draws test data
        self._with_unknown_tags = with_unknown_tags
        self._path: tuple[int, ...] = ()
        self._length = 0

    def draw(self, tree: KafkaStruct) -> Message:
        """Draw a message."""
        self._path = ()
        message: Message = self._value(tree)
        return message

    def draw_with_length(
        self, tree: KafkaStruct, path: tuple[Construct, ...], length: int
    ) -> Message:
        """Draw a message in which the end of the path has this length."""
        self._path = tuple(id(node) for node in path)
        self._length = length
        message: Message = self._value(tree)
        return message

    def mutate(self, frame: bytes) -> bytes:
        """Truncate a frame, change some of its bytes, or insert a byte."""
        data = bytearray(frame)
        mutation = self._random.randrange(4)
        if mutation == 0 or not data:
            return bytes(data[: self._random.randrange(len(data) + 1)])
        at = self._random.randrange(len(data))
        if mutation == 1:
            data[at] = self._random.choice((0, 1, 2, 127, 128, 255, self._random.randrange(256)))
        elif mutation == 2:
            hostile = self._random.choice(
                (b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x07", b"\xff\xfe")
            )
            data[at : at + len(hostile)] = hostile
        else:
            data.insert(at, self._random.randrange(256))
        return bytes(data)

    def _value(self, node: Construct) -> Any:  # noqa: ANN401 - of any field
        is_on_path = bool(self._path) and id(node) in self._path
        if isinstance(node, KafkaStruct):
            return self._struct(node, is_on_path=is_on_path)
        if isinstance(node, KafkaString | KafkaBytes | KafkaArray):
            return self._counted(node, is_on_path=is_on_path)
        if node is Flag:
            return self._chance(0.5)
        if isinstance(node, Bytes):
            return self._random.randbytes(node.length)
        assert isinstance(node, FormatField)
        return self._number(node.fmtstr)

    def _chance(self, share: float) -> bool:
        return self._random.random() < share

    def _number(self, code: str) -> int | float:
        if code == ">d":
            return self._random.random()
        bits = 8 * struct.calcsize(code)
        number = self._random.choice((0, 1, -1, self._random.getrandbits(bits)))
        number %= 1 << bits
        is_signed = code[1].islower()
        return number - (1 << bits) if is_signed and number >> (bits - 1) else number

    def _counted(self, node: KafkaString | KafkaBytes | KafkaArray, *, is_on_path: bool) -> object:
        at_end = is_on_path and id(node) == self._path[-1]
        if node.nullable and not is_on_path and self._chance(0.25):
            return None
        if isinstance(node, KafkaString):
            return "y" * self._length if at_end else self._random.choice(_TEXTS)
        if isinstance(node, KafkaBytes):
            size = self._length if at_end else self._random.choice((0, 1, 5, 127, 128))
            return self._random.randbytes(size)
        if at_end:
            # One row repeated: only the length matters.
            return [self._value(node.subcon)] * self._length
        rows = self._random.choice((1, 2) if is_on_path else (0, 1, 2, 3))
        return [self._value(node.subcon) for _ in range(rows)]

    def _struct(self, node: KafkaStruct, *, is_on_path: bool) -> Message | None:
        shape = node.shape
        if shape.nullable and not is_on_path and self._chance(0.3):
            return None
        message_class = shape.message.load()
        message = message_class()
        for field in shape.fields:
            setattr(message, field.name, self._value(field.subcon))
        for tagged in shape.tagged.values():
            if id(tagged.subcon) in self._path or self._chance(0.4):
                value = self._value(tagged.subcon)
                # Kafka omits an empty tagged struct; our message has None in its place.
                is_empty = isinstance(tagged.subcon, KafkaStruct) and value == type(value)()
                setattr(message, tagged.attribute, None if is_empty else value)
        if shape.flexible and self._with_unknown_tags and self._chance(0.2):
            message.unknown_tags = {  # type: ignore[misc]  # a slot of every subclass
                tag: self._random.randbytes(self._random.choice((0, 3, 128)))
                for tag in self._random.sample(_UNKNOWN_TAGS, 2)
            }
        return message
