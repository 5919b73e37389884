"""ClusterState: the state of a cluster at one moment, from which clusters can continue.

It has the files of the cluster, as after a clean shutdown, and what no file has: the image of the
metadata, the replicas that do not follow, nodes that are stopped or receive nothing, high
watermarks, and recent events. What a node's process loses when it ends is not in it: sessions of
fetches, waiting requests, and time that has passed for timers. All of it is constant, and any
number of clusters can share it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.cluster.cluster import open_metadata_log
from kafkalite.cluster.node import NodeState
from kafkalite.config.log_config import LogConfig
from kafkalite.metadata.controller import images_at
from kafkalite.metadata.topic_names import METADATA_TOPIC
from kafkalite.partitions.coordinator_log import PartitionCoordinatorLog
from kafkalite.partitions.former_leader import FormerLeader
from kafkalite.partitions.replicas import ReplicaView
from kafkalite.ports.clock import SteppedClock
from kafkalite.ports.entropy import SystemEntropy
from kafkalite.ports.memory_files import InMemoryFiles
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.protocol.uuids import uuid_to_text
from kafkalite.storage.data_directory import DataDirectory

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from kafkalite.cluster.cluster import Cluster
    from kafkalite.cluster.node import Node
    from kafkalite.config.broker import BrokerConfig
    from kafkalite.coordinator.event_history import EventHistory
    from kafkalite.metadata.image import MetadataImage
    from kafkalite.partitions.former_leader import FormerLeaderState
    from kafkalite.partitions.partition import Partition, Uncommitted
    from kafkalite.ports.memory_files import Memory
    from kafkalite.storage.append_times import AppendTimes
    from kafkalite.storage.data_directory import TopicPartition
    from kafkalite.storage.log import Log


class UnfitStateError(ValueError):
    """A cluster whose files have changed while they were copied; the text is one sentence."""


class StoppedNode(NamedTuple):
    """A node that did not run."""

    node_id: int
    image: MetadataImage
    """The metadata that it knew when it stopped."""
    has_stale_metadata: bool
    was_shut_down: bool


class ImpairedNode(NamedTuple):
    """A node that did not receive metadata or records, or that no other node reached."""

    node_id: int
    image: MetadataImage
    """The metadata that it knew."""
    has_stale_metadata: bool
    is_metadata_frozen: bool
    is_replication_paused: bool
    metadata_fetched_ms: int | None
    is_isolated: bool = False

    def apply_to(self, node: Node) -> None:
        """Let the node have this state."""
        node.image, node.has_stale_metadata = self.image, self.has_stale_metadata
        node.is_metadata_frozen = self.is_metadata_frozen
        node.is_replication_paused = self.is_replication_paused
        node.metadata_fetched_ms = self.metadata_fetched_ms


class LaggingReplica(NamedTuple):
    """A replica that did not follow its leader; see `ReplicaView`."""

    topic_id: bytes
    partition: int
    node_id: int
    replica_end: int | None
    replica_start: int
    caught_up_ms: int
    led_isr: tuple[int, ...] | None = None
    former_leader: FormerLeaderState | None = None
    """What a node knows that still leads, although another one does; None for other nodes."""

    def apply_to(self, partition: Partition) -> None:
        """Let the partition have this replica."""
        if self.former_leader is None:
            view = ReplicaView(partition, self.replica_end)
        else:
            view = FormerLeader.of(partition, self.former_leader)
            view.replica_end = self.replica_end
        partition.views[self.node_id] = view
        view.led_isr = self.led_isr
        view.replica_start = self.replica_start
        view.caught_up_ms = self.caught_up_ms


class UncommittedRecords(NamedTuple):
    """A partition with records above its high watermark."""

    topic_id: bytes
    partition: int
    uncommitted: Uncommitted

    def apply_to(self, partition: Partition) -> None:
        """Let the partition have this high watermark."""
        partition.restore_uncommitted(self.uncommitted)


class ClusterState(NamedTuple):
    """The state of a cluster at one moment."""

    files: InMemoryFiles
    """The files, which do not change: a cluster uses a copy."""
    path: str
    """The path of the data directory in the files."""
    logs: Mapping[TopicPartition, Log]
    """The state of each log in the files."""
    append_times: AppendTimes | None
    """When the logs have grown, which does not change; None if that is not known."""
    image: MetadataImage
    stopped_nodes: Sequence[StoppedNode]
    lagging_replicas: Sequence[LaggingReplica]
    history: EventHistory
    uncommitted: Sequence[UncommittedRecords] = ()
    impaired_nodes: Sequence[ImpairedNode] = ()


def state_of(
    cluster: Cluster,
    files: InMemoryFiles,
    path: str,
    logs: Mapping[TopicPartition, Log],
    append_times: AppendTimes | None,
) -> ClusterState:
    """Return the state of a cluster; `files` are a copy of its files, as after a clean shutdown.

    `logs` have the state of the logs in these files, and `append_times` when they have grown.
    """
    stopped, impaired = [], []
    for node in cluster.nodes.values():
        if node.state is NodeState.STOPPED:
            stopped.append(
                StoppedNode(node.id, node.image, node.has_stale_metadata, node.was_shut_down)
            )
        is_isolated = node.state is NodeState.ISOLATED
        if node.is_metadata_frozen or node.is_replication_paused or is_isolated:
            impaired.append(
                ImpairedNode(
                    node.id,
                    node.image,
                    node.has_stale_metadata,
                    node.is_metadata_frozen,
                    node.is_replication_paused,
                    node.metadata_fetched_ms,
                    is_isolated,
                )
            )
    return ClusterState(
        files,
        path,
        logs,
        append_times,
        cluster.metadata.image,
        stopped,
        list(_lagging_replicas(cluster)),
        cluster.history.copy(),
        list(_uncommitted_records(cluster)),
        impaired,
    )


def _uncommitted_records(cluster: Cluster) -> Iterator[UncommittedRecords]:
    for topic in cluster.partitions.topics():
        for partition in topic.opened_partitions:
            uncommitted = partition.uncommitted()
            if uncommitted is not None:
                yield UncommittedRecords(topic.topic_id, partition.index, uncommitted)


def read_state(
    files: InMemoryFiles, path: str, versions: Collection[int], config: BrokerConfig
) -> tuple[DataDirectory, Mapping[TopicPartition, Log], Mapping[int, MetadataImage]]:
    """Open the directory in files of a state; return it, its logs, and the metadata at `versions`.

    The last image has the topics whose logs are opened. Raises OSError or UnreadableLogError for
    files that cannot be read.
    """
    directory = DataDirectory(files, path)
    metadata_log = open_metadata_log(directory, SteppedClock(0), 0)
    log = PartitionCoordinatorLog(metadata_log)
    images = images_at(log, config, SystemEntropy(), versions)
    logs = _open_logs(directory, metadata_log.log, images.get(metadata_log.end_offset))
    return directory, logs, images


def copy_to_memory(
    directory: DataDirectory,
    logs: Mapping[TopicPartition, Log],
    image: MetadataImage,
    memory: Memory,
    path: str,
) -> tuple[InMemoryFiles, Mapping[TopicPartition, Log]]:
    """Return a copy in memory of a directory on disk, as after a clean shutdown, and its logs.

    Raises OSError if the files cannot be read or the memory is not sufficient, and UnfitStateError
    if a background task has changed the files meanwhile.
    """
    directory.write_all(logs, syncs=True)
    files = InMemoryFiles(memory)
    directory.copy_files(files, path, logs.keys())
    DataDirectory.mark_clean_shutdown(files, path)
    copy = DataDirectory(files, path)
    copied = _open_logs(copy, open_metadata_log(copy, SteppedClock(0), 0).log, image)
    for partition, log in logs.items():
        other = copied.get(partition)
        if other is not None and log.appends is not None:
            other.appends = log.appends.copy(log.appends.times)
        if other is None or (log.start_offset, log.end_offset) != (
            other.start_offset,
            other.end_offset,
        ):
            raise UnfitStateError(
                f"the files of {partition[0]}-{partition[1]} have changed while they were read: "
                "make the snapshot again"
            )
    copy.write_all(copied)
    shared = files.copy()
    DataDirectory.mark_clean_shutdown(shared, path)
    return shared, copy.copy_logs(copied, shared)


def _open_logs(
    directory: DataDirectory, metadata_log: Log, image: MetadataImage | None
) -> dict[TopicPartition, Log]:
    """Return the log of the metadata, and the logs of all partitions in an image."""
    logs = {(METADATA_TOPIC, 0): metadata_log}
    for topic in () if image is None else image.topics.values():
        for partition in topic.partitions:
            logs[topic.name, partition.index] = directory.open_log(
                topic.name,
                partition.index,
                LogConfig(),
                now_ms=0,
                topic_id=uuid_to_text(topic.topic_id),
                is_internal=topic.is_internal,
            )
    return logs


def _lagging_replicas(cluster: Cluster) -> Iterator[LaggingReplica]:
    for topic in cluster.partitions.topics():
        for partition in topic.opened_partitions:
            for node_id, view in partition.views.items():
                yield LaggingReplica(
                    topic.topic_id,
                    partition.index,
                    node_id,
                    view.replica_end,
                    view.replica_start,
                    view.caught_up_ms,
                    view.led_isr,
                    view.state() if isinstance(view, FormerLeader) else None,
                )
