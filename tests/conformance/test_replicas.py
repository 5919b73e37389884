"""Requests that both leader and followers answer, sent to three nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.protocol._generated.messages.create_topics import CreateTopicsRequest
from kafkalite.protocol.error_codes import ErrorCode
from tests.conformance.batches import Batch
from tests.conformance.compare import differences
from tests.conformance.setup import produce, producer_id, wait_for_leader, wait_for_metadata
from tests.conformance.transactional_producer import describe_producers
from tests.conformance.world import World
from tests.oracle.real_cluster import real_cluster
from tests.oracle.requirements import required
from tests.oracle.served_kafkalite import ServedKafkalite
from tests.oracle.target import COMMON_CONFIG

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from typing import Any

    from tests.conformance.world import Entry

pytestmark = [pytest.mark.oracle, pytest.mark.endurance, pytest.mark.timeout(240)]

TOPIC = "replicated"
REPLICAS = [1, 2]
"""The leader and the follower; the third node has no replica."""


def _create_topic(world: World) -> None:
    row = CreateTopicsRequest.CreatableReplicaAssignment
    topic = CreateTopicsRequest.CreatableTopic(
        name=TOPIC,
        num_partitions=-1,
        replication_factor=-1,
        assignments=[row(partition_index=0, broker_ids=REPLICAS)],
    )
    (created,) = world.probe(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7).topics
    assert created.error_code == ErrorCode.NONE, created
    wait_for_leader(world, TOPIC)


def _has_a_producer(response: Any) -> bool:  # noqa: ANN401 - any response class
    return bool(response.topics[0].partitions[0].active_producers)


def _play(ports: Sequence[int]) -> list[Entry]:
    """Write to the leader, then request the producers from every node."""
    worlds = [World(port, "replicas") for port in ports]
    leader, follower, outsider = worlds
    try:
        _create_topic(leader)
        number, epoch = producer_id(leader)
        records = Batch(producer_id=number, producer_epoch=epoch, base_sequence=0).encode()
        leader.call_until(produce(TOPIC, records), 9, _is_accepted, is_recorded=False)
        for world in (leader, follower):
            world.call_until(describe_producers(TOPIC), 0, _has_a_producer)
        wait_for_metadata(outsider, TOPIC)
        for world in worlds:
            world.ask(describe_producers(TOPIC, 7), 0)
        outsider.ask(describe_producers(TOPIC), 0)
        return [entry for world in worlds for entry in world.transcript]
    finally:
        for world in worlds:
            world.close()


def _is_accepted(response: Any) -> bool:  # noqa: ANN401 - any response class
    code: int = response.responses[0].partition_responses[0].error_code
    return code == ErrorCode.NONE


def test_producers_are_described_by_every_replica(tmp_path: Path) -> None:
    with required(), real_cluster(tmp_path / "kafka", 3, COMMON_CONFIG) as nodes:
        real = _play([node.port for node in nodes])
    emulator = ServedKafkalite(tmp_path / "kafkalite", brokers=3)
    emulator.start()
    try:
        emulated = _play([emulator.port + node for node in range(3)])
    finally:
        emulator.kill()
    lines = differences(real, emulated)
    assert not lines, "\n".join(lines)
