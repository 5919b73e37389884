"""Every API has columns, and they are the slots of its messages."""

from __future__ import annotations

import pyarrow as pa
import pytest

from kafkalite.capture.model import Direction
from kafkalite.columnar.schema import message_type
from kafkalite.protocol import codec


@pytest.mark.parametrize("api_key", codec.api_keys())
@pytest.mark.parametrize("direction", Direction)
def test_columns_are_the_slots_of_the_message(api_key: int, direction: Direction) -> None:
    classes = (codec.request_class, codec.response_class)
    slots = set(classes[direction](api_key).__slots__) - {"unknown_tags"}

    columns = {field.name for field in message_type(api_key, direction)}

    assert columns == slots


def test_structs_nest_and_say_their_types() -> None:
    topics = message_type(8, Direction.REQUEST).field("topics").type
    partitions = topics.value_type.field("partitions").type

    assert topics.value_type.field("topic_id").type == pa.binary()
    assert partitions.value_type.field("committed_offset").type == pa.int64()
    assert partitions.value_type.field("committed_leader_epoch").type == pa.int32()
