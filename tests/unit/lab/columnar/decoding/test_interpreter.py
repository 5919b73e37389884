"""Unit tests of the interpreter of decode programs, also for malformed and hostile messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from kafkalite.capture.model import Direction
from kafkalite.lab.columnar.decoding import column_buffers as memory_module
from kafkalite.lab.columnar.decoding.column_buffers import ColumnMemory
from kafkalite.lab.columnar.decoding.decode import decode
from kafkalite.lab.columnar.decoding.decode_plan import BytesColumn, ListColumn, message_plan
from kafkalite.lab.columnar.decoding.interpreter import REASONS, walk_messages
from kafkalite.lab.columnar.decoding.schema import message_spec
from kafkalite.protocol.schema import message_tree
from tests.properties.codec_samples import Samples

if TYPE_CHECKING:
    from kafkalite.lab.columnar.decoding.interpreter import WalkResult

METADATA = 3
SHAPES = {"rows in rows": (3, 12), "structs and tags": (1, 17), "varied": (78, 1)}


def metadata_request(*names: bytes) -> bytes:
    rows = b"".join(len(name).to_bytes(2, "big") + name for name in names)
    return len(names).to_bytes(4, "big") + rows


def walk(*frames: bytes) -> WalkResult:
    stops = np.cumsum([len(frame) for frame in frames])
    starts = np.concatenate([[0], stops[:-1]])
    program = message_plan(METADATA, 1, Direction.REQUEST).program
    return walk_messages(program, np.frombuffer(b"".join(frames), np.uint8), starts, stops)


def test_array_rows_are_numbered_over_all_messages() -> None:
    memory, verdicts, _ = walk(
        metadata_request(b"a", b"bb"), metadata_request(), metadata_request(b"ccc")
    )

    topics = message_plan(METADATA, 1, Direction.REQUEST).column.children[0]
    assert isinstance(topics, ListColumn)
    names: Any = topics.element
    name = names.children[1]
    assert isinstance(name, BytesColumn)
    assert verdicts.tolist() == [0, 0, 0]
    assert memory.sizes[topics.level] == 3
    assert memory.first_elements(topics.ends, 4).view(np.int32).tolist() == [0, 2, 2, 3]
    assert memory.first_elements(name.ends, 4).view(np.int32).tolist() == [0, 1, 3, 6]
    assert memory.first_elements(name.values, 6).tobytes() == b"abbccc"


def test_malformed_messages_leave_nothing_in_the_buffers() -> None:
    frame = metadata_request(b"a", b"bb")
    data, size = np.frombuffer(frame * 3, np.uint8), len(frame)
    program = message_plan(METADATA, 1, Direction.REQUEST).program

    starts = np.array([0, size, 2 * size, 9, -1, 0])
    stops = np.array([size, 2 * size - 1, 3 * size, 8, 4, 3 * size + 1])
    memory, verdicts, _ = walk_messages(program, data, starts, stops)

    past, ends = "a length exceeds the frame", "the frame ends inside a field"
    reasons = [REASONS.get(verdict) for verdict in verdicts.tolist()]
    assert reasons == [None, past, None, ends, ends, ends]
    assert memory.sizes[0] == 2
    assert memory.sizes[1] == 4


def test_full_buffers_are_enlarged() -> None:
    program = message_plan(METADATA, 1, Direction.REQUEST).program
    program.elements_per_byte[:] = 0
    names = [b"%d" % number for number in range(3000)]

    memory, verdicts, _ = walk(metadata_request(b"a"), metadata_request(*names))

    assert not verdicts.any()
    assert memory.sizes[1] == 3001
    assert memory.capacities[1] >= 3001


@pytest.mark.parametrize(("api_key", "version"), SHAPES.values(), ids=SHAPES.keys())
@pytest.mark.parametrize("direction", Direction)
def test_initial_capacity_does_not_change_the_result(
    api_key: int, version: int, direction: Direction, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Buffers are adjacent in memory, so that a write beyond one would change another."""
    tree = message_tree(message_spec(api_key, direction), version)
    samples = Samples(f"{api_key} {direction} little room")
    frames = [tree.build(samples.draw(tree)) for _ in range(30)]
    column = pa.array([*frames, *map(samples.mutate, frames * 2)], pa.binary())
    program = message_plan(api_key, version, direction).program

    program.elements_per_byte[:] = 4.0
    large = decode(api_key, version, direction, column)
    program.elements_per_byte[:] = 0
    monkeypatch.setattr(memory_module, "_MIN_CAPACITY", 0)
    small = decode(api_key, version, direction, column)

    assert str(large.values.to_pylist()) == str(small.values.to_pylist())
    assert large.errors == small.errors
    assert large.unknown_tags == small.unknown_tags


def test_capacity_is_based_on_previous_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        pytest.fail("a buffer was enlarged")

    frame = metadata_request(*[b"name"] * 2000)
    walk(frame, frame)
    monkeypatch.setattr(ColumnMemory, "grow", fail)

    assert walk(frame, frame, frame).memory.sizes[1] == 6000


def test_hostile_array_count_does_not_enlarge_buffers() -> None:
    program = message_plan(METADATA, 1, Direction.REQUEST).program
    program.elements_per_byte[:] = 0
    hostile = (1000).to_bytes(4, "big") + bytes(1500)

    memory, verdicts, _ = walk(hostile)

    assert REASONS[int(verdicts[0])] == "a length exceeds the frame"
    assert memory.capacities.max() < 2000


def test_a_million_empty_strings_are_decoded_fast() -> None:
    """With one numpy operation per string this took minutes."""
    count = 1 << 20
    frame = count.to_bytes(4, "big") + bytes(2 * count)
    memory, verdicts, _ = walk(frame)
    assert verdicts.tolist() == [0]
    assert memory.sizes[1] == count


def test_many_unknown_tags_are_skipped() -> None:
    head = b"\x02g" + b"\x00\x00\x00\x00" + b"\x01" + b"\x00" + b"\x01"
    tags = b"\x90\x4e" + b"\x28\x00" * 10_000  # as many as a message may have

    found = decode(8, 9, Direction.REQUEST, pa.array([head + tags, head + tags[:-1]], pa.binary()))

    first, second = found.values.to_pylist()
    assert first["group_id"] == "g"
    assert second is None
