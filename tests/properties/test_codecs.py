"""The generated codec and the interpreted Construct tree give equal results.

They agree on every message in every version, and on which truncated or changed frames are refused.
The profile "long" (HYPOTHESIS_PROFILE) runs more examples.
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

ROUNDS: Final = 30 if IS_LONG else 3
MUTATIONS: Final = 20 if IS_LONG else 6
_TOP_LEVEL: Final = 2
"""Length of the path of a field of the message itself."""
REFUSALS: Final = (*codec.PARSE_ERRORS, ConstructError)
OTHER_FRAMES: Final = bytes(range(256))
"""Bytes around a frame, like other frames in a receive buffer."""

every_message = pytest.mark.parametrize("name", sorted(all_specs()))


def codecs_of(spec: MessageSpec, version: int) -> tuple[codec.Parser, codec.Builder]:
    """Return the generated functions of one version of a message."""
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
def test_generated_and_interpreted_codecs_write_the_same_bytes(name: str) -> None:
    spec = all_specs()[name]
    for version, tree in trees_of(spec):
        parse, builder = codecs_of(spec, version)
        samples = Samples(f"{name} {version}")
        for _ in range(ROUNDS):
            check_round_trip(tree, parse, builder, samples.draw(tree))


@every_message
def test_lengths_at_the_boundaries_of_a_varint(name: str) -> None:
    spec = all_specs()[name]
    for version, tree in trees_of(spec):
        parse, builder = codecs_of(spec, version)
        samples = Samples(f"{name} {version} edges")
        nodes = list(enumerate(counted_nodes(tree)))
        if nodes and not IS_LONG and version != spec.versions.highest:
            nodes = [nodes[version % len(nodes)]]
        for number, path in nodes:
            has_rows = isinstance(path[-1], KafkaArray) and isinstance(path[-1].subcon, KafkaStruct)
            # The tree takes a second for 16384 rows, so this runs once per message.
            has_many = IS_LONG and version == spec.versions.highest and number == 0
            # A list of thousands of elements in each row takes as long as thousands of rows.
            is_nested_list = isinstance(path[-1], KafkaArray) and len(path) > _TOP_LEVEL
            is_short = (has_rows and not has_many) or (is_nested_list and not IS_LONG)
            edges = ROW_EDGES if is_short else EDGES
            for edge in edges if IS_LONG else [edges[(number + version) % len(edges)]]:
                check_round_trip(tree, parse, builder, samples.draw_with_length(tree, path, edge))


def check_round_trip(
    tree: KafkaStruct, parse: codec.Parser, builder: codec.Builder, message: Message
) -> None:
    frame = tree.build(message)
    assert build(builder, message) == frame
    expected = tree.parse(frame)
    assert parse(frame, 0, len(frame)) == (expected, len(frame))
    among_others = bytearray(OTHER_FRAMES + frame + OTHER_FRAMES)
    start, end = len(OTHER_FRAMES), len(OTHER_FRAMES) + len(frame)
    parsed, position = parse(among_others, start, end)
    assert (parsed, position) == (expected, end)
    assert build(builder, parsed) == frame


@every_message
def test_generated_and_interpreted_codecs_refuse_the_same_frames(name: str) -> None:
    spec = all_specs()[name]
    for version, tree in trees_of(spec):
        parse, _ = codecs_of(spec, version)
        samples = Samples(f"{name} {version} mutated")
        for _ in range(max(1, ROUNDS // 3)):
            frame = tree.build(samples.draw(tree))
            for _ in range(MUTATIONS):
                mutate = samples.mutate(frame)
                expected = interpreted(tree, mutate)
                assert generated(parse, mutate, len(mutate)) == expected, mutate
                # The same bytes limited by `end`, with more bytes after them in the buffer.
                assert generated(parse, mutate + OTHER_FRAMES, len(mutate)) == expected, mutate


def interpreted(tree: KafkaStruct, frame: bytes) -> tuple[str, int] | None:
    """Parse by the tree; return text, because a changed float may be NaN; None if refused."""
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
    """Convert views to bytes, whose content is in their repr."""
    for name in message.__slots__:
        value = getattr(message, name)
        if isinstance(value, memoryview):
            setattr(message, name, bytes(value))
        elif isinstance(value, list):
            for row in value:
                if hasattr(row, "__slots__"):
                    with_plain_records(row)
    return message
