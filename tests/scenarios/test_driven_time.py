"""A broker with a driven clock, over the wire: timers run when the clock reaches them."""

from __future__ import annotations

from contextlib import closing, contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from kafkalite.protocol._generated.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
)
from kafkalite.protocol._generated.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
)
from kafkalite.protocol._generated.messages.fetch import FetchRequest
from kafkalite.protocol._generated.messages.find_coordinator import FindCoordinatorRequest
from kafkalite.protocol._generated.messages.list_offsets import ListOffsetsRequest
from kafkalite.protocol._generated.messages.offset_commit import OffsetCommitRequest
from kafkalite.protocol._generated.messages.offset_fetch import OffsetFetchRequest
from kafkalite.protocol._generated.messages.produce import ProduceRequest
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.testing import Broker
from tests.conformance.batches import batch
from tests.conformance.raw import RawClient

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MEMBER = "AAAAAAAAAAAAAAAAAAAAAg"
OTHER = "AAAAAAAAAAAAAAAAAAAAAw"
SESSION = timedelta(seconds=45)


@contextmanager
def connected(broker: Broker) -> Iterator[RawClient]:
    with closing(RawClient(int(broker.bootstrap_servers.rpartition(":")[2]), 10)) as client:
        yield client


@pytest.fixture
def broker() -> Iterator[Broker]:
    config = {"connections.max.idle.ms": -1}
    with Broker(topics={"orders": 2}, clock="manual@2026-03-01", config=config) as running:
        yield running


@pytest.fixture
def client(broker: Broker) -> Iterator[RawClient]:
    with connected(broker) as one:
        one.call(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 6)
        yield one


def beat(client: RawClient, member: str, epoch: int, *, joining: bool = False) -> Any:  # noqa: ANN401
    return client.call(
        ConsumerGroupHeartbeatRequest(
            group_id="g",
            member_id=member,
            member_epoch=epoch,
            rebalance_timeout_ms=60_000 if joining else -1,
            subscribed_topic_names=["orders"] if joining else None,
            topic_partitions=[] if joining else None,
        ),
        1,
    )


def join(client: RawClient, member: str = MEMBER) -> int:
    answer = beat(client, member, 0, joining=True)
    assert answer.error_code == ErrorCode.NONE
    epoch: int = answer.member_epoch
    return epoch


def members(client: RawClient) -> list[str]:
    (group,) = client.call(ConsumerGroupDescribeRequest(group_ids=["g"]), 1).groups
    return [member.member_id for member in group.members]


def commit(client: RawClient, offset: int, *, member: str = "", epoch: int = -1) -> int:
    partition = OffsetCommitRequest.OffsetCommitRequestPartition(
        partition_index=0, committed_offset=offset
    )
    topic = OffsetCommitRequest.OffsetCommitRequestTopic(name="orders", partitions=[partition])
    answer = client.call(
        OffsetCommitRequest(
            group_id="g",
            member_id=member,
            generation_id_or_member_epoch=epoch,
            topics=[topic],
        ),
        9,
    )
    code: int = answer.topics[0].partitions[0].error_code
    return code


def committed(client: RawClient) -> int:
    topic = OffsetFetchRequest.OffsetFetchRequestTopics(name="orders", partition_indexes=[0])
    group = OffsetFetchRequest.OffsetFetchRequestGroup(group_id="g", topics=[topic])
    answer = client.call(OffsetFetchRequest(groups=[group]), 9)
    offset: int = answer.groups[0].topics[0].partitions[0].committed_offset
    return offset


def fetch(max_wait_ms: int) -> FetchRequest:
    partition = FetchRequest.FetchPartition(partition=0, partition_max_bytes=1000)
    topic = FetchRequest.FetchTopic(topic="orders", partitions=[partition])
    return FetchRequest(max_wait_ms=max_wait_ms, min_bytes=1, topics=[topic])


def test_a_session_expires_when_its_deadline_is_reached(broker: Broker, client: RawClient) -> None:
    epoch = join(client)
    broker.clock.advance(SESSION - timedelta(milliseconds=1))
    assert beat(client, MEMBER, epoch).error_code == ErrorCode.NONE
    broker.clock.advance(SESSION - timedelta(milliseconds=1))
    assert members(client) == [MEMBER]
    over = broker.clock.advance(milliseconds=1)
    assert members(client) == []
    assert beat(client, MEMBER, epoch).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    entries = broker.explain("g")
    expired = next(entry for entry in entries if entry.kind == "expired")
    assert MEMBER in expired.text
    assert expired.at_ms == over.timestamp() * 1000
    refused = entries[-1]
    assert (refused.kind, refused.facts["error"]) == ("refused", "UNKNOWN_MEMBER_ID")


def test_sessions_expire_in_order_of_their_deadlines_within_one_jump(
    broker: Broker, client: RawClient
) -> None:
    join(client)
    begun = broker.clock.advance(seconds=10)
    join(client, OTHER)
    broker.clock.advance(hours=1)
    ends = [
        (member, entry.at_ms)
        for entry in broker.explain("g")
        if entry.kind == "expired"
        for member in (MEMBER, OTHER)
        if member in entry.text
    ]
    start_ms = int(begun.timestamp() * 1000)
    assert ends == [(MEMBER, start_ms + 35_000), (OTHER, start_ms + 45_000)]


def test_a_long_poll_is_answered_before_a_jump_returns(broker: Broker, client: RawClient) -> None:
    client.send(fetch(max_wait_ms=30_000), 12)
    with connected(broker) as other:  # its answer shows that the fetch has been received
        assert committed(other) == -1
    broker.clock.advance(milliseconds=29_999)
    client._socket.setblocking(False)
    with pytest.raises(BlockingIOError):
        client._socket.recv(1)
    broker.clock.advance(milliseconds=1)
    answer = client.receive()
    assert answer.responses[0].partitions[0].error_code == ErrorCode.NONE


def test_a_refused_commit_has_a_reason(broker: Broker, client: RawClient) -> None:
    epoch = join(client)
    assert commit(client, 5, member=MEMBER, epoch=epoch) == ErrorCode.NONE
    refusals = {
        commit(client, 6, member=MEMBER, epoch=epoch + 7),
        commit(client, 6, member=OTHER, epoch=epoch),
        commit(client, 6, member=OTHER, epoch=epoch),
    }
    assert refusals == {ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID}
    stale, unknown = (entry for entry in broker.explain("g") if entry.kind == "refused")
    assert (stale.facts["error"], stale.facts["api"]) == ("STALE_MEMBER_EPOCH", "OffsetCommit")
    assert f"{epoch + 7}" in stale.text
    assert (unknown.facts["error"], unknown.times) == ("UNKNOWN_MEMBER_ID", 2)
    assert committed(client) == 5


def test_offsets_expire_across_a_restart(tmp_path: Path) -> None:
    broker = Broker(topics={"orders": 1}, data_directory=tmp_path, clock="manual@2026-03-01")
    with broker, connected(broker) as client:
        client.call(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 6)
        assert commit(client, 7) == ErrorCode.NONE
        broker.clock.advance(days=4)
    with broker, connected(broker) as client:
        broker.clock.advance(days=2, hours=23)
    with broker, connected(broker) as client:
        assert committed(client) == 7
        broker.clock.advance(hours=2)
    with broker, connected(broker) as client:
        assert committed(client) == -1


def test_records_outlive_their_retention_by_a_jump(broker: Broker, client: RawClient) -> None:
    """The batch has an old timestamp, but remains in the active segment until the next check."""
    data = ProduceRequest.PartitionProduceData(index=0, records=batch(b"one", b"two"))
    topic = ProduceRequest.TopicProduceData(name="orders", partition_data=[data])
    (answered,) = client.call(
        ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[topic]), 9
    ).responses
    assert answered.partition_responses[0].error_code == ErrorCode.NONE

    def earliest() -> int:
        partition = ListOffsetsRequest.ListOffsetsPartition(partition_index=0, timestamp=-2)
        requested = ListOffsetsRequest.ListOffsetsTopic(name="orders", partitions=[partition])
        answer = client.call(ListOffsetsRequest(topics=[requested]), 7)
        offset: int = answer.topics[0].partitions[0].offset
        return offset

    assert earliest() == 0
    broker.clock.advance(minutes=6)
    assert earliest() == 2


def test_an_accelerated_clock_answers_sooner(broker: Broker, client: RawClient) -> None:
    broker.clock.accelerate(10_000)
    epoch = join(client)
    client.call(fetch(max_wait_ms=60_000), 12)
    # The group is removed at the next check after its last member.
    gone = {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND}
    assert beat(client, MEMBER, epoch).error_code in gone
