"""Kafka Connect in exactly-once mode (KIP-618): each line is written once, despite failures.

File connectors write the lines of growing files to one topic, and a mirror connector with several
tasks copies that topic to another. Meanwhile workers are killed, stopped, continued and
reconfigured.
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
from kafkalite.control.commands.explain import Explain
from kafkalite.control.endpoint import Endpoint
from kafkalite.storage.batch import BatchView, split_batches
from tests.clients.background import in_background
from tests.clients.committed_reader import CommittedReader
from tests.clients.connect import CONFIGS, OFFSET_PARTITIONS, OFFSETS, STATUSES, Worker
from tests.clients.connect_cluster import (
    CONNECTORS,
    COPY,
    LINES,
    MIRROR,
    PARTITIONS,
    PATIENCE_S,
    ConnectCluster,
    Files,
)
from tests.clients.observer import wait_until
from tests.oracle.fixtures import broker_under_test
from tests.oracle.jars import jar_directory
from tests.oracle.requirements import required
from tests.oracle.served_kafkalite import ServedKafkalite

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from confluent_kafka import Message

    from tests.oracle.target import Target

pytestmark = [pytest.mark.client, pytest.mark.endurance]

_FENCED = rb"ProducerFencedException|InvalidProducerEpochException"
_LOG = logging.getLogger(__name__)


@pytest.fixture
def target(tmp_path: Path) -> Iterator[Target]:
    with required():
        jar_directory()
        target = broker_under_test(tmp_path / "broker", control=True)
        target.start()
    admin = AdminClient({"bootstrap.servers": target.bootstrap})
    requested = [NewTopic(name, PARTITIONS, 1) for name in (LINES, COPY)]
    for future in admin.create_topics(requested).values():
        future.result()
    yield target
    target.kill()


@pytest.fixture
def cluster(target: Target, tmp_path: Path) -> Iterator[ConnectCluster]:
    """Start a cluster with two workers."""
    cluster = ConnectCluster(target, tmp_path, Files(tmp_path, CONNECTORS[:2]), 2)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.kill()


class Disturbances:
    """Failures and changes of workers while files grow."""

    def __init__(self, cluster: ConnectCluster, reader: CommittedReader) -> None:
        self._cluster = cluster
        self._reader = reader

    def kill(self, *workers: Worker) -> None:
        """Kill workers, and restart them after the others, if any, have taken over."""
        for worker in workers:
            worker.kill()
        if len(workers) < len(self._cluster.workers):
            self._cluster.wait_for_copies(self._reader)
        for worker in workers:
            worker.launch()
        for worker in workers:
            worker.wait_until_ready()

    def reconfigure(self, tasks: int) -> None:
        """Change the number of the mirror's tasks, and restart the file connectors."""
        self._cluster.mirror(tasks)
        for name in CONNECTORS[:2]:
            self._cluster.read_file(name, batch=1_000 + tasks)

    def kill_in_reconfiguration(self, tasks: int, worker: Worker) -> None:
        """Kill a worker that has just been notified of new tasks."""
        self._cluster.mirror(tasks)
        self.kill(worker)

    def create_zombie(self, tasks: int) -> None:
        """Stop a worker, let the other take over, and continue the first.

        Its tasks are replaced by new ones with the same ids. The leader fences the mirror's tasks
        that no longer exist.
        """
        zombie = self._worker_of("first")
        log_size = zombie.log.stat().st_size
        zombie.freeze()
        wait_until(lambda: self._worker_of("first") is not zombie, "a successor", PATIENCE_S)
        self._cluster.mirror(tasks)
        self._cluster.wait_for_tasks(MIRROR, tasks)
        self._cluster.wait_for_copies(self._reader)
        zombie.thaw()
        wait_until(
            lambda: zombie.has_printed(_FENCED, since=log_size),
            "the zombie to be fenced",
            PATIENCE_S,
        )
        self._check_explanation("connect-first-0")
        zombie.wait_until_ready()

    def _check_explanation(self, transactional_id: str) -> None:
        """Check that kafkalite explains that it fenced a producer."""
        if isinstance(self._cluster.target, ServedKafkalite):
            client = ControlClient(Endpoint(self._cluster.target.control_url))
            entries = client.send(Explain(transactional_id=transactional_id)).entries
            assert "fenced" in {entry.kind for entry in entries}, entries

    def kill_broker(self) -> None:
        """Kill the broker, and start it with its files."""
        self._cluster.target.kill()
        self._cluster.target.start()

    def _worker_of(self, connector: str) -> Worker:
        (task,) = self._cluster.tasks(connector)
        return next(
            worker for worker in self._cluster.workers if worker.address == task["worker_id"]
        )


@pytest.mark.timeout(900)
def test_two_workers_write_every_line_once_through_failures(cluster: ConnectCluster) -> None:
    started = time.monotonic()
    cluster.files.add(200)
    cluster.read_file("first")
    cluster.read_file("second")
    cluster.mirror(3)
    first, second = cluster.workers
    with cluster.reader() as reader:
        cluster.wait_for_copies(reader)
        disturb = Disturbances(cluster, reader)
        disturbances: list[Callable[[], None]] = [
            lambda: disturb.reconfigure(2),
            lambda: disturb.create_zombie(1),
            lambda: disturb.kill(first),
            lambda: disturb.kill_in_reconfiguration(3, second),
            lambda: disturb.kill(first, second),
            disturb.kill_broker,
        ]
        with in_background(lambda: cluster.files.add(1)):
            for disturb_once in disturbances:
                disturb_once()
                cluster.wait_for_copies(reader)
        cluster.wait_for_copies(reader)
        cluster.wait_until_fenced(3)
        cluster.wait_until_fenced(2)
        _check_task_counts(cluster)
        _check_that_offsets_are_read_to_the_end(cluster)
        _check_that_every_line_is_there_once(cluster, reader)
    _check_internal_topics(cluster)
    _LOG.info(
        "%d lines, %d disturbances, %d failed tasks started again, %.0f s",
        *(
            len(cluster.files.lines),
            len(disturbances),
            cluster.restarts,
            time.monotonic() - started,
        ),
    )


def _check_that_every_line_is_there_once(cluster: ConnectCluster, reader: CommittedReader) -> None:
    cluster.remove(*CONNECTORS)
    reader.read_to_the_end()
    expected = Counter(cluster.files.lines)
    for topic in (LINES, COPY):
        counts = reader.counts[topic]
        assert counts == expected, (topic, counts - expected, expected - counts)


def _check_that_offsets_are_read_to_the_end(cluster: ConnectCluster) -> None:
    """Check that the worker waits for open transactions below the latest offsets."""
    producer = Producer(
        {"bootstrap.servers": cluster.target.bootstrap, "transactional.id": "someone-else"}
    )
    producer.init_transactions()
    producer.begin_transaction()
    for partition in range(OFFSET_PARTITIONS):
        producer.produce(OFFSETS, b"not an offset", b"[]", partition=partition)
    producer.flush()
    worker = cluster.workers[0]
    with ThreadPoolExecutor(1) as pool:
        offsets_future = pool.submit(worker.ask, "GET", "/connectors/first/offsets")
        with pytest.raises(TimeoutError):
            offsets_future.result(timeout=1)
        producer.commit_transaction()
        (offset,) = offsets_future.result()["offsets"]
    assert offset["partition"] == {"filename": cluster.files.path("first")}


def _check_task_counts(cluster: ConnectCluster) -> None:
    """Check that every generation of tasks has a task count record."""
    with CommittedReader(cluster.target.bootstrap, {CONFIGS: 1}, PATIENCE_S) as reader:

        def is_counted() -> bool:
            reader.read()
            counts = _task_counts(reader.messages)
            return set(counts) == set(CONNECTORS) and None not in counts.values()

        wait_until(is_counted, "tasks to be counted", PATIENCE_S)


def _task_counts(records: list[Message]) -> dict[str, int | None]:
    """Return the task count after the latest tasks of each connector, None if there is none yet."""
    generations: dict[str, int] = {}
    counts: dict[str, int | None] = {}
    for record in records:
        record_type, _, connector = (record.key() or b"").decode().partition("-")
        value: dict[str, Any] = json.loads(record.value() or b"{}")
        if record_type == "commit":
            generations[connector] = value["tasks"]
            counts[connector] = None
        elif record_type == "tasks":
            connector = connector.removeprefix("fencing-")
            assert counts[connector] is None
            assert value == {"task-count": generations[connector]}
            counts[connector] = generations[connector]
    return counts


def _check_internal_topics(cluster: ConnectCluster) -> None:
    """Check that internal topics are compacted, and two of them written in transactions only."""
    admin = AdminClient({"bootstrap.servers": cluster.target.bootstrap})
    topics = (CONFIGS, OFFSETS, STATUSES)
    futures = admin.describe_configs(
        [ConfigResource(ConfigResource.Type.TOPIC, name) for name in topics]
    )
    for described in futures.values():
        assert described.result()["cleanup.policy"].value == "compact"
    for topic in (CONFIGS, OFFSETS):
        batches = list(_batches(cluster.target, topic))
        assert any(batch.is_control for batch in batches)
        assert all(batch.is_transactional for batch in batches)


def _batches(target: Target, topic: str) -> Iterator[BatchView]:
    for path in sorted(target.data.glob(f"{topic}-[0-9]*/*.log")):
        yield from split_batches(path.read_bytes())
