"""Nodes of a cluster that has only the parts that a test needs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from kafkalite.cluster.log_directories import DirectoryIds, LogDirectories
from kafkalite.cluster.node import Endpoint, Node, UnreadAnswers
from kafkalite.config.broker import BrokerConfig
from kafkalite.coordinator.event_history import EventHistory
from kafkalite.testing.files import MemoryFiles

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kafkalite.cluster.cluster import Cluster
    from kafkalite.storage.data_directory import DataDirectory

PARTS = (
    "clock", "entropy", "config", "metadata", "partitions", "groups", "shares", "share_partitions",
    "transactions", "pace",
)  # fmt: skip


class PartialCluster:
    """The parts of a cluster that handlers of one family need."""

    config: BrokerConfig | None
    partitions: Any

    def __init__(
        self,
        endpoints: Callable[[str], Sequence[Endpoint]] | None = None,
        **parts: Any,  # noqa: ANN401 - any parts
    ) -> None:
        self.id = "cluster"
        self.nodes: dict[int, Node] = {}
        self.cut_links: frozenset[tuple[int, int]] = frozenset()
        self.history = parts.pop("history", None) or EventHistory()
        self.unread_answers = parts.pop("unread_answers", None) or UnreadAnswers()
        self.image = parts.pop("image", None)
        self._endpoints = endpoints
        for name in PARTS:
            setattr(self, name, parts.pop(name, None))
        self.config = self.config or BrokerConfig.from_text()
        assert not parts, parts
        path = "" if self.partitions is None else self.partitions.directory
        ids = DirectoryIds(self.id, {})
        directory = cast("DataDirectory", SimpleNamespace(path=path, files=MemoryFiles()))
        self.log_directories = LogDirectories(cast("Cluster", self), ids, directory)

    @property
    def controller_config(self) -> BrokerConfig:
        """The settings of the controller."""
        assert self.config is not None
        return self.config

    def endpoints(self, listener: str) -> Sequence[Endpoint]:
        """Return the addresses for clients."""
        return [] if self._endpoints is None else self._endpoints(listener)


def node_of(node_id: int = 1, **parts: Any) -> Node:  # noqa: ANN401 - see PartialCluster
    """Return one node of a cluster with these parts."""
    return nodes_of((node_id,), **parts)[node_id]


def nodes_of(node_ids: Sequence[int], **parts: Any) -> dict[int, Node]:  # noqa: ANN401 - same
    """Return the nodes of a cluster with these parts."""
    cluster = PartialCluster(**parts)
    if cluster.image is None:
        metadata = cast("Any", cluster).metadata
        cluster.image = None if metadata is None else metadata.image
    for node_id in node_ids:
        cluster.nodes[node_id] = Node(node_id, cast("Cluster", cluster), image=cluster.image)
    return cluster.nodes
