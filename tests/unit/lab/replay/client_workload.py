"""A client's workload with requests about several partitions and groups at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkalite.protocol._generated.messages.create_topics import CreateTopicsRequest
from kafkalite.protocol._generated.messages.delete_groups import DeleteGroupsRequest
from kafkalite.protocol._generated.messages.delete_records import DeleteRecordsRequest
from kafkalite.protocol._generated.messages.describe_groups import DescribeGroupsRequest
from kafkalite.protocol._generated.messages.fetch import FetchRequest
from kafkalite.protocol._generated.messages.find_coordinator import FindCoordinatorRequest
from kafkalite.protocol._generated.messages.list_groups import ListGroupsRequest
from kafkalite.protocol._generated.messages.list_offsets import ListOffsetsRequest
from kafkalite.protocol._generated.messages.metadata import MetadataRequest
from kafkalite.protocol._generated.messages.offset_commit import OffsetCommitRequest
from kafkalite.protocol._generated.messages.offset_fetch import OffsetFetchRequest
from kafkalite.protocol._generated.messages.produce import ProduceRequest
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.storage.batch import build_batch
from kafkalite.storage.record_format import NewRecord

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.conformance.raw import RawClient

PARTITIONS = 6
GROUPS = [f"group-{number}" for number in range(8)]


def run_workload(client: RawClient) -> None:
    """Create a topic, write, read, list offsets, commit for many groups, and delete the groups."""
    new_topic = CreateTopicsRequest.CreatableTopic(
        name="orders", num_partitions=PARTITIONS, replication_factor=1
    )
    client.call(CreateTopicsRequest(topics=[new_topic], timeout_ms=5000), 5)
    client.call(MetadataRequest(topics=None), 12)
    produce(client, b"one")
    read_in_sessions(client)
    list_and_delete_offsets(client)
    commit_and_describe(client)


def produce(client: RawClient, value: bytes) -> None:
    batch = build_batch([NewRecord(None, value, 1_700_000_000_000)])
    rows = [
        ProduceRequest.PartitionProduceData(index=index, records=batch)
        for index in range(PARTITIONS)
    ]
    topic = ProduceRequest.TopicProduceData(name="orders", partition_data=rows)
    response = client.call(ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[topic]), 9)
    assert {row.error_code for row in response.responses[0].partition_responses} == {0}


def fetch(client: RawClient, session: tuple[int, int], partitions: Sequence[int]) -> Any:  # noqa: ANN401 - a response
    rows = [
        FetchRequest.FetchPartition(partition=partition, partition_max_bytes=1000)
        for partition in partitions
    ]
    topics = [FetchRequest.FetchTopic(topic="orders", partitions=rows)] if rows else []
    session_id, epoch = session
    request = FetchRequest(max_wait_ms=0, session_id=session_id, session_epoch=epoch, topics=topics)
    return client.call(request, 11)


def read_in_sessions(client: RawClient) -> None:
    """Use one fetch session for all partitions, and one to which a partition is added."""
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
        response = client.call(OffsetCommitRequest(group_id=group, topics=[topic]), 7)
        assert response.topics[0].partitions[0].error_code == ErrorCode.NONE
    client.call(DescribeGroupsRequest(groups=GROUPS), 5)
    requested = [OffsetFetchRequest.OffsetFetchRequestGroup(group_id=group) for group in GROUPS]
    for request in requested:
        request.topics = None
    assert len(client.call(OffsetFetchRequest(groups=requested), 8).groups) == len(GROUPS)
    client.call(ListGroupsRequest(), 3)
    assert len(client.call(DeleteGroupsRequest(groups_names=GROUPS), 2).results) == len(GROUPS)


def list_and_delete_offsets(client: RawClient) -> None:
    requested = [
        ListOffsetsRequest.ListOffsetsPartition(partition_index=index, timestamp=-1)
        for index in range(PARTITIONS)
    ]
    topic = ListOffsetsRequest.ListOffsetsTopic(name="orders", partitions=requested)
    client.call(ListOffsetsRequest(topics=[topic]), 5)
    cut = [
        DeleteRecordsRequest.DeleteRecordsPartition(partition_index=index, offset=1)
        for index in range(PARTITIONS)
    ]
    topics = [DeleteRecordsRequest.DeleteRecordsTopic(name="orders", partitions=cut)]
    client.call(DeleteRecordsRequest(topics=topics, timeout_ms=1000), 1)
