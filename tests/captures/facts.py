"""Records a capture in which seventeen facts are planted: `python -m tests.captures.facts`.

Real clients do what the functions say at a real Kafka, one fact after the other, each with topics,
groups and client ids of its own. The truth is written here, before it is recorded; `test_facts.py`
compares the findings of `kafkalite check` and of `kafkalite audit` with it.
"""

from __future__ import annotations

import gzip
import sys
import tempfile
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from kafkalite.lab.checker import (
    commit_rules,
    delivery_rules,
    transaction_rules,
)
from kafkalite.lab.checker.collecting import UNCLEAR_GROUPS
from kafkalite.lab.checker.findings import DELAYED_REQUEST, Severity
from kafkalite.ports.named_tuples import NamedTuple
from tests.captures.incidents import (
    capture_of,
    consume,
    create_topic,
    open_reader,
    produce,
    recorded_kafka,
    transactional_producers,
)
from tests.clients.client_libraries import client_named, driver_environment
from tests.clients.observer import wait_until
from tests.clients.process import ClientError, DriverProcess

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from confluent_kafka import Consumer

    from tests.clients.ghosts import ProxiedKafka

CAPTURE: Final = Path(__file__).parent / "kafka-4.4.0" / "facts.pcapng.gz"
RETENTION_MIN: Final = 1
"""Retention of committed offsets of the broker in minutes."""

_TIMEOUT_S: Final = 30.0
_EXPIRED_S: Final = 70.0
_LONG_POLL_S: Final = 1.0
_SETTINGS: Final = {
    "offsets.retention.minutes": str(RETENTION_MIN),
    "offsets.retention.check.interval.ms": "1000",
}


class Fact(NamedTuple):
    """A finding that a check must have; nothing else may be found."""

    severity: Severity
    rule: str
    cause: str
    records: int
    topic: str | None = None
    group: str | None = None


FINDINGS: Final = (
    Fact(
        Severity.VIOLATION, delivery_rules.LOST, delivery_rules.OFFSET_RESET, 45,
        "skipped", "skippers",
    ),
    Fact(Severity.VIOLATION, transaction_rules.DELAYED_END, DELAYED_REQUEST, 3),
    Fact(
        Severity.VIOLATION, commit_rules.ZOMBIE_COMMIT, commit_rules.EARLIER_OWNER, 0,
        "shared", "sharers",
    ),
    Fact(
        Severity.VIOLATION, commit_rules.REGRESSION, DELAYED_REQUEST, 50, "rewound", "rewinders",
    ),
    Fact(
        Severity.VIOLATION, commit_rules.OTHER_INCARNATION, commit_rules.RECREATED_TOPIC, 0,
        "recreated", "recreators",
    ),
    Fact(
        Severity.WARNING, delivery_rules.ABORTED_READ, delivery_rules.READ_UNCOMMITTED, 7,
        "aborted", "dirty-readers",
    ),
    Fact(
        Severity.WARNING, delivery_rules.DELIVERED_TWICE, delivery_rules.EXPIRED_OFFSET, 5,
        "slept", "sleepers",
    ),
    Fact(
        Severity.NOTE, delivery_rules.DELIVERED_TWICE, delivery_rules.REBALANCE, 100,
        "hundred", "mourners",
    ),
    # The group that shares a topic had committed nothing before its rebalance.
    Fact(
        Severity.NOTE, delivery_rules.DELIVERED_TWICE, delivery_rules.REBALANCE, 5,
        "shared", "sharers",
    ),
    Fact(
        Severity.NOTE, delivery_rules.DELIVERED_TWICE, delivery_rules.POSITION_MOVED_BACK, 5,
        "shared", "sharers",
    ),
    Fact(Severity.NOTE, commit_rules.CONTRADICTED, commit_rules.EXPIRED, 5, "slept", "sleepers"),
    Fact(Severity.NOTE, delivery_rules.UNREAD, "not fetched", 50, "unread"),
    # The reset skipped them, and no other group reads the topic.
    Fact(Severity.NOTE, delivery_rules.UNREAD, "not fetched", 45, "skipped"),
)  # fmt: skip
"""The findings that concern records and committed offsets."""
UNDECIDABLE: Final = UNCLEAR_GROUPS
"""Two clients of different groups have the same client id, and some readers are in no group."""


@contextmanager
def _java_consumers(broker: ProxiedKafka, directory: Path) -> Iterator[DriverProcess]:
    command = [*client_named("java").command(), broker.bootstrap_servers]
    driver = DriverProcess(command, directory / "driver.log", driver_environment())
    try:
        yield driver
    finally:
        driver.close()


def _await_commit(driver: DriverProcess, member: str, offsets: dict[int, int]) -> None:
    wait_until(
        lambda: ("commit", member, offsets) in [tuple(each) for each in driver.events()],
        f"{member} commits {offsets}",
    )


def _read_all(broker: ProxiedKafka, topic: str, records: int) -> None:
    reader = open_reader(broker, f"{topic}-reader", f"{topic}-readers")
    reader.assign([TopicPartition(topic, 0, 0)])
    consume(reader, records)
    reader.close()


def _expired_offset(broker: ProxiedKafka, _: Path) -> None:
    # A group commits offset 5, and is away until the offset has expired; it reads 5 records again.
    create_topic(broker, "slept", 1)
    produce(broker, "slept", 5)
    for name in ("sleeper", "awake"):
        reader = open_reader(broker, name, "sleepers")
        reader.subscribe(["slept"])
        consume(reader, 5)
        if name == "sleeper":
            reader.commit(asynchronous=False)
        reader.close()
        if name == "sleeper":
            time.sleep(_EXPIRED_S)


def _reset(broker: ProxiedKafka, _: Path) -> None:
    # Records up to offset 9 are deleted, and a group at offset 5 continues at the end, 50.
    create_topic(broker, "skipped", 1)
    produce(broker, "skipped", 5)
    reader = open_reader(broker, "skipper", "skippers")
    reader.subscribe(["skipped"])
    consume(reader, 5)
    reader.commit(asynchronous=False)
    reader.close()
    time.sleep(_LONG_POLL_S)  # else its last fetch gets the next records
    produce(broker, "skipped", 45)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, "client.id": "operator"})
    partition = TopicPartition("skipped", 0, 10)
    admin.delete_records([partition])[partition].result(_TIMEOUT_S)
    late = open_reader(broker, "late-skipper", "skippers", **{"auto.offset.reset": "latest"})
    late.subscribe(["skipped"])
    wait_until(lambda: late.poll(0.1) is None and bool(late.assignment()), "it has a partition")
    wait_until(lambda: late.poll(0.1) is None and _end_known_to(late) == 50, "it is at the end")
    late.close()


def _end_known_to(reader: Consumer) -> int:
    (partition,) = reader.assignment()
    watermarks = reader.get_watermark_offsets(partition, cached=True)
    return -1 if watermarks is None else watermarks[1]


def _lag(broker: ProxiedKafka, _: Path) -> None:
    # A group commits offset 30 of 100.
    create_topic(broker, "slow", 1)
    produce(broker, "slow", 100)
    reader = open_reader(broker, "laggard", "laggards")
    reader.subscribe(["slow"])
    consume(reader, 100)
    reader.commit(offsets=[TopicPartition("slow", 0, 30)], asynchronous=False)
    reader.close()


def _late_end(broker: ProxiedKafka, directory: Path) -> None:
    # A late EndTxn commits three records of the next transaction early (KAFKA-17754).
    create_topic(broker, "ended", 1)
    with transactional_producers("librdkafka", broker, directory) as producers:
        producers.init("ender", "ended-payments", 1_000)
        producers.begin("ender")
        producers.send("ender", "ended", "first")
        ghost = broker.hold("EndTxn", disconnects=True)
        producers.commit("ender")
        ghost.wait()
        producers.begin("ender")
        for number in range(3):
            producers.send("ender", "ended", f"early {number}")
        ghost.release()
        with suppress(ClientError):
            producers.commit("ender")
    _read_all(broker, "ended", 4)


def _fenced_producer(broker: ProxiedKafka, directory: Path) -> None:
    # Another producer takes over a transactional id; the broker refuses what the first one writes.
    create_topic(broker, "fenced", 1)
    with transactional_producers("java", broker, directory) as producers:
        for name in ("old", "new"):
            producers.init(name, "fenced-payments")
            producers.begin(name)
            producers.send(name, "fenced", name)
            producers.commit(name)
        with suppress(ClientError):
            producers.begin("old")
            producers.send("old", "fenced", "zombie")
            raise AssertionError("the broker refuses the record")
    _read_all(broker, "fenced", 2)


def _aborted_read(broker: ProxiedKafka, directory: Path) -> None:
    # A consumer with read_uncommitted gets 7 records of an aborted transaction.
    create_topic(broker, "aborted", 1)
    with transactional_producers("java", broker, directory) as producers:
        producers.init("aborter", "aborted-payments")
        producers.begin("aborter")
        for number in range(7):
            producers.send("aborter", "aborted", f"aborted {number}")
        producers.abort("aborter")
    settings = {"isolation.level": "read_uncommitted"}
    reader = open_reader(broker, "dirty", "dirty-readers", **settings)
    reader.subscribe(["aborted"])
    consume(reader, 7)
    reader.consume(1, 1)  # the marker after the records
    reader.close()


def _recreated_topic(broker: ProxiedKafka, _: Path) -> None:
    # A consumer commits offset 10 of a topic that was deleted and created again.
    from kafka import KafkaConsumer  # noqa: PLC0415 - its import warns, and tests read this module
    from kafka import TopicPartition as KafkaPythonPartition  # noqa: PLC0415
    from kafka.structs import OffsetAndMetadata  # noqa: PLC0415

    create_topic(broker, "recreated", 1)
    produce(broker, "recreated", 10)
    reader = KafkaConsumer(
        bootstrap_servers=broker.bootstrap_servers,
        client_id="recreator",
        group_id="recreators",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    partition = KafkaPythonPartition("recreated", 0)
    reader.assign([partition])
    read = 0
    while read < 10:
        read += sum(map(len, reader.poll(500).values()))
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, "client.id": "operator"})
    admin.delete_topics(["recreated"])["recreated"].result(_TIMEOUT_S)
    wait_until(
        lambda: "recreated" not in admin.list_topics(timeout=_TIMEOUT_S).topics, "it is deleted"
    )
    create_topic(broker, "recreated", 1)
    produce(broker, "recreated", 3)
    reader.commit({partition: OffsetAndMetadata(10, "", -1)})
    reader.close(autocommit=False)
    _read_all(broker, "recreated", 3)


def _dead_consumer(broker: ProxiedKafka, _: Path) -> None:
    # A static member ends without a commit, and another member gets its 100 records again.
    create_topic(broker, "hundred", 1)
    produce(broker, "hundred", 100)
    dead = open_reader(broker, "dead", "mourners", **{"group.instance.id": "one"})
    dead.subscribe(["hundred"])
    consume(dead, 100)
    dead.close()  # a static member sends no LeaveGroup
    heir = open_reader(broker, "heir", "mourners")
    heir.subscribe(["hundred"])
    consume(heir, 100)
    heir.commit(asynchronous=False)
    heir.close()


def _unread(broker: ProxiedKafka, _: Path) -> None:
    # A consumer gets 20 records of partition 0; no client reads the 50 records of partition 1.
    create_topic(broker, "unread", 2)
    produce(broker, "unread", 20)
    produce(broker, "unread", 50, 1)
    _read_all(broker, "unread", 20)


def _zombie_commit(broker: ProxiedKafka, _: Path) -> None:
    # A member commits offset 1 of a partition that another member has and reads; Kafka accepts it.
    create_topic(broker, "shared", 2)
    for partition in range(2):
        produce(broker, "shared", 5, partition)
    zombie = open_reader(broker, "zombie", "sharers")
    zombie.subscribe(["shared"])
    consume(zombie, 10)
    owner = open_reader(broker, "owner", "sharers")
    owner.subscribe(["shared"])
    taken: list[TopicPartition] = []

    def has_taken() -> bool:
        zombie.poll(0.1)
        message = owner.poll(0.1)
        if message is not None and message.error() is None:
            taken.append(TopicPartition("shared", message.partition() or 0, 1))
        return bool(taken)

    wait_until(has_taken, "the other member reads a partition")
    zombie.commit(offsets=taken[:1], asynchronous=False)
    owner.close()
    zombie.close()


def _same_client_ids(broker: ProxiedKafka, _: Path) -> None:
    # Consumers of two groups have the same client id, so nothing shows which group gets records.
    create_topic(broker, "twins", 1)
    produce(broker, "twins", 1)
    readers = [open_reader(broker, "twin", group) for group in ("left-twins", "right-twins")]
    for reader in readers:
        reader.subscribe(["twins"])
        consume(reader, 1)
    for reader in readers:
        reader.close()


def _late_commits(broker: ProxiedKafka, directory: Path) -> None:
    with _java_consumers(broker, directory) as driver:
        _rewound(broker, driver)
        _departed(broker, driver)
        _stale(broker, driver)


def _rewound(broker: ProxiedKafka, driver: DriverProcess) -> None:
    # A late OffsetCommit moves a group back from offset 100 to 50.
    create_topic(broker, "rewound", 1)
    driver.join("rewinder", "rewinders", "rewound", "classic")
    produce(broker, "rewound", 49)
    _await_commit(driver, "rewinder", {0: 49})
    ghost = broker.hold("OffsetCommit", disconnects=True)
    produce(broker, "rewound", 1)
    _await_commit(driver, "rewinder", {0: 50})
    ghost.wait()
    produce(broker, "rewound", 50)
    _await_commit(driver, "rewinder", {0: 100})
    ghost.release()
    driver.leave("rewinder")


def _departed(broker: ProxiedKafka, driver: DriverProcess) -> None:
    # A commit of a member that has left arrives when another member has the partition: refused.
    create_topic(broker, "left", 1)
    driver.join("leaver", "leavers", "left", "consumer")
    ghost = broker.hold("OffsetCommit", disconnects=True)
    produce(broker, "left", 5)
    _await_commit(driver, "leaver", {0: 5})
    ghost.wait()
    driver.leave("leaver")
    driver.join("successor", "leavers", "left", "consumer")
    produce(broker, "left", 1)
    _await_commit(driver, "successor", {0: 6})
    ghost.release()
    driver.leave("successor")


def _stale(broker: ProxiedKafka, driver: DriverProcess) -> None:
    # A commit at an earlier epoch of its member: another member has one of its two partitions.
    create_topic(broker, "halved", 2)
    driver.join("whole", "halvers", "halved", "consumer")
    ghost = broker.hold("OffsetCommit", disconnects=True)
    for partition in range(2):
        produce(broker, "halved", 5, partition)
    _await_commit(driver, "whole", {0: 5, 1: 5})
    ghost.wait()
    driver.join("half", "halvers", "halved", "consumer")
    wait_until(
        lambda: sorted(map(len, driver.members().values())) == [1, 1], "each has a partition"
    )
    for partition in range(2):
        produce(broker, "halved", 1, partition)
    wait_until(lambda: _has_commit_of(driver, "half"), "the other member commits")
    ghost.release()
    driver.leave("half")
    driver.leave("whole")


def _has_commit_of(driver: DriverProcess, member: str) -> bool:
    return any(kind == "commit" and name == member for kind, name, _ in driver.events())


_STEPS: Final[tuple[Callable[[ProxiedKafka, Path], None], ...]] = (
    _expired_offset,  # the first one, so that no other offset expires
    _reset,
    _lag,
    _late_end,
    _fenced_producer,
    _aborted_read,
    _recreated_topic,
    _unread,
    _zombie_commit,
    _same_client_ids,
    _late_commits,
    _dead_consumer,
)


def record(directory: Path) -> bytes:
    """Let everything happen, and return the capture."""
    with recorded_kafka(directory, **_SETTINGS) as (_, proxy, broker):
        for step in _STEPS:
            began = time.monotonic()
            step(broker, directory)
            sys.stdout.write(f"{step.__name__}: {time.monotonic() - began:.1f} s\n")
            sys.stdout.flush()
    return capture_of(proxy)


def main() -> None:
    """Record the capture."""
    with tempfile.TemporaryDirectory() as directory:
        data = record(Path(directory))
    CAPTURE.write_bytes(gzip.compress(data, mtime=0))
    sys.stdout.write(f"{CAPTURE.name}: {len(data)} bytes\n")


if __name__ == "__main__":
    main()
