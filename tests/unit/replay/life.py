"""A client's life at a cluster, in which it asks for several partitions and groups at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.messages.create_topics import CreateTopicsRequest
from kafkalite.protocol.messages.delete_groups import DeleteGroupsRequest
from kafkalite.protocol.messages.delete_records import DeleteRecordsRequest
from kafkalite.protocol.messages.describe_groups import DescribeGroupsRequest
from kafkalite.protocol.messages.fetch import FetchRequest
from kafkalite.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkalite.protocol.messages.list_groups import ListGroupsRequest
from kafkalite.protocol.messages.list_offsets import ListOffsetsRequest
from kafkalite.protocol.messages.metadata import MetadataRequest
from kafkalite.protocol.messages.offset_commit import OffsetCommitRequest
from kafkalite.protocol.messages.offset_fetch import OffsetFetchRequest
from kafkalite.protocol.messages.produce import ProduceRequest
from kafkalite.storage.batch import build_batch
from kafkalite.storage.records import NewRecord

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.conformance.raw import RawClient

PARTITIONS = 6
GROUPS = [f"group-{number}" for number in range(8)]


def live(client: RawClient) -> None:
    """Make a topic, write, read, look around, commit for many groups, and delete them."""
    made = CreateTopicsRequest.CreatableTopic(
        name="orders", num_partitions=PARTITIONS, replication_factor=1
    )
    client.call(CreateTopicsRequest(topics=[made], timeout_ms=5000), 5)
    client.call(MetadataRequest(topics=None), 12)
    produce(client, b"one")
    read_in_sessions(client)
    ask_for_offsets(client)
    commit_and_describe(client)


def produce(client: RawClient, value: bytes) -> None:
    batch = build_batch([NewRecord(None, value, 1_700_000_000_000)])
    rows = [
        ProduceRequest.PartitionProduceData(index=index, records=batch)
        for index in range(PARTITIONS)
    ]
    topic = ProduceRequest.TopicProduceData(name="orders", partition_data=rows)
    told = client.call(ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[topic]), 9)
    assert {row.error_code for row in told.responses[0].partition_responses} == {0}


def fetch(client: RawClient, session: tuple[int, int], partitions: Sequence[int]) -> Any:  # noqa: ANN401 - a response
    rows = [
        FetchRequest.FetchPartition(partition=each, partition_max_bytes=1000) for each in partitions
    ]
    topics = [FetchRequest.FetchTopic(topic="orders", partitions=rows)] if rows else []
    session_id, epoch = session
    asked = FetchRequest(max_wait_ms=0, session_id=session_id, session_epoch=epoch, topics=topics)
    return client.call(asked, 11)


def read_in_sessions(client: RawClient) -> None:
    """Open a session on all partitions, another on one to which a second is added; close both."""
    for first, added in ((range(PARTITIONS), []), ([0], [1])):
        session = fetch(client, (0, 0), list(first)).session_id
        assert session
        assert fetch(client, (session, 1), added).error_code == ErrorCode.NONE
        assert fetch(client, (session, -1), []).error_code == ErrorCode.NONE


def commit_and_describe(client: RawClient) -> None:
    for group in GROUPS:
        client.call(FindCoordinatorRequest(key=group), 1)
        row = OffsetCommitRequest.OffsetCommitRequestPartition(
            partition_index=1, committed_offset=1
        )
        topic = OffsetCommitRequest.OffsetCommitRequestTopic(name="orders", partitions=[row])
        told = client.call(OffsetCommitRequest(group_id=group, topics=[topic]), 7)
        assert told.topics[0].partitions[0].error_code == ErrorCode.NONE
    client.call(DescribeGroupsRequest(groups=GROUPS), 5)
    wanted = [OffsetFetchRequest.OffsetFetchRequestGroup(group_id=each) for each in GROUPS]
    for each in wanted:
        each.topics = None
    assert len(client.call(OffsetFetchRequest(groups=wanted), 8).groups) == len(GROUPS)
    client.call(ListGroupsRequest(), 3)
    assert len(client.call(DeleteGroupsRequest(groups_names=GROUPS), 2).results) == len(GROUPS)


def ask_for_offsets(client: RawClient) -> None:
    wanted = [
        ListOffsetsRequest.ListOffsetsPartition(partition_index=index, timestamp=-1)
        for index in range(PARTITIONS)
    ]
    topic = ListOffsetsRequest.ListOffsetsTopic(name="orders", partitions=wanted)
    client.call(ListOffsetsRequest(topics=[topic]), 5)
    cut = [
        DeleteRecordsRequest.DeleteRecordsPartition(partition_index=index, offset=1)
        for index in range(PARTITIONS)
    ]
    topics = [DeleteRecordsRequest.DeleteRecordsTopic(name="orders", partitions=cut)]
    client.call(DeleteRecordsRequest(topics=topics, timeout_ms=1000), 1)
