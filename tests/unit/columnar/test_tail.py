"""One message at a time or all at once: what is read, and what refused, is the same."""

from __future__ import annotations

import pyarrow as pa
import pytest

from kafkalite.capture.model import Direction
from kafkalite.columnar import walk
from kafkalite.columnar.decode import decode
from kafkalite.columnar.schema import message_spec
from kafkalite.protocol.schema import message_tree
from tests.properties.codec_samples import Samples

SHAPES = {"rows in rows": (3, 12), "structs and tags": (1, 17), "varied": (78, 1)}


@pytest.mark.parametrize(("api_key", "version"), SHAPES.values(), ids=SHAPES.keys())
@pytest.mark.parametrize("direction", Direction)
def test_both_walks_are_the_same(
    api_key: int, version: int, direction: Direction, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = message_tree(message_spec(api_key, direction), version)
    samples = Samples(f"{api_key} {direction} tails")
    frames = [tree.build(samples.draw(tree)) for _ in range(30)]
    column = pa.array([*frames, *map(samples.mutated, frames * 2)], pa.binary())

    monkeypatch.setattr(walk, "_FEW", 0)
    at_once = decode(api_key, version, direction, column)
    monkeypatch.setattr(walk, "_FEW", 1000)
    one_by_one = decode(api_key, version, direction, column)

    assert str(at_once.values.to_pylist()) == str(one_by_one.values.to_pylist())
    assert [each.row for each in at_once.errors] == [each.row for each in one_by_one.errors]


def test_a_long_hostile_section_of_tags_is_passed_over() -> None:
    """As many tags as bytes allow must not take a vector's step each."""
    head = b"\x02g" + b"\x00\x00\x00\x00" + b"\x01" + b"\x00" + b"\x01"
    tags = b"\x80\x80\x01" + b"\x28\x00" * 16384

    found = decode(8, 9, Direction.REQUEST, pa.array([head + tags, head + tags[:-1]], pa.binary()))

    first, second = found.values.to_pylist()
    assert first["group_id"] == "g"
    assert second is None
