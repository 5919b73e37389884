"""Exactly once, through kills: input that is read, transformed and written in transactions.

Workers share the partitions of a topic and write what becomes of its records, offsets included, in
transactions. They are killed inside transactions and anywhere else, stopped until another has their
transactional id and then set going again, and the broker is killed and comes back on its data. At
the end the other topic holds, read committed, every record of the first once and in its order.
"""

from __future__ import annotations

import signal
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from functools import partial
from itertools import zip_longest
from typing import TYPE_CHECKING, NamedTuple

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.clients.crew import Crew, Worker
from tests.clients.drivers.worker import Task, transformed
from tests.clients.observer import (
    commit_the_beginning,
    committed_offsets,
    end_offsets,
    wait_until,
)
from tests.clients.readers import UNCOMMITTED, Rows, read_by_aiokafka, read_by_librdkafka

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from tests.oracle.target import Target

PARTITIONS = 6
ASSIGNED = "assigned"
"""The protocol of those whose transactions do not say which member of the group they are: each has
partitions and a group of its own."""
_GROUP, _SOURCE, _SINK = "workers", "given", "made"
_TIMEOUT_S = 60.0
_PATIENCE_S = 2.0


class Plan(NamedTuple):
    """How much is to happen."""

    records: int
    workers: int
    batch: int
    """Records of a transaction, at most."""
    kills_inside: int
    """Workers killed with a transaction open, everything sent."""
    kills_anywhere: int
    zombies: int
    """Workers stopped with a transaction open, until others have their transactional ids."""
    broker_kills: int
    aborts: int


class Figures(NamedTuple):
    """What happened."""

    records: int
    commits: int
    rolled_back: int
    """Records in the output that nobody reads who reads committed ones only."""
    client_kills: int
    broker_kills: int
    fenced: Counter[str]
    """What zombies were told → how often."""
    seconds: float


@dataclass(slots=True)
class Story:
    """One crew of one client at one broker."""

    target: Target
    hire: Callable[[Task, int], Worker]
    protocol: str
    plan: Plan
    random: random.Random
    given: Rows = field(default_factory=lambda: defaultdict(list))
    fenced: Counter[str] = field(default_factory=Counter)
    count: int = 0

    def live(self) -> Figures:
        """Go through the plan, and check what is left."""
        plan = self.plan
        begun = time.monotonic()
        self._prepare()
        crew = Crew.of(plan.workers, self._hire)
        try:
            self._go_through(plan, crew)
            wait_until(lambda: self._is_done(crew), "everything to be committed", _TIMEOUT_S)
            crew.close()
        finally:
            crew.kill()
        seconds = time.monotonic() - begun
        self._check()
        kills = plan.kills_inside + plan.kills_anywhere + plan.zombies
        written = read_by_librdkafka(self.target.bootstrap, _SINK, PARTITIONS, UNCOMMITTED)
        rolled_back = sum(map(len, written.values())) - self.count
        return Figures(
            self.count, crew.commits, rolled_back, kills, plan.broker_kills, self.fenced, seconds
        )

    def _prepare(self) -> None:
        admin = AdminClient({"bootstrap.servers": self.target.bootstrap})
        wanted = [NewTopic(name, PARTITIONS, 1) for name in (_SOURCE, _SINK)]
        for made in admin.create_topics(wanted).values():
            made.result(_TIMEOUT_S)
        for seat in range(self.plan.workers):
            commit_the_beginning(self.target.bootstrap, self._group(seat), _SOURCE, PARTITIONS)

    def _group(self, seat: int) -> str:
        return f"{_GROUP}-{seat}" if self.protocol == ASSIGNED else _GROUP

    def _partitions(self, seat: int) -> list[int]:
        return list(range(seat, PARTITIONS, self.plan.workers))

    def _hire(self, seat: int) -> Worker:
        task = Task(
            bootstrap=self.target.bootstrap,
            transactional_id=f"{_GROUP}-{seat}",
            group=self._group(seat),
            protocol=self.protocol,
            source=_SOURCE,
            sink=_SINK,
            partitions=self._partitions(seat),
            batch=self.plan.batch,
        )
        return self.hire(task, seat)

    def _go_through(self, plan: Plan, crew: Crew) -> None:
        acts = [
            *[self._kill_inside] * plan.kills_inside,
            *[self._kill_anywhere] * plan.kills_anywhere,
            *[self._raise_a_zombie] * plan.zombies,
            *[self._kill_the_broker] * plan.broker_kills,
            *[self._abort] * plan.aborts,
        ]
        self.random.shuffle(acts)
        share = plan.records // (len(acts) + 1)
        for act in acts:
            act(crew, share)
            crew.check()
        self._give(plan.records - self.count)

    def _give(self, count: int) -> None:
        """Write records to read, spread over the partitions."""
        producer = Producer({"bootstrap.servers": self.target.bootstrap, "linger.ms": 5})
        for number in range(self.count, self.count + count):
            row = (f"key-{number % 97}", f"value-{number}")
            partition = number % PARTITIONS
            producer.produce(_SOURCE, row[1], row[0], partition)
            self.given[partition].append(row)
        assert producer.flush(_TIMEOUT_S) == 0
        self.count += count

    def _give_until(self, condition: Callable[[], bool], what: str) -> None:
        """Write a little more while it is not so: others may have read what was for one of them."""
        deadline = time.monotonic() + _TIMEOUT_S
        while not condition():
            assert time.monotonic() < deadline, f"not within {_TIMEOUT_S:.0f} s: {what}"
            self._give(PARTITIONS)

    def _held(self, crew: Crew, share: int) -> int:
        """Have somebody hold a transaction, and return whose seat it is."""
        seat = self.random.randrange(len(crew.workers))
        worker = crew.workers[seat]
        worker.tell("hold")
        self._give(share)
        is_held = partial(worker.has_said, "held", _PATIENCE_S)
        self._give_until(is_held, f"seat {seat} to be in a transaction")
        return seat

    def _kill_inside(self, crew: Crew, share: int) -> None:
        seat = self._held(crew, share)
        crew.workers[seat].kill()
        crew.replace(seat)

    def _raise_a_zombie(self, crew: Crew, share: int) -> None:
        seat = self._held(crew, share)
        zombie = crew.workers[seat]
        zombie.signal(signal.SIGSTOP)
        crew.replace(seat)
        zombie.signal(signal.SIGCONT)
        zombie.tell("go")
        self.fenced[zombie.wait_for("fenced")] += 1

    def _kill_anywhere(self, crew: Crew, share: int) -> None:
        self._some_commits_of(crew, share)
        seat = self.random.randrange(len(crew.workers))
        crew.workers[seat].kill()
        crew.replace(seat)

    def _kill_the_broker(self, crew: Crew, share: int) -> None:
        self._some_commits_of(crew, share)
        self.target.kill()
        self.target.start()

    def _abort(self, crew: Crew, share: int) -> None:
        worker = self.random.choice(crew.workers)
        before = worker.aborts
        worker.tell("abort")
        self._give(share)
        has_aborted = partial(worker.has_said, "aborted", _PATIENCE_S, more_than=before)
        self._give_until(has_aborted, "a transaction to be aborted")

    def _some_commits_of(self, crew: Crew, share: int) -> None:
        wanted = crew.commits + self.random.randrange(1 + share // self.plan.batch)
        self._give(share)
        wait_until(lambda: crew.commits >= wanted, f"{wanted} commits", _TIMEOUT_S)

    def _is_done(self, crew: Crew) -> bool:
        crew.check()
        bootstrap = self.target.bootstrap
        ends = end_offsets(bootstrap, _SOURCE, PARTITIONS)
        found: dict[int, int] = {}
        for seat in range(self.plan.workers):
            committed = committed_offsets(bootstrap, self._group(seat), _SOURCE)
            found |= {each: committed[each] for each in self._partitions(seat)}
        return found == ends

    def _check(self) -> None:
        """Compare what two readers read with what was given: each record once and in its order."""
        wanted: Rows = {
            partition: [(key, transformed(value)) for key, value in rows]
            for partition, rows in self.given.items()
        }
        for reader in (read_by_librdkafka, read_by_aiokafka):
            self.target.kill()
            self.target.start()
            read = reader(self.target.bootstrap, _SINK, PARTITIONS)
            assert read == wanted, f"{reader.__name__}: {_differences(wanted, read)}"


def _differences(wanted: Rows, read: Rows) -> str:
    """Say how many records are lost, doubled or out of order, and the first place."""
    lost = doubled = 0
    places = []
    for partition in range(PARTITIONS):
        these, those = wanted.get(partition, []), read.get(partition, [])
        lost += (Counter(these) - Counter(those)).total()
        doubled += (Counter(those) - Counter(these)).total()
        pairs = enumerate(zip_longest(these, those))
        place = next((index for index, (this, that) in pairs if this != that), None)
        if place is not None:
            places.append((partition, place, these[place : place + 3], those[place : place + 3]))
    return f"{lost} lost, {doubled} doubled; {places}"
