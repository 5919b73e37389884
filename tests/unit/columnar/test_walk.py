"""A walk writes what messages say into buffers, and no bytes lead it astray."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from kafkalite.capture.model import Direction
from kafkalite.columnar import memory as memory_module
from kafkalite.columnar.decode import decode
from kafkalite.columnar.memory import Memory
from kafkalite.columnar.plan import Lists, Slices, message_plan
from kafkalite.columnar.schema import message_spec
from kafkalite.columnar.walk import REASONS, walk_messages
from kafkalite.protocol.schema import message_tree
from tests.properties.codec_samples import Samples

if TYPE_CHECKING:
    from kafkalite.columnar.walk import Walked

METADATA = 3
SHAPES = {"rows in rows": (3, 12), "structs and tags": (1, 17), "varied": (78, 1)}


def metadata_request(*names: bytes) -> bytes:
    rows = b"".join(len(name).to_bytes(2, "big") + name for name in names)
    return len(names).to_bytes(4, "big") + rows


def walked(*frames: bytes) -> Walked:
    stops = np.cumsum([len(frame) for frame in frames])
    starts = np.concatenate([[0], stops[:-1]])
    program = message_plan(METADATA, 1, Direction.REQUEST).program
    return walk_messages(program, np.frombuffer(b"".join(frames), np.uint8), starts, stops)


def test_rows_are_numbered_as_they_are_met() -> None:
    memory, verdicts, _ = walked(
        metadata_request(b"a", b"bb"), metadata_request(), metadata_request(b"ccc")
    )

    topics = message_plan(METADATA, 1, Direction.REQUEST).column.children[0]
    assert isinstance(topics, Lists)
    names: Any = topics.element
    name = names.children[1]
    assert isinstance(name, Slices)
    assert verdicts.tolist() == [0, 0, 0]
    assert memory.sizes[topics.level] == 3
    assert memory.part(topics.ends, 4).view(np.int32).tolist() == [0, 2, 2, 3]
    assert memory.part(name.ends, 4).view(np.int32).tolist() == [0, 1, 3, 6]
    assert memory.part(name.held, 6).tobytes() == b"abbccc"


def test_nothing_stays_of_broken_messages_and_the_others_go_on() -> None:
    frame = metadata_request(b"a", b"bb")
    data, size = np.frombuffer(frame * 3, np.uint8), len(frame)
    program = message_plan(METADATA, 1, Direction.REQUEST).program

    starts = np.array([0, size, 2 * size, 9, -1, 0])
    stops = np.array([size, 2 * size - 1, 3 * size, 8, 4, 3 * size + 1])
    memory, verdicts, _ = walk_messages(program, data, starts, stops)

    past, ends = "a length that runs past the end of the frame", "the frame ends inside a field"
    told = [REASONS.get(verdict) for verdict in verdicts.tolist()]
    assert told == [None, past, None, ends, ends, ends]
    assert memory.sizes[0] == 2
    assert memory.sizes[1] == 4


def test_room_that_is_lacking_is_made() -> None:
    program = message_plan(METADATA, 1, Direction.REQUEST).program
    program.usual[:] = 0
    names = [b"%d" % number for number in range(3000)]

    memory, verdicts, _ = walked(metadata_request(b"a"), metadata_request(*names))

    assert not verdicts.any()
    assert memory.sizes[1] == 3001
    assert memory.rooms[1] >= 3001


@pytest.mark.parametrize(("api_key", "version"), SHAPES.values(), ids=SHAPES.keys())
@pytest.mark.parametrize("direction", Direction)
def test_however_little_room_there_is_at_first_the_same_is_read(
    api_key: int, version: int, direction: Direction, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every buffer has others behind it, which nobody may write to by mistake."""
    tree = message_tree(message_spec(api_key, direction), version)
    samples = Samples(f"{api_key} {direction} little room")
    frames = [tree.build(samples.draw(tree)) for _ in range(30)]
    column = pa.array([*frames, *map(samples.mutated, frames * 2)], pa.binary())
    program = message_plan(api_key, version, direction).program

    program.usual[:] = 4.0
    ample = decode(api_key, version, direction, column)
    program.usual[:] = 0
    monkeypatch.setattr(memory_module, "_LEAST_ROOM", 0)
    scant = decode(api_key, version, direction, column)

    assert str(ample.values.to_pylist()) == str(scant.values.to_pylist())
    assert ample.errors == scant.errors
    assert ample.unknown_tags == scant.unknown_tags


def test_there_is_room_for_what_is_usual(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        pytest.fail("there was no room")

    frame = metadata_request(*[b"name"] * 2000)
    walked(frame, frame)
    monkeypatch.setattr(Memory, "grow", fail)

    assert walked(frame, frame, frame).memory.sizes[1] == 6000


def test_a_count_takes_no_more_room_than_its_rows_could() -> None:
    program = message_plan(METADATA, 1, Direction.REQUEST).program
    program.usual[:] = 0
    hostile = (1000).to_bytes(4, "big") + bytes(1500)

    memory, verdicts, _ = walked(hostile)

    assert REASONS[int(verdicts[0])] == "a length that runs past the end of the frame"
    assert memory.rooms.max() < 2000


def test_millions_of_empty_strings_take_no_more_time_than_others() -> None:
    """As a step of vectors each they took minutes."""
    count = 1 << 20
    frame = count.to_bytes(4, "big") + bytes(2 * count)
    memory, verdicts, _ = walked(frame)
    assert verdicts.tolist() == [0]
    assert memory.sizes[1] == count


def test_a_long_hostile_section_of_tags_is_passed_over() -> None:
    head = b"\x02g" + b"\x00\x00\x00\x00" + b"\x01" + b"\x00" + b"\x01"
    tags = b"\x80\x80\x01" + b"\x28\x00" * 16384

    found = decode(8, 9, Direction.REQUEST, pa.array([head + tags, head + tags[:-1]], pa.binary()))

    first, second = found.values.to_pylist()
    assert first["group_id"] == "g"
    assert second is None
