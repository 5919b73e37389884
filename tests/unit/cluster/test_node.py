"""Node: the view of its handlers while the metadata changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.metadata.creation import NewTopic
from kafkalite.ports.waiting import Waiting
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from tests.cluster.cluster import TestCluster

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def wire(tmp_path: Path) -> Iterator[TestCluster]:
    wire = TestCluster(tmp_path, nodes=3)
    yield wire
    wire.end()


def test_every_node_has_the_latest_image(wire: TestCluster) -> None:
    wire.create("t")
    images = [node.image for node in wire.cluster.nodes.values()]
    assert all(image is wire.cluster.metadata.image for image in images)
    assert "t" in images[0].topics


def test_a_node_answers_from_its_own_image(wire: TestCluster) -> None:
    node = wire.cluster.nodes[2]
    stale = node.image
    wire.create("t")
    node.image = stale
    with pytest.raises(KafkaError) as refusal:
        node.partition("t", 0)
    assert refusal.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    wire.create("u")
    assert "t" in node.image.topics


def test_only_the_leader_returns_a_partition(wire: TestCluster) -> None:
    (made,) = wire.cluster.metadata.create_topics(
        [NewTopic(name="t", partitions=3, replication_factor=2)]
    )
    assert made.error is None
    for image in wire.cluster.metadata.image.topics["t"].partitions:
        for node in wire.cluster.nodes.values():
            expected = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if node.id in image.replicas:
                expected = ErrorCode.NOT_LEADER_OR_FOLLOWER
            if node.id == image.leader:
                assert node.partition("t", image.index).index == image.index
                continue
            with pytest.raises(KafkaError) as refusal:
                node.partition("t", image.index)
            assert refusal.value.code is expected


def test_clients_reach_a_node_at_its_listeners(wire: TestCluster) -> None:
    cluster = wire.cluster
    cluster.nodes[2].set_endpoint("OTHER", "far", 19)
    assert [each.node_id for each in cluster.endpoints("PLAINTEXT")] == [1, 2, 3]
    assert cluster.endpoints("OTHER") == [(2, "far", 19, None)]
    assert cluster.endpoints("NONE") == []


def test_an_isolated_node_waits_for_its_connection(wire: TestCluster) -> None:
    node = wire.cluster.nodes[2]
    wire.cluster.node_control.isolate(2)
    timed_out = node.wait_for_connection(1_000)
    wire.clock.advance(1_000)
    assert isinstance(timed_out.value, KafkaError)
    assert timed_out.value.code is ErrorCode.REQUEST_TIMED_OUT
    waiting = node.wait_for_connection(1_000)
    assert not waiting.is_resolved
    wire.cluster.node_control.start(2)
    assert not waiting.is_resolved, "the handlers of many requests would block other clients"
    wire.clock.advance(0)
    assert waiting.is_resolved
    wire.clock.advance(1_000)


@pytest.mark.parametrize("leaves", ["stop", "isolate"])
def test_a_call_fails_when_its_receiver_cannot_be_reached_any_more(
    wire: TestCluster, leaves: str
) -> None:
    never: Waiting[object] = Waiting()
    wire.cluster.deliver = lambda *_: never
    response = wire.cluster.nodes[1].send(2, ApiKey.WRITE_TXN_MARKERS, None)
    getattr(wire.cluster.node_control, leaves)(3)
    assert not response.is_resolved
    getattr(wire.cluster.node_control, leaves)(2)
    assert response.value.code is ErrorCode.NETWORK_EXCEPTION
    never.resolve("late")


@pytest.mark.parametrize(("cut", "delivered"), [((1, 2), 0), ((2, 1), 1)])
def test_a_call_by_a_cut_link_times_out(
    wire: TestCluster, monkeypatch: pytest.MonkeyPatch, cut: tuple[int, int], delivered: int
) -> None:
    calls: list[object] = []
    monkeypatch.setattr(wire.cluster, "deliver", lambda *call: calls.append(call))
    wire.cluster.node_control.cut_links(frozenset({cut}))
    response = wire.cluster.nodes[1].send(2, ApiKey.METADATA, None)
    assert len(calls) == delivered
    wire.clock.advance(wire.cluster.config.int("request.timeout.ms"))
    assert response.value.code is ErrorCode.REQUEST_TIMED_OUT
    wire.cluster.node_control.cut_links(frozenset())
    assert wire.cluster.nodes[1].send(2, ApiKey.METADATA, None) is None
