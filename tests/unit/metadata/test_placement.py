"""Replicas are spread evenly over nodes and racks."""

from __future__ import annotations

from collections import Counter

import pytest

from kafkalite.metadata.image import BrokerImage
from kafkalite.metadata.placement import PlacementError, interleave_racks, plan_replicas
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError


def brokers(*racks: str | None) -> dict[int, BrokerImage]:
    return {
        node_id: BrokerImage(node_id=node_id, broker_epoch=node_id, rack=rack)
        for node_id, rack in enumerate(racks, 1)
    }


@pytest.mark.parametrize("start", range(5))
@pytest.mark.parametrize("replication_factor", [1, 2, 3, 5])
def test_leaders_and_replicas_are_spread_evenly(start: int, replication_factor: int) -> None:
    placed = plan_replicas(
        brokers(*[None] * 5), partitions=10, replication_factor=replication_factor, start=start
    )
    assert all(len(set(replicas)) == replication_factor for replicas in placed)
    assert set(Counter(replicas[0] for replicas in placed).values()) == {2}
    load = Counter(node_id for replicas in placed for node_id in replicas)
    assert max(load.values()) - min(load.values()) <= 1


def test_replicas_are_on_as_many_racks_as_possible() -> None:
    nodes = brokers("a", "a", "b", "b")
    assert interleave_racks(nodes) == (1, 3, 2, 4)
    placed = plan_replicas(nodes, partitions=2, replication_factor=2, start=0)
    assert [{nodes[node_id].rack for node_id in replicas} for replicas in placed] == [
        {"a", "b"}
    ] * 2


def with_fenced(nodes: dict[int, BrokerImage], *fenced: int) -> dict[int, BrokerImage]:
    return {
        node_id: broker._replace(is_fenced=node_id in fenced) for node_id, broker in nodes.items()
    }


@pytest.mark.parametrize("start", range(3))
def test_fenced_nodes_follow_only_after_all_others(start: int) -> None:
    nodes = with_fenced(brokers(*[None] * 5), 2, 4)
    for replication_factor, fenced_count in ((1, 0), (3, 0), (4, 1), (5, 2)):
        placed = plan_replicas(
            nodes, partitions=6, replication_factor=replication_factor, start=start
        )
        for replicas in placed:
            assert len(set(replicas)) == replication_factor
            assert not nodes[replicas[0]].is_fenced
            assert [nodes[node_id].is_fenced for node_id in replicas].count(True) == fenced_count
            assert {*replicas[replication_factor - fenced_count :]} <= {2, 4}
    followers = {
        replicas[3]
        for replicas in plan_replicas(nodes, partitions=2, replication_factor=4, start=start)
    }
    assert followers == {2, 4}


def test_a_fenced_node_on_an_unused_rack_precedes_others_on_a_used_rack() -> None:
    nodes = with_fenced(brokers("a", "a", "b"), 3)
    placed = plan_replicas(nodes, partitions=2, replication_factor=2, start=0)
    assert placed == ((1, 3), (2, 3))


def test_a_rack_with_fenced_nodes_only_has_its_turn() -> None:
    nodes = with_fenced(brokers("a", "b", "c", "b"), 2, 4)
    placed = plan_replicas(nodes, partitions=2, replication_factor=2, start=0)
    assert placed == ((1, 2), (3, 1))
    placed = plan_replicas(nodes, partitions=2, replication_factor=4, start=0)
    assert placed == ((1, 2, 3, 4), (3, 1, 4, 2))


def test_nothing_is_placed_if_all_nodes_are_fenced() -> None:
    with pytest.raises(PlacementError) as refusal:
        plan_replicas(
            with_fenced(brokers(None, None), 1, 2), partitions=1, replication_factor=1, start=0
        )
    reason = "All brokers are currently fenced, or have all their log directories cordoned."
    assert refusal.value.code is ErrorCode.INVALID_REPLICATION_FACTOR
    assert refusal.value.message == f"Unable to replicate the partition 1 time(s): {reason}"
    assert refusal.value.reason == reason


def test_without_nodes_nothing_can_be_placed() -> None:
    with pytest.raises(KafkaError):
        plan_replicas({}, partitions=1, replication_factor=1, start=0)
