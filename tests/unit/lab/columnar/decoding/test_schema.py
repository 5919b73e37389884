"""Unit tests of Arrow types of messages."""

from __future__ import annotations

import pyarrow as pa
import pytest

from kafkalite.capture.model import Direction
from kafkalite.lab.columnar.decoding.schema import message_type, prune
from kafkalite.protocol import codec


@pytest.mark.parametrize("api_key", codec.api_keys())
@pytest.mark.parametrize("direction", Direction)
def test_fields_equal_the_slots_of_the_message(api_key: int, direction: Direction) -> None:
    classes = (codec.request_class, codec.response_class)
    slots = set(classes[direction](api_key).__slots__) - {"unknown_tags"}

    columns = {field.name for field in message_type(api_key, direction)}

    assert columns == slots


def test_nested_structs_have_their_types() -> None:
    topics = message_type(8, Direction.REQUEST).field("topics").type
    partitions = topics.value_type.field("partitions").type

    assert topics.value_type.field("topic_id").type == pa.binary()
    assert partitions.value_type.field("committed_offset").type == pa.int64()
    assert partitions.value_type.field("committed_leader_epoch").type == pa.int32()


def test_struct_is_pruned_to_requested_fields() -> None:
    fields = ["topics.partitions.committed_offset", "group_id"]
    pruned = prune(message_type(8, Direction.REQUEST), fields)

    inner = pa.struct([pa.field("committed_offset", pa.int64())])
    topic = pa.struct([pa.field("partitions", pa.list_(pa.field("element", inner)))])
    assert pruned == pa.struct(
        [
            pa.field("group_id", pa.string()),
            pa.field("topics", pa.list_(pa.field("element", topic))),
        ]
    )


@pytest.mark.parametrize("path", ["nothing", "group_id.nothing", "topics.nothing"])
def test_unknown_path_raises_key_error(path: str) -> None:
    with pytest.raises(KeyError, match="unknown field: nothing"):
        prune(message_type(8, Direction.REQUEST), [path])
