"""The replica that a consumer reads from: by rack, ISR, end offset and start offset."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.metadata.image import BrokerImage, PartitionImage
from kafkalite.partitions.replica_selection import NO_REPLICA, preferred_read_replica
from kafkalite.partitions.replicas import ReplicaView
from tests.unit.data_plane import DataPlane

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

NOW_MS = 1000
RACKS = {0: "a", 1: "b", 2: "b", 3: None}


@pytest.fixture
def plane(tmp_path: Path) -> DataPlane:
    """Return partition t-0 with three records; node 0 leads it."""
    plane = DataPlane(tmp_path)
    plane.create(replicas=(0, 1, 2, 3))
    for _ in range(3):
        plane.append(b"x")
    return plane


def let_lag(plane: DataPlane, node_id: int, end_offset: int, caught_up_ms: int = 0) -> None:
    """Let a replica end at `end_offset`."""
    partition = plane.partition()
    view = partition.views[node_id] = ReplicaView(partition)
    view.replica_end = end_offset
    view.caught_up_ms = caught_up_ms


def selected(
    plane: DataPlane,
    rack: str,
    fetch_offset: int = 0,
    *,
    isr: Sequence[int] = (0, 1, 2, 3),
    leader: int = 0,
) -> int:
    """Return the replica that a consumer in `rack` should read from."""
    return preferred_read_replica(
        plane.partition(),
        PartitionImage(
            index=0,
            leader=leader,
            leader_epoch=0,
            partition_epoch=0,
            replicas=(0, 1, 2, 3),
            isr=tuple(isr),
        ),
        {node_id: BrokerImage(node_id, node_id, rack) for node_id, rack in RACKS.items()},
        rack=rack,
        fetch_offset=fetch_offset,
        now_ms=NOW_MS,
    )


@pytest.mark.parametrize(("rack", "leader"), [("a", 0), ("b", 1), ("b", 2)])
def test_leader_in_the_rack_is_read_from(plane: DataPlane, rack: str, leader: int) -> None:
    assert selected(plane, rack, leader=leader) == NO_REPLICA


@pytest.mark.parametrize("rack", ["c", "", "A"])
def test_leader_is_read_from_if_no_replica_is_in_the_rack(plane: DataPlane, rack: str) -> None:
    assert selected(plane, rack) == NO_REPLICA


def test_equal_replicas_are_selected_by_their_id(plane: DataPlane) -> None:
    assert selected(plane, "b") == 2


def test_replica_that_is_not_in_sync_is_not_selected(plane: DataPlane) -> None:
    assert selected(plane, "b", isr=(0, 1)) == 1
    assert selected(plane, "b", isr=(0, 3)) == NO_REPLICA


def test_replica_with_most_records_is_selected(plane: DataPlane) -> None:
    let_lag(plane, 2, end_offset=2)
    assert selected(plane, "b") == 1


def test_replica_that_was_in_sync_last_is_selected_among_equally_long_ones(
    plane: DataPlane,
) -> None:
    let_lag(plane, 2, end_offset=2, caught_up_ms=500)
    let_lag(plane, 1, end_offset=2, caught_up_ms=700)
    assert selected(plane, "b") == 1


def test_replica_without_the_offset_is_not_selected(plane: DataPlane) -> None:
    let_lag(plane, 1, end_offset=2)
    let_lag(plane, 2, end_offset=1)
    assert selected(plane, "b", 2) == 1
    assert selected(plane, "b", 3) == NO_REPLICA


def test_deleted_offset_is_fetched_from_the_leader(plane: DataPlane) -> None:
    plane.partition().delete_records(2)
    assert selected(plane, "b", 1) == NO_REPLICA
    assert selected(plane, "b", 2) == 2
