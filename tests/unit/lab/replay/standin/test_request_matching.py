"""Keys of requests, and adaptation of recorded responses to another client."""

from __future__ import annotations

import pytest

from kafkalite.lab.replay.standin.request_matching import (
    Similarity,
    adapt_response,
    id_replacements,
    request_key,
)
from kafkalite.protocol._generated.messages.api_versions import ApiVersionsRequest
from kafkalite.protocol._generated.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kafkalite.protocol._generated.messages.metadata import MetadataRequest
from kafkalite.protocol._generated.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
)
from kafkalite.protocol._generated.messages.produce import ProduceRequest
from tests.unit.lab.replay.recording import batch

TOPIC_ID = bytes(range(16))
TOPIC_NAMES = {TOPIC_ID: "t"}
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


def have_equal_keys(
    one: OffsetCommitRequest, other: OffsetCommitRequest, similarity: Similarity
) -> bool:
    first, second = (request_key(8, each, similarity, TOPIC_NAMES.get) for each in (one, other))
    return first == second


@pytest.mark.parametrize(
    ("other", "is_equal", "is_similar"),
    [
        (commit(), True, True),
        (commit(member="another"), True, True),
        (commit(name="", topic_id=TOPIC_ID), True, True),
        (commit(offset=6), False, True),
        (commit(group="other"), False, False),
        (commit(name="u"), False, False),
    ],
)
def test_commits_are_similar_if_group_and_partitions_are_equal(
    other: OffsetCommitRequest,
    is_equal: bool,  # noqa: FBT001 - a row of the table
    is_similar: bool,  # noqa: FBT001 - a row of the table
) -> None:
    assert have_equal_keys(commit(), other, Similarity.EXACT) is is_equal
    assert have_equal_keys(commit(), other, Similarity.SIMILAR) is is_similar


def test_client_software_is_not_part_of_a_similar_key() -> None:
    def key(name: str, version: str, similarity: Similarity) -> object:
        request = ApiVersionsRequest(client_software_name=name, client_software_version=version)
        return request_key(18, request, similarity, TOPIC_NAMES.get)

    assert key("librdkafka", "2.0.2", Similarity.SIMILAR) == key("java", "4.1", Similarity.SIMILAR)
    assert key("librdkafka", "2.0.2", Similarity.EXACT) != key("java", "4.1", Similarity.EXACT)


def test_order_of_topics_is_not_part_of_the_key() -> None:
    topics = [MetadataRequest.MetadataRequestTopic(name=name) for name in "ab"]
    one, other = (
        request_key(3, MetadataRequest(topics=each), Similarity.EXACT, TOPIC_NAMES.get)
        for each in (topics, topics[::-1])
    )

    assert one == other


def test_records_are_compared_by_keys_and_values() -> None:
    def key(records: bytes, similarity: Similarity) -> object:
        topic = ProduceRequest.TopicProduceData(
            name="t",
            partition_data=[ProduceRequest.PartitionProduceData(index=0, records=records)],
        )
        return request_key(
            0, ProduceRequest(acks=-1, topic_data=[topic]), similarity, TOPIC_NAMES.get
        )

    assert key(batch("x"), Similarity.EXACT) == key(batch("x", offset=9), Similarity.EXACT)
    assert key(batch("x"), Similarity.EXACT) != key(batch("y"), Similarity.EXACT)
    assert key(batch("x"), Similarity.SIMILAR) == key(batch("y"), Similarity.SIMILAR)
    assert key(b"none", Similarity.EXACT) != key(b"other", Similarity.EXACT)


def test_member_id_in_a_response_is_replaced_by_the_clients() -> None:
    recorded = ConsumerGroupHeartbeatRequest(group_id="g", member_id="recorded-member")
    request = ConsumerGroupHeartbeatRequest(group_id="g", member_id="new-member")
    response = ConsumerGroupHeartbeatResponse(member_id="recorded-member", member_epoch=3)

    adapt_response(68, response, id_replacements(68, recorded, request), IDS.get, TOPIC_NAMES.get)

    assert response == ConsumerGroupHeartbeatResponse(member_id="new-member", member_epoch=3)


@pytest.mark.parametrize(("name", "topic_id"), [("t", bytes(16)), ("", TOPIC_ID)])
def test_topics_of_a_response_get_name_and_id(name: str, topic_id: bytes) -> None:
    row = OffsetCommitResponse.OffsetCommitResponseTopic(name=name, topic_id=topic_id)

    adapt_response(8, OffsetCommitResponse(topics=[row]), {}, IDS.get, TOPIC_NAMES.get)

    assert (row.name, row.topic_id) == ("t", TOPIC_ID)
