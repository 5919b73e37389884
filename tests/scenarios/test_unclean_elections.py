"""Unclean elections, over the wire: records are lost, and clients with epochs notice it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.protocol._generated.messages.elect_leaders import ElectLeadersRequest
from kafkalite.protocol._generated.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
)
from kafkalite.protocol.error_codes import ErrorCode
from tests.cluster.served import LAG_TIME_MS, TOPIC, ServedCluster

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

UNCLEAN = 1


@pytest.fixture
def cluster() -> Iterator[ServedCluster]:
    with ServedCluster() as running:
        yield running


def let_node_2_lag(cluster: ServedCluster) -> None:
    """Let node 2 lack the last two of three records, and leave the ISR."""
    cluster.append(b"a")
    cluster.broker.nodes[2].pause_replication()
    cluster.append(b"b", acks=1)
    cluster.append(b"c", acks=1)
    cluster.advance(2 * LAG_TIME_MS)
    assert cluster.leadership() == (1, 0, {1, 3})
    assert cluster.values() == [b"a", b"b", b"c"]


def test_a_replica_that_is_not_in_sync_is_elected_only_uncleanly(cluster: ServedCluster) -> None:
    let_node_2_lag(cluster)
    refused = (
        "^ELIGIBLE_LEADERS_NOT_AVAILABLE: Node 2 is not in sync with t-0: only an unclean "
        "election, which loses records, can make it the leader$"
    )
    with pytest.raises(ValueError, match=refused):
        cluster.broker.move_leader(TOPIC, 0, 2)
    assert cluster.leadership() == (1, 0, {1, 3})
    moved = cluster.broker.move_leader(TOPIC, 0, 2, unclean=True)
    assert (moved.leader, moved.leader_epoch, moved.end_offset) == (2, 1, 1)
    assert moved.truncated_records == 2
    assert cluster.values(node=2) == [b"a"]
    assert cluster.append(b"d", node=2) == 1
    assert cluster.values(node=2) == [b"a", b"d"]


def test_other_replicas_truncate_to_the_log_of_the_new_leader(cluster: ServedCluster) -> None:
    let_node_2_lag(cluster)
    cluster.broker.move_leader(TOPIC, 0, 2, unclean=True)
    assert cluster.leadership(node=3) == (2, 1, {1, 2, 3})
    for node in (1, 3):
        assert cluster.fetch(3, node=node).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        assert cluster.values(node=node) == [b"a"]


def test_a_consumer_with_epochs_learns_where_its_log_diverges(cluster: ServedCluster) -> None:
    let_node_2_lag(cluster)
    cluster.broker.move_leader(TOPIC, 0, 2, unclean=True)
    cluster.append(b"d", b"e", b"f", node=2)
    # The consumer has read offsets 1 and 2 of epoch 0, which are gone.
    answer = cluster.fetch(3, node=2, leader_epoch=1, last_fetched_epoch=0)
    assert answer.error_code == ErrorCode.NONE
    assert (answer.diverging_epoch.epoch, answer.diverging_epoch.end_offset) == (0, 1)
    assert not answer.records
    found = cluster.end_of_epoch(0, node=2, leader_epoch=1)
    assert (found.error_code, found.leader_epoch, found.end_offset) == (ErrorCode.NONE, 0, 1)
    # At the end of epoch 0, the consumer can continue.
    continued = cluster.fetch(1, node=2, leader_epoch=1, last_fetched_epoch=0)
    assert continued.diverging_epoch is None
    assert continued.records


def test_the_epoch_of_a_client_is_compared_with_that_of_the_leader(cluster: ServedCluster) -> None:
    cluster.append(b"a")
    cluster.broker.move_leader(TOPIC, 0, 2)
    assert cluster.fetch(node=2, leader_epoch=0).error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert cluster.fetch(node=2, leader_epoch=1).error_code == ErrorCode.NONE
    assert cluster.fetch(node=2, leader_epoch=2).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    for epoch, expected in (
        (0, ErrorCode.FENCED_LEADER_EPOCH),
        (2, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ):
        found = cluster.end_of_epoch(0, node=2, leader_epoch=epoch)
        assert found.error_code == expected


def test_a_clean_change_of_the_leader_loses_nothing(cluster: ServedCluster) -> None:
    cluster.append(b"a")
    moved = cluster.broker.move_leader(TOPIC, 0, 3)
    assert (moved.leader, moved.leader_epoch, moved.truncated_records) == (3, 1, 0)
    cluster.append(b"b", node=3)
    cluster.broker.move_leader(TOPIC, 0, 1)
    assert cluster.values() == [b"a", b"b"]
    ends = [cluster.end_of_epoch(epoch).end_offset for epoch in range(3)]
    assert ends == [1, 2, 2]


def stop_all_in_sync(cluster: ServedCluster) -> None:
    """Stop the nodes in the ISR, the leader last."""
    cluster.broker.nodes[3].stop()
    cluster.broker.nodes[1].stop()


def test_without_unclean_elections_the_partition_waits_for_an_eligible_replica(
    cluster: ServedCluster,
) -> None:
    let_node_2_lag(cluster)
    stop_all_in_sync(cluster)
    assert cluster.leadership(node=2).leader == -1
    assert cluster.produce(b"x", node=2).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    cluster.broker.nodes[1].start()
    cluster.disconnect(1)
    assert cluster.leadership().leader == 1
    assert cluster.values() == [b"a", b"b", b"c"]


def test_elect_leaders_can_be_unclean(cluster: ServedCluster) -> None:
    let_node_2_lag(cluster)
    stop_all_in_sync(cluster)
    topic = ElectLeadersRequest.TopicPartitions(topic=TOPIC, partitions=[0])
    request = ElectLeadersRequest(election_type=UNCLEAN, topic_partitions=[topic], timeout_ms=1_000)
    answer = cluster.client(2).call(request, 2)
    assert answer.replica_election_results[0].partition_result[0].error_code == ErrorCode.NONE
    assert cluster.leadership(node=2).leader == 2
    assert cluster.values(node=2) == [b"a"]


def test_a_topic_may_allow_unclean_elections(cluster: ServedCluster) -> None:
    setting = IncrementalAlterConfigsRequest.AlterableConfig(
        name="unclean.leader.election.enable", config_operation=0, value="true"
    )
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource(
        resource_type=2, resource_name=TOPIC, configs=[setting]
    )
    answer = cluster.client(1).call(IncrementalAlterConfigsRequest(resources=[resource]), 1)
    assert answer.responses[0].error_code == ErrorCode.NONE
    let_node_2_lag(cluster)
    stop_all_in_sync(cluster)
    assert cluster.leadership(node=2) == (2, 1, {2})
    assert cluster.values(node=2) == [b"a"]


def test_a_truncated_log_stays_truncated_after_a_restart(tmp_path: Path) -> None:
    with ServedCluster(data_directory=tmp_path) as cluster:
        let_node_2_lag(cluster)
        cluster.broker.move_leader(TOPIC, 0, 2, unclean=True)
        cluster.append(b"d", node=2)
        cluster.broker.stop()
        cluster.broker.start()
        for node in (1, 2, 3):
            cluster.disconnect(node)
        assert cluster.leadership(node=2) == (2, 1, {1, 2, 3})
        assert cluster.values(node=2) == [b"a", b"d"]
        assert cluster.end_of_epoch(0, node=2).end_offset == 1
