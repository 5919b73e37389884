"""LogDirectories: the log directories of the nodes, and their ids (KIP-113, KIP-858, KIP-1066).

A node can have several log directories. They are names: the files of all replicas are in the data
directory, because the nodes share one log per partition. The metadata has the directory of each
replica, as in Kafka, so it survives what the metadata survives.
"""

from __future__ import annotations

from functools import partial
from os.path import abspath
from typing import TYPE_CHECKING, Final

from kafkalite.metadata.configs import CORDONED_LOG_DIRS
from kafkalite.metadata.features import (
    FIRST_WITH_CORDONED_DIRECTORIES,
    FIRST_WITH_DIRECTORIES,
    METADATA_VERSION,
)
from kafkalite.metadata.image import ResourceType
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.uuids import ZERO_UUID, parse_uuid

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from kafkalite.cluster.cluster import Cluster
    from kafkalite.cluster.replica_moves import ReplicaMoves
    from kafkalite.metadata.image import MetadataDelta, MetadataImage, PartitionImage, TopicImage
    from kafkalite.storage.data_directory import DataDirectory

_ALL: Final = ("*",)
MAX_PREFERENCES: Final = 50_000
"""The number of replicas whose directories a node remembers before it has them.

Kafka has no limit, but a client can name any number of topics that will never exist.
"""


class DirectoryIds:
    """The ids of the directories of a cluster's nodes.

    The node that created the data directory has the id in its meta.properties. All other ids follow
    from it and do not change.
    """

    __slots__ = ("_cluster_id", "_properties")

    def __init__(self, cluster_id: str, properties: Mapping[str, str]) -> None:
        """`properties` are the contents of meta.properties."""
        self._cluster_id = cluster_id
        self._properties = properties

    def of_node(self, node_id: int) -> bytes:
        """Return the id of a node's first directory."""
        own_id = self._properties.get("directory.id")
        if own_id is not None and self._properties.get("node.id") == str(node_id):
            return parse_uuid(own_id)
        return self._derived(f"{node_id}")

    def of_path(self, node_id: int, path: str) -> bytes:
        """Return the id of another directory of a node."""
        return self._derived(f"{node_id}/{path}")

    def _derived(self, name: str) -> bytes:
        import hashlib  # noqa: PLC0415 - a start with one node and one directory does not need it

        origin = self._properties.get("directory.id") or self._cluster_id
        return hashlib.sha256(f"{origin}/{name}".encode()).digest()[: len(ZERO_UUID)]

    def of_replicas(self, node_id: int) -> tuple[bytes, ...]:
        """Return the id of the only directory of a node's replicas; nothing if it has none.

        A Kafka before 3.7 writes no id. A later Kafka that starts on the directory chooses one, and
        would miss the replicas in a directory with another id.
        """
        return (self.of_node(node_id),) if "directory.id" in self._properties else ()


class LogDirectories:
    """The log directories of the nodes of one cluster, and the directories that are cordoned."""

    __slots__ = (
        "_can_cordon",
        "_cluster",
        "_directory",
        "_has_directories",
        "_ids",
        "_moves",
        "_nodes_with_choice",
        "_preferred",
    )

    def __init__(self, cluster: Cluster, ids: DirectoryIds, directory: DataDirectory) -> None:
        """`directory` has all data; nodes that have no other names have only its path."""
        self._cluster = cluster
        self._ids = ids
        self._directory = directory
        self._nodes_with_choice: Collection[int] = ()
        """The nodes with several directories."""
        self._has_directories = False
        """Whether the records of the published metadata have directories."""
        self._can_cordon = False
        """Whether the records of the published metadata have cordoned directories."""
        self._preferred: dict[int, dict[tuple[str, int], str]] = {}
        """Node → (topic, index) → directory of a replica that the node does not have yet."""
        self._moves: ReplicaMoves | None = None
        """None if no replica was ever moved."""

    # --- directories of nodes ------------------------------------------------------------------

    def paths(self, node_id: int) -> tuple[str, ...]:
        """Return the paths of a node's directories, in the order of `log.dirs`.

        At levels of metadata.version without directories a node has only the first one.
        """
        names = self._names(node_id)
        return names if len(names) == 1 or _has_directories(self._image) else names[:1]

    def offline(self, node_id: int) -> tuple[str, ...]:
        """Return the paths of a node's directories that it cannot use, as they are files."""
        names = self._cluster.config.offline_log_directories.get(node_id, ())
        return tuple(abspath(name) for name in names)  # noqa: PTH100 - a text; links remain

    def ids(self, node_id: int) -> tuple[bytes, ...]:
        """Return the ids of a node's directories, in the same order; nothing if they have none."""
        configured, offline = self.configured(node_id), self.offline(node_id)
        if len(configured) == 1:
            return self._ids.of_replicas(node_id)
        others = (self._ids.of_path(node_id, path) for path in configured[1:])
        ids = zip(configured, (self._ids.of_node(node_id), *others), strict=True)
        return tuple(each for path, each in ids if path not in offline)

    def cordoned(self, node_id: int) -> tuple[str, ...]:
        """Return the paths of a node's directories that receive no new replicas."""
        names = self._cluster.config.of_node(node_id).list(CORDONED_LOG_DIRS)
        paths = self.paths(node_id)
        if names == _ALL:
            return paths
        absolute = {abspath(name) for name in names}  # noqa: PTH100 - a text; links remain
        return tuple(path for path in paths if path in absolute)

    def path_of(self, node_id: int, partition: PartitionImage) -> str:
        """Return the directory of a node's replica, the first one if none is recorded."""
        paths = self.paths(node_id)
        directory = partition.directory_of(node_id)
        if len(paths) > 1 and directory is not None:
            return dict(zip(self.ids(node_id), paths, strict=True)).get(directory, paths[0])
        return paths[0]

    def configured(self, node_id: int) -> tuple[str, ...]:
        """Return the paths of all directories of a node's settings, also of those not in use."""
        names = self._cluster.config.node_log_directories(node_id)
        return tuple(abspath(name) for name in names) or (self._directory.path,)  # noqa: PTH100 - as above

    def _names(self, node_id: int) -> tuple[str, ...]:
        offline = self.offline(node_id)
        return tuple(path for path in self.configured(node_id) if path not in offline)

    @property
    def _image(self) -> MetadataImage:
        return self._cluster.metadata.image

    # --- replicas ------------------------------------------------------------------------------

    def prefer(self, node_id: int, topic: str, index: int, path: str) -> None:
        """Place a replica that the node does not have yet in a directory, when it is assigned.

        A node does not remember it if it has too many such replicas, or one directory only.
        """
        preferred = self._preferred.setdefault(node_id, {})
        is_known = (topic, index) in preferred
        if len(self.paths(node_id)) > 1 and (is_known or len(preferred) < MAX_PREFERENCES):
            preferred[topic, index] = path

    @property
    def moves(self) -> ReplicaMoves:
        """The replicas that move between directories."""
        if self._moves is None:
            from kafkalite.cluster.replica_moves import ReplicaMoves  # noqa: PLC0415 - rarely used

            self._moves = ReplicaMoves(self._cluster, self, self._directory)
        return self._moves

    def forget_node(self, node_id: int) -> None:
        """Forget the preferred directories of a node, because its process has ended."""
        self._preferred.pop(node_id, None)

    def assign(self, node_id: int, directories: Mapping[tuple[bytes, int], str]) -> None:
        """Record the directories of a node's replicas: (topic id, index) → path."""
        ids = dict(zip(self._names(node_id), self.ids(node_id), strict=True))
        # If the disk refuses this, the next change of the topic or of the nodes repeats it.
        try:
            self._cluster.metadata.assign_directories(
                node_id, {replica: ids[path] for replica, path in directories.items()}
            )
        except KafkaError:
            return

    # --- changes of the metadata ---------------------------------------------------------------

    def open(self) -> None:
        """Choose directories for replicas that have none, and register cordoned directories."""
        image = self._image
        self._update_nodes(image)
        self._choose(image.topics.values())
        if self._nodes_with_choice:
            self.moves.load()

    def stop(self) -> None:
        """Continue no move any more before the next start."""
        if self._moves is not None:
            self._moves.stop()

    def on_image(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """Choose directories for new replicas, and register what is cordoned now."""
        topics: Iterable[TopicImage] = (*delta.created, *delta.changed)
        is_reconfigured = self._can_cordon != _can_cordon(image) or any(
            each.type is ResourceType.BROKER for each in delta.configs
        )
        if delta.brokers_changed or self._has_directories != _has_directories(image):
            self._update_nodes(image)
            topics = image.topics.values()
        elif is_reconfigured:
            self._update_cordons(image)
        self._choose(topics)
        if self._moves is not None:
            self._moves.advance()

    def _update_nodes(self, image: MetadataImage) -> None:
        self._has_directories = _has_directories(image)
        self._nodes_with_choice = [
            node_id for node_id in image.brokers if len(self.paths(node_id)) > 1
        ]
        self._update_cordons(image)

    def _update_cordons(self, image: MetadataImage) -> None:
        self._can_cordon = _can_cordon(image)
        if not self._can_cordon:
            return
        for node_id, broker in image.brokers.items():
            cordoned = self.cordoned(node_id)
            ids = zip(self.paths(node_id), self.ids(node_id), strict=False)
            directories = tuple(directory for path, directory in ids if path in cordoned)
            if directories != broker.cordoned_directories:
                self._cluster.metadata.defer(partial(self._cordon, node_id, directories))

    def _cordon(self, node_id: int, directories: tuple[bytes, ...]) -> None:
        # If the disk refuses this, the next change of a node's settings repeats it.
        try:
            self._cluster.metadata.cordon(node_id, directories)
        except KafkaError:
            return

    def _choose(self, topics: Iterable[TopicImage]) -> None:
        for node_id in self._nodes_with_choice:
            known = self.ids(node_id)
            topic_ids = [
                topic.topic_id
                for topic in topics
                if any(_has_no_directory(node_id, each, known) for each in topic.partitions)
            ]
            if topic_ids:
                self._cluster.metadata.defer(partial(self._choose_now, node_id, topic_ids))

    def _choose_now(self, node_id: int, topic_ids: Iterable[bytes]) -> None:
        """Choose directories for the replicas of topics that have none, in Kafka's order."""
        from kafkalite.cluster.directory_choice import DirectoryChoice, in_order_of_kafka  # noqa: PLC0415 - rarely used

        image, known = self._image, self.ids(node_id)
        topics = [image.topics_by_id[each] for each in topic_ids if each in image.topics_by_id]
        replicas = [
            (topic, partition)
            for topic in topics
            for partition in topic.partitions
            if _has_no_directory(node_id, partition, known)
        ]
        if not replicas or node_id not in image.brokers:
            return
        choice = DirectoryChoice(self.paths(node_id), self.cordoned(node_id))
        choice.count(
            self.path_of(node_id, partition)
            for topic in image.topics.values()
            for partition in topic.partitions
            if partition.directory_of(node_id) in known
        )
        if self._moves is not None:
            choice.count(self._moves.targets(node_id))
        preferred = self._preferred.get(node_id, {})
        chosen = {
            (topic.topic_id, partition.index): choice.next(
                preferred.pop((topic.name, partition.index), None)
            )
            for topic, partition in in_order_of_kafka(replicas, node_id)
        }
        self.assign(node_id, chosen)


def _can_cordon(image: MetadataImage) -> bool:
    return image.features.get(METADATA_VERSION, 0) >= FIRST_WITH_CORDONED_DIRECTORIES


def _has_directories(image: MetadataImage) -> bool:
    return image.features.get(METADATA_VERSION, 0) >= FIRST_WITH_DIRECTORIES


def _has_no_directory(node_id: int, partition: PartitionImage, known: Collection[bytes]) -> bool:
    directory = partition.directory_of(node_id)
    return directory is not None and directory not in known
