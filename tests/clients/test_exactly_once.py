"""Read, transform and write in transactions, with every client that can, through kills."""

from __future__ import annotations

import random
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from tests.clients.crew import Worker
from tests.clients.roster import franz_go_worker, java_worker, kafkajs_worker
from tests.clients.transacting import ASSIGNED, Plan, Story
from tests.oracle.fixtures import broker_under_test
from tests.oracle.requirements import required
from tests.oracle.target import COMMON_CONFIG

if TYPE_CHECKING:
    from pathlib import Path

    from tests.clients.drivers.worker import Task
    from tests.clients.roster import Command
    from tests.clients.transacting import Figures

pytestmark = pytest.mark.client

_CONFIG = {
    **COMMON_CONFIG,
    # So that a worker that was killed is missed soon.
    "group.consumer.heartbeat.interval.ms": "300",
    "group.consumer.session.timeout.ms": "1500",
}
_SEED = 4
SHORT = Plan(
    records=360, workers=2, batch=20, kills_inside=1, kills_anywhere=0, zombies=1, broker_kills=1,
    aborts=1,
)  # fmt: skip
LONG = Plan(
    records=50_000, workers=3, batch=100, kills_inside=5, kills_anywhere=4, zombies=2,
    broker_kills=6, aborts=3,
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Cast:
    """A client, how its workers share the partitions, and the transactions the broker speaks."""

    client: str
    command: Command
    protocol: str = "classic"
    transaction_version: int = 2

    def __str__(self) -> str:
        """Name the test."""
        return f"{self.client}-{self.protocol}-{self.transaction_version}"


def _python(client: str) -> Command:
    return lambda: [sys.executable, "-m", f"tests.clients.drivers.{client}_worker"]


CASTS = (
    Cast(client="librdkafka", command=_python("confluent"), protocol="consumer"),
    Cast(client="aiokafka", command=_python("aiokafka"), protocol=ASSIGNED),
)
# Among the long forms alone: a worker of Go has to be built, each of Java is a process that starts
# slowly, and the others take as long as one of the above.
FURTHER_CASTS = (
    Cast(client="java", command=java_worker),
    Cast(client="franz-go", command=franz_go_worker),
    Cast(client="java", command=java_worker, transaction_version=1),
    Cast(client="kafkajs", command=kafkajs_worker, protocol=ASSIGNED),
    Cast(client="kafka-python", command=_python("kafka_python")),
    Cast(client="java", command=java_worker, protocol="consumer", transaction_version=1),
    Cast(client="java", command=java_worker, protocol="consumer"),
    Cast(client="librdkafka", command=_python("confluent")),
)


def _live(cast: Cast, plan: Plan, directory: Path) -> Figures:
    with required():
        command = cast.command()
        features = {"transaction.version": str(cast.transaction_version)}
        target = broker_under_test(directory / "broker", _CONFIG, features)
        target.start()

    hired = iter(range(1_000))

    def hire(task: Task, seat: int) -> Worker:
        return Worker(command, task, directory / f"{seat}-{next(hired)}.log")

    try:
        story = Story(target, hire, cast.protocol, plan, random.Random(_SEED))  # noqa: S311 - a story that can be told again
        return story.live()
    finally:
        target.kill()


def _check(figures: Figures, plan: Plan) -> None:
    """Something was rolled back, and every zombie was told that it is one."""
    sys.stdout.write(f"{figures}\n")
    assert figures.rolled_back > 0
    assert figures.fenced.total() == plan.zombies


@pytest.mark.parametrize("cast", CASTS, ids=str)
def test_every_record_is_written_once(cast: Cast, tmp_path: Path) -> None:
    _check(_live(cast, SHORT, tmp_path), SHORT)


@pytest.mark.endurance
@pytest.mark.timeout(600)
@pytest.mark.parametrize("cast", CASTS + FURTHER_CASTS, ids=str)
def test_every_record_of_many_is_written_once(cast: Cast, tmp_path: Path) -> None:
    _check(_live(cast, LONG, tmp_path), LONG)
