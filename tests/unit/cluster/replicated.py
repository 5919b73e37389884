"""A cluster of three nodes in memory, with a topic that has a replica on each of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.metadata.creation import NewTopic
from kafkalite.storage.batch import BatchView
from tests.cluster.cluster import TestCluster
from tests.unit.data_plane import batch_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from kafkalite.cluster.node_control import NodeControl
    from kafkalite.metadata.image import PartitionImage
    from kafkalite.partitions.partition import Partition
    from kafkalite.ports.files import Files

LAG_TIME_MS, SESSION_MS = 30_000, 9_000
"""The defaults of replica.lag.time.max.ms and broker.session.timeout.ms."""


class ReplicatedCluster(TestCluster):
    """Node 1 leads partition `t-0`; all nodes have a replica in sync."""

    def __init__(
        self, path: Path, config: Mapping[str, str] | None = None, *, files: Files | None = None
    ) -> None:
        super().__init__(path, nodes=3, config=config, files=files)
        self.create_replicated("t", (1, 2, 3))

    @property
    def control(self) -> NodeControl:
        """The commands to nodes."""
        return self.cluster.node_control

    def create_replicated(self, name: str, *replicas: tuple[int, ...]) -> None:
        """Create a topic with these replicas of each partition."""
        (made,) = self.cluster.metadata.create_topics(
            [NewTopic(name=name, assignments=tuple(enumerate(replicas)))]
        )
        assert made.error is None, made.error

    def image(self, name: str = "t", index: int = 0) -> PartitionImage:
        """Return a partition in the controller's image."""
        return self.cluster.metadata.image.topics[name].partitions[index]

    def partition(self, name: str = "t", index: int = 0) -> Partition:
        """Return a partition."""
        topic = self.cluster.partitions.topic(name)
        assert topic is not None
        partition = topic.partition(index)
        assert partition is not None
        return partition

    def append(self, *values: bytes, name: str = "t") -> None:
        """Append one batch to the log of partition 0."""
        self.partition(name).append(BatchView(batch_of(*values)), self.clock.now_ms())
        self.cluster.partitions.announce()

    def state(self, name: str = "t") -> tuple[int, int, set[int]]:
        """Return leader, leader epoch and ISR of partition 0."""
        image = self.image(name)
        return image.leader, image.leader_epoch, set(image.isr)
