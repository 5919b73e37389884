"""The generated codec and the interpreted Construct tree are the same function.

They agree on every message of every version, and on which cut or changed frames to refuse. The
profile "long" (HYPOTHESIS_PROFILE) looks at more of the same.
"""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING, Final

import pytest
from construct import ConstructError

from kafkalite.protocol import codec
from kafkalite.protocol.primitives import KafkaArray, KafkaStruct
from kafkalite.protocol.schema import message_tree
from kafkalite.protocol.spec import snake_case
from tests.properties.codec_samples import (
    EDGES,
    IS_LONG,
    ROW_EDGES,
    Samples,
    all_specs,
    counted_nodes,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalite.protocol.message import Message
    from kafkalite.protocol.spec import MessageSpec

ROUNDS: Final = 30 if IS_LONG else 6
MUTATIONS: Final = 20 if IS_LONG else 8
REFUSALS: Final = (*codec.PARSE_ERRORS, ConstructError)
STRANGERS: Final = bytes(range(256))
"""Stands before and behind a frame, as other frames of a receive buffer do."""

every_message = pytest.mark.parametrize("name", sorted(all_specs()))


def codecs_of(spec: MessageSpec, version: int) -> tuple[codec.Parser, codec.Builder]:
    """Find the generated functions of one version of a message."""
    if spec.kind == "request":
        assert spec.key is not None
        return codec.request_parser(spec.key, version), codec.request_builder(spec.key, version)
    if spec.kind == "response":
        assert spec.key is not None
        return codec.response_parser(spec.key, version), codec.response_builder(spec.key, version)
    name = snake_case(spec.name)
    return codec.parser(name, version), codec.builder(name, version)


def trees_of(spec: MessageSpec) -> Iterator[tuple[int, KafkaStruct]]:
    for version in spec.versions.within(spec.versions):
        yield version, message_tree(spec, version)


def build(builder: codec.Builder, message: Message) -> bytes:
    out: codec.Out = []
    builder(message, out)
    return b"".join(out)


@every_message
def test_both_write_the_same_bytes_and_read_them_back(name: str) -> None:
    spec = all_specs()[name]
    for version, tree in trees_of(spec):
        parse, builder = codecs_of(spec, version)
        samples = Samples(f"{name} {version}")
        for _ in range(ROUNDS):
            check_round_trip(tree, parse, builder, samples.draw(tree))


@every_message
def test_lengths_at_the_edges_of_a_varint(name: str) -> None:
    spec = all_specs()[name]
    for version, tree in trees_of(spec):
        parse, builder = codecs_of(spec, version)
        samples = Samples(f"{name} {version} edges")
        for number, way in enumerate(counted_nodes(tree)):
            has_rows = isinstance(way[-1], KafkaArray) and isinstance(way[-1].subcon, KafkaStruct)
            # The tree takes a second for 16384 rows: once for each message is enough.
            has_many = IS_LONG and version == spec.versions.highest and number == 0
            edges = ROW_EDGES if has_rows and not has_many else EDGES
            for edge in edges if IS_LONG else [edges[(number + version) % len(edges)]]:
                check_round_trip(tree, parse, builder, samples.focused(tree, way, edge))


def check_round_trip(
    tree: KafkaStruct, parse: codec.Parser, builder: codec.Builder, message: Message
) -> None:
    frame = tree.build(message)
    assert build(builder, message) == frame
    judged = tree.parse(frame)
    assert parse(frame, 0, len(frame)) == (judged, len(frame))
    among_others = bytearray(STRANGERS + frame + STRANGERS)
    start, end = len(STRANGERS), len(STRANGERS) + len(frame)
    found, position = parse(among_others, start, end)
    assert (found, position) == (judged, end)
    assert build(builder, found) == frame


@every_message
def test_both_refuse_the_same_frames(name: str) -> None:
    spec = all_specs()[name]
    for version, tree in trees_of(spec):
        parse, _ = codecs_of(spec, version)
        samples = Samples(f"{name} {version} mutated")
        for _ in range(max(1, ROUNDS // 3)):
            frame = tree.build(samples.draw(tree))
            for _ in range(MUTATIONS):
                mutated = samples.mutated(frame)
                judged = interpreted(tree, mutated)
                assert generated(parse, mutated, len(mutated)) == judged, mutated
                # The same bytes cut off by `end`, with more of the buffer behind it.
                assert generated(parse, mutated + STRANGERS, len(mutated)) == judged, mutated


def interpreted(tree: KafkaStruct, frame: bytes) -> tuple[str, int] | None:
    """Parse by the tree, as text since a mutated float may be no number; None: refused."""
    stream = BytesIO(frame)
    try:
        return as_text(tree.parse_stream(stream)), stream.tell()
    except REFUSALS:
        return None


def generated(parse: codec.Parser, frame: bytes, end: int) -> tuple[str, int] | None:
    try:
        message, position = parse(frame, 0, end)
    except codec.PARSE_ERRORS:
        return None
    return as_text(message), position


def as_text(message: Message) -> str:
    return repr(with_plain_records(message))


def with_plain_records(message: Message) -> Message:
    """Turn views into bytes, which unlike views show what is in them."""
    for name in message.__slots__:
        value = getattr(message, name)
        if isinstance(value, memoryview):
            setattr(message, name, bytes(value))
        elif isinstance(value, list):
            for row in value:
                if hasattr(row, "__slots__"):
                    with_plain_records(row)
    return message
