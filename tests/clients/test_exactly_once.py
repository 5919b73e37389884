"""Exactly-once processing with every client that supports it, despite kills."""

from __future__ import annotations

import random
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from tests.clients.client_libraries import franz_go_worker, java_worker, kafkajs_worker
from tests.clients.exactly_once_scenario import ASSIGNED, Plan, Scenario
from tests.clients.worker_processes import Worker
from tests.oracle.fixtures import broker_under_test
from tests.oracle.requirements import required
from tests.oracle.target import COMMON_CONFIG

if TYPE_CHECKING:
    from pathlib import Path

    from tests.clients.client_libraries import Command
    from tests.clients.drivers.worker import Task
    from tests.clients.exactly_once_scenario import Results

pytestmark = [pytest.mark.client, pytest.mark.endurance]

_CONFIG = {
    **COMMON_CONFIG,
    # So that a killed worker is detected soon.
    "group.consumer.heartbeat.interval.ms": "300",
    "group.consumer.session.timeout.ms": "1500",
}
_SEED = 4
PLAN = Plan(
    records=20_000, workers=3, batch=100, kills_inside=5, kills_anywhere=4, zombies=2,
    broker_kills=6, aborts=3,
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSetup:
    """A client, its group protocol, and the broker's transaction version."""

    client: str
    command: Command
    protocol: str = "classic"
    transaction_version: int = 2

    def __str__(self) -> str:
        """Return the name of the test."""
        return f"{self.client}-{self.protocol}-{self.transaction_version}"


def _python(client: str) -> Command:
    return lambda: [sys.executable, "-m", f"tests.clients.drivers.{client}_worker"]


WORKER_SETUPS = (
    WorkerSetup(client="librdkafka", command=_python("confluent"), protocol="consumer"),
    WorkerSetup(client="aiokafka", command=_python("aiokafka"), protocol=ASSIGNED),
    WorkerSetup(client="java", command=java_worker),
    WorkerSetup(client="franz-go", command=franz_go_worker),
    WorkerSetup(client="kafkajs", command=kafkajs_worker, protocol=ASSIGNED),
    WorkerSetup(client="kafka-python", command=_python("kafka_python")),
    WorkerSetup(client="java", command=java_worker, protocol="consumer", transaction_version=1),
    WorkerSetup(client="librdkafka", command=_python("confluent")),
)


def _run_scenario(setup: WorkerSetup, plan: Plan, directory: Path) -> Results:
    with required():
        command = setup.command()
        features = {"transaction.version": str(setup.transaction_version)}
        target = broker_under_test(directory / "broker", _CONFIG, features)
        target.start()

    numbers = iter(range(1_000))

    def start_worker(task: Task, slot: int) -> Worker:
        return Worker(command, task, directory / f"{slot}-{next(numbers)}.log")

    try:
        scenario = Scenario(target, start_worker, setup.protocol, plan, random.Random(_SEED))  # noqa: S311 - reproducible
        return scenario.run()
    finally:
        target.kill()


def _check(results: Results, plan: Plan) -> None:
    """Check that transactions were aborted, and that every zombie was fenced."""
    sys.stdout.write(f"{results}\n")
    assert results.rolled_back > 0
    assert results.fenced.total() == plan.zombies


@pytest.mark.timeout(600)
@pytest.mark.parametrize("setup", WORKER_SETUPS, ids=str)
def test_every_record_is_written_once(setup: WorkerSetup, tmp_path: Path) -> None:
    _check(_run_scenario(setup, PLAN, tmp_path), PLAN)
