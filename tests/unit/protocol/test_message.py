"""Messages are equal by value and have their own defaults."""

import pytest

from kafkalite.ports.turns import ELEMENTS_PER_PAUSE, PausingList, pausing
from kafkalite.protocol._generated.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafkalite.protocol._generated.messages.metadata import MetadataRequest, MetadataResponse
from kafkalite.protocol._generated.messages.produce import ProduceRequest
from kafkalite.protocol._generated.records.consumer_group_member_metadata import (
    ConsumerGroupMemberMetadataValue,
)
from kafkalite.protocol.message import copy_views, with_fields


def test_messages_are_equal_by_value() -> None:
    assert HeartbeatRequest(group_id="g") == HeartbeatRequest(group_id="g")
    assert HeartbeatRequest(group_id="g") != HeartbeatRequest(group_id="h")


def test_messages_of_two_kinds_are_never_equal() -> None:
    assert HeartbeatRequest() != HeartbeatResponse()
    assert HeartbeatRequest() != "HeartbeatRequest()"


def test_unknown_tags_are_compared() -> None:
    assert HeartbeatRequest(unknown_tags={5: b"x"}) != HeartbeatRequest()


def test_message_is_not_hashable() -> None:
    with pytest.raises(TypeError):
        hash(HeartbeatRequest())


def test_repr_has_fields_but_no_empty_tags() -> None:
    assert repr(HeartbeatResponse(error_code=3)) == (
        "HeartbeatResponse(throttle_time_ms=0, error_code=3)"
    )
    assert "unknown_tags={5: b'x'}" in repr(HeartbeatResponse(unknown_tags={5: b"x"}))


def test_messages_do_not_share_default_lists() -> None:
    first, second = MetadataResponse(), MetadataResponse()
    first.topics.append(MetadataResponse.MetadataResponseTopic())
    assert second.topics == []


def test_null_differs_from_an_omitted_argument() -> None:
    assert MetadataRequest().topics == []
    assert MetadataRequest(topics=None).topics is None


def test_omitted_tagged_struct_is_none() -> None:
    assert ConsumerGroupMemberMetadataValue().classic_member_metadata is None


def test_views_are_replaced_by_copies() -> None:
    received = bytearray(b"abc")
    data = ProduceRequest.PartitionProduceData(records=memoryview(received))
    topic = ProduceRequest.TopicProduceData(name="t", partition_data=[data])
    copy_views(ProduceRequest(topic_data=[topic]))
    received[:] = b"xyz"
    assert data.records == b"abc"


def test_a_changed_copy_leaves_the_message_as_it_was() -> None:
    request = HeartbeatRequest(group_id="g", member_id="m")
    changed = with_fields(request, group_id="h")
    assert (request.group_id, changed.group_id, changed.member_id) == ("g", "h", "m")


def test_a_long_list_that_replaces_one_that_pauses_also_pauses() -> None:
    topics = [MetadataRequest.MetadataRequestTopic() for _ in range(2 * ELEMENTS_PER_PAUSE)]
    request = MetadataRequest(topics=pausing(topics))
    assert isinstance(with_fields(request, topics=topics).topics, PausingList)
    assert with_fields(request, topics=topics[:1]).topics == topics[:1]
    assert with_fields(request, topics=None).topics is None
    at_once = MetadataRequest(topics=topics)
    assert with_fields(at_once, topics=topics).topics is topics
