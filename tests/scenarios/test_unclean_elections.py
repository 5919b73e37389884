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
def world() -> Iterator[ServedCluster]:
    with ServedCluster() as running:
        yield running


def let_node_2_lag(world: ServedCluster) -> None:
    """Let node 2 lack the last two of three records, and leave the ISR."""
    world.append(b"a")
    world.broker.nodes[2].pause_replication()
    world.append(b"b", acks=1)
    world.append(b"c", acks=1)
    world.advance(2 * LAG_TIME_MS)
    assert world.leadership() == (1, 0, {1, 3})
    assert world.values() == [b"a", b"b", b"c"]


def test_a_replica_that_is_not_in_sync_is_elected_only_uncleanly(world: ServedCluster) -> None:
    let_node_2_lag(world)
    refused = (
        "^ELIGIBLE_LEADERS_NOT_AVAILABLE: Node 2 is not in sync with t-0: only an unclean "
        "election, which loses records, can make it the leader$"
    )
    with pytest.raises(ValueError, match=refused):
        world.broker.move_leader(TOPIC, 0, 2)
    assert world.leadership() == (1, 0, {1, 3})
    moved = world.broker.move_leader(TOPIC, 0, 2, unclean=True)
    assert (moved.leader, moved.leader_epoch, moved.end_offset) == (2, 1, 1)
    assert moved.truncated_records == 2
    assert world.values(node=2) == [b"a"]
    assert world.append(b"d", node=2) == 1
    assert world.values(node=2) == [b"a", b"d"]


def test_other_replicas_truncate_to_the_log_of_the_new_leader(world: ServedCluster) -> None:
    let_node_2_lag(world)
    world.broker.move_leader(TOPIC, 0, 2, unclean=True)
    assert world.leadership(node=3) == (2, 1, {1, 2, 3})
    for node in (1, 3):
        assert world.fetch(3, node=node).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        assert world.values(node=node) == [b"a"]


def test_a_consumer_with_epochs_learns_where_its_log_diverges(world: ServedCluster) -> None:
    let_node_2_lag(world)
    world.broker.move_leader(TOPIC, 0, 2, unclean=True)
    world.append(b"d", b"e", b"f", node=2)
    # The consumer has read offsets 1 and 2 of epoch 0, which are gone.
    answer = world.fetch(3, node=2, leader_epoch=1, last_fetched_epoch=0)
    assert answer.error_code == ErrorCode.NONE
    assert (answer.diverging_epoch.epoch, answer.diverging_epoch.end_offset) == (0, 1)
    assert not answer.records
    found = world.end_of_epoch(0, node=2, leader_epoch=1)
    assert (found.error_code, found.leader_epoch, found.end_offset) == (ErrorCode.NONE, 0, 1)
    # At the end of epoch 0, the consumer can continue.
    continued = world.fetch(1, node=2, leader_epoch=1, last_fetched_epoch=0)
    assert continued.diverging_epoch is None
    assert continued.records


def test_the_epoch_of_a_client_is_compared_with_that_of_the_leader(world: ServedCluster) -> None:
    world.append(b"a")
    world.broker.move_leader(TOPIC, 0, 2)
    assert world.fetch(node=2, leader_epoch=0).error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert world.fetch(node=2, leader_epoch=1).error_code == ErrorCode.NONE
    assert world.fetch(node=2, leader_epoch=2).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    for epoch, expected in (
        (0, ErrorCode.FENCED_LEADER_EPOCH),
        (2, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ):
        found = world.end_of_epoch(0, node=2, leader_epoch=epoch)
        assert found.error_code == expected


def test_a_clean_change_of_the_leader_loses_nothing(world: ServedCluster) -> None:
    world.append(b"a")
    moved = world.broker.move_leader(TOPIC, 0, 3)
    assert (moved.leader, moved.leader_epoch, moved.truncated_records) == (3, 1, 0)
    world.append(b"b", node=3)
    world.broker.move_leader(TOPIC, 0, 1)
    assert world.values() == [b"a", b"b"]
    ends = [world.end_of_epoch(epoch).end_offset for epoch in range(3)]
    assert ends == [1, 2, 2]


def stop_all_in_sync(world: ServedCluster) -> None:
    """Stop the nodes in the ISR, the leader last."""
    world.broker.nodes[3].stop()
    world.broker.nodes[1].stop()


def test_without_unclean_elections_the_partition_waits_for_an_eligible_replica(
    world: ServedCluster,
) -> None:
    let_node_2_lag(world)
    stop_all_in_sync(world)
    assert world.leadership(node=2).leader == -1
    assert world.produce(b"x", node=2).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    world.broker.nodes[1].start()
    world.disconnect(1)
    assert world.leadership().leader == 1
    assert world.values() == [b"a", b"b", b"c"]


def test_elect_leaders_can_be_unclean(world: ServedCluster) -> None:
    let_node_2_lag(world)
    stop_all_in_sync(world)
    topic = ElectLeadersRequest.TopicPartitions(topic=TOPIC, partitions=[0])
    request = ElectLeadersRequest(election_type=UNCLEAN, topic_partitions=[topic], timeout_ms=1_000)
    answer = world.client(2).call(request, 2)
    assert answer.replica_election_results[0].partition_result[0].error_code == ErrorCode.NONE
    assert world.leadership(node=2).leader == 2
    assert world.values(node=2) == [b"a"]


def test_a_topic_may_allow_unclean_elections(world: ServedCluster) -> None:
    setting = IncrementalAlterConfigsRequest.AlterableConfig(
        name="unclean.leader.election.enable", config_operation=0, value="true"
    )
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource(
        resource_type=2, resource_name=TOPIC, configs=[setting]
    )
    answer = world.client(1).call(IncrementalAlterConfigsRequest(resources=[resource]), 1)
    assert answer.responses[0].error_code == ErrorCode.NONE
    let_node_2_lag(world)
    stop_all_in_sync(world)
    assert world.leadership(node=2) == (2, 1, {2})
    assert world.values(node=2) == [b"a"]


def test_a_truncated_log_stays_truncated_after_a_restart(tmp_path: Path) -> None:
    with ServedCluster(data_directory=tmp_path) as world:
        let_node_2_lag(world)
        world.broker.move_leader(TOPIC, 0, 2, unclean=True)
        world.append(b"d", node=2)
        world.broker.stop()
        world.broker.start()
        for node in (1, 2, 3):
            world.disconnect(node)
        assert world.leadership(node=2) == (2, 1, {1, 2, 3})
        assert world.values(node=2) == [b"a", b"d"]
        assert world.end_of_epoch(0, node=2).end_offset == 1
