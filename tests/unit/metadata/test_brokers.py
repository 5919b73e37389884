"""The cluster has the nodes of its last start."""

from __future__ import annotations

from tests.unit.metadata_world import MetadataWorld


def test_nodes_are_registered_and_unregistered_at_start() -> None:
    first = MetadataWorld(nodes=(1, 2))
    assert [each.broker_epoch for each in first.image.brokers.values()] == [1, 2]
    second = first.restart(2, 3)
    assert {each.node_id: each.broker_epoch for each in second.image.brokers.values()} == {
        2: 2,
        3: 3,
    }
    assert second.image.controller_id == 2


def test_node_with_a_new_rack_registers_again() -> None:
    first = MetadataWorld(racks={1: "a"})
    again = MetadataWorld(racks={1: "b"}, log=first.log)
    assert again.image.brokers[1].rack == "b"
    assert again.image.brokers[1].broker_epoch > first.image.brokers[1].broker_epoch
