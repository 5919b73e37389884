"""Nodes that fail at random while a client writes and reads: nothing is lost, repeated or stuck.

The client writes with an idempotent producer and `acks=all`, and reads in a group. Meanwhile nodes
stop, are isolated and lag, and leaders move. All acknowledged records must be in the log once and
in order, the group must read and commit all of them, and its committed offsets must never go back.
"""

from __future__ import annotations

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol

from confluent_kafka import Consumer, KafkaException, TopicPartition

from tests.clients.client_scenario import ConsumerHistory, assert_equal_and_in_order
from tests.clients.observer import committed_offsets, end_offsets, wait_until
from tests.clients.readers import UNCOMMITTED, read_by_librdkafka
from tests.clients.records import some_records

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Mapping, Sequence

    from kafkalite.testing import Broker
    from tests.clients.drivers.protocol import SentRow
    from tests.clients.process import DriverProcess

NODES = 3
PARTITIONS = 3
TOPIC = "orders"
CONFIG: dict[str, str | float] = {
    "default.replication.factor": NODES,
    "min.insync.replicas": 2,
    # So that isolated and lagging nodes are replaced within the time between two failures.
    "broker.session.timeout.ms": 500,
    "replica.lag.time.max.ms": 500,
}
"""Broker configurations of the scenario."""

ALL_KINDS = ("stop", "shut down", "isolate", "pause", "move")
KINDS_WITH_STALE_METADATA = (*ALL_KINDS, "freeze")
KINDS_WITHOUT_EPOCHS = ("stop", "shut down", "pause", "move")
"""For clients whose requests have no leader epochs. An isolated node can name itself as the leader,
and answer OFFSET_OUT_OF_RANGE for records of the next leader. These clients then begin again."""

_GROUP = "shop"
_BATCH = 30
_PATIENCE_S = 0.7
_DEADLINE_S = 30.0
_SECOND_FAILURE_RATE = 0.3
_OBSERVE_EVERY = 5
"""Number of failures between two observations of the committed offsets."""


class NodeHandle(Protocol):
    """A node that a test lets fail; see `kafkalite.testing.nodes`."""

    def stop(self, *, controlled: bool = False) -> None: ...
    def start(self) -> None: ...
    def isolate(self) -> None: ...
    def pause_replication(self) -> None: ...
    def resume_replication(self) -> None: ...
    def freeze_metadata(self) -> None: ...
    def thaw_metadata(self) -> None: ...


class ControlledBroker(Protocol):
    """A broker whose nodes a test lets fail."""

    @property
    def nodes(self) -> Mapping[int, NodeHandle]:
        """Node id → node."""

    def move_leader(self, topic: str, partition: int, leader: int) -> object:
        """Make a node the leader; raises ValueError if its replica is not in the ISR."""


class Results(NamedTuple):
    """The results of a scenario."""

    failures: Counter[str]
    records: int
    commits: int
    observations: int


@dataclass(slots=True)
class NodeFailures:
    """Random failures of the nodes of a broker; one node always takes part in everything."""

    broker: ControlledBroker
    random: random.Random
    kinds: Sequence[str] = ALL_KINDS
    topics: Sequence[str] = (TOPIC,)
    """The topics whose leaders move."""
    second_failure_rate: float = _SECOND_FAILURE_RATE
    failures: Counter[str] = field(default_factory=Counter)
    _failed: dict[int, str] = field(default_factory=dict)
    """Node → how it failed."""

    def fail(self) -> None:
        """Let one node fail, or move one leader; some nodes may be repaired first."""
        limit = 2 if self.random.random() < self.second_failure_rate else 1
        while len(self._failed) >= limit:
            self._repair(self.random.choice(sorted(self._failed)))
        failure = self.random.choice(self.kinds)
        if failure == "move":
            self._move_a_leader()
        else:
            node_id = self.random.choice(self._sound_nodes())
            node = self.broker.nodes[node_id]
            changes: dict[str, Callable[[], None]] = {
                "stop": node.stop,
                "shut down": partial(node.stop, controlled=True),
                "isolate": node.isolate,
                "pause": node.pause_replication,
                "freeze": node.freeze_metadata,
            }
            changes[failure]()
            self._failed[node_id] = failure
        self.failures[failure] += 1

    def repair(self) -> None:
        """Repair all nodes."""
        for node_id in sorted(self._failed):
            self._repair(node_id)

    def forget(self) -> None:
        """Begin again: after a restart all nodes take part in everything."""
        self._failed.clear()

    def _sound_nodes(self) -> list[int]:
        return [node_id for node_id in range(1, NODES + 1) if node_id not in self._failed]

    def _repair(self, node_id: int) -> None:
        node = self.broker.nodes[node_id]
        repairs = {"pause": node.resume_replication, "freeze": node.thaw_metadata}
        repairs.get(self._failed.pop(node_id), node.start)()

    def _move_a_leader(self) -> None:
        """Move the leader of a random partition to a node that is in sync, if another one is."""
        topic = self.random.choice(self.topics)
        partition = self.random.randrange(PARTITIONS)
        nodes = self._sound_nodes()
        self.random.shuffle(nodes)
        for node_id in nodes:
            try:
                self.broker.move_leader(topic, partition, node_id)
            except ValueError:
                continue  # its replica is not in the ISR


@dataclass(slots=True)
class Scenario:
    """One client, which writes and reads while nodes fail."""

    broker: Broker
    driver: DriverProcess
    protocol: str
    failures: NodeFailures
    _sent: list[SentRow] = field(default_factory=list)
    _history: ConsumerHistory = field(default_factory=ConsumerHistory)
    _observed: list[dict[int, int]] = field(default_factory=list)
    _progress: threading.Condition = field(default_factory=threading.Condition)
    _is_over: threading.Event = field(default_factory=threading.Event)

    def run(self, count: int) -> Results:
        """Write and read during `count` failures, and check the records and the offsets."""
        self._write()
        self.driver.join("reader", _GROUP, TOPIC, self.protocol)
        with ThreadPoolExecutor(1) as executor:
            failing = executor.submit(self._fail_nodes, count)
            try:
                while not failing.done():
                    self._write()
                    self._history.add_events(self.driver.events())
            finally:
                self._is_over.set()
            failing.result()
        self._write()
        self._check()
        return Results(
            self.failures.failures, len(self._sent), self._history.commits, len(self._observed)
        )

    def _write(self) -> None:
        """Write a batch, and wait until every record is acknowledged."""
        records = some_records(_BATCH, PARTITIONS, start=len(self._sent))
        self.driver.produce(TOPIC, "none", records, is_idempotent=True)
        with self._progress:
            self._sent += records
            self._progress.notify_all()

    def _fail_nodes(self, count: int) -> None:
        # It never joins the group.
        observer = Consumer(
            {"bootstrap.servers": self.broker.bootstrap_servers, "group.id": _GROUP}
        )
        for number in range(count):
            if self._is_over.is_set():
                break
            self.failures.fail()
            self._wait_for_progress()
            if number % _OBSERVE_EVERY == 0:
                self._observe(observer)
        self.failures.repair()
        self._observe(observer)
        observer.close()

    def _wait_for_progress(self) -> None:
        """Wait for two batches, but not long: the failures may prevent them."""
        with self._progress:
            expected = len(self._sent) + 2 * _BATCH
            self._progress.wait_for(lambda: len(self._sent) >= expected, _PATIENCE_S)

    def _observe(self, observer: Consumer) -> None:
        """Read the committed offsets, if the coordinator answers now."""
        partitions = [TopicPartition(TOPIC, index) for index in range(PARTITIONS)]
        try:
            offsets = observer.committed(partitions, _PATIENCE_S)
        except KafkaException:
            return
        self._observed.append({row.partition: row.offset for row in offsets if row.offset >= 0})

    def _check(self) -> None:
        bootstrap = self.broker.bootstrap_servers
        rows = read_by_librdkafka(bootstrap, TOPIC, PARTITIONS, UNCOMMITTED)
        in_log = [
            (partition, offset, key, value)
            for partition, pairs in sorted(rows.items())
            for offset, (key, value) in enumerate(pairs)
        ]
        assert_equal_and_in_order(self._sent, in_log)

        def is_committed() -> bool:
            self._history.add_events(self.driver.events())
            ends = end_offsets(bootstrap, TOPIC, PARTITIONS)
            return committed_offsets(bootstrap, _GROUP, TOPIC) == ends

        wait_until(is_committed, "all records to be read and committed", _DEADLINE_S)
        self.driver.leave("reader")
        self._history.add_events(self.driver.events())
        assert_equal_and_in_order(self._sent, self._history.records())
        for before, after in zip(self._observed, self._observed[1:], strict=False):
            for partition, offset in before.items():
                assert after.get(partition, -1) >= offset, f"{before} became {after}"
