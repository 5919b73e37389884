"""Answers beside the recorded ones: what differs, what is learnt, what is put beside what."""

from __future__ import annotations

from typing import Any

from kafkalite.capture.model import Direction
from kafkalite.protocol.messages.fetch import FetchResponse
from kafkalite.protocol.messages.heartbeat import HeartbeatResponse
from kafkalite.protocol.messages.join_group import JoinGroupResponse
from kafkalite.protocol.messages.metadata import MetadataResponse
from kafkalite.replay.compare import ABSENT, Comparison, Difference
from kafkalite.replay.mapping import Kind, Mapping, Scope
from kafkalite.replay.shapes import shape_of

GROUP = Scope(group="g")
Topic = MetadataResponse.MetadataResponseTopic
Member = JoinGroupResponse.JoinGroupResponseMember


def compared(
    recorded: Any,  # noqa: ANN401 - any response
    target: Any,  # noqa: ANN401 - any response
    version: int,
    meaning: Mapping | None = None,
) -> list[Difference]:
    shape = shape_of(recorded.API_KEY, version, Direction.RESPONSE)
    comparison = Comparison(meaning or Mapping(), lambda *_: None)
    return comparison.compare(shape, recorded, target, GROUP)


def joined(me: str, leader: str, members: list[str], generation: int = 1) -> JoinGroupResponse:
    return JoinGroupResponse(
        generation_id=generation,
        protocol_name="range",
        leader=leader,
        member_id=me,
        members=[Member(member_id=each, metadata=b"m") for each in members],
    )


def test_what_is_masked_does_not_differ() -> None:
    assert compared(HeartbeatResponse(throttle_time_ms=7), HeartbeatResponse(), 4) == []
    assert compared(HeartbeatResponse(error_code=27), HeartbeatResponse(), 4) == [
        Difference("error_code", 27, 0)
    ]


def test_names_are_learnt_and_then_held_to() -> None:
    meaning = Mapping()
    assert compared(joined("a-1", "a-1", ["a-1"]), joined("x-9", "x-9", ["x-9"]), 7, meaning) == []
    assert meaning.translate(Kind.MEMBER, GROUP, "a-1") == "x-9"
    again = compared(joined("b-1", "a-1", []), joined("y-9", "y-9", []), 7, meaning)
    assert again == [Difference("leader", "a-1", "y-9")]


def test_a_generation_too_many_is_told() -> None:
    meaning = Mapping()
    assert compared(joined("a", "a", []), joined("a", "a", []), 7, meaning) == []
    later = compared(joined("a", "a", [], 2), joined("a", "a", [], 3), 7, meaning)
    assert later == [Difference("generation_id", 2, 3)]


def test_rows_of_unordered_lists_are_put_beside_those_they_stand_for() -> None:
    recorded = MetadataResponse(topics=[Topic(name="a"), Topic(name="b", is_internal=True)])
    target = MetadataResponse(topics=[Topic(name="b"), Topic(name="a")])
    assert compared(recorded, target, 12) == [Difference("topics.is_internal", True, False, "b")]


def test_a_row_that_only_one_has_is_told_by_its_name() -> None:
    recorded = MetadataResponse(topics=[Topic(name="a", topic_id=b"1" * 16)])
    (found,) = compared(recorded, MetadataResponse(), 12)
    assert (found.path, found.target) == ("topics", ABSENT)
    assert "name='a'" in str(found.recorded)


def test_members_that_nobody_named_yet_are_taken_in_their_order() -> None:
    meaning = Mapping()
    meaning.tell(Kind.MEMBER, "a-1", "x-1")
    recorded = joined("a-1", "a-1", ["b-1", "a-1"])
    assert compared(recorded, joined("x-1", "x-1", ["x-1", "y-1"]), 7, meaning) == []
    (found,) = compared(recorded, joined("x-1", "x-1", ["x-1"]), 7, meaning)
    assert (found.path, found.target) == ("members", ABSENT)


def test_topic_ids_are_learnt_with_their_names() -> None:
    meaning = Mapping()
    recorded = MetadataResponse(topics=[Topic(name="a", topic_id=b"1" * 16)])
    target = MetadataResponse(topics=[Topic(name="a", topic_id=b"2" * 16)])
    assert compared(recorded, target, 12, meaning) == []
    assert meaning.translate(Kind.TOPIC_ID, GROUP, b"1" * 16) == b"2" * 16
    assert meaning.topics == {b"1" * 16: "a"}


def test_an_offset_that_is_off_says_what_it_should_be_and_of_which_topic() -> None:
    meaning = Mapping()
    topic_id = bytes(range(16))
    row = FetchResponse.FetchableTopicResponse(
        topic_id=topic_id,
        partitions=[FetchResponse.PartitionData(log_start_offset=0)],
    )
    meaning.meet(Kind.OFFSET, Scope(topic=topic_id, partition=0), 0, 5, teaches=True)
    (found,) = compared(FetchResponse(responses=[row]), FetchResponse(responses=[row]), 16, meaning)
    assert (found.recorded, found.target, found.meant) == (0, 0, 5)
    assert found.row == "AAECAwQFBgcICQoLDA0ODw 0"
    meaning.topics[topic_id] = "orders"
    meaning.meet(Kind.OFFSET, Scope(topic="orders", partition=0), 0, 5, teaches=True)
    (found,) = compared(FetchResponse(responses=[row]), FetchResponse(responses=[row]), 16, meaning)
    assert found.row == "orders 0"


def test_an_error_that_differs_says_all_that_is_to_be_said_of_its_row() -> None:
    refused = JoinGroupResponse(error_code=15)
    assert compared(refused, joined("a", "a", ["a"]), 7) == [Difference("error_code", 15, 0)]


def fetched(topic: str, error: int = 0, records: bytes = b"") -> FetchResponse:
    row = FetchResponse.PartitionData(partition_index=1, error_code=error, records=records)
    answer = FetchResponse.FetchableTopicResponse(topic=topic, partitions=[row])
    return FetchResponse(responses=[answer])


def test_a_fetch_may_leave_a_partition_out_unless_it_has_an_error() -> None:
    assert compared(fetched("t"), FetchResponse(), 11) == []
    (found,) = compared(fetched("t", error=1), FetchResponse(), 11)
    assert found.path == "responses"


def test_records_are_handed_on_with_their_partition() -> None:
    seen: list[tuple[Scope, bytes | None, bytes | None]] = []
    comparison = Comparison(Mapping(), lambda *each: seen.append(each))
    shape = shape_of(1, 11, Direction.RESPONSE)
    one, other = fetched("t", records=b"1"), fetched("t", records=b"2")
    assert comparison.compare(shape, one, other, Scope()) == []
    assert seen == [(Scope(topic="t", partition=1), b"1", b"2")]
