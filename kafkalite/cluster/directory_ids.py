"""The ids of the nodes' data directories, as the records of Kafka's metadata contain them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.protocol.uuids import ZERO_UUID, parse_uuid

if TYPE_CHECKING:
    from collections.abc import Mapping


class DirectoryIds:
    """The ids of the directories of a cluster's nodes.

    The nodes share one directory. The node that created it has the id in its meta.properties. The
    others have ids that follow from it and do not change.
    """

    __slots__ = ("_cluster_id", "_properties")

    def __init__(self, cluster_id: str, properties: Mapping[str, str]) -> None:
        """`properties` are the contents of meta.properties."""
        self._cluster_id = cluster_id
        self._properties = properties

    def of_node(self, node_id: int) -> bytes:
        """Return the id of a node's directory."""
        own_id = self._properties.get("directory.id")
        if own_id is not None and self._properties.get("node.id") == str(node_id):
            return parse_uuid(own_id)
        import hashlib  # noqa: PLC0415 - a start with one node does not need it

        name = f"{own_id or self._cluster_id}/{node_id}"
        return hashlib.sha256(name.encode()).digest()[: len(ZERO_UUID)]

    def of_replica(self, node_id: int) -> bytes:
        """Return the id of the directory of a node's replicas; zero, which is unassigned, if none.

        A Kafka before 3.7 writes no id. A later Kafka that starts on the directory chooses one, and
        would miss the replicas in a directory with another id.
        """
        return self.of_node(node_id) if "directory.id" in self._properties else ZERO_UUID
