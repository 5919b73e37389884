"""Each node has an id of its directory, which does not change."""

from __future__ import annotations

from kafkalite.cluster.directory_ids import DirectoryIds
from kafkalite.protocol.uuids import ZERO_UUID

_PROPERTIES = {"node.id": "2", "directory.id": "AAECAwQFBgcICQoLDA0ODw"}


def test_the_node_that_created_the_directory_has_the_id_of_its_properties() -> None:
    ids = DirectoryIds("cluster", _PROPERTIES)
    assert ids.of_node(2) == ids.of_replica(2) == bytes(range(16))


def test_other_nodes_have_ids_that_follow_from_it() -> None:
    ids, later = DirectoryIds("cluster", _PROPERTIES), DirectoryIds("cluster", _PROPERTIES)
    assert len({ids.of_node(node_id) for node_id in (1, 2, 3)} | {ZERO_UUID}) == 4
    assert ids.of_replica(3) == ids.of_node(3) == later.of_node(3)


def test_replicas_are_unassigned_if_the_directory_has_no_id() -> None:
    ids = DirectoryIds("cluster", {"node.id": "2"})
    assert ids.of_replica(2) == ZERO_UUID
    assert ids.of_node(2) != ZERO_UUID
