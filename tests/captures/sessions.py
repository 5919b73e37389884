"""What each recorded client does: its daily work in small, told to a broker that it alone uses."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from tests.clients.admin import admin_sweep
from tests.clients.crew import Worker
from tests.clients.drivers.worker import Task
from tests.clients.observer import wait_until
from tests.clients.process import visiting
from tests.clients.records import some_records
from tests.clients.roster import (
    client_named,
    franz_go_worker,
    java_worker,
    kafkajs_worker,
)
from tests.clients.story import PARTITIONS, Group, Witness
from tests.clients.test_java_share import Steps
from tests.clients.word_count import COUNTS, LINES, Instance
from tests.oracle.target import COMMON_CONFIG

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from tests.clients.drivers.protocol import SentRow
    from tests.clients.process import DriverProcess
    from tests.clients.roster import Command
    from tests.oracle.target import Target

RECORDS = 40
"""Of each codec, and of what comes later."""

_PATIENCE_S = 60.0
_SOURCE, _SINK = "source", "sink"


@dataclass(frozen=True, slots=True)
class Scene:
    """Where a client works: a broker, by the proxy that records, and a place for its logs."""

    target: Target
    directory: Path

    @property
    def bootstrap(self) -> str:
        """Where the client finds the broker."""
        return self.target.bootstrap


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """One capture: its name, its client, and what it does."""

    name: str
    client: str
    about: str
    live: Callable[[Scene], None]
    config: Mapping[str, str]
    """The broker's settings, beyond what kafkalite and the tests' Kafka have in common."""


def _daily(scene: Scene, client: str, protocol: str) -> None:
    """Create, write with every codec, read, and share a topic with one who comes and goes."""
    known = client_named(client)
    with visiting(known, scene.bootstrap, scene.directory) as driver:
        driver.create_topic("orders", PARTITIONS)
        count = 0
        for codec in known.codecs:
            driver.produce("orders", codec, some_records(RECORDS, PARTITIONS, start=count))
            count += RECORDS
        assert len(driver.read("orders", PARTITIONS, count)) == count
        group = Group(driver, scene.target, "shop", "orders", protocol)
        witness = Witness()
        group.join("one")
        group.wait_until_read(witness, count)
        group.join("two")
        driver.produce("orders", "none", some_records(RECORDS, PARTITIONS, start=count))
        count += RECORDS
        group.wait_until_read(witness, count)
        group.leave("one")
        driver.leave("two")


def _give_work(driver: DriverProcess, start: int) -> None:
    """Write what workers take: records with a key and a value."""
    numbers = range(start, start + RECORDS)
    rows: list[SentRow] = [(each % PARTITIONS, f"key-{each}", f"task {each}") for each in numbers]
    driver.produce(_SOURCE, "none", rows)


def _transacting(scene: Scene, client: str, command: Command, protocol: str) -> None:
    """Read from one topic and write to another in transactions, one of them aborted."""
    with visiting(client_named(client), scene.bootstrap, scene.directory) as driver:
        for topic in (_SOURCE, _SINK):
            driver.create_topic(topic, PARTITIONS)
        task = Task(
            bootstrap=scene.bootstrap,
            transactional_id="seat-0",
            group="workers",
            protocol=protocol,
            source=_SOURCE,
            sink=_SINK,
            partitions=list(range(PARTITIONS)),
            batch=RECORDS,
        )
        worker = Worker(command(), task, scene.directory / "worker.log")
        worker.wait_for("ready")
        _give_work(driver, 0)
        assert worker.has_said("committed", _PATIENCE_S)
        worker.tell("abort")
        _give_work(driver, RECORDS)
        assert worker.has_said("aborted", _PATIENCE_S)
        assert worker.has_said("committed", _PATIENCE_S, more_than=worker.commits)
        assert len(driver.read(_SINK, PARTITIONS, 2 * RECORDS)) >= 2 * RECORDS
        worker.close()


def _sharing(scene: Scene) -> None:
    """Two share consumers of one topic, who accept, release and reject."""
    steps = Steps(scene.directory / "share.log")
    steps.ask("prepare", scene.bootstrap, "shared", "sharers")
    steps.ask("produce", scene.bootstrap, "shared", RECORDS)
    seats = ("a", "b")
    for name in seats:
        steps.ask("open", name, scene.bootstrap, "sharers", "shared", "explicit", 10)
    done: set[int] = set()
    released: set[int] = set()

    def take_turns() -> bool:
        for name in seats:
            for offset, _count in steps.ask("poll", name, 1):
                word = "REJECT" if offset % 10 == 9 else "ACCEPT"
                if offset % 5 == 3 and offset not in released:
                    word = "RELEASE"
                    released.add(offset)
                else:
                    done.add(offset)
                steps.ask("say", name, word, [offset])
            steps.ask("commit", name)
        return len(done) == RECORDS

    wait_until(take_turns, "all records to be accepted or rejected", _PATIENCE_S)
    for name in seats:
        steps.ask("close", name)
    steps.close()


def _counting(scene: Scene) -> None:
    """Count words: a Streams application of two subtopologies."""
    with visiting(client_named("java"), scene.bootstrap, scene.directory) as driver:
        driver.create_topic(LINES, 2)
        driver.create_topic(COUNTS, 1)
        instance = Instance(scene.bootstrap, "one", scene.directory)
        instance.wait_for("state RUNNING")
        driver.produce(LINES, "none", [(0, None, "to be or not to be"), (1, None, "be")])
        assert len(driver.read(COUNTS, 1, 4)) >= 4
        instance.close()


def _administering(scene: Scene) -> None:
    """Make every call of the Java Admin client."""
    assert admin_sweep(scene.bootstrap)


def _python_worker(module: str) -> Command:
    return lambda: [sys.executable, "-m", f"tests.clients.drivers.{module}_worker"]


_SHARE_AT_ONCE = {"group.share.heartbeat.interval.ms": "500"}
_STREAMS = {"group.streams.heartbeat.interval.ms": "500"}


def _daily_session(client: str, protocol: str = "classic", *, several: bool = False) -> Session:
    return Session(
        name=f"{client}-{protocol}" if several else client,
        client=client,
        about=f"a topic, every codec, a group by the {protocol} protocol",
        live=partial(_daily, client=client, protocol=protocol),
        config=COMMON_CONFIG,
    )


def _transacting_session(
    client: str, command: Command, protocol: str, *, helped_by: str | None = None
) -> Session:
    return Session(
        name=f"{client}-transactions",
        client=client if helped_by is None else f"{client}, {helped_by}",
        about=f"read, transform and write in transactions; group: {protocol}",
        live=partial(_transacting, client=helped_by or client, command=command, protocol=protocol),
        config=COMMON_CONFIG,
    )


SESSIONS = (
    _daily_session("confluent-kafka", several=True),
    _daily_session("confluent-kafka", "consumer", several=True),
    _daily_session("aiokafka"),
    _daily_session("kafka-python"),
    _daily_session("java", several=True),
    _daily_session("java", "consumer", several=True),
    _daily_session("kafkajs"),
    _daily_session("kcat"),
    _transacting_session("confluent-kafka", _python_worker("confluent"), "consumer"),
    _transacting_session("aiokafka", _python_worker("aiokafka"), "assigned"),
    _transacting_session("kafka-python", _python_worker("kafka_python"), "classic"),
    _transacting_session("java", java_worker, "consumer"),
    _transacting_session("kafkajs", kafkajs_worker, "assigned"),
    _transacting_session("franz-go", franz_go_worker, "classic", helped_by="confluent-kafka"),
    Session(
        name="java-share",
        client="java",
        about="two share consumers, who accept, release and reject",
        live=_sharing,
        config={**COMMON_CONFIG, **_SHARE_AT_ONCE},
    ),
    Session(
        name="java-admin",
        client="java",
        about="every call of the Admin client",
        live=_administering,
        config=COMMON_CONFIG,
    ),
    Session(
        name="java-streams",
        client="java",
        about="a Streams application by the streams protocol",
        live=_counting,
        config={**COMMON_CONFIG, **_STREAMS},
    ),
)
"""Every capture of the corpus."""
