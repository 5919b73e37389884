"""ReplicationThrottle: copies of replicas that are not in sync, limited by rates (KIP-73)."""

from __future__ import annotations

import errno
import sys
from typing import TYPE_CHECKING, Final

import pytest

from kafkalite.metadata.configs import AlterOperation, ConfigChange
from kafkalite.metadata.image import ConfigResource, ResourceType
from kafkalite.metadata.reassignment import RequestedReassignment, is_reassigned
from kafkalite.storage.log import Log
from tests.unit.cluster.replicated import ReplicatedCluster

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from types import FrameType
    from typing import NoReturn

RECORD: Final = bytes(400)
"""A fetch of `MAX_BYTES` returns two batches with such a record."""
MAX_BYTES: Final = 1_000
BATCH_BYTES: Final = 472
BACKOFF_MS: Final = 1_000
CONFIG: Final = {"replica.fetch.max.bytes": str(MAX_BYTES)}
LEADER, FOLLOWER = "leader", "follower"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ReplicatedCluster]:
    """Return a cluster whose topic `m` has ten batches, and replicas at nodes 1 and 2."""
    cluster = ReplicatedCluster(tmp_path, CONFIG)
    cluster.create_replicated("m", (1, 2))
    for _ in range(10):
        cluster.append(RECORD, name="m")
    yield cluster
    cluster.end()


def set_value(
    cluster: ReplicatedCluster, kind: ResourceType, name: str, key: str, value: str
) -> None:
    change = ConfigChange(key, AlterOperation.SET, value)
    resource = ConfigResource(kind, name)
    assert cluster.cluster.metadata.alter_configs({resource: [change]}) == {resource: None}


def throttle(
    cluster: ReplicatedCluster, role: str, node: int, rate: int, replicas: str = "*"
) -> None:
    """Limit the copies of topic `m` that a node sends or receives, in bytes per second."""
    set_value(
        cluster, ResourceType.BROKER, str(node), f"{role}.replication.throttled.rate", str(rate)
    )
    key = f"{role}.replication.throttled.replicas"
    set_value(cluster, ResourceType.TOPIC, "m", key, replicas)


def move(cluster: ReplicatedCluster, *replicas: int) -> None:
    requested = RequestedReassignment("m", 0, replicas or None)
    assert cluster.cluster.metadata.alter_reassignments([requested]) == [None]


def copied(cluster: ReplicatedCluster, node: int = 3) -> int:
    """Return the end offset of the replica of `m` at a node."""
    return cluster.partition("m").end_offset_of(node)


def ends(cluster: ReplicatedCluster, seconds: int, node: int = 3) -> list[int]:
    """Return the end offset of the replica after each second."""
    found = []
    for _ in range(seconds):
        cluster.clock.advance(BACKOFF_MS)
        found.append(copied(cluster, node))
    return found


@pytest.mark.parametrize(("role", "node"), [(LEADER, 1), (FOLLOWER, 3)])
def test_a_throttled_replica_copies_at_its_rate(
    cluster: ReplicatedCluster, role: str, node: int
) -> None:
    throttle(cluster, role, node, BATCH_BYTES)
    move(cluster, 1, 3)
    assert (copied(cluster), cluster.state("m")) == (2, (1, 0, {1, 2}))
    assert is_reassigned(cluster.image("m"))
    # Two batches are sent whenever the average since the first one is at the limit.
    assert ends(cluster, 8) == [2, 4, 4, 6, 6, 8, 8, 10]
    assert cluster.state("m") == (1, 1, {1, 3})
    assert not is_reassigned(cluster.image("m"))
    assert cluster.partition("m").views == {}


def test_samples_are_forgotten(cluster: ReplicatedCluster) -> None:
    throttle(cluster, LEADER, 1, 1)
    move(cluster, 1, 3)
    assert ends(cluster, 12) == [*([2] * 10), 4, 4]


def test_a_fetch_has_at_least_one_batch(tmp_path: Path) -> None:
    cluster = ReplicatedCluster(tmp_path, {"replica.fetch.max.bytes": "1"})
    cluster.create_replicated("m", (1, 2))
    cluster.append(RECORD, name="m")
    cluster.append(RECORD, name="m")
    throttle(cluster, LEADER, 1, 1)
    move(cluster, 1, 3)
    assert copied(cluster) == 1
    cluster.end()


@pytest.mark.parametrize(
    ("role", "replicas"),
    [(LEADER, "0:2"), (LEADER, "1:1"), (FOLLOWER, "0:1,0:2"), (FOLLOWER, "")],
)
def test_only_replicas_in_the_list_are_throttled(
    cluster: ReplicatedCluster, role: str, replicas: str
) -> None:
    throttle(cluster, role, 1, 1, replicas)
    throttle(cluster, role, 3, 1, replicas)
    move(cluster, 1, 3)
    assert cluster.state("m") == (1, 1, {1, 3})


def test_a_long_list_is_not_parsed_for_each_partition(tmp_path: Path) -> None:
    cluster = ReplicatedCluster(tmp_path, CONFIG)
    count = 100
    cluster.create_replicated("m", *[(1, 2)] * count)
    cluster.append(RECORD, RECORD, name="m")
    throttle(cluster, LEADER, 1, 1, ",".join(f"{index}:1" for index in range(count)))
    names = 0

    def count_names(_: FrameType, event: str, called: object) -> None:
        nonlocal names
        names += event == "c_call" and getattr(called, "__name__", "") == "strip"

    sys.setprofile(count_names)
    moves = [RequestedReassignment("m", index, (1, 3)) for index in range(count)]
    assert cluster.cluster.metadata.alter_reassignments(moves) == [None] * count
    sys.setprofile(None)
    assert names <= count
    cluster.end()


@pytest.mark.parametrize(("role", "replicas"), [(LEADER, "0:1"), (FOLLOWER, "1:3,0:3")])
def test_a_list_names_a_partition_and_a_node(
    cluster: ReplicatedCluster, role: str, replicas: str
) -> None:
    throttle(cluster, role, 1, 1, replicas)
    throttle(cluster, role, 3, 1, replicas)
    move(cluster, 1, 3)
    assert copied(cluster) == 2


def test_replicas_without_a_rate_are_not_throttled(cluster: ReplicatedCluster) -> None:
    set_value(cluster, ResourceType.TOPIC, "m", "leader.replication.throttled.replicas", "*")
    move(cluster, 1, 3)
    assert cluster.state("m") == (1, 1, {1, 3})


def test_replicas_in_sync_are_not_throttled(cluster: ReplicatedCluster) -> None:
    throttle(cluster, LEADER, 1, 1)
    cluster.append(RECORD, name="m")
    assert copied(cluster, node=2) == 11


def test_the_end_of_a_throttle_lets_replicas_follow(cluster: ReplicatedCluster) -> None:
    throttle(cluster, LEADER, 1, 1)
    move(cluster, 1, 3)
    throttle(cluster, LEADER, 1, 1_000_000)
    cluster.clock.advance(BACKOFF_MS)
    assert cluster.state("m") == (1, 1, {1, 3})


def test_a_cancelled_reassignment_removes_the_replica(cluster: ReplicatedCluster) -> None:
    throttle(cluster, LEADER, 1, 1)
    move(cluster, 1, 3)
    move(cluster)
    assert (cluster.image("m").replicas, set(cluster.image("m").isr)) == ((1, 2), {1, 2})
    assert cluster.partition("m").views == {}
    assert not is_reassigned(cluster.image("m"))
    cluster.clock.advance(20 * BACKOFF_MS)
    assert cluster.partition("m").views == {}


def test_a_replica_that_returns_copies_what_it_lacks(cluster: ReplicatedCluster) -> None:
    cluster.control.stop(2)
    for _ in range(4):
        cluster.append(RECORD, name="m")
    throttle(cluster, LEADER, 1, 1)
    cluster.control.start(2)
    assert (copied(cluster, node=2), cluster.state("m")) == (12, (1, 0, {1}))
    assert cluster.partition("m").high_watermark == 14
    assert ends(cluster, 11, node=2)[-1] == 14
    assert cluster.state("m") == (1, 0, {1, 2})


def test_replicas_of_one_round_are_fetched_together(cluster: ReplicatedCluster) -> None:
    throttle(cluster, LEADER, 1, 1)
    move(cluster, 1, 3, 2)
    cluster.control.stop(2)
    cluster.append(RECORD, name="m")
    cluster.control.start(2)
    # The rate is exceeded already, by the copy to node 3.
    assert [copied(cluster, node) for node in (2, 3)] == [10, 2]
    # One fetch of each follower then has the rest of the log, or two batches.
    assert ends(cluster, 11, node=3)[-1] == 4
    assert copied(cluster, node=2) == 11


def test_a_stopped_node_forgets_its_rates(cluster: ReplicatedCluster) -> None:
    throttle(cluster, FOLLOWER, 3, 1)
    move(cluster, 1, 2, 3)
    assert copied(cluster) == 2
    cluster.control.stop(3)
    cluster.control.start(3)
    assert copied(cluster) == 4


def test_nothing_is_copied_from_a_log_that_cannot_be_read(
    cluster: ReplicatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(log: Log, *_: object) -> NoReturn:
        raise OSError(errno.EIO, "the disk is broken", log.directory)

    throttle(cluster, LEADER, 1, BATCH_BYTES)
    with monkeypatch.context() as broken:
        broken.setattr(Log, "batches", fail)
        move(cluster, 1, 3)
        assert copied(cluster) == 0
    cluster.clock.advance(BACKOFF_MS)
    assert copied(cluster) == 2
