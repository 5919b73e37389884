"""Health checks, the list of commands, and their description."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

from kafkalite.control.commands.health import DescribeCommands, ListCommands, ShowLiveness
from kafkalite.storage.disk_health import DiskFailure, DiskProblem

if TYPE_CHECKING:
    from kafkalite.server.broker import Broker


async def test_the_commands_are_listed_by_path() -> None:
    paths = (await ListCommands().perform(cast("Broker", None))).paths
    assert paths["/v1/clock"].startswith("GET: Return the time of the broker. POST {")
    assert "DELETE: Remove a fault" in paths["/v1/faults/ID"]


async def test_the_commands_are_described() -> None:
    document = await DescribeCommands().perform(cast("Broker", None))
    assert document["openapi"].startswith("3.1.")


async def test_a_broker_that_cannot_store_records_is_degraded() -> None:
    broker = SimpleNamespace(disk_failures=[DiskFailure(DiskProblem.DAMAGED, "a", "b")])
    assert (await ShowLiveness().perform(cast("Broker", broker))).status == "ok"
    broker.disk_failures.append(DiskFailure(DiskProblem.MISSING, "a", "b"))
    assert (await ShowLiveness().perform(cast("Broker", broker))).status == "degraded"
