"""Producer ids are allocated in blocks, and never twice."""

from __future__ import annotations

from tests.cluster.metadata import MetadataCluster


def test_blocks_follow_each_other_across_restarts() -> None:
    cluster = MetadataCluster(nodes=(1, 2))
    assert cluster.controller.allocate_producer_ids(1) == (0, 1000)
    assert cluster.controller.allocate_producer_ids(2) == (1000, 1000)
    assert cluster.restart(1).controller.allocate_producer_ids(1) == (2000, 1000)
