"""The columnar decode equals the scalar codec for all APIs and versions, including rejections."""

# ruff: noqa: S311 - segments must be reproducible

from __future__ import annotations

import struct
from random import Random
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pytest

from kafkalite.apis.table import TABLE
from kafkalite.capture.model import Direction, Endpoint
from kafkalite.lab.columnar.decoding import decode as decode_module
from kafkalite.lab.columnar.decoding.decode import Decoded, decode, decode_table
from kafkalite.lab.columnar.decoding.decode_plan import to_arrow_value
from kafkalite.lab.columnar.decoding.schema import message_spec, message_type, prune
from kafkalite.protocol import codec
from kafkalite.protocol._generated.messages.offset_commit import OffsetCommitRequest
from kafkalite.protocol.codec_helpers import MAX_TAGGED_FIELDS, encode_varint
from kafkalite.protocol.primitives import FIRST_PRIVATE_TAG
from kafkalite.protocol.schema import message_tree
from tests.captures import damage
from tests.perf.hostile_requests import (
    HEADER_TAGS,
    LIST,
    TAGS,
    Place,
    body_start,
    distinct_places,
    hostile_frame,
)
from tests.properties.codec_samples import IS_LONG, Samples
from tests.unit.lab.columnar import captures
from tests.unit.lab.columnar.captures import columnar

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kafkalite.protocol.primitives import KafkaStruct

pytestmark = pytest.mark.endurance

MESSAGES: Final = 30 if IS_LONG else 1
MUTATIONS: Final = 20 if IS_LONG else 5
PARSERS: Final = (codec.request_parser, codec.response_parser)
OFFSET_COMMIT: Final = 8
API_VERSIONS: Final = 18


def scalar(parse: codec.Parser, tree: KafkaStruct, frame: bytes) -> object:
    """Decode one frame with the scalar codec; None if it is rejected."""
    try:
        message, _ = parse(frame, 0, len(frame))
    except codec.PARSE_ERRORS:
        return None
    return to_arrow_value(message, tree)


def arrow_array(rows: list[object], kind: pa.DataType) -> pa.Array:
    """Return the scalar codec's values as a column."""
    return pa.array(rows, kind)


def are_equal(found: pa.Array, expected: pa.Array) -> bool:
    """Whether two columns are equal; compared as text because a mutated float may be NaN."""
    return found.equals(expected) or str(found.to_pylist()) == str(expected.to_pylist())


@pytest.mark.parametrize("api_key", codec.api_keys())
@pytest.mark.parametrize("direction", Direction)
def test_columns_equal_scalar_codec(api_key: int, direction: Direction) -> None:
    spec = message_spec(api_key, direction)
    for version in spec.versions.within(spec.versions):
        tree = message_tree(spec, version)
        samples = Samples(f"{spec.name} {version} columns")
        frames = [tree.build(samples.draw(tree)) for _ in range(MESSAGES)]
        frames += [samples.mutate(frame) for frame in frames for _ in range(MUTATIONS)]
        parse = PARSERS[direction](api_key, version)
        rows = [scalar(parse, tree, frame) for frame in frames]

        found = decode(api_key, version, direction, pa.array(frames, pa.binary()))

        found.values.validate(full=True)
        assert are_equal(found.values, arrow_array(rows, message_type(api_key, direction))), version
        assert [each.row for each in found.errors] == [
            row for row, message in enumerate(rows) if message is None
        ]


def commit_frame(group_id: str = "g", topics: int = 1, version: int = 9) -> bytes:
    kind = OffsetCommitRequest
    row = kind.OffsetCommitRequestPartition(partition_index=7, committed_offset=70)
    topic = [kind.OffsetCommitRequestTopic(name=f"t{n}", partitions=[row]) for n in range(topics)]
    out: codec.Out = []
    codec.request_builder(OFFSET_COMMIT, version)(kind(group_id=group_id, topics=topic), out)
    return b"".join(out)


def decode_commits(frames: list[bytes | None], version: int = 9) -> Decoded:
    column = pa.array(frames, pa.binary())
    return decode(OFFSET_COMMIT, version, Direction.REQUEST, column)


def group_ids(found: Decoded) -> list[str | None]:
    return [row and row["group_id"] for row in found.values.to_pylist()]


def test_null_frame_is_null_without_error() -> None:
    found = decode_commits([None, commit_frame("a"), None])

    assert group_ids(found) == [None, "a", None]
    assert found.errors == ()


def test_empty_column_has_the_message_type() -> None:
    found = decode_commits([])

    assert found.values.type == message_type(OFFSET_COMMIT, Direction.REQUEST)
    assert len(found.values) == 0


def test_malformed_message_does_not_affect_other_rows() -> None:
    frame = commit_frame("a", topics=3)

    found = decode_commits([frame, frame[:-4], frame, b"", commit_frame("b")])

    assert group_ids(found) == ["a", None, "a", None, "b"]
    assert [error.row for error in found.errors] == [1, 3]
    assert [error.reason for error in found.errors] == [
        "a length exceeds the frame",
        "the frame ends inside a field",
    ]


def test_message_with_invalid_utf8_is_rejected() -> None:
    invalid = commit_frame("group").replace(b"group", b"gr\xffup")

    found = decode_commits([commit_frame("a"), invalid, commit_frame("b")])

    assert group_ids(found) == ["a", None, "b"]
    assert found.errors == ((1, "text is not UTF-8", "malformed message"),)


def test_huge_array_count_allocates_no_memory() -> None:
    head = commit_frame("a", topics=0)[:-2]
    billions = head + b"\xff\xff\xff\xff\x0f" + bytes(8)

    found = decode_commits([billions])

    assert group_ids(found) == [None]


def test_bytes_after_a_message_are_ignored() -> None:
    assert group_ids(decode_commits([commit_frame("a") + b"\x01\x02\x03"])) == ["a"]


@pytest.mark.parametrize("copies", [1, 40])
def test_unknown_tagged_fields_are_skipped_and_counted(copies: int) -> None:
    tagged = commit_frame("a")[:-1] + b"\x02" + b"\x28\x01?" + b"\x29\x00"

    found = decode_commits([tagged] * copies)

    assert group_ids(found) == ["a"] * copies
    assert found.unknown_tags == 2 * copies


@pytest.mark.parametrize("value", [b"", b"abc", b"\0\0\0\x05", b"abcde"])
def test_private_tags_have_the_value_that_the_scalar_codec_finds(value: bytes) -> None:
    partition = OffsetCommitRequest.OffsetCommitRequestPartition(
        committed_metadata="", unknown_tags={FIRST_PRIVATE_TAG: value}
    )
    topic = OffsetCommitRequest.OffsetCommitRequestTopic(name="t", partitions=[partition])
    parts: list[bytes | memoryview[int]] = []
    codec.request_builder(OFFSET_COMMIT, 9)(OffsetCommitRequest(topics=[topic]), parts)
    frame = b"".join(parts)
    message, _ = codec.request_parser(OFFSET_COMMIT, 9)(frame, 0, len(frame))
    (by_scalar,) = message.topics[0].partitions

    found = decode(OFFSET_COMMIT, 9, Direction.REQUEST, pa.array([frame], pa.binary()))

    ((by_columns,),) = (row["partitions"] for row in found.values.to_pylist()[0]["topics"])
    assert by_columns["incarnation_epoch"] == by_scalar.incarnation_epoch
    assert by_scalar.incarnation_epoch == (5 if value == b"\0\0\0\x05" else -1)
    assert found.unknown_tags == len(by_scalar.unknown_tags or {})


def test_bodies_begin_at_the_given_starts() -> None:
    frames = pa.array([b"..." + commit_frame("a"), commit_frame("b"), b"."], pa.binary())
    starts = pa.array([3, 0, 2], pa.int32())

    found = decode(OFFSET_COMMIT, 9, Direction.REQUEST, frames, starts)

    assert group_ids(found) == ["a", "b", None]


def test_slice_of_a_column_is_decoded() -> None:
    frames = pa.array([b"\xff", commit_frame("a"), None, commit_frame("b")], pa.large_binary())

    found = decode(OFFSET_COMMIT, 9, Direction.REQUEST, frames.slice(1))

    assert group_ids(found) == ["a", None, "b"]


def test_chunked_column_is_decoded_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decode_module, "_MAX_SLICE_ROWS", 4)
    monkeypatch.setattr(decode_module, "_MAX_SLICE_BYTES", 100)
    frames = [commit_frame(f"group {number}" * (number % 20)) for number in range(40)]
    frames[13] = b"?"
    column = pa.chunked_array([pa.array(frames[:25]), pa.array(frames[25:])], pa.binary())

    found = decode(OFFSET_COMMIT, 9, Direction.REQUEST, column)

    expected: list[str | None] = [f"group {number}" * (number % 20) for number in range(40)]
    expected[13] = None
    assert group_ids(found) == expected
    assert [error.row for error in found.errors] == [13]


def test_mixed_versions_are_decoded_in_one_column() -> None:
    versions = np.array([9, 2, 99, 8, 9])
    frames = [commit_frame(f"{version}", version=min(version, 9)) for version in versions.tolist()]

    found = decode_table(OFFSET_COMMIT, Direction.REQUEST, versions, pa.array(frames, pa.binary()))

    assert group_ids(found) == ["9", "2", None, "8", "9"]
    assert found.values[1].as_py()["retention_time_ms"] == -1
    assert found.values[0].as_py()["retention_time_ms"] is None
    assert found.errors == ((2, "unknown version 99", "unknown API or version"),)


def test_unsupported_version_response_to_api_versions_is_decoded_as_version_0() -> None:
    refused = b"\x00\x23" + b"\x00\x00\x00\x01" + b"\x00\x12\x00\x00\x00\x04"
    known = b"\x00\x00" + b"\x01" + b"\x00\x00\x00\x00" + b"\x00"

    found = decode_table(
        API_VERSIONS, Direction.RESPONSE, [4, 4], pa.array([refused, known], pa.binary())
    )

    assert found.errors == ()
    assert [row["error_code"] for row in found.values.to_pylist()] == [35, 0]
    assert found.values[0].as_py()["api_keys"][0]["max_version"] == 4


def test_only_requested_fields_are_decoded() -> None:
    fields = ["topics.partitions.committed_offset", "group_id"]
    column = pa.array([commit_frame("a", topics=2)], pa.binary())

    found = decode(OFFSET_COMMIT, 9, Direction.REQUEST, column, fields=fields)

    assert found.values.type == prune(message_type(OFFSET_COMMIT, Direction.REQUEST), fields)
    topic = {"partitions": [{"committed_offset": 70}]}
    assert found.values.to_pylist() == [{"group_id": "a", "topics": [topic, topic]}]


def leaf_paths(kind: pa.DataType, before: str = "") -> Iterator[str]:
    """Yield the paths of all fields without subfields."""
    if pa.types.is_list(kind):
        kind = kind.value_type
    if not pa.types.is_struct(kind):
        yield before
        return
    for field in kind:
        yield from leaf_paths(field.type, f"{before}.{field.name}" if before else field.name)


def value_at_path(value: Any, path: list[str]) -> object:  # noqa: ANN401 - of any field
    """Return a message with only the field of this path."""
    if value is None or not path:
        return value
    if isinstance(value, list):
        return [value_at_path(each, path) for each in value]
    return {path[0]: value_at_path(value[path[0]], path[1:])}


@pytest.mark.parametrize(("api_key", "version"), [(1, 17), (3, 12), (68, 1), (78, 1)])
@pytest.mark.parametrize("direction", Direction)
def test_single_field_equals_the_field_of_the_whole_message(
    api_key: int, version: int, direction: Direction
) -> None:
    tree = message_tree(message_spec(api_key, direction), version)
    samples = Samples(f"{api_key} {direction} alone")
    column = pa.array([tree.build(samples.draw(tree)) for _ in range(4)], pa.binary())
    whole = decode(api_key, version, direction, column).values.to_pylist()

    for path in leaf_paths(message_type(api_key, direction)):
        found = decode(api_key, version, direction, column, fields=[path])

        expected = [value_at_path(message, path.split(".")) for message in whole]
        assert str(found.values.to_pylist()) == str(expected), path


def test_unknown_version_of_decode_raises_key_error() -> None:
    with pytest.raises(KeyError):
        decode(OFFSET_COMMIT, 99, Direction.REQUEST, pa.array([b""], pa.binary()))


@pytest.mark.parametrize("api_key", [*TABLE])
def test_hostile_requests_have_the_result_of_the_scalar_codec(api_key: int) -> None:
    """Long lists, long fields of bytes, and as many tagged fields as are allowed or one more."""
    places = [place for place in distinct_places(api_key) if place.path != HEADER_TAGS]
    for version in {place.version for place in places}:
        parse = codec.request_parser(api_key, version)
        tree = message_tree(message_spec(api_key, Direction.REQUEST), version)
        frames: list[bytes] = []
        for place in places:
            if place.version != version:
                continue
            start = body_start(place)
            sizes = [MAX_TAGGED_FIELDS, MAX_TAGGED_FIELDS + 1] if place.kind == TAGS else [300]
            frames += [
                hostile_frame(place, 1 << 16, count, are_equal=True)[start:] for count in sizes
            ]
        rows = [scalar(parse, tree, frame) for frame in frames]
        found = decode(api_key, version, Direction.REQUEST, pa.array(frames, pa.binary()))
        assert are_equal(found.values, arrow_array(rows, message_type(api_key, Direction.REQUEST)))
        assert [each.row for each in found.errors] == [
            row for row, message in enumerate(rows) if message is None
        ]


@pytest.mark.parametrize("count", [MAX_TAGGED_FIELDS, MAX_TAGGED_FIELDS + 1])
def test_the_tagged_fields_of_headers_are_limited(tmp_path: Path, count: int) -> None:
    place = Place(OFFSET_COMMIT, 9, HEADER_TAGS, TAGS)
    tcp = damage.TcpConnection(Endpoint("10.0.0.1", 5), Endpoint("10.0.0.2", 9092), 1_000)
    tags = encode_varint(count) + b"\x40\0" * count
    for number, (request, response) in enumerate(
        [
            (hostile_frame(Place(OFFSET_COMMIT, 9, "?", LIST), 0), b"\0\0\0\x05\0\0\0\x01\0"),
            (hostile_frame(place, 1 << 16, count, are_equal=True), b"\0\0\0\x05\0\0\0\x01\0"),
            (
                hostile_frame(Place(OFFSET_COMMIT, 9, "?", LIST), 0),
                struct.pack(">ii", len(tags) + 4, 1) + tags,
            ),
        ]
    ):
        tcp.request(2_000 + 10 * number, request)
        tcp.response(2_005 + 10 * number, response)
    packets = damage.segment(tcp.packets, Random(0))
    data = damage.capture_file(packets)
    path = tmp_path / "some.pcapng"
    by_columns, by_rows = columnar(data, str(path)), captures.scalar(data, path)
    assert by_columns == by_rows
    assert by_columns.exchanges.total() == 3 - (count > MAX_TAGGED_FIELDS)
