"""Sessions to record: the actions of each client library on a broker of its own."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from tests.clients.admin import admin_sweep
from tests.clients.client_libraries import (
    client_named,
    franz_go_worker,
    java_worker,
    kafkajs_worker,
)
from tests.clients.client_scenario import PARTITIONS, ConsumerHistory, Group
from tests.clients.drivers.worker import Task
from tests.clients.observer import wait_until
from tests.clients.process import running_driver
from tests.clients.records import some_records
from tests.clients.test_java_share import Steps
from tests.clients.word_count import COUNTS, LINES, Instance
from tests.clients.worker_processes import Worker
from tests.oracle.target import COMMON_CONFIG

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from tests.clients.client_libraries import Command
    from tests.clients.drivers.protocol import SentRow
    from tests.clients.process import DriverProcess
    from tests.oracle.target import Target

RECORDS = 40
"""Number of records per codec and per later step."""

_TIMEOUT_S = 60.0
_SOURCE, _SINK = "source", "sink"


@dataclass(frozen=True, slots=True)
class Scene:
    """The recording proxy of a broker, and a directory for logs."""

    target: Target
    directory: Path

    @property
    def bootstrap(self) -> str:
        """The bootstrap address for the client."""
        return self.target.bootstrap


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """One capture: its name, its client and the client's actions."""

    name: str
    client: str
    about: str
    run: Callable[[Scene], None]
    config: Mapping[str, str]
    """Additional settings of the broker."""


def _use_topics_and_groups(scene: Scene, client: str, protocol: str) -> None:
    """Create a topic, write with every codec, read; then two group members, one of which leaves."""
    description = client_named(client)
    with running_driver(description, scene.bootstrap, scene.directory) as driver:
        driver.create_topic("orders", PARTITIONS)
        count = 0
        for codec in description.codecs:
            driver.produce("orders", codec, some_records(RECORDS, PARTITIONS, start=count))
            count += RECORDS
        assert len(driver.read("orders", PARTITIONS, count)) == count
        group = Group(driver, scene.target, "shop", "orders", protocol)
        history = ConsumerHistory()
        group.join("one")
        group.wait_until_read(history, count)
        group.join("two")
        driver.produce("orders", "none", some_records(RECORDS, PARTITIONS, start=count))
        count += RECORDS
        group.wait_until_read(history, count)
        group.leave("one")
        driver.leave("two")


def _produce_tasks(driver: DriverProcess, start: int) -> None:
    """Produce records with key and value for the workers."""
    numbers = range(start, start + RECORDS)
    rows: list[SentRow] = [
        (number % PARTITIONS, f"key-{number}", f"task {number}") for number in numbers
    ]
    driver.produce(_SOURCE, "none", rows)


def _transact(scene: Scene, client: str, command: Command, protocol: str) -> None:
    """Read from one topic and write to another in transactions, one of them aborted."""
    with running_driver(client_named(client), scene.bootstrap, scene.directory) as driver:
        for topic in (_SOURCE, _SINK):
            driver.create_topic(topic, PARTITIONS)
        task = Task(
            bootstrap=scene.bootstrap,
            transactional_id="worker-0",
            group="workers",
            protocol=protocol,
            source=_SOURCE,
            sink=_SINK,
            partitions=list(range(PARTITIONS)),
            batch=RECORDS,
        )
        worker = Worker(command(), task, scene.directory / "worker.log")
        worker.wait_for("ready")
        _produce_tasks(driver, 0)
        assert worker.has_printed("committed", _TIMEOUT_S)
        worker.send_order("abort")
        _produce_tasks(driver, RECORDS)
        assert worker.has_printed("aborted", _TIMEOUT_S)
        assert worker.has_printed("committed", _TIMEOUT_S, more_than=worker.commits)
        assert len(driver.read(_SINK, PARTITIONS, 2 * RECORDS)) >= 2 * RECORDS
        worker.close()


def _share(scene: Scene) -> None:
    run_share_group(scene.bootstrap, scene.directory)


def run_share_group(bootstrap: str, directory: Path) -> None:
    """Run two share consumers of one topic, which accept, release and reject."""
    steps = Steps(directory / "share.log")
    steps.ask("prepare", bootstrap, "shared", "sharers")
    steps.ask("produce", bootstrap, "shared", RECORDS)
    names = ("a", "b")
    for name in names:
        steps.ask("open", name, bootstrap, "sharers", "shared", "explicit", 10)
    settled: set[int] = set()
    released: set[int] = set()

    def take_turns() -> bool:
        for name in names:
            for offset, _count in steps.ask("poll", name, 1):
                ack_type = "REJECT" if offset % 10 == 9 else "ACCEPT"
                if offset % 5 == 3 and offset not in released:
                    ack_type = "RELEASE"
                    released.add(offset)
                else:
                    settled.add(offset)
                steps.ask("say", name, ack_type, [offset])
            steps.ask("commit", name)
        return len(settled) == RECORDS

    wait_until(take_turns, "all records to be accepted or rejected", _TIMEOUT_S)
    for name in names:
        steps.ask("close", name)
    steps.close()


def _count_words(scene: Scene) -> None:
    """Run a Streams application with two subtopologies, which counts words."""
    with running_driver(client_named("java"), scene.bootstrap, scene.directory) as driver:
        driver.create_topic(LINES, 2)
        driver.create_topic(COUNTS, 1)
        instance = Instance(scene.bootstrap, "one", scene.directory)
        instance.wait_for("state RUNNING")
        driver.produce(LINES, "none", [(0, None, "to be or not to be"), (1, None, "be")])
        assert len(driver.read(COUNTS, 1, 4)) >= 4
        instance.close()


def _administer(scene: Scene) -> None:
    """Call every method of the Java Admin client."""
    assert admin_sweep(scene.bootstrap)


def _python_worker(module: str) -> Command:
    return lambda: [sys.executable, "-m", f"tests.clients.drivers.{module}_worker"]


_FAST_SHARE_HEARTBEATS = {"group.share.heartbeat.interval.ms": "500"}
_STREAMS = {"group.streams.heartbeat.interval.ms": "500"}


def _basic_session(client: str, protocol: str = "classic", *, several: bool = False) -> Session:
    return Session(
        name=f"{client}-{protocol}" if several else client,
        client=client,
        about=f"a topic, every codec, a group by the {protocol} protocol",
        run=partial(_use_topics_and_groups, client=client, protocol=protocol),
        config=COMMON_CONFIG,
    )


def _transacting_session(
    client: str, command: Command, protocol: str, *, helped_by: str | None = None
) -> Session:
    return Session(
        name=f"{client}-transactions",
        client=client if helped_by is None else f"{client}, {helped_by}",
        about=f"read, transform and write in transactions; group: {protocol}",
        run=partial(_transact, client=helped_by or client, command=command, protocol=protocol),
        config=COMMON_CONFIG,
    )


SESSIONS = (
    _basic_session("confluent-kafka", several=True),
    _basic_session("confluent-kafka", "consumer", several=True),
    _basic_session("aiokafka"),
    _basic_session("kafka-python"),
    _basic_session("java", several=True),
    _basic_session("java", "consumer", several=True),
    _basic_session("kafkajs"),
    _basic_session("kcat"),
    _transacting_session("confluent-kafka", _python_worker("confluent"), "consumer"),
    _transacting_session("aiokafka", _python_worker("aiokafka"), "assigned"),
    _transacting_session("kafka-python", _python_worker("kafka_python"), "classic"),
    _transacting_session("java", java_worker, "consumer"),
    _transacting_session("kafkajs", kafkajs_worker, "assigned"),
    _transacting_session("franz-go", franz_go_worker, "classic", helped_by="confluent-kafka"),
    Session(
        name="java-share",
        client="java",
        about="two share consumers, which accept, release and reject",
        run=_share,
        config={**COMMON_CONFIG, **_FAST_SHARE_HEARTBEATS},
    ),
    Session(
        name="java-admin",
        client="java",
        about="every call of the Admin client",
        run=_administer,
        config=COMMON_CONFIG,
    ),
    Session(
        name="java-streams",
        client="java",
        about="a Streams application by the streams protocol",
        run=_count_words,
        config={**COMMON_CONFIG, **_STREAMS},
    ),
)
"""Every capture of the corpus."""
