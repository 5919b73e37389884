"""A killed broker restarts with all data that it acknowledged, also while its nodes fail.

`KAFKALITE_KILLS` is the number of kills while nodes fail.
"""

from __future__ import annotations

import os
import random
import sys
from typing import TYPE_CHECKING, NamedTuple

import pytest

from kafkalite.control.client import ControlClient, ControlError
from kafkalite.control.commands.leaders import MoveLeader
from kafkalite.control.commands.nodes import ChangeNode
from kafkalite.control.endpoint import Endpoint
from tests.clients.client_libraries import client_named
from tests.clients.client_scenario import Group, group_resumes_after_a_restart
from tests.clients.exactly_once_scenario import SINK, SOURCE, Plan, Scenario
from tests.clients.node_failure_scenario import (
    CONFIG,
    KINDS_WITH_STALE_METADATA,
    NODES,
    NodeFailures,
)
from tests.clients.process import running_driver
from tests.clients.worker_processes import Worker
from tests.oracle.fixtures import broker_under_test
from tests.oracle.requirements import required
from tests.oracle.served_kafkalite import ServedKafkalite

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tests.clients.drivers.worker import Task

_KILLS = int(os.environ.get("KAFKALITE_KILLS", "5"))
_SEED = 5

pytestmark = [pytest.mark.client, pytest.mark.endurance]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_resumes_after_the_broker_was_killed(tmp_path: Path, protocol: str) -> None:
    with required():
        target = broker_under_test(tmp_path)
        target.start()
    try:
        with running_driver(client_named("confluent-kafka"), target.bootstrap, tmp_path) as driver:
            group = Group(driver, target, "survivors", "survivors-topic", protocol)
            group_resumes_after_a_restart(group, is_killed=True)
    finally:
        target.kill()


class ServedNodes(ServedKafkalite):
    """Three nodes in one process; clients find any of them."""

    @property
    def bootstrap(self) -> str:
        """Return the addresses of all nodes."""
        return ",".join(f"127.0.0.1:{self.port + number}" for number in range(NODES))


class ControlledNode(NamedTuple):
    """A node of a broker in another process."""

    client: ControlClient
    node_id: int

    def stop(self, *, controlled: bool = False) -> None:
        self.client.send(ChangeNode(self.node_id, "stopped", controlled=controlled))

    def start(self) -> None:
        self.client.send(ChangeNode(self.node_id, "running"))

    def isolate(self) -> None:
        self.client.send(ChangeNode(self.node_id, "isolated"))

    def pause_replication(self) -> None:
        self.client.send(ChangeNode(self.node_id, replication="paused"))

    def resume_replication(self) -> None:
        self.client.send(ChangeNode(self.node_id, replication="running"))

    def freeze_metadata(self) -> None:
        self.client.send(ChangeNode(self.node_id, metadata="frozen"))

    def thaw_metadata(self) -> None:
        self.client.send(ChangeNode(self.node_id, metadata="live"))


class ControlledCluster:
    """The nodes of a broker in another process."""

    def __init__(self, url: str) -> None:
        self._client = ControlClient(Endpoint(url))
        self.nodes: Mapping[int, ControlledNode] = {
            node_id: ControlledNode(self._client, node_id) for node_id in range(1, NODES + 1)
        }

    def move_leader(self, topic: str, partition: int, leader: int) -> None:
        """Make a node the leader; raises ValueError if its replica is not in the ISR."""
        try:
            self._client.send(MoveLeader(topic, partition, leader))
        except ControlError as error:
            raise ValueError(str(error)) from error


@pytest.mark.timeout(60 + 15 * _KILLS)
def test_transactions_survive_kills_while_nodes_fail(tmp_path: Path) -> None:
    """Workers read, transform and write in transactions: each record is written once."""
    config = {name: f"{value}" for name, value in CONFIG.items()}
    target = ServedNodes(tmp_path / "broker", config, brokers=NODES, control=True)
    plan = Plan(
        records=300 * _KILLS, workers=2, batch=20, kills_inside=0, kills_anywhere=0, zombies=0,
        broker_kills=_KILLS, aborts=2, node_failures=4,
    )  # fmt: skip
    choices = random.Random(_SEED)  # noqa: S311 - reproducible
    numbers = iter(range(1_000))

    def start_worker(task: Task, slot: int) -> Worker:
        command = [sys.executable, "-m", "tests.clients.drivers.confluent_worker"]
        return Worker(command, task, tmp_path / f"{slot}-{next(numbers)}.log")

    target.start()
    try:
        nodes = NodeFailures(
            ControlledCluster(target.control_url),
            choices,
            KINDS_WITH_STALE_METADATA,
            (SOURCE, SINK, "__consumer_offsets", "__transaction_state"),
            second_failure_rate=0,  # with two failed nodes, nothing can be written
        )
        scenario = Scenario(target, start_worker, "classic", plan, choices, NODES, nodes)
        results = scenario.run()
    finally:
        target.kill()
    sys.stdout.write(f"{results} {nodes.failures}\n")
    assert nodes.failures.total() == 4 * _KILLS
