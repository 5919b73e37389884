"""Exactly-once processing despite kills: records are read, transformed and written in transactions.

Workers share the partitions of a topic and write transformed records and offsets in transactions.
They are killed inside transactions and at other times. Some are stopped until another worker has
their transactional id, and then continued. The broker is killed and restarted with its data. At the
end, the committed records of the output topic are those of the input, once and in order.
"""

from __future__ import annotations

import signal
import time
from collections import Counter, defaultdict
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import zip_longest
from typing import TYPE_CHECKING, NamedTuple

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.clients.drivers.worker import Task, transformed
from tests.clients.observer import (
    commit_the_beginning,
    committed_offsets,
    end_offsets,
    wait_until,
)
from tests.clients.readers import UNCOMMITTED, Rows, read_by_aiokafka, read_by_librdkafka
from tests.clients.worker_processes import Worker, WorkerPool

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from tests.clients.node_failure_scenario import NodeFailures
    from tests.oracle.target import Target

PARTITIONS = 6
ASSIGNED = "assigned"
"""The protocol of clients whose TxnOffsetCommit requests have no member id: each worker has its own
partitions and group."""
SOURCE, SINK = "given", "made"
_GROUP = "workers"
_TIMEOUT_S = 60.0
_PATIENCE_S = 2.0
_FAILURE_PATIENCE_S = 0.5


class Plan(NamedTuple):
    """The numbers of records and failures."""

    records: int
    workers: int
    batch: int
    """Maximum number of records of a transaction."""
    kills_inside: int
    """Workers killed with an open transaction whose records were all sent."""
    kills_anywhere: int
    zombies: int
    """Workers stopped with an open transaction, until others have their transactional ids."""
    broker_kills: int
    aborts: int
    node_failures: int = 0
    """Failures of nodes before each kill of the broker."""


class Results(NamedTuple):
    """The results of a scenario."""

    records: int
    commits: int
    rolled_back: int
    """Records in the output that are not committed."""
    client_kills: int
    broker_kills: int
    fenced: Counter[str]
    """Errors of zombies → count."""
    seconds: float


@dataclass(slots=True)
class Scenario:
    """The workers of one client with one broker."""

    target: Target
    start_worker: Callable[[Task, int], Worker]
    protocol: str
    plan: Plan
    random: random.Random
    replicas: int = 1
    nodes: NodeFailures | None = None
    """Given if nodes fail in the plan."""
    input_rows: Rows = field(default_factory=lambda: defaultdict(list))
    fenced: Counter[str] = field(default_factory=Counter)
    count: int = 0

    def run(self) -> Results:
        """Execute the plan, and check the output."""
        plan = self.plan
        started = time.monotonic()
        self._prepare()
        pool = WorkerPool.of(plan.workers, self._start_worker)
        try:
            self._run_plan(plan, pool)
            wait_until(lambda: self._is_done(pool), "everything to be committed", _TIMEOUT_S)
            pool.close()
        finally:
            pool.kill()
        seconds = time.monotonic() - started
        self._check()
        kills = plan.kills_inside + plan.kills_anywhere + plan.zombies
        written = read_by_librdkafka(self.target.bootstrap, SINK, PARTITIONS, UNCOMMITTED)
        rolled_back = sum(map(len, written.values())) - self.count
        return Results(
            self.count, pool.commits, rolled_back, kills, plan.broker_kills, self.fenced, seconds
        )

    def _prepare(self) -> None:
        admin = AdminClient({"bootstrap.servers": self.target.bootstrap})
        expected = [NewTopic(name, PARTITIONS, self.replicas) for name in (SOURCE, SINK)]
        for future in admin.create_topics(expected).values():
            future.result(_TIMEOUT_S)
        for slot in range(self.plan.workers):
            commit_the_beginning(self.target.bootstrap, self._group(slot), SOURCE, PARTITIONS)

    def _group(self, slot: int) -> str:
        return f"{_GROUP}-{slot}" if self.protocol == ASSIGNED else _GROUP

    def _partitions(self, slot: int) -> list[int]:
        return list(range(slot, PARTITIONS, self.plan.workers))

    def _start_worker(self, slot: int) -> Worker:
        task = Task(
            bootstrap=self.target.bootstrap,
            transactional_id=f"{_GROUP}-{slot}",
            group=self._group(slot),
            protocol=self.protocol,
            source=SOURCE,
            sink=SINK,
            partitions=self._partitions(slot),
            batch=self.plan.batch,
        )
        return self.start_worker(task, slot)

    def _run_plan(self, plan: Plan, pool: WorkerPool) -> None:
        failures = [
            *[self._kill_inside] * plan.kills_inside,
            *[self._kill_anywhere] * plan.kills_anywhere,
            *[self._create_zombie] * plan.zombies,
            *[self._kill_the_broker] * plan.broker_kills,
            *[self._abort] * plan.aborts,
        ]
        self.random.shuffle(failures)
        share = plan.records // (len(failures) + 1)
        for fail in failures:
            fail(pool, share)
            pool.check()
        self._write_input(plan.records - self.count)

    def _write_input(self, count: int) -> None:
        """Write input records, spread over the partitions."""
        producer = Producer(
            {
                "bootstrap.servers": self.target.bootstrap,
                "linger.ms": 5,
                "enable.idempotence": True,
            }
        )
        for number in range(self.count, self.count + count):
            row = (f"key-{number % 97}", f"value-{number}")
            partition = number % PARTITIONS
            producer.produce(SOURCE, row[1], row[0], partition)
            self.input_rows[partition].append(row)
        if self.nodes is not None and producer.flush(_PATIENCE_S):
            # An isolated leader acknowledges nothing, and does not name the next one.
            self.nodes.repair()
        assert producer.flush(_TIMEOUT_S) == 0
        self.count += count

    def _write_until(self, condition: Callable[[], bool], description: str) -> None:
        """Write more until a condition holds, because other workers may read the records."""
        deadline = time.monotonic() + _TIMEOUT_S
        while not condition():
            assert time.monotonic() < deadline, f"not within {_TIMEOUT_S:.0f} s: {description}"
            self._write_input(PARTITIONS)

    def _hold_in_transaction(self, pool: WorkerPool, share: int) -> int:
        """Make a worker wait inside a transaction, and return its slot."""
        slot = self.random.randrange(len(pool.workers))
        worker = pool.workers[slot]
        worker.send_order("hold")
        self._write_input(share)
        is_waiting = partial(worker.has_printed, "held", _PATIENCE_S)
        self._write_until(is_waiting, f"slot {slot} to be in a transaction")
        return slot

    def _kill_inside(self, pool: WorkerPool, share: int) -> None:
        slot = self._hold_in_transaction(pool, share)
        pool.workers[slot].kill()
        pool.replace(slot)

    def _create_zombie(self, pool: WorkerPool, share: int) -> None:
        slot = self._hold_in_transaction(pool, share)
        zombie = pool.workers[slot]
        zombie.signal(signal.SIGSTOP)
        pool.replace(slot)
        zombie.signal(signal.SIGCONT)
        zombie.send_order("go")
        self.fenced[zombie.wait_for("fenced")] += 1

    def _kill_anywhere(self, pool: WorkerPool, share: int) -> None:
        self._wait_for_some_commits(pool, share)
        slot = self.random.randrange(len(pool.workers))
        pool.workers[slot].kill()
        pool.replace(slot)

    def _kill_the_broker(self, pool: WorkerPool, share: int) -> None:
        if self.nodes is None:
            self._wait_for_some_commits(pool, share)
        for _ in range(self.plan.node_failures):
            assert self.nodes is not None
            self.nodes.fail()
            self._write_input(share // self.plan.node_failures)
            self._wait_for_progress(pool)
        self.target.kill()
        self.target.start()
        if self.nodes is not None:
            self.nodes.forget()

    def _wait_for_progress(self, pool: WorkerPool) -> None:
        """Wait for a commit, but not long: the failures may prevent it."""
        expected = pool.commits + 1
        with suppress(AssertionError):
            wait_until(lambda: pool.commits >= expected, "a commit", _FAILURE_PATIENCE_S)

    def _abort(self, pool: WorkerPool, share: int) -> None:
        worker = self.random.choice(pool.workers)
        before = worker.aborts
        worker.send_order("abort")
        self._write_input(share)
        has_aborted = partial(worker.has_printed, "aborted", _PATIENCE_S, more_than=before)
        self._write_until(has_aborted, "a transaction to be aborted")

    def _wait_for_some_commits(self, pool: WorkerPool, share: int) -> None:
        expected = pool.commits + self.random.randrange(1 + share // self.plan.batch)
        self._write_input(share)
        wait_until(lambda: pool.commits >= expected, f"{expected} commits", _TIMEOUT_S)

    def _is_done(self, pool: WorkerPool) -> bool:
        pool.check()
        bootstrap = self.target.bootstrap
        expected = end_offsets(bootstrap, SOURCE, PARTITIONS)
        committed_by_partition: dict[int, int] = {}
        for slot in range(self.plan.workers):
            committed = committed_offsets(bootstrap, self._group(slot), SOURCE)
            committed_by_partition |= {
                partition: committed[partition] for partition in self._partitions(slot)
            }
        return committed_by_partition == expected

    def _check(self) -> None:
        """Compare the records of two readers with the input: each record once and in order."""
        expected: Rows = {
            partition: [(key, transformed(value)) for key, value in rows]
            for partition, rows in self.input_rows.items()
        }
        for reader in (read_by_librdkafka, read_by_aiokafka):
            self.target.kill()
            self.target.start()
            read = reader(self.target.bootstrap, SINK, PARTITIONS)
            assert read == expected, f"{reader.__name__}: {_differences(expected, read)}"


def _differences(expected: Rows, read: Rows) -> str:
    """Return how many records are lost, repeated or out of order, and the first of them."""
    lost = repeated = 0
    differences = []
    for partition in range(PARTITIONS):
        expected_rows, read_rows = expected.get(partition, []), read.get(partition, [])
        lost += (Counter(expected_rows) - Counter(read_rows)).total()
        repeated += (Counter(read_rows) - Counter(expected_rows)).total()
        pairs = enumerate(zip_longest(expected_rows, read_rows))
        position = next(
            (index for index, (expected_row, read_row) in pairs if expected_row != read_row), None
        )
        if position is not None:
            differences.append(
                (
                    partition,
                    position,
                    expected_rows[position : position + 3],
                    read_rows[position : position + 3],
                )
            )
    return f"{lost} lost, {repeated} doubled; {differences}"
