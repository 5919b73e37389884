"""Messages at random for codec properties: seeded, so that a failure names its own seed.

Lengths around the edges of varints are drawn on purpose: `focused` puts one of them on each
string, blob and array of a message in turn, whatever lies on the way to it.
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
    """Every spec by its message's name."""
    return {spec.name: spec for spec in load_specs()}


def counted_nodes(tree: KafkaStruct) -> list[tuple[Construct, ...]]:
    """Every string, blob and array of a tree, each as the way to it from the root."""
    return list(_walk((tree,)))


def _walk(way: tuple[Construct, ...]) -> Iterator[tuple[Construct, ...]]:
    node = way[-1]
    if isinstance(node, KafkaStruct):
        for field in (*node.shape.fields, *node.shape.tagged.values()):
            yield from _walk((*way, field.subcon))
    elif isinstance(node, KafkaString | KafkaBytes):
        yield way
    elif isinstance(node, KafkaArray):
        yield way
        yield from _walk((*way, node.subcon))


class Samples:
    """Draws messages of a tree from one seed."""

    def __init__(self, seed: str, *, with_unknown_tags: bool = True) -> None:
        self._random = Random(seed)  # noqa: S311 - it draws test data
        self._with_unknown_tags = with_unknown_tags
        self._way: tuple[int, ...] = ()
        self._length = 0

    def draw(self, tree: KafkaStruct) -> Message:
        """Draw a message."""
        self._way = ()
        message: Message = self._value(tree)
        return message

    def focused(self, tree: KafkaStruct, way: tuple[Construct, ...], length: int) -> Message:
        """Draw a message in which the end of the way has this length."""
        self._way = tuple(id(node) for node in way)
        self._length = length
        message: Message = self._value(tree)
        return message

    def mutated(self, frame: bytes) -> bytes:
        """Cut a frame short, change some of its bytes, or put some in."""
        frame_ = bytearray(frame)
        kind = self._random.randrange(4)
        if kind == 0 or not frame_:
            return bytes(frame_[: self._random.randrange(len(frame_) + 1)])
        at = self._random.randrange(len(frame_))
        if kind == 1:
            frame_[at] = self._random.choice((0, 1, 2, 127, 128, 255, self._random.randrange(256)))
        elif kind == 2:
            hostile = self._random.choice(
                (b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x07", b"\xff\xfe")
            )
            frame_[at : at + len(hostile)] = hostile
        else:
            frame_.insert(at, self._random.randrange(256))
        return bytes(frame_)

    def _value(self, node: Construct) -> Any:  # noqa: ANN401 - of any field
        wanted = bool(self._way) and id(node) in self._way
        if isinstance(node, KafkaStruct):
            return self._struct(node, wanted=wanted)
        if isinstance(node, KafkaString | KafkaBytes | KafkaArray):
            return self._counted(node, wanted=wanted)
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

    def _counted(self, node: KafkaString | KafkaBytes | KafkaArray, *, wanted: bool) -> object:
        at_end = wanted and id(node) == self._way[-1]
        if node.nullable and not wanted and self._chance(0.25):
            return None
        if isinstance(node, KafkaString):
            return "y" * self._length if at_end else self._random.choice(_TEXTS)
        if isinstance(node, KafkaBytes):
            size = self._length if at_end else self._random.choice((0, 1, 5, 127, 128))
            return self._random.randbytes(size)
        if at_end:
            # One row many times: the length is what is looked at.
            return [self._value(node.subcon)] * self._length
        rows = self._random.choice((1, 2) if wanted else (0, 1, 2, 3))
        return [self._value(node.subcon) for _ in range(rows)]

    def _struct(self, node: KafkaStruct, *, wanted: bool) -> Message | None:
        shape = node.shape
        if shape.nullable and not wanted and self._chance(0.3):
            return None
        message_class = shape.message.load()
        message = message_class()
        for field in shape.fields:
            setattr(message, field.name, self._value(field.subcon))
        for tagged in shape.tagged.values():
            if id(tagged.subcon) in self._way or self._chance(0.4):
                value = self._value(tagged.subcon)
                # Kafka leaves out a tagged struct that says nothing; ours is None then.
                says_nothing = isinstance(tagged.subcon, KafkaStruct) and value == type(value)()
                setattr(message, tagged.attribute, None if says_nothing else value)
        if shape.flexible and self._with_unknown_tags and self._chance(0.2):
            message.unknown_tags = {  # type: ignore[misc]  # a slot of every subclass
                tag: self._random.randbytes(self._random.choice((0, 3, 128)))
                for tag in self._random.sample(_UNKNOWN_TAGS, 2)
            }
        return message
