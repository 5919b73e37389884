"""Two codecs of the OffsetCommit v8 request that do not use generated code.

`Reader` and `Writer` are hand-written and use precompiled `struct` formats, with one method per
type. `CONSTRUCT_REQUEST` defines the message with the classes of construct, which interprets it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct as Packed
from typing import Final

import construct as c

_INT32: Final = Packed(">i")
_INT64: Final = Packed(">q")


@dataclass(slots=True)
class Partition:
    partition_index: int
    committed_offset: int
    committed_leader_epoch: int
    committed_metadata: str | None


@dataclass(slots=True)
class Topic:
    name: str
    partitions: list[Partition] = field(default_factory=list)


@dataclass(slots=True)
class Request:
    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None
    topics: list[Topic] = field(default_factory=list)


class Reader:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.position = 0

    def take(self, size: int) -> bytes:
        start = self.position
        end = start + size
        if end > len(self.data):
            raise EOFError
        self.position = end
        return self.data[start:end]

    def int32(self) -> int:
        value: int = _INT32.unpack_from(self.data, self.position)[0]
        self.position += 4
        return value

    def int64(self) -> int:
        value: int = _INT64.unpack_from(self.data, self.position)[0]
        self.position += 8
        return value

    def varint(self) -> int:
        byte = self.data[self.position]
        self.position += 1
        if byte < 0x80:
            return byte
        value = byte & 0x7F
        shift = 7
        while True:
            byte = self.data[self.position]
            self.position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def nullable_string(self) -> str | None:
        length = self.varint() - 1
        return None if length < 0 else self.take(length).decode()

    def string(self) -> str:
        value = self.nullable_string()
        if value is None:
            raise ValueError("null")
        return value

    def tags(self) -> None:
        for _ in range(self.varint()):
            self.varint()
            self.take(self.varint())


def read_request(data: bytes) -> Request:
    reader = Reader(data)
    request = Request(
        group_id=reader.string(),
        generation_id=reader.int32(),
        member_id=reader.string(),
        group_instance_id=reader.nullable_string(),
    )
    for _ in range(reader.varint() - 1):
        topic = Topic(reader.string())
        for _ in range(reader.varint() - 1):
            topic.partitions.append(
                Partition(
                    partition_index=reader.int32(),
                    committed_offset=reader.int64(),
                    committed_leader_epoch=reader.int32(),
                    committed_metadata=reader.nullable_string(),
                )
            )
            reader.tags()
        reader.tags()
        request.topics.append(topic)
    reader.tags()
    return request


class Writer:
    def __init__(self) -> None:
        self.out = bytearray()

    def int32(self, value: int) -> None:
        self.out += _INT32.pack(value)

    def int64(self, value: int) -> None:
        self.out += _INT64.pack(value)

    def varint(self, value: int) -> None:
        if value < 0x80:
            self.out.append(value)
            return
        while value > 0x7F:
            self.out.append(value & 0x7F | 0x80)
            value >>= 7
        self.out.append(value)

    def string(self, value: str | None) -> None:
        if value is None:
            self.varint(0)
            return
        data = value.encode()
        self.varint(len(data) + 1)
        self.out += data

    def tags(self) -> None:
        self.out.append(0)


def write_request(request: Request) -> bytes:
    writer = Writer()
    writer.string(request.group_id)
    writer.int32(request.generation_id)
    writer.string(request.member_id)
    writer.string(request.group_instance_id)
    writer.varint(len(request.topics) + 1)
    for topic in request.topics:
        writer.string(topic.name)
        writer.varint(len(topic.partitions) + 1)
        for partition in topic.partitions:
            writer.int32(partition.partition_index)
            writer.int64(partition.committed_offset)
            writer.int32(partition.committed_leader_epoch)
            writer.string(partition.committed_metadata)
            writer.tags()
        writer.tags()
    writer.tags()
    return bytes(writer.out)


def _plus_one_adapter(subcon: c.Construct) -> c.Construct:
    return c.ExprAdapter(subcon, c.obj_ - 1, c.obj_ + 1)


def _array(subcon: c.Construct) -> c.Construct:
    return c.PrefixedArray(_plus_one_adapter(c.VarInt), subcon)


_STRING: Final = c.PascalString(_plus_one_adapter(c.VarInt), "utf8")
_NULLABLE: Final = c.FocusedSeq(
    "text",
    "length" / c.Rebuild(c.VarInt, lambda this: 0 if this.text is None else len(this.text) + 1),
    "text" / c.If(c.this.length > 0, c.PaddedString(c.this.length - 1, "utf8")),
)
_TAGS: Final = c.PrefixedArray(
    c.VarInt, c.Struct("tag" / c.VarInt, "data" / c.Prefixed(c.VarInt, c.GreedyBytes))
)

CONSTRUCT_REQUEST: Final = c.Struct(
    "group_id" / _STRING,
    "generation_id" / c.Int32sb,
    "member_id" / _STRING,
    "group_instance_id" / _NULLABLE,
    "topics"
    / _array(
        c.Struct(
            "name" / _STRING,
            "partitions"
            / _array(
                c.Struct(
                    "partition_index" / c.Int32sb,
                    "committed_offset" / c.Int64sb,
                    "committed_leader_epoch" / c.Int32sb,
                    "committed_metadata" / _NULLABLE,
                    "tags" / _TAGS,
                )
            ),
            "tags" / _TAGS,
        )
    ),
    "tags" / _TAGS,
)
