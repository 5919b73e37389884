"""Records incidents of clients at a real Kafka: `python -m tests.captures.incidents [NAME ...]`.

The truth of each incident is written here, before it is recorded, and `test_incidents.py` compares
the findings of a check with it. A proxy that holds requests is in front of the recording one, so
that a capture has a late request when the broker gets it.
"""

from __future__ import annotations

import gzip
import io
import sys
import tarfile
import tempfile
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from kafkalite.lab.checker import commit_rules, delivery_rules, transaction_rules
from kafkalite.lab.checker.findings import DELAYED_REQUEST
from kafkalite.ports.named_tuples import NamedTuple
from tests.captures.sessions import run_share_group
from tests.captures.warm_up import warm_up
from tests.clients.client_libraries import FRANZ_GO, client_named, driver_environment
from tests.clients.ghosts import (
    EXPOSED,
    ProxiedKafka,
    late_commit,
    late_end_of_transaction,
)
from tests.clients.holding_proxy import HoldingProxy
from tests.clients.observer import wait_until
from tests.clients.process import DriverProcess
from tests.clients.served_proxy import ServedProxy
from tests.clients.transactional_producers import COMMANDS, TransactionalProducers
from tests.oracle.real_kafka import RealKafka
from tests.oracle.target import COMMON_CONFIG, free_port

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tests.clients.client_libraries import Command

CORPUS: Final = Path(__file__).parent / "incidents-kafka-4.4.0"
BOOKS: Final = CORPUS / "books.tar.gz"

_TIMEOUT_S: Final = 30.0
_SESSION: Final = {"session.timeout.ms": 6_000}
_CONFIG: Final = {
    **COMMON_CONFIG,
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
}


class Truth(NamedTuple):
    """A finding that a check must have."""

    rule: str
    cause: str
    records: int
    topic: str | None = None


@dataclass(frozen=True, slots=True)
class Incident:
    """What clients do, and all findings above a note, and the expected notes."""

    name: str
    run: Callable[[ProxiedKafka, Path], None]
    truth: tuple[Truth, ...]
    notes: tuple[Truth, ...] = ()

    @property
    def path(self) -> Path:
        """The path of its capture."""
        return CORPUS / f"{self.name}.pcapng.gz"


@contextmanager
def transactional_producers(
    client: str, broker: ProxiedKafka, directory: Path
) -> Iterator[TransactionalProducers]:
    """Run a process with transactional producers of a client library."""
    command = [*COMMANDS[client](), broker.bootstrap_servers]
    process = TransactionalProducers(command, directory / "producers.log", driver_environment())
    try:
        yield process
    finally:
        process.close()


def _ghost_end(client: str) -> Callable[[ProxiedKafka, Path], None]:
    # A late EndTxn commits the next transaction of its producer (KAFKA-17754).
    def run(broker: ProxiedKafka, directory: Path) -> None:
        with transactional_producers(client, broker, directory) as producers:
            outcome = late_end_of_transaction(broker, producers, "orders", disconnects=True)
            assert outcome == EXPOSED

    return run


def _ghost_addition(client: str) -> Callable[[ProxiedKafka, Path], None]:
    # A late AddPartitionsToTxn begins a transaction that its producer does not know (KIP-890).
    def run(broker: ProxiedKafka, directory: Path) -> None:
        create_topic(broker, "orders", 1)
        with transactional_producers(client, broker, directory) as producers:
            producers.init("payments", "payments")
            producers.begin("payments")
            ghost = broker.hold("AddPartitionsToTxn", disconnects=True)
            producers.send("payments", "orders", "first")
            producers.commit("payments")
            ghost.wait()
            reader = open_reader(broker, "reader", "shop")
            reader.subscribe(["orders"])
            consume(reader, 1)  # the transaction is complete
            reader.close()
            ghost.release()

    return run


def _ghost_commit(command: Command) -> Callable[[ProxiedKafka, Path], None]:
    # A late OffsetCommit moves a group back from offset 3 to 2; the topic is that of the first try.
    def run(broker: ProxiedKafka, directory: Path) -> None:
        process = [*command(), broker.bootstrap_servers]
        driver = DriverProcess(process, directory / "driver.log", driver_environment())
        try:
            assert late_commit(broker, driver, "orders", "classic") == EXPOSED
        finally:
            driver.close()

    return run


def _aborted_read(broker: ProxiedKafka, directory: Path) -> None:
    # A consumer with read_uncommitted gets 7 records of an aborted transaction.
    create_topic(broker, "orders", 1)
    with transactional_producers("java", broker, directory) as producers:
        producers.init("payments", "payments")
        producers.begin("payments")
        producers.send("payments", "orders", "committed")
        producers.commit("payments")
        producers.begin("payments")
        for number in range(7):
            producers.send("payments", "orders", f"aborted {number}")
        producers.abort("payments")
    reader = open_reader(broker, "reader", "shop", **{"isolation.level": "read_uncommitted"})
    reader.subscribe(["orders"])
    consume(reader, 8)
    reader.consume(1, 1)  # the marker after the records
    reader.close()


def _recreated_topic(broker: ProxiedKafka, _: Path) -> None:
    # A consumer commits offset 10 of a topic that was deleted and created again.
    from kafka import KafkaConsumer  # noqa: PLC0415 - its import warns, and tests read this module
    from kafka import TopicPartition as KafkaPythonPartition  # noqa: PLC0415
    from kafka.structs import OffsetAndMetadata  # noqa: PLC0415

    create_topic(broker, "orders", 1)
    produce(broker, "orders", 10)
    reader = KafkaConsumer(
        bootstrap_servers=broker.bootstrap_servers,
        client_id="reader",
        group_id="shop",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    partition = KafkaPythonPartition("orders", 0)
    reader.assign([partition])
    read = 0
    while read < 10:
        read += sum(map(len, reader.poll(500).values()))
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, "client.id": "operator"})
    admin.delete_topics(["orders"])["orders"].result(_TIMEOUT_S)
    wait_until(
        lambda: "orders" not in admin.list_topics(timeout=_TIMEOUT_S).topics, "the topic is deleted"
    )
    create_topic(broker, "orders", 1)
    produce(broker, "orders", 3)
    reader.commit({partition: OffsetAndMetadata(10, "", -1)})
    reader.close(autocommit=False)


def _dead_consumer(broker: ProxiedKafka, _: Path) -> None:
    # A static member ends without a commit, and another member gets its 100 records again.
    create_topic(broker, "orders", 1)
    produce(broker, "orders", 100)
    dead = open_reader(broker, "dead", "shop", **{"group.instance.id": "one"})
    dead.subscribe(["orders"])
    consume(dead, 100)
    dead.close()  # a static member sends no LeaveGroup
    heir = open_reader(broker, "heir", "shop")
    heir.subscribe(["orders"])
    consume(heir, 100)
    heir.commit(asynchronous=False)
    heir.close()


def _unread(broker: ProxiedKafka, directory: Path) -> None:
    # A consumer gets 20 records of partition 0; no client reads the 50 records of partition 1.
    create_topic(broker, "orders", 2)
    command = [*FRANZ_GO.command(), broker.bootstrap_servers]
    driver = DriverProcess(command, directory / "driver.log", driver_environment())
    try:
        driver.produce("orders", "none", [(0, "key", "read")] * 20)
        driver.produce("orders", "none", [(1, "key", "unread")] * 50)
    finally:
        driver.close()
    reader = open_reader(broker, "reader", "shop")
    reader.assign([TopicPartition("orders", 0, 0)])
    consume(reader, 20)
    reader.close()


def _zombie_commit(broker: ProxiedKafka, _: Path) -> None:
    # A member commits offset 1 of a partition that another member has and reads.
    create_topic(broker, "orders", 2)
    for partition in range(2):
        produce(broker, "orders", 5, partition)
    zombie = open_reader(broker, "zombie", "shop")
    zombie.subscribe(["orders"])
    consume(zombie, 10)
    owner = open_reader(broker, "owner", "shop")
    owner.subscribe(["orders"])
    taken: list[TopicPartition] = []

    def has_taken() -> bool:
        zombie.poll(0.1)
        message = owner.poll(0.1)
        if message is not None and message.error() is None:
            taken.append(TopicPartition("orders", message.partition() or 0, 1))
        return bool(taken)

    wait_until(has_taken, "the other member reads a partition")
    zombie.commit(offsets=taken[:1], asynchronous=False)
    owner.close()
    zombie.close()


def create_topic(broker: ProxiedKafka, topic: str, partitions: int) -> None:
    """Create a topic as the client `operator`."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, "client.id": "operator"})
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(_TIMEOUT_S)


def produce(broker: ProxiedKafka, topic: str, records: int, partition: int = 0) -> None:
    """Write records as the client `writer`, and wait until they are acknowledged."""
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "client.id": "writer"})
    for number in range(records):
        producer.produce(topic, b"%d" % number, partition=partition)
    assert producer.flush(_TIMEOUT_S) == 0


def open_reader(broker: ProxiedKafka, name: str, group: str, **settings: str) -> Consumer:
    """Return a consumer of a group with this client id, which commits nothing by itself."""
    return Consumer({
        "bootstrap.servers": broker.bootstrap_servers,
        "client.id": name,
        "group.id": group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        **({} if settings.get("group.protocol") == "consumer" else _SESSION),
        **settings,
    })  # fmt: skip


def consume(reader: Consumer, records: int) -> None:
    """Wait until a consumer has got this number of records."""
    read = 0
    while read < records:
        messages = reader.consume(records - read, _TIMEOUT_S)
        assert messages, f"{read} of {records} records"
        read += sum(each.error() is None for each in messages)


_ENDS: Final = (Truth(transaction_rules.DELAYED_END, DELAYED_REQUEST, 1),)
_ADDED: Final = (Truth(transaction_rules.DELAYED_ADDITION, DELAYED_REQUEST, 0),)
_BACK: Final = (Truth(commit_rules.REGRESSION, DELAYED_REQUEST, 1, "orders-0"),)

INCIDENTS: Final = (
    *(
        Incident(f"ghost-end-{client}", _ghost_end(client), _ENDS)
        for client in ("librdkafka", "aiokafka", "kafka-python")
    ),
    *(
        Incident(f"ghost-addition-{client}", _ghost_addition(client), _ADDED)
        for client in ("librdkafka", "aiokafka")
    ),
    Incident("ghost-commit-java", _ghost_commit(client_named("java").command), _BACK),
    Incident("ghost-commit-franz-go", _ghost_commit(FRANZ_GO.command), _BACK),
    Incident(
        "aborted-read",
        _aborted_read,
        (Truth(delivery_rules.ABORTED_READ, delivery_rules.READ_UNCOMMITTED, 7, "orders"),),
    ),
    Incident(
        "recreated-topic",
        _recreated_topic,
        (Truth(commit_rules.OTHER_INCARNATION, commit_rules.RECREATED_TOPIC, 0, "orders"),),
    ),
    Incident(
        "dead-consumer",
        _dead_consumer,
        (),
        (Truth(delivery_rules.DELIVERED_TWICE, delivery_rules.REBALANCE, 100, "orders"),),
    ),
    Incident("unread", _unread, (), (Truth(delivery_rules.UNREAD, "not fetched", 50, "orders"),)),
    Incident(
        "zombie-commit",
        _zombie_commit,
        (Truth(commit_rules.ZOMBIE_COMMIT, commit_rules.EARLIER_OWNER, 0, "orders"),),
    ),
)


@contextmanager
def recorded_kafka(
    directory: Path, **settings: str
) -> Iterator[tuple[RealKafka, ServedProxy, ProxiedKafka]]:
    """Run Kafka behind a recording proxy, and a proxy that holds requests in front of both."""
    with ExitStack() as running:
        holding = running.enter_context(HoldingProxy())
        kafka = RealKafka(directory / "kafka", {**_CONFIG, **settings})
        kafka.start()
        running.callback(kafka.kill)
        warm_up(kafka.bootstrap)
        port = free_port()
        address = f"127.0.0.1:{port}"
        # Node 1 has the port after that of the proxy.
        options = ["--listen", address, "--advertise", f"127.0.0.1:{holding.port - 1}"]
        proxy = ServedProxy(kafka, directory, options)
        proxy.open()
        try:
            holding.serve(port + 1)
            # The recording proxy listens for a node when an answer has named it.
            AdminClient({"bootstrap.servers": address}).list_topics(timeout=_TIMEOUT_S)
            yield kafka, proxy, ProxiedKafka(holding)
        finally:
            proxy.close()


def record(incident: Incident, directory: Path) -> bytes:
    """Let an incident happen, and return its capture."""
    with recorded_kafka(directory) as (_, proxy, broker):
        incident.run(broker, directory)
    return capture_of(proxy)


def capture_of(proxy: ServedProxy) -> bytes:
    """Return the only capture of a proxy that has ended."""
    (path,) = proxy.captures.iterdir()
    return path.read_bytes()


def record_books(directory: Path) -> bytes:
    """Return an archive with a capture, and with the data directory that the broker has then.

    There are transactions with committed offsets, a group, and a share group.
    """
    with recorded_kafka(directory) as (kafka, proxy, broker):
        _aborted_read(broker, directory)
        reader = open_reader(broker, "committer", "mail")
        reader.assign([TopicPartition("orders", 0, 0)])
        consume(reader, 1)
        reader.commit(asynchronous=False)
        reader.close()
        run_share_group(broker.bootstrap_servers, directory)
        kafka.stop()
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, content in {
            "capture.pcapng": capture_of(proxy), **_books_in(kafka.data),
        }.items():  # fmt: skip
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return packed.getvalue()


def _books_in(data: Path) -> dict[str, bytes]:
    """Return the files of a data directory that a check reads, without empty ones."""
    names = {"meta.properties", "partition.metadata", "log-start-offset-checkpoint"}
    return {
        f"data/{path.relative_to(data)}": content
        for path in sorted(data.rglob("*"))
        if path.is_file()
        and (path.name in names or path.suffix == ".log")
        and (path.name == "meta.properties" or _has_records(path.parent))
        and (content := path.read_bytes())
    }


def _has_records(directory: Path) -> bool:
    return any(path.stat().st_size for path in directory.glob("*.log"))


def main(names: Sequence[str]) -> None:
    """Record the incidents with these names, or all of them and the books."""
    CORPUS.mkdir(exist_ok=True)
    for incident in INCIDENTS:
        if names and incident.name not in names:
            continue
        with tempfile.TemporaryDirectory() as directory:
            data = record(incident, Path(directory))
        packed = gzip.compress(data, mtime=0)
        incident.path.write_bytes(packed)
        sys.stdout.write(f"{incident.name}: {len(data)} bytes, {len(packed)} gzipped\n")
        sys.stdout.flush()
    if not names or BOOKS.name.partition(".")[0] in names:
        with tempfile.TemporaryDirectory() as directory:
            BOOKS.write_bytes(record_books(Path(directory)))


if __name__ == "__main__":
    main(sys.argv[1:])
