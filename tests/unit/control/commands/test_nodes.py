"""Commands to nodes, as a broker carries them out."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from kafkalite.cluster.node_control import UnknownNodeError
from kafkalite.control.command_table import CommandError
from kafkalite.control.commands.leaders import MoveLeader
from kafkalite.control.commands.nodes import (
    REMOVED,
    AddNode,
    ChangeNode,
    ListNodes,
    RemoveNode,
    ShowNode,
)
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from tests.unit.control.three_nodes import three_nodes

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from kafkalite.server.broker import Broker


@pytest.fixture
async def cluster() -> AsyncIterator[Broker]:
    async with three_nodes() as running:
        yield running


async def test_a_command_returns_the_affected_nodes(cluster: Broker) -> None:
    listed = (await ListNodes().perform(cluster)).nodes
    assert [status.id for status in listed] == [1, 2, 3]
    assert await ShowNode(2).perform(cluster) == listed[1]
    stopped = await ChangeNode(2, "stopped").perform(cluster)
    assert stopped == (await ListNodes().perform(cluster)).nodes[1]
    assert (stopped.state, stopped.metadata, stopped.led_partitions) == ("stopped", "stale", 0)
    started = await ChangeNode(2, "running").perform(cluster)
    assert started.listeners == listed[1].listeners
    frozen = await ChangeNode(2, metadata="frozen").perform(cluster)
    assert frozen.metadata == "frozen"
    paused = await ChangeNode(2, replication="paused").perform(cluster)
    assert paused.replication == "paused"


async def test_a_refusal_of_the_disk_is_one_sentence(
    cluster: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cluster.cluster is not None

    def refuse(node_id: int) -> None:
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"no space for node {node_id}.")

    monkeypatch.setattr(cluster.cluster.metadata, "fence", refuse)
    with pytest.raises(CommandError, match=r"^KAFKA_STORAGE_ERROR: no space for node 2$"):
        await ChangeNode(2, "stopped").perform(cluster)


async def test_a_broker_that_is_not_running_has_no_nodes() -> None:
    stopped = cast("Broker", SimpleNamespace(cluster=None))
    with pytest.raises(CommandError, match=r"^the broker is not running$"):
        await ListNodes().perform(stopped)
    with pytest.raises(CommandError, match=r"^the broker is not running$"):
        await MoveLeader("t", 0, 1).perform(stopped)


async def test_nodes_are_added_and_removed(cluster: Broker) -> None:
    added = await AddNode(config={"broker.rack": "b"}).perform(cluster)
    assert (added.id, added.state, added.rack, added.registered) == (
        4,
        "running",
        "b",
        True,
    )
    assert await ShowNode(4).perform(cluster) == added
    for invalid, reason in (
        (AddNode(4), r"^node 4 exists already$"),
        (
            AddNode(5, {"group.version": "1"}),
            r"^node 5: group.version cannot differ between nodes",
        ),
    ):
        with pytest.raises(CommandError, match=reason):
            await invalid.perform(cluster)
    with pytest.raises(CommandError, match=r"^node 1 cannot be removed: it has replicas of 1 part"):
        await RemoveNode(1).perform(cluster)
    removed = await RemoveNode(4).perform(cluster)
    assert (removed.id, removed.state, removed.registered) == (4, REMOVED, False)
    assert len((await ListNodes().perform(cluster)).nodes) == 3
    with pytest.raises(UnknownNodeError):
        await RemoveNode(4).perform(cluster)


async def test_an_unregistered_node_is_not_registered(cluster: Broker) -> None:
    assert cluster.cluster is not None
    cluster.cluster.metadata.unregister_broker(2)
    status = await ShowNode(2).perform(cluster)
    assert (status.state, status.registered) == ("running", False)
    started = await ChangeNode(2, "running").perform(cluster)
    assert started.registered
