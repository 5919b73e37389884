"""Messages are equal by value and start with defaults of their own."""

import pytest

from kafkalite.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafkalite.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kafkalite.protocol.records.consumer_group_member_metadata import (
    ConsumerGroupMemberMetadataValue,
)


def test_messages_are_equal_by_value() -> None:
    assert HeartbeatRequest(group_id="g") == HeartbeatRequest(group_id="g")
    assert HeartbeatRequest(group_id="g") != HeartbeatRequest(group_id="h")


def test_messages_of_two_kinds_are_never_equal() -> None:
    assert HeartbeatRequest() != HeartbeatResponse()
    assert HeartbeatRequest() != "HeartbeatRequest()"


def test_unknown_tags_count() -> None:
    assert HeartbeatRequest(unknown_tags={5: b"x"}) != HeartbeatRequest()


def test_a_message_is_no_key() -> None:
    with pytest.raises(TypeError):
        hash(HeartbeatRequest())


def test_repr_names_fields_and_hides_tags_that_are_not_there() -> None:
    assert repr(HeartbeatResponse(error_code=3)) == (
        "HeartbeatResponse(throttle_time_ms=0, error_code=3)"
    )
    assert "unknown_tags={5: b'x'}" in repr(HeartbeatResponse(unknown_tags={5: b"x"}))


def test_each_message_has_lists_of_its_own() -> None:
    first, second = MetadataResponse(), MetadataResponse()
    first.topics.append(MetadataResponse.MetadataResponseTopic())
    assert second.topics == []


def test_null_and_left_out_are_two_things() -> None:
    assert MetadataRequest().topics == []
    assert MetadataRequest(topics=None).topics is None


def test_a_struct_behind_a_tag_is_none_when_left_out() -> None:
    assert ConsumerGroupMemberMetadataValue().classic_member_metadata is None
