"""OffsetCommits of one real group member, one partition each, pipelined in one connection.

Every commit is decoded, validated and written to the log: afterwards the log must contain a record
for each, and the group the last committed offset.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.protocol._generated.messages.create_topics import CreateTopicsRequest
from kafkalite.protocol._generated.messages.list_offsets import ListOffsetsRequest
from kafkalite.protocol._generated.messages.metadata import MetadataRequest
from kafkalite.protocol._generated.messages.offset_commit import OffsetCommitRequest
from kafkalite.protocol._generated.messages.offset_fetch import OffsetFetchRequest
from tests.conformance.raw import RawClient
from tests.perf.heartbeats import join, join_consumer_group
from tests.perf.pipeline import Rate, frame, pump

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.perf.heartbeats import Membership

TOPIC = "committed"
PARTITIONS = 10
_OFFSETS_TOPIC = "__consumer_offsets"
_VERSION = 9
_CHUNK = 1_000
_LATEST = -1


def create_topic(port: int) -> None:
    """Create the topic whose offsets are committed."""
    client = RawClient(port)
    topic = CreateTopicsRequest.CreatableTopic(
        name=TOPIC, num_partitions=PARTITIONS, replication_factor=1
    )
    response = client.call(CreateTopicsRequest(topics=[topic], timeout_ms=30_000), 7)
    assert not response.topics[0].error_code, response
    client.close()


def classic_rate(port: int, pid: int, seconds: float) -> Rate:
    """Commit for a while as a member of a classic group."""
    return _rate(port, pid, "commits-classic", join(port, "commits-classic"), seconds)


def consumer_rate(port: int, pid: int, seconds: float) -> Rate:
    """Commit for a while as a member of a consumer group."""
    membership = join_consumer_group(port, "commits-consumer", TOPIC)
    return _rate(port, pid, "commits-consumer", membership, seconds)


def _rate(port: int, pid: int, group_id: str, membership: Membership, seconds: float) -> Rate:
    client = RawClient(port)
    requests = _commits(group_id, membership)
    for request in requests[-PARTITIONS:]:
        answer = client.call(request, _VERSION)
        assert not answer.topics[0].partitions[0].error_code, answer
    before = _records_written(client)
    rate = pump(port, pid, _frames(requests), seconds)
    written = _records_written(client) - before
    expected = rate.per_second * seconds
    # kfake has no log of groups; a broker with a log must have written each commit.
    assert written >= expected or not before, f"{written} records for {expected:.0f} commits"
    assert _committed(client, group_id) == set(range(_CHUNK - PARTITIONS + 1, _CHUNK + 1))
    client.close()
    return rate


def frames(group_id: str, membership: Membership) -> list[bytes]:
    """Return commits of a member of a group, one partition each."""
    return _frames(_commits(group_id, membership))


def _frames(requests: Sequence[OffsetCommitRequest]) -> list[bytes]:
    return [frame(request, _VERSION) for request in requests]


def _commits(group_id: str, membership: Membership) -> Sequence[OffsetCommitRequest]:
    return [_commit(group_id, membership, offset) for offset in range(1, _CHUNK + 1)]


def _commit(group_id: str, membership: Membership, offset: int) -> OffsetCommitRequest:
    partition = OffsetCommitRequest.OffsetCommitRequestPartition(
        partition_index=offset % PARTITIONS, committed_offset=offset, committed_metadata=""
    )
    return OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=membership.epoch,
        member_id=membership.member_id,
        topics=[OffsetCommitRequest.OffsetCommitRequestTopic(name=TOPIC, partitions=[partition])],
    )


def _records_written(client: RawClient) -> int:
    """Return the total number of records in the log of the groups."""
    metadata = client.call(
        MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name=_OFFSETS_TOPIC)]), 12
    )
    topic = ListOffsetsRequest.ListOffsetsTopic(
        name=_OFFSETS_TOPIC,
        partitions=[
            ListOffsetsRequest.ListOffsetsPartition(
                partition_index=partition.partition_index, timestamp=_LATEST
            )
            for partition in metadata.topics[0].partitions
        ],
    )
    answer = client.call(ListOffsetsRequest(replica_id=-1, topics=[topic]), 7)
    return sum(partition.offset for partition in answer.topics[0].partitions)


def _committed(client: RawClient, group_id: str) -> set[int]:
    """Return the committed offsets of the group."""
    topic = OffsetFetchRequest.OffsetFetchRequestTopics(
        name=TOPIC, partition_indexes=list(range(PARTITIONS))
    )
    group = OffsetFetchRequest.OffsetFetchRequestGroup(group_id=group_id, topics=[topic])
    answer = client.call(OffsetFetchRequest(groups=[group]), 8)
    return {
        partition.committed_offset
        for topic in answer.groups[0].topics
        for partition in topic.partitions
    }
