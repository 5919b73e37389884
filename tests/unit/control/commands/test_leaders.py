"""The command that moves a leader."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.control.command_table import CommandError
from kafkalite.control.commands.leaders import MoveLeader
from tests.unit.control.three_nodes import leader_of, three_nodes

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from kafkalite.server.broker import Broker


@pytest.fixture
async def cluster() -> AsyncIterator[Broker]:
    async with three_nodes() as running:
        yield running


async def test_a_leader_is_moved(cluster: Broker) -> None:
    leader = leader_of(cluster)
    target = leader % 3 + 1
    moved = await MoveLeader("t", 0, target).perform(cluster)
    assert (moved.leader, moved.leader_epoch) == (target, 1) == (leader_of(cluster), 1)
    assert (moved.end_offset, moved.truncated_records) == (0, 0)
    assert await MoveLeader("t", 0, target).perform(cluster) == moved
    for impossible in (MoveLeader("t", 0, 4), MoveLeader("t", 1, 1), MoveLeader("u", 0, 1)):
        with pytest.raises(CommandError):
            await impossible.perform(cluster)
    assert leader_of(cluster) == target
