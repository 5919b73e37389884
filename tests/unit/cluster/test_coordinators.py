"""Coordinators: created by their first use, or when their internal topic exists."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.cluster.coordinators import TOPIC_BY_PART
from kafkalite.metadata.image import MetadataDelta
from kafkalite.metadata.internal_topics import OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from tests.cluster.cluster import TestCluster

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[TestCluster]:
    cluster = TestCluster(tmp_path)
    yield cluster
    cluster.end()


def created(cluster: TestCluster) -> list[str]:
    return list(cluster.cluster.coordinators.existing())


def test_a_new_cluster_has_no_coordinators(cluster: TestCluster) -> None:
    cluster.create("orders")
    assert created(cluster) == []
    assert list(cluster.cluster.coordinators.coordinators()) == []


@pytest.mark.parametrize("name", TOPIC_BY_PART)
def test_first_use_by_a_node_creates_a_coordinator(cluster: TestCluster, name: str) -> None:
    node = cluster.cluster.nodes[1]
    part = getattr(node, name)
    assert created(cluster) == [name]
    assert part is getattr(node, name) is getattr(cluster.cluster, name)


def test_a_node_has_no_other_attributes(cluster: TestCluster) -> None:
    with pytest.raises(AttributeError, match="'Node' object has no attribute 'producers'"):
        _ = cluster.cluster.nodes[1].producers  # type: ignore[attr-defined]


def test_a_coordinator_exists_when_its_topic_exists(cluster: TestCluster) -> None:
    cluster.controller.ensure_internal_topic(OFFSETS_TOPIC)
    assert created(cluster) == ["groups"]
    assert len(cluster.cluster.groups.shards()) == 50
    cluster.restart()
    assert created(cluster) == ["groups"]
    assert [topic for topic, _ in cluster.cluster.coordinators.coordinators()] == [OFFSETS_TOPIC]


def test_a_late_coordinator_knows_which_nodes_are_unreachable(cluster: TestCluster) -> None:
    coordinators = cluster.cluster.coordinators
    coordinators.set_unreachable_nodes(frozenset((1,)))
    cluster.controller.ensure_internal_topic(TRANSACTION_STATE_TOPIC)
    assert cluster.cluster.transactions.shards() == []
    coordinators.set_unreachable_nodes(frozenset())
    assert len(cluster.cluster.transactions.shards()) == 50


def test_all_parts_get_the_metadata_if_one_cannot_read_its_log(
    cluster: TestCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    coordinators, image = cluster.cluster.coordinators, cluster.controller.image
    received: list[str] = []

    def fail(*_: object) -> None:
        raise OSError("sick")

    monkeypatch.setattr(coordinators.shares, "on_image", fail)
    monkeypatch.setattr(coordinators.groups, "on_image", lambda *_: received.append("groups"))
    with pytest.raises(OSError, match="sick"):
        coordinators.on_image(image, MetadataDelta())
    assert received == ["groups"]
