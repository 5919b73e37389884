"""Kafka Connect in exactly-once mode (KIP-618): each line is there once, whatever workers meet.

Files grow; file connectors write their lines to one topic, and a mirror connector of several tasks
copies that to another. Workers are killed, stopped and let go again, and reconfigured meanwhile.
"""

from __future__ import annotations

import json
import logging
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, ConfigResource  # type: ignore[attr-defined]
from confluent_kafka.cimpl import NewTopic

from kafkalite.control.client import ControlClient
from kafkalite.storage.batch import BatchView, split_batches
from tests.clients.committed import CommittedReader
from tests.clients.connect import CONFIGS, OFFSET_PARTITIONS, OFFSETS, STATUSES, Worker
from tests.clients.meanwhile import meanwhile
from tests.clients.observer import wait_until
from tests.clients.plant import (
    CONNECTORS,
    COPY,
    LINES,
    MIRROR,
    PARTITIONS,
    PATIENCE_S,
    Files,
    Plant,
)
from tests.oracle.fixtures import broker_under_test
from tests.oracle.jars import jar_directory
from tests.oracle.requirements import required
from tests.oracle.served_kafkalite import ServedKafkalite

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from confluent_kafka import Message

    from tests.oracle.target import Target

pytestmark = pytest.mark.client

_FENCED = rb"ProducerFencedException|InvalidProducerEpochException"
_LOG = logging.getLogger(__name__)


@pytest.fixture
def target(tmp_path: Path) -> Iterator[Target]:
    with required():
        jar_directory()
        target = broker_under_test(tmp_path / "broker", control=True)
        target.start()
    admin = AdminClient({"bootstrap.servers": target.bootstrap})
    wanted = [NewTopic(name, PARTITIONS, 1) for name in (LINES, COPY)]
    for made in admin.create_topics(wanted).values():
        made.result()
    yield target
    target.kill()


@pytest.fixture
def plant(request: pytest.FixtureRequest, target: Target, tmp_path: Path) -> Iterator[Plant]:
    """Give a plant with as many workers as the test says."""
    plant = Plant(target, tmp_path, Files(tmp_path, CONNECTORS[:2]), request.param)
    try:
        plant.start()
        yield plant
    finally:
        plant.end()


@pytest.mark.endurance
@pytest.mark.parametrize("plant", [1], indirect=True)
def test_a_worker_writes_every_line_once_through_reconfigurations(plant: Plant) -> None:
    plant.files.add(200)
    plant.read_file("first")
    plant.read_file("second")
    plant.mirror(2)
    with plant.reader() as reader:
        plant.wait_for_copies(reader)
        with meanwhile(lambda: plant.files.add(1)):
            plant.mirror(1)
            plant.read_file("first", batch=2_000)
            plant.wait_for_copies(reader)
            plant.wait_for_tasks(MIRROR, 1)
        plant.wait_for_copies(reader)
        plant.wait_until_fenced(2)
        _check_task_counts(plant)
        _check_that_offsets_are_read_to_the_end(plant)
        _check_that_every_line_is_there_once(plant, reader)
    _check_internal_topics(plant)


class Disturbances:
    """What can happen to workers while files grow."""

    def __init__(self, plant: Plant, reader: CommittedReader) -> None:
        self._plant = plant
        self._reader = reader

    def kill(self, *workers: Worker) -> None:
        """Kill workers, and start them again once the others, if any, have taken over."""
        for worker in workers:
            worker.kill()
        if len(workers) < len(self._plant.workers):
            self._plant.wait_for_copies(self._reader)
        for worker in workers:
            worker.launch()
        for worker in workers:
            worker.wait_until_ready()

    def reconfigure(self, tasks: int) -> None:
        """Share the mirror's work among so many tasks, and have files read anew."""
        self._plant.mirror(tasks)
        for name in CONNECTORS[:2]:
            self._plant.read_file(name, batch=1_000 + tasks)

    def kill_in_reconfiguration(self, tasks: int, worker: Worker) -> None:
        """Kill a worker that has just been told of new tasks."""
        self._plant.mirror(tasks)
        self.kill(worker)

    def make_a_zombie(self, tasks: int) -> None:
        """Freeze a worker, let the other go on without it, and let it come back.

        Its tasks are replaced by new ones of their own ids; tasks of the mirror that are no more
        are nobody's, and it is the leader who fences them.
        """
        zombie = self._runs("first")
        said = zombie.log.stat().st_size
        zombie.freeze()
        wait_until(lambda: self._runs("first") is not zombie, "a successor", PATIENCE_S)
        self._plant.mirror(tasks)
        self._plant.wait_for_tasks(MIRROR, tasks)
        self._plant.wait_for_copies(self._reader)
        zombie.thaw()
        wait_until(
            lambda: zombie.has_said(_FENCED, since=said),
            "the zombie to be fenced",
            PATIENCE_S,
        )
        self._ask_why("connect-first-0")
        zombie.wait_until_ready()

    def _ask_why(self, transactional_id: str) -> None:
        """Check that kafkalite knows that it fenced a producer."""
        if isinstance(self._plant.target, ServedKafkalite):
            client = ControlClient(self._plant.target.control_url)
            told = client.explain(None, None, transactional_id)["entries"]
            assert "fenced" in {entry["kind"] for entry in told}, told

    def kill_broker(self) -> None:
        """Kill the broker, and start it on what it had written."""
        self._plant.target.kill()
        self._plant.target.start()

    def _runs(self, connector: str) -> Worker:
        (task,) = self._plant.tasks(connector)
        return next(each for each in self._plant.workers if each.address == task["worker_id"])


@pytest.mark.endurance
@pytest.mark.timeout(900)
@pytest.mark.parametrize("plant", [2], indirect=True)
def test_two_workers_write_every_line_once_whatever_becomes_of_them(plant: Plant) -> None:
    started = time.monotonic()
    plant.files.add(200)
    plant.read_file("first")
    plant.read_file("second")
    plant.mirror(3)
    one, two = plant.workers
    with plant.reader() as reader:
        plant.wait_for_copies(reader)
        disturb = Disturbances(plant, reader)
        story: list[Callable[[], None]] = [
            lambda: disturb.reconfigure(2),
            lambda: disturb.kill(one),
            lambda: disturb.make_a_zombie(1),
            lambda: disturb.reconfigure(3),
            lambda: disturb.kill(two),
            lambda: disturb.kill_in_reconfiguration(2, one),
            lambda: disturb.kill(one, two),
            disturb.kill_broker,
            lambda: disturb.make_a_zombie(3),
            lambda: disturb.kill_in_reconfiguration(1, two),
        ]
        with meanwhile(lambda: plant.files.add(1)):
            for happens in story:
                happens()
                plant.wait_for_copies(reader)
        plant.wait_for_copies(reader)
        plant.wait_until_fenced(3)
        plant.wait_until_fenced(2)
        _check_task_counts(plant)
        _check_that_offsets_are_read_to_the_end(plant)
        _check_that_every_line_is_there_once(plant, reader)
    _check_internal_topics(plant)
    _LOG.info(
        "%d lines, %d disturbances, %d failed tasks started again, %.0f s",
        *(len(plant.files.lines), len(story), plant.repairs, time.monotonic() - started),
    )


def _check_that_every_line_is_there_once(plant: Plant, reader: CommittedReader) -> None:
    plant.remove(*CONNECTORS)
    reader.wait_for_the_end()
    once = Counter(plant.files.lines)
    for topic in (LINES, COPY):
        found = reader.counts[topic]
        assert found == once, (topic, found - once, once - found)


def _check_that_offsets_are_read_to_the_end(plant: Plant) -> None:
    """Check that the worker waits for what is undecided below the latest offsets."""
    producer = Producer(
        {"bootstrap.servers": plant.target.bootstrap, "transactional.id": "someone-else"}
    )
    producer.init_transactions()
    producer.begin_transaction()
    for partition in range(OFFSET_PARTITIONS):
        producer.produce(OFFSETS, b"not an offset", b"[]", partition=partition)
    producer.flush()
    worker = plant.workers[0]
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(worker.ask, "GET", "/connectors/first/offsets")
        with pytest.raises(TimeoutError):
            asked.result(timeout=1)
        producer.commit_transaction()
        (offset,) = asked.result()["offsets"]
    assert offset["partition"] == {"filename": plant.files.path("first")}


def _check_task_counts(plant: Plant) -> None:
    """Every generation of tasks is counted before they start, and after it was made known."""
    with CommittedReader(plant.target.bootstrap, {CONFIGS: 1}, PATIENCE_S) as reader:

        def is_counted() -> bool:
            reader.read()
            counts = _task_counts(reader.messages)
            return set(counts) == set(CONNECTORS) and None not in counts.values()

        wait_until(is_counted, "tasks to be counted", PATIENCE_S)


def _task_counts(records: list[Message]) -> dict[str, int | None]:
    """Give the count that follows the latest tasks of each connector, None if none does yet."""
    generations: dict[str, int] = {}
    counts: dict[str, int | None] = {}
    for record in records:
        kind, _, connector = (record.key() or b"").decode().partition("-")
        value: dict[str, Any] = json.loads(record.value() or b"{}")
        if kind == "commit":
            generations[connector] = value["tasks"]
            counts[connector] = None
        elif kind == "tasks":
            connector = connector.removeprefix("fencing-")
            assert counts[connector] is None
            assert value == {"task-count": generations[connector]}
            counts[connector] = generations[connector]
    return counts


def _check_internal_topics(plant: Plant) -> None:
    """They are compacted, and what a zombie could write is written in transactions alone."""
    admin = AdminClient({"bootstrap.servers": plant.target.bootstrap})
    topics = (CONFIGS, OFFSETS, STATUSES)
    asked = admin.describe_configs(
        [ConfigResource(ConfigResource.Type.TOPIC, name) for name in topics]
    )
    for described in asked.values():
        assert described.result()["cleanup.policy"].value == "compact"
    for topic in (CONFIGS, OFFSETS):
        batches = list(_batches(plant.target, topic))
        assert any(batch.is_control for batch in batches)
        assert all(batch.is_transactional for batch in batches)


def _batches(target: Target, topic: str) -> Iterator[BatchView]:
    for path in sorted(target.data.glob(f"{topic}-[0-9]*/*.log")):
        yield from split_batches(path.read_bytes())
