"""Each node has an id of its directory, which does not change."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.cluster import log_directories
from kafkalite.cluster.log_directories import DirectoryIds
from kafkalite.metadata.configs import AlterOperation, ConfigChange
from kafkalite.metadata.creation import NewTopic
from kafkalite.metadata.features import (
    FIRST_WITH_CORDONED_DIRECTORIES,
    METADATA_VERSION,
    FeatureUpdate,
)
from kafkalite.metadata.image import ConfigResource, ResourceType
from kafkalite.metadata.reassignment import RequestedReassignment
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.uuids import ZERO_UUID
from kafkalite.testing.files import MemoryFiles
from tests.cluster.cluster import TestCluster

if TYPE_CHECKING:
    from pathlib import Path

    from kafkalite.protocol.errors import KafkaError

_PROPERTIES = {"node.id": "2", "directory.id": "AAECAwQFBgcICQoLDA0ODw"}


def test_the_node_that_created_the_directory_has_the_id_of_its_properties() -> None:
    ids = DirectoryIds("cluster", _PROPERTIES)
    assert (ids.of_node(2),) == ids.of_replicas(2) == (bytes(range(16)),)


def test_other_nodes_have_ids_that_follow_from_it() -> None:
    ids, later = DirectoryIds("cluster", _PROPERTIES), DirectoryIds("cluster", _PROPERTIES)
    assert len({ids.of_node(node_id) for node_id in (1, 2, 3)} | {ZERO_UUID}) == 4
    assert ids.of_replicas(3) == (ids.of_node(3),) == (later.of_node(3),)


def test_replicas_have_no_directory_if_the_directory_has_no_id() -> None:
    ids = DirectoryIds("cluster", {"node.id": "2"})
    assert ids.of_replicas(2) == ()
    assert ids.of_node(2) != ZERO_UUID


class Directories:
    """A cluster of two nodes with two directories each, unless node 2 has its own."""

    def __init__(
        self,
        path: Path,
        *,
        paths: str = "/a,/b",
        of_node_two: str | None = None,
        files: MemoryFiles | None = None,
        cordoned: str | None = None,
        as_version: str | None = None,
    ) -> None:
        self.files = MemoryFiles() if files is None else files
        self.wire = TestCluster(
            path,
            nodes=2,
            config={"log.dirs": paths} | ({"cordoned.log.dirs": cordoned} if cordoned else {}),
            as_version=as_version,
            node_config={} if of_node_two is None else {2: {"log.dirs": of_node_two}},
            files=self.files,
        )

    def create(self, name: str, *replicas: tuple[int, ...]) -> list[KafkaError | None]:
        """Create a topic with these replicas; return the error."""
        new = NewTopic(name=name, assignments=tuple(enumerate(replicas)))
        return [each.error for each in self.wire.cluster.metadata.create_topics([new])]

    def of(self, name: str, node_id: int) -> list[str]:
        """Return the directory of each partition of a topic on a node."""
        cluster = self.wire.cluster
        topic = cluster.metadata.image.topics[name]
        return [cluster.log_directories.path_of(node_id, each) for each in topic.partitions]

    def cordon(self, node_id: int, value: str) -> None:
        """Set the cordoned directories of a node."""
        resource = ConfigResource(ResourceType.BROKER, str(node_id))
        changes = {resource: [ConfigChange("cordoned.log.dirs", AlterOperation.SET, value)]}
        assert list(self.wire.cluster.metadata.alter_configs(changes).values()) == [None]


@pytest.fixture
def directories(tmp_path: Path) -> Directories:
    return Directories(tmp_path)


def test_new_replicas_are_spread_on_each_node(directories: Directories) -> None:
    assert directories.create("t", (1, 2), (2, 1), (1, 2)) == [None]
    assert sorted(directories.of("t", 1)) == ["/a", "/a", "/b"]
    assert sorted(directories.of("t", 2)) == ["/a", "/a", "/b"]
    before = directories.of("t", 1), directories.of("t", 2)
    directories.wire.restart()
    assert (directories.of("t", 1), directories.of("t", 2)) == before


def test_a_node_has_directories_of_its_own(tmp_path: Path) -> None:
    directories = Directories(tmp_path, of_node_two="/x")
    found = directories.wire.cluster.log_directories
    assert (found.paths(1), found.paths(2)) == (("/a", "/b"), ("/x",))
    directories.create("t", (2,), (2,))
    assert directories.of("t", 2) == ["/x", "/x"]


def test_preferred_directories_are_remembered_up_to_a_limit(
    directories: Directories, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_directories, "MAX_PREFERENCES", 2)
    for index, path in ((0, "/a"), (1, "/a"), (2, "/a"), (0, "/b"), (1, "/b")):
        directories.wire.cluster.log_directories.prefer(1, "t", index, path)
    directories.create("t", (1,), (1,), (1,))
    assert directories.of("t", 1) == ["/b", "/b", "/a"]
    directories.wire.cluster.log_directories.prefer(1, "u", 0, "/b")
    directories.create("u", (1,))
    assert directories.of("u", 1) == ["/b"]


@pytest.mark.parametrize("offline", ["/a", "/b"])
def test_an_offline_directory_has_no_replicas(directories: Directories, offline: str) -> None:
    cluster = directories.wire.cluster
    found, (id_of_a, id_of_b) = cluster.log_directories, cluster.log_directories.ids(1)
    cluster.config.offline_log_directories[1] = [offline]
    other = "/b" if offline == "/a" else "/a"
    assert (found.paths(1), found.offline(1)) == ((other,), (offline,))
    assert found.ids(1) == (id_of_b if offline == "/a" else id_of_a,)
    directories.create("t", (1,), (1,))
    assert directories.of("t", 1) == [other, other]


def test_replicas_remain_when_others_are_added(directories: Directories) -> None:
    directories.create("t", (1,), (1,))
    before = directories.of("t", 1)
    directories.wire.cluster.metadata.alter_reassignments(
        [RequestedReassignment("t", index, (1, 2)) for index in range(2)]
    )
    assert directories.of("t", 1) == before
    assert sorted(directories.of("t", 2)) == ["/a", "/b"]


def test_cordoned_directories_are_registered_and_survive_a_restart(
    directories: Directories,
) -> None:
    directories.cordon(1, "/a")
    for _ in range(2):
        cluster = directories.wire.cluster
        ids = cluster.log_directories.ids(1)
        broker = cluster.metadata.image.brokers[1]
        assert (broker.directories, broker.cordoned_directories) == (ids, ids[:1])
        assert not broker.is_cordoned
        directories.wire.restart()
    directories.create("t", (1,), (1,))
    assert directories.of("t", 1) == ["/b", "/b"]


def test_directories_of_the_properties_are_cordoned_when_the_level_allows_it(
    tmp_path: Path,
) -> None:
    older = Directories(tmp_path, as_version="4.2")
    older.wire.end()
    directories = Directories(tmp_path, files=older.files, cordoned="*")
    metadata = directories.wire.cluster.metadata
    assert directories.create("t", (1,)) == [None]
    level = FIRST_WITH_CORDONED_DIRECTORIES
    assert metadata.update_features([FeatureUpdate(METADATA_VERSION, level)]) == {}
    assert all(broker.is_cordoned for broker in metadata.image.brokers.values())
    (error,) = directories.create("u", (1,))
    assert error is not None
    assert error.code == ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_a_node_whose_directories_are_cordoned_receives_nothing(directories: Directories) -> None:
    directories.cordon(1, "*")
    (error,) = directories.create("t", (1,))
    assert error is not None
    assert error.code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    (made,) = directories.wire.cluster.metadata.create_topics(
        [NewTopic(name="u", partitions=3, replication_factor=1)]
    )
    assert made.error is None
    topic = directories.wire.cluster.metadata.image.topics["u"]
    assert {each.replicas for each in topic.partitions} == {(2,)}


def test_earlier_levels_of_metadata_have_one_directory(tmp_path: Path) -> None:
    wire = TestCluster(tmp_path, config={"log.dirs": "/a,/b"}, as_version="3.6")
    assert wire.cluster.log_directories.paths(1) == ("/a",)
    wire.cluster.metadata.create_topics([NewTopic(name="t", partitions=2, replication_factor=1)])
    image = wire.cluster.metadata.image
    found = {wire.cluster.log_directories.path_of(1, each) for each in image.topics["t"].partitions}
    assert found == {"/a"}


def test_a_directory_that_is_not_configured_any_more_is_replaced(tmp_path: Path) -> None:
    directories = Directories(tmp_path)
    directories.create("t", (1,), (1,), (1,), (1,))
    directories.wire.end()
    directories = Directories(tmp_path, files=directories.files, paths="/a,/c")
    assert sorted(directories.of("t", 1)) == ["/a", "/a", "/c", "/c"]
