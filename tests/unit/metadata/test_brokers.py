"""The cluster has the nodes of its last start, except those that were unregistered since."""

from __future__ import annotations

import pytest

from kafkalite.metadata.creation import NewTopic
from kafkalite.metadata.image import NO_LEADER
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
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


def fields(world: MetadataWorld, node_id: int) -> tuple[int, bool]:
    broker = world.image.brokers[node_id]
    return broker.broker_epoch, broker.is_fenced


def test_unregistered_node_is_registered_as_fenced_with_a_new_epoch() -> None:
    world = MetadataWorld(nodes=(1, 2))
    world.controller.unregister_broker(2)
    assert list(world.image.brokers) == [1]
    world.controller.register_broker(2, "r")
    assert fields(world, 2) == (3, True)
    assert world.image.brokers[2].rack == "r"
    world.controller.register_broker(2, None)
    assert fields(world, 2) == (3, True)
    world.controller.unfence(2)
    assert fields(world, 2) == (3, False)


def test_start_registers_an_unregistered_node() -> None:
    world = MetadataWorld(nodes=(1, 2))
    world.controller.unregister_broker(2)
    assert fields(world.restart(1, 2), 2) == (3, False)


def test_unregistered_node_leaves_isr_and_leadership_but_keeps_its_replicas() -> None:
    world = MetadataWorld(nodes=(1, 2, 3))
    world.controller.create_topics([NewTopic(name="t", assignments=((0, (1, 2)),))])
    world.controller.create_topics([NewTopic(name="u", assignments=((0, (2,)),))])
    world.controller.unregister_broker(2)
    shared, alone = world.topic("t").partitions[0], world.topic("u").partitions[0]
    assert (shared.leader, shared.replicas, shared.isr) == (1, (1, 2), (1,))
    assert (alone.leader, alone.replicas, alone.isr) == (NO_LEADER, (2,), ())
    assert (alone.elr, alone.last_known_elr) == ((2,), (2,))


def test_fenced_node_remains_eligible_after_it_is_unregistered() -> None:
    """As in Kafka, which removes it from the ISR only."""
    world = MetadataWorld(nodes=(1, 2))
    world.controller.create_topics([NewTopic(name="t", assignments=((0, (2,)),))])
    world.controller.fence(2)
    before = world.topic("t").partitions[0]
    assert before.elr == (2,)
    world.controller.unregister_broker(2)
    assert world.topic("t").partitions[0] == before
    world.controller.register_broker(2, None)
    world.controller.unfence(2)
    after = world.topic("t").partitions[0]
    assert (after.leader, after.isr, after.elr) == (2, (2,), ())


def test_unknown_node_is_not_unregistered() -> None:
    world = MetadataWorld()
    with pytest.raises(KafkaError) as refusal:
        world.controller.unregister_broker(9)
    assert (refusal.value.code, refusal.value.message) == (
        ErrorCode.BROKER_ID_NOT_REGISTERED,
        "Broker ID 9 is not currently registered",
    )
