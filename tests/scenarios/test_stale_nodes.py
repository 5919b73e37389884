"""Nodes with old metadata, frozen or isolated, over the wire."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.protocol._generated.messages.produce import ProduceRequest
from kafkalite.protocol.error_codes import ErrorCode
from tests.cluster.served import LAG_TIME_MS, SESSION_MS, TOPIC, ServedCluster, fetch_request
from tests.conformance.batches import batch
from tests.unit.data_plane import values_in

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def cluster() -> Iterator[ServedCluster]:
    with ServedCluster() as running:
        yield running


def test_a_frozen_node_serves_old_metadata_until_it_is_thawed(cluster: ServedCluster) -> None:
    node = cluster.broker.nodes[2]
    node.freeze_metadata()
    cluster.broker.move_leader(TOPIC, 0, 3)
    cluster.create("new", (1,))
    assert node.metadata == "frozen"
    assert cluster.leadership(node=1) == (3, 1, {1, 2, 3})
    assert cluster.leadership(node=2) == (1, 0, {1, 2, 3})
    assert {topic.name for topic in cluster.metadata(node=2).topics} == {TOPIC}
    node.thaw_metadata()
    assert node.metadata == "live"
    assert cluster.leadership(node=2) == (3, 1, {1, 2, 3})
    assert {topic.name for topic in cluster.metadata(node=2).topics} == {TOPIC, "new"}


def test_a_frozen_node_names_a_stopped_node(cluster: ServedCluster) -> None:
    cluster.broker.nodes[2].freeze_metadata()
    cluster.broker.nodes[3].stop()
    assert {broker.node_id for broker in cluster.metadata(node=2).brokers} == {1, 2, 3}
    assert {broker.node_id for broker in cluster.metadata(node=1).brokers} == {1, 2}


def test_a_frozen_former_leader_loses_the_records_that_it_accepts(cluster: ServedCluster) -> None:
    cluster.append(b"a")
    cluster.broker.nodes[1].freeze_metadata()
    cluster.broker.move_leader(TOPIC, 0, 2)
    assert cluster.append(b"x", acks=1) == 1
    assert cluster.append(b"y", b"z", acks=1) == 2
    assert cluster.log_end(node=1) == 4
    assert cluster.high_watermark(node=1) == 1
    assert values_in(cluster.fetch(1, leader_epoch=0).records) == []
    assert cluster.fetch(5, leader_epoch=0).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert cluster.append(b"b", node=2, acks=1) == 1
    assert cluster.leadership(node=1).leader == 1
    cluster.broker.nodes[1].thaw_metadata()
    assert cluster.values(node=1) == cluster.values(node=2) == [b"a", b"b"]


def test_an_only_replica_leads_on_while_it_is_isolated(cluster: ServedCluster) -> None:
    cluster.create("alone", (1,))
    data = ProduceRequest.PartitionProduceData(index=0, records=batch(b"x"))
    topic = ProduceRequest.TopicProduceData(name="alone", partition_data=[data])
    request = ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=[topic])

    def produced() -> tuple[ErrorCode, int]:
        (row,) = cluster.client(1).call(request, 9).responses[0].partition_responses
        return ErrorCode(row.error_code), row.base_offset

    assert produced() == (ErrorCode.NONE, 0)
    cluster.broker.nodes[1].isolate()
    cluster.advance(SESSION_MS)
    assert cluster.leadership("alone", node=2).leader == -1
    assert produced() == (ErrorCode.NONE, 1)
    cluster.broker.nodes[1].start()
    assert cluster.leadership("alone", node=2).leader == 1
    assert produced() == (ErrorCode.NONE, 2)


def test_a_former_leader_that_could_acknowledge_records_refuses_them(
    cluster: ServedCluster,
) -> None:
    """It was the only replica in sync, so its high watermark would increase."""
    cluster.append(b"a")
    for node in (2, 3):
        cluster.broker.nodes[node].pause_replication()
    waiting = cluster.begin_produce(b"b")
    cluster.advance(2 * LAG_TIME_MS)
    assert waiting.answer().error_code == ErrorCode.NONE
    cluster.broker.nodes[1].freeze_metadata()
    cluster.broker.move_leader(TOPIC, 0, 2, unclean=True)
    data = ProduceRequest.PartitionProduceData(index=0, records=batch(b"x"))
    topic = ProduceRequest.TopicProduceData(name=TOPIC, partition_data=[data])
    request = ProduceRequest(acks=1, timeout_ms=1_000, topic_data=[topic])
    (row,) = cluster.client(1).call(request, 10).responses[0].partition_responses
    assert row.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (row.current_leader.leader_id, row.current_leader.leader_epoch) == (1, 0)


def test_a_frozen_former_leader_serves_reads_up_to_the_end_of_its_replica(
    cluster: ServedCluster,
) -> None:
    cluster.append(b"a")
    cluster.broker.nodes[1].freeze_metadata()
    cluster.broker.move_leader(TOPIC, 0, 2)
    cluster.append(b"b", node=2, acks=1)
    cluster.append(b"c", node=2, acks=1)
    answer = cluster.fetch(leader_epoch=0)
    assert values_in(answer.records) == [b"a"]
    assert answer.high_watermark == 1
    assert cluster.fetch(1, leader_epoch=0).error_code == ErrorCode.NONE
    assert cluster.fetch(2, leader_epoch=0).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert cluster.fetch(leader_epoch=1).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert cluster.high_watermark(node=1) == 1


@pytest.mark.parametrize("how", ["frozen", "isolated"])
def test_a_fetch_that_waits_at_a_former_leader_does_not_learn_of_the_next(
    cluster: ServedCluster, how: str
) -> None:
    cluster.append(b"a")
    client = cluster.connect(1)
    client.send(fetch_request(1, leader_epoch=0, max_wait_ms=600_000), 12)
    cluster.metadata()  # The fetch waits when another request was served.
    if how == "frozen":
        cluster.broker.nodes[1].freeze_metadata()
        cluster.broker.move_leader(TOPIC, 0, 2)
    else:
        cluster.broker.nodes[1].isolate()
        cluster.advance(SESSION_MS)
    assert cluster.leadership(node=2).leader == 2
    answer = client.receive().responses[0].partitions[0]
    assert (answer.error_code, answer.high_watermark) == (ErrorCode.NONE, 1)
    assert values_in(answer.records) == []


def test_a_frozen_former_leader_leaves_the_isr_and_catches_up_when_it_is_thawed(
    cluster: ServedCluster,
) -> None:
    cluster.broker.nodes[1].freeze_metadata()
    cluster.broker.move_leader(TOPIC, 0, 2)
    waiting = cluster.begin_produce(b"a", node=2)
    assert not waiting.is_answered
    cluster.advance(2 * LAG_TIME_MS)
    assert waiting.answer().error_code == ErrorCode.NONE
    assert cluster.leadership(node=2) == (2, 1, {2, 3})
    cluster.broker.nodes[1].thaw_metadata()
    assert cluster.leadership(node=1) == (2, 1, {1, 2, 3})
    assert cluster.values(node=1) == [b"a"]


def test_a_new_leader_that_does_not_know_it_accepts_no_writes(cluster: ServedCluster) -> None:
    cluster.append(b"a")
    cluster.broker.nodes[2].freeze_metadata()
    cluster.broker.move_leader(TOPIC, 0, 2)
    assert cluster.produce(b"x", node=2).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert cluster.produce(b"x", node=1).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    cluster.broker.nodes[2].thaw_metadata()
    assert cluster.append(b"b", node=2) == 1


def test_an_isolated_leader_serves_old_metadata_and_is_replaced(cluster: ServedCluster) -> None:
    cluster.append(b"a")
    cluster.broker.nodes[1].isolate()
    waiting = cluster.begin_produce(b"b")
    assert not waiting.is_answered
    cluster.advance(SESSION_MS - 1)
    assert cluster.leadership(node=2) == (1, 0, {1, 2, 3})
    cluster.advance(1)
    assert cluster.leadership(node=2) == (2, 1, {2, 3})
    assert cluster.leadership(node=1) == (1, 0, {1, 2, 3})
    assert cluster.broker.nodes[1].metadata == "stale"
    assert cluster.values(node=2) == [b"a"]
    assert cluster.append(b"c", node=2) == 1
    assert cluster.append(b"x", node=1, acks=1) == 2
    assert cluster.high_watermark(node=1) == 1
    assert cluster.fetch(4, node=1).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert not waiting.is_answered
    cluster.broker.nodes[1].start()
    assert waiting.answer().error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert cluster.leadership(node=1) == (2, 1, {1, 2, 3})
    assert cluster.values(node=1) == [b"a", b"c"]


def test_a_node_that_reconnects_within_its_session_keeps_its_partitions(
    cluster: ServedCluster,
) -> None:
    cluster.broker.nodes[1].isolate()
    waiting = cluster.begin_produce(b"a")
    cluster.advance(SESSION_MS - 1)
    cluster.broker.nodes[1].start()
    assert waiting.answer().error_code == ErrorCode.NONE
    cluster.advance(SESSION_MS)
    assert cluster.leadership() == (1, 0, {1, 2, 3})


def test_a_slow_node_delays_only_its_own_answers(cluster: ServedCluster) -> None:
    cluster.append(b"a")
    with cluster.broker.faults.add(api="Fetch", node=2, delay_ms=500) as fault:
        assert cluster.values(node=3) == [b"a"]
        assert fault.matches == 0
        slow = cluster.connect(2)
        slow.send(fetch_request(), 12)
        cluster.metadata(node=2)
        cluster.advance(500)
        assert slow.receive().responses[0].partitions[0].high_watermark == 1
        assert fault.firings == 1
