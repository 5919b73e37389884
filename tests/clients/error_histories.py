"""Histories: what a client sends after an error, and what it gets, until it works again.

Each event makes one error true: a real Kafka is brought to it by requests of an administrator,
kafkalite by a fault. Both are behind a recording proxy, and the client knows only the proxy.
"""

from __future__ import annotations

import time
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import confluent_kafka.admin
from confluent_kafka import Consumer, Producer, TopicPartition

from kafkalite.capture.reading.captures import exchanges, ignore, read
from kafkalite.capture.reading.messages import api_name, parse_response
from kafkalite.capture.reading.summary import errors
from kafkalite.testing import Broker
from tests.clients.client_libraries import FRANZ_GO, client_named, driver_environment
from tests.clients.observer import wait_until
from tests.clients.process import ClientError, DriverProcess
from tests.clients.served_proxy import ServedProxy
from tests.clients.transactional_producers import COMMANDS, TransactionalProducers
from tests.oracle.real_cluster import real_cluster
from tests.oracle.requirements import required

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

History: TypeAlias = list[list[str]]
"""The names of an API and of the errors in its answer, for each exchange."""

_TIMEOUT_S: Final = 30.0
_MISSING_OFFSET: Final = 1
_CONFIG: Final = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
}
_TIMED: Final = frozenset({"Heartbeat", "Fetch"})
_kafka: Any = confluent_kafka.admin  # its names are not exported


class Window(NamedTuple):
    """The time from an event until its client works again."""

    begin_ns: int
    end_ns: int


class Cluster:
    """Two nodes behind a recording proxy."""

    def __init__(self, direct: str, directory: Path) -> None:
        self.direct = direct
        """Bootstrap address of the nodes, for all but the client."""
        self.admin = _kafka.AdminClient({"bootstrap.servers": direct})
        upstream: Any = SimpleNamespace(name="nodes", bootstrap=direct)
        self._proxy = ServedProxy(upstream, directory)

    @property
    def bootstrap(self) -> str:
        """Return the address of the proxy."""
        return self._proxy.bootstrap

    @contextmanager
    def served(self) -> Iterator[None]:
        """Run the proxy."""
        self._proxy.open()
        try:
            yield
        finally:
            self._proxy.close()

    def create_topic(self, topic: str) -> None:
        """Create a topic whose only partition node 1 leads, with a replica in node 2."""
        new = _kafka.NewTopic(topic, 1, replica_assignment=[[1, 2]])
        self.admin.create_topics([new])[topic].result(_TIMEOUT_S)

    def produce(self, topic: str, *values: str) -> None:
        """Write records, not through the proxy."""
        producer = Producer({"bootstrap.servers": self.direct})
        for value in values:
            producer.produce(topic, value, partition=0)
        assert producer.flush(_TIMEOUT_S) == 0

    def recorded(self, window: Window | None = None) -> Iterator[tuple[str, list[str]]]:
        """Yield the API and the errors of each answered exchange through the proxy.

        After the errors is `node_endpoints` if the answer names leaders (KIP-951).
        """
        found = exchanges(read([self._proxy.captures], ignore))
        for each in sorted(found, key=lambda each: each.sent_ns):
            is_inside = window is None or window.begin_ns <= each.sent_ns <= window.end_ns
            if each.response is not None and is_inside:
                response = parse_response(each)
                leaders = ["node_endpoints"] * bool(getattr(response, "node_endpoints", ()))
                yield api_name(each.api_key), [*errors(response), *leaders]

    def make_true(self, event: Event, name: str) -> None:
        """Make the error of an event true now, or for the next request that can get it."""
        raise NotImplementedError


class RealCluster(Cluster):
    """A real Kafka: an administrator brings about the error."""

    def make_true(self, event: Event, name: str) -> None:
        """See `Cluster`."""
        event.bring_about(self, name)


class EmulatedCluster(Cluster):
    """kafkalite: a fault makes the error true."""

    def __init__(self, broker: Broker, directory: Path) -> None:
        super().__init__(broker.bootstrap_servers, directory)
        self._broker = broker

    def make_true(self, event: Event, name: str) -> None:
        """See `Cluster`."""
        fields: dict[str, Any] = {event.subject: name}
        self._broker.faults.add(api=event.api, error=event.error, times=1, **fields)


@contextmanager
def real(directory: Path) -> Iterator[Cluster]:
    """Run two nodes of Kafka; raises MissingProgramError or UnavailableError."""
    with real_cluster(directory, 2, _CONFIG) as nodes:
        cluster = RealCluster(",".join(node.bootstrap for node in nodes), directory)
        with cluster.served():
            yield cluster


@contextmanager
def emulated(directory: Path) -> Iterator[Cluster]:
    """Run two nodes of kafkalite."""
    with Broker(brokers=2, config=_CONFIG, log_level="error") as broker:
        cluster = EmulatedCluster(broker, directory)
        with cluster.served():
            yield cluster


class Client(NamedTuple):
    """The programs of a client library."""

    driver: DriverProcess
    producers: TransactionalProducers


class Event(NamedTuple):
    """An error, how a real Kafka is brought to it, and what the client does."""

    error: str
    api: str
    """The API whose request gets the error from kafkalite."""
    subject: str
    """What the fault selects: `topic`, `group` or `transactional_id`."""
    counted: frozenset[str]
    """The APIs in the history."""
    run: Callable[[Cluster, Client, str, Callable[[], None]], None]
    """What a client does; it calls the function at the time of the event."""
    bring_about: Callable[[Cluster, str], None]
    clients: tuple[str, ...] = ("librdkafka", "aiokafka", "java", "franz-go")
    """The clients that get the error."""

    def happen_to(self, cluster: Cluster, client: Client, name: str) -> Window:
        """Make the error true for a client; a name is that of its topic and group."""
        begin_ns = 0

        def happen() -> None:
            nonlocal begin_ns
            begin_ns = time.time_ns()
            cluster.make_true(self, name)

        cluster.create_topic(name)
        self.run(cluster, client, name, happen)
        return Window(begin_ns, time.time_ns())

    def history(self, cluster: Cluster, window: Window) -> History:
        """Return the history from the first error on, with each kind of exchange once.

        Some exchanges are missing until the proxy ends. Successful heartbeats and fetches follow a
        timer, and a client may repeat a request before it has the metadata.
        """
        counted = [
            (api, *names)
            for api, names in cluster.recorded(window)
            if api in self.counted and (names or api not in _TIMED)
        ]
        first = next((at for at, row in enumerate(counted) if len(row) > 1), 0)
        return [list(row) for row in dict.fromkeys(counted[first:])]


def _consume(cluster: Cluster, client: Client, name: str, happen: Callable[[], None]) -> None:
    cluster.produce(name, "first")
    client.driver.join(name, name, name, "classic")
    _wait_for_commit(client, 1)
    begin_ns = time.time_ns()
    happen()
    wait_until(lambda: _has_error(cluster, begin_ns, "UNKNOWN_MEMBER_ID"), "the member is unknown")
    cluster.produce(name, "second")
    _wait_for_commit(client, 2)


def _has_error(cluster: Cluster, begin_ns: int, error: str) -> bool:
    window = Window(begin_ns, time.time_ns())
    return any(error in names for _, names in cluster.recorded(window))


def _wait_for_commit(client: Client, offset: int) -> None:
    def is_committed() -> bool:
        return any(
            kind == "commit" and detail == {0: offset} for kind, _, detail in client.driver.events()
        )

    wait_until(is_committed, f"offset {offset} is committed")


def _consume_missing(
    cluster: Cluster, client: Client, name: str, happen: Callable[[], None]
) -> None:
    cluster.produce(name, *"abcde")
    consumer = Consumer({"bootstrap.servers": cluster.direct, "group.id": name})
    consumer.commit(offsets=[TopicPartition(name, 0, _MISSING_OFFSET)], asynchronous=False)
    consumer.close()
    happen()
    client.driver.join(name, name, name, "classic")
    _wait_for_commit(client, 5)


def _produce(_: Cluster, client: Client, name: str, happen: Callable[[], None]) -> None:
    client.driver.produce(name, "none", [(0, None, "first")])
    happen()
    with suppress(ClientError):
        client.driver.produce(name, "none", [(0, None, "second")])


def _commit(_: Cluster, client: Client, name: str, happen: Callable[[], None]) -> None:
    client.producers.init(name, name)
    client.producers.begin(name)
    client.producers.send(name, name, "first")
    happen()
    for action in (client.producers.commit, client.producers.abort):
        with suppress(ClientError):
            action(name)


@contextmanager
def _other_admin(cluster: Cluster) -> Iterator[Any]:
    """Yield the client of kafka-python, which has requests that librdkafka has not."""
    from kafka.admin import KafkaAdminClient  # noqa: PLC0415 - it warns

    admin = KafkaAdminClient(bootstrap_servers=cluster.direct)
    try:
        yield admin
    finally:
        admin.close()


def _remove_member(cluster: Cluster, group: str) -> None:
    from kafka.admin import MemberToRemove  # noqa: PLC0415 - see above

    described = cluster.admin.describe_consumer_groups([group])[group].result(_TIMEOUT_S)
    with _other_admin(cluster) as admin:
        members = [MemberToRemove(member_id=each.member_id) for each in described.members]
        admin.remove_group_members(group, members)


def _move_leader(cluster: Cluster, topic: str) -> None:
    from kafka.structs import TopicPartition as Partition  # noqa: PLC0415 - see above

    with _other_admin(cluster) as admin:
        admin.alter_partition_reassignments({Partition(topic, 0): [2, 1]})
        admin.elect_leaders(0, {topic: [0]})
    wait_until(lambda: _leader(cluster, topic) == 2, "node 2 leads")


def _leader(cluster: Cluster, topic: str) -> int:
    leader: int = cluster.admin.list_topics(topic).topics[topic].partitions[0].leader
    return leader


def _delete_records(cluster: Cluster, topic: str) -> None:
    position = TopicPartition(topic, 0, _MISSING_OFFSET + 1)
    cluster.admin.delete_records([position])[position].result(_TIMEOUT_S)


def _fence(cluster: Cluster, transactional_id: str) -> None:
    settings = {"bootstrap.servers": cluster.direct, "transactional.id": transactional_id}
    Producer(settings).init_transactions(_TIMEOUT_S)


def _replace_topic(cluster: Cluster, topic: str) -> None:
    cluster.admin.delete_topics([topic])[topic].result(_TIMEOUT_S)
    wait_until(lambda: topic not in cluster.admin.list_topics().topics, "the topic is deleted")
    cluster.create_topic(topic)
    wait_until(lambda: topic in cluster.admin.list_topics().topics, "the topic exists")


_MEMBERSHIP: Final = frozenset(
    {"JoinGroup", "SyncGroup", "Heartbeat", "OffsetFetch", "OffsetCommit"}
)
_WRITING: Final = frozenset({"Produce", "Metadata", "InitProducerId"})
_READING: Final = frozenset({"Fetch", "ListOffsets", "OffsetCommit"})
_TRANSACTION: Final = frozenset({"EndTxn", "InitProducerId", "Produce"})
EVENTS: Final = (
    Event("UNKNOWN_MEMBER_ID", "Heartbeat", "group", _MEMBERSHIP, _consume, _remove_member),
    Event("OFFSET_OUT_OF_RANGE", "Fetch", "topic", _READING, _consume_missing, _delete_records),
    # Clients may request the metadata at the same time.
    Event(
        *("NOT_LEADER_OR_FOLLOWER", "Produce", "topic", frozenset({"Produce"})),
        *(_produce, _move_leader),
    ),
    Event("PRODUCER_FENCED", "EndTxn", "transactional_id", _TRANSACTION, _commit, _fence),
    Event(
        *("UNKNOWN_TOPIC_ID", "Produce", "topic", _WRITING, _produce, _replace_topic),
        clients=("java", "franz-go"),  # the others name topics
    ),
)
_DRIVERS: Final = {
    "librdkafka": client_named("confluent-kafka").command,
    "aiokafka": client_named("aiokafka").command,
    "java": client_named("java").command,
    "franz-go": FRANZ_GO.command,
}
CLIENTS: Final = tuple(_DRIVERS)
FILE: Final = Path(__file__).with_name("error_histories.json")
"""The histories with a real Kafka; tests of it write them if they record."""


def histories(
    cluster_of: Callable[[Path], AbstractContextManager[Cluster]],
    clients: tuple[str, ...],
    directory: Path,
) -> dict[str, dict[str, History]]:
    """Return the history of each error by client; skip the test without a client or Kafka."""
    windows: dict[tuple[str, Event], Window] = {}
    with ExitStack() as running:
        with required():
            cluster = running.enter_context(cluster_of(directory))
        for name in clients:
            with _running(name, cluster, directory) as client:
                for event in (each for each in EVENTS if name in each.clients):
                    subject = f"{event.error}-{name}".lower()
                    windows[name, event] = event.happen_to(cluster, client, subject)
    found: dict[str, dict[str, History]] = {each.error: {} for each in EVENTS}
    for (name, event), window in windows.items():
        found[event.error][name] = event.history(cluster, window)
    return found


@contextmanager
def _running(name: str, cluster: Cluster, directory: Path) -> Iterator[Client]:
    with required():
        commands = _DRIVERS[name](), COMMANDS[name]()
    (driver_command, producers_command), environment = commands, driver_environment()
    log, other_log = directory / f"{name}.log", directory / f"{name}-producers.log"
    driver = DriverProcess([*driver_command, cluster.bootstrap], log, environment)
    producers = TransactionalProducers(
        [*producers_command, cluster.bootstrap], other_log, environment
    )
    try:
        yield Client(driver, producers)
    finally:
        driver.close()
        producers.close()
