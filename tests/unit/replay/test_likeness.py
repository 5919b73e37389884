"""When two requests ask for the same, and what a recorded answer becomes for another client."""

from __future__ import annotations

import pytest

from kafkalite.protocol.messages.api_versions import ApiVersionsRequest
from kafkalite.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kafkalite.protocol.messages.metadata import MetadataRequest
from kafkalite.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from kafkalite.protocol.messages.produce import ProduceRequest
from kafkalite.replay.likeness import Nearness, echoes, fit, likeness
from tests.unit.replay.recorded import batch

TOPIC_ID = bytes(range(16))
NAMES = {TOPIC_ID: "t"}
IDS = {"t": TOPIC_ID}


def commit(
    *, group: str = "g", offset: int = 5, member: str = "m", name: str = "t", topic_id: bytes = b""
) -> OffsetCommitRequest:
    return OffsetCommitRequest(
        group_id=group,
        member_id=member,
        topics=[
            OffsetCommitRequest.OffsetCommitRequestTopic(
                name=name,
                topic_id=topic_id or bytes(16),
                partitions=[
                    OffsetCommitRequest.OffsetCommitRequestPartition(
                        partition_index=0, committed_offset=offset
                    )
                ],
            )
        ],
    )


def is_like(one: OffsetCommitRequest, other: OffsetCommitRequest, nearness: Nearness) -> bool:
    first, second = (likeness(8, each, nearness, NAMES.get) for each in (one, other))
    return first == second


@pytest.mark.parametrize(
    ("other", "same", "alike"),
    [
        (commit(), True, True),
        (commit(member="another"), True, True),
        (commit(name="", topic_id=TOPIC_ID), True, True),
        (commit(offset=6), False, True),
        (commit(group="other"), False, False),
        (commit(name="u"), False, False),
    ],
)
def test_commits_are_alike_by_what_they_are_about(
    other: OffsetCommitRequest,
    same: bool,  # noqa: FBT001 - a row of the table
    alike: bool,  # noqa: FBT001 - a row of the table
) -> None:
    assert is_like(commit(), other, Nearness.SAME) is same
    assert is_like(commit(), other, Nearness.ALIKE) is alike


def test_another_client_asks_alike_whatever_it_calls_itself() -> None:
    def asked(name: str, version: str, nearness: Nearness) -> object:
        request = ApiVersionsRequest(client_software_name=name, client_software_version=version)
        return likeness(18, request, nearness, NAMES.get)

    assert asked("librdkafka", "2.0.2", Nearness.ALIKE) == asked("java", "4.1", Nearness.ALIKE)
    assert asked("librdkafka", "2.0.2", Nearness.SAME) != asked("java", "4.1", Nearness.SAME)


def test_the_order_of_topics_means_nothing() -> None:
    topics = [MetadataRequest.MetadataRequestTopic(name=name) for name in "ab"]
    one, other = (
        likeness(3, MetadataRequest(topics=each), Nearness.SAME, NAMES.get)
        for each in (topics, topics[::-1])
    )

    assert one == other


def test_records_are_alike_by_keys_and_values() -> None:
    def asked(records: bytes, nearness: Nearness) -> object:
        topic = ProduceRequest.TopicProduceData(
            name="t",
            partition_data=[ProduceRequest.PartitionProduceData(index=0, records=records)],
        )
        return likeness(0, ProduceRequest(acks=-1, topic_data=[topic]), nearness, NAMES.get)

    assert asked(batch("x"), Nearness.SAME) == asked(batch("x", offset=9), Nearness.SAME)
    assert asked(batch("x"), Nearness.SAME) != asked(batch("y"), Nearness.SAME)
    assert asked(batch("x"), Nearness.ALIKE) == asked(batch("y"), Nearness.ALIKE)
    assert asked(b"none", Nearness.SAME) != asked(b"other", Nearness.SAME)


def test_a_client_reads_its_own_member_id_in_a_recorded_answer() -> None:
    recorded = ConsumerGroupHeartbeatRequest(group_id="g", member_id="theirs")
    asked = ConsumerGroupHeartbeatRequest(group_id="g", member_id="mine")
    response = ConsumerGroupHeartbeatResponse(member_id="theirs", member_epoch=3)

    fit(68, response, echoes(68, recorded, asked), IDS.get, NAMES.get)

    assert response == ConsumerGroupHeartbeatResponse(member_id="mine", member_epoch=3)


@pytest.mark.parametrize(("name", "topic_id"), [("t", bytes(16)), ("", TOPIC_ID)])
def test_topics_of_an_answer_are_named_both_ways(name: str, topic_id: bytes) -> None:
    row = OffsetCommitResponse.OffsetCommitResponseTopic(name=name, topic_id=topic_id)

    fit(8, OffsetCommitResponse(topics=[row]), {}, IDS.get, NAMES.get)

    assert (row.name, row.topic_id) == ("t", TOPIC_ID)
