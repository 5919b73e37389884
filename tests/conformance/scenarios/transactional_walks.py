"""Random walks of two producers that compete for two transactional ids."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from kafkalite.protocol.error_codes import ErrorCode
from tests.conformance.scenarios.commits import commit, fetch
from tests.conformance.scenarios.transactional_records import note_offsets, note_states
from tests.conformance.setup import create_topic, wait_for_group_coordinator
from tests.conformance.transactional_producer import (
    ABORT,
    COMMIT,
    NEW,
    OLD,
    Producer,
    Protocol,
    Transactor,
    add_for_broker,
    broker_transaction,
    describe,
    describe_producers,
    latest,
    read,
    wait_for_transaction_coordinator,
    wait_until_complete,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.conformance.scenario_cluster import ScenarioCluster

_PARTITIONS = (0, 1, 2)
_STEPS_OF_A_WALK = 40
_MIXED = NEW._replace(add_offsets=3, commit_offsets=4, end=4)
_PROTOCOLS: tuple[tuple[Protocol, Protocol], ...] = (
    (NEW, NEW), (OLD, OLD), (NEW, OLD), (OLD, NEW), (_MIXED, NEW), (NEW, NEW), (OLD, OLD),
)  # fmt: skip


@dataclass(slots=True)
class _Walker:
    """A client with its own view of its state, and the shared random generator."""

    transactor: Transactor
    choices: random.Random
    sequences: dict[tuple[Producer, int], int] = field(default_factory=dict)

    @property
    def cluster(self) -> ScenarioCluster:
        return self.transactor.cluster

    def init(self) -> None:
        """Become the only producer; an open transaction is aborted."""
        self.transactor.init()
        wait_until_complete(self.cluster, self.transactor.transactional_id)

    def resume(self) -> None:
        """Resume as its earlier producer, or as a claimed one."""
        if self.transactor.producer.producer_id >= 0:
            step = self.choices.choice((0, 0, 0, -1, 1))
            self.transactor.init(self.transactor.at(max(step, -self._epoch)))
            wait_until_complete(self.cluster, self.transactor.transactional_id)

    def add(self) -> None:
        chosen = self.choices.sample(_PARTITIONS, self.choices.choice((1, 2)))
        self.transactor.add(*chosen, producer=self._claimed())

    def verify(self) -> None:
        partition = self.choices.choice(_PARTITIONS)
        one = broker_transaction(
            self.transactor.transactional_id,
            self._claimed(),
            {self.cluster.name: [partition]},
            verify_only=True,
        )
        self.cluster.ask(add_for_broker(one), 5)

    def write(self) -> None:
        """Append one or two records, sometimes with a wrong sequence."""
        partition, claimed = self.choices.choice(_PARTITIONS), self._claimed()
        count = self.choices.choice((1, 2))
        sequence = self.sequences.get((claimed, partition), 0)
        answer = self.transactor.write(
            *[b"x"] * count,
            partition=partition,
            producer=claimed,
            sequence=max(0, sequence + self.choices.choice((0,) * 8 + (-1, 1))),
        )
        code = answer.responses[0].partition_responses[0].error_code
        if code == ErrorCode.NONE and answer.responses[0].partition_responses[0].base_offset >= 0:
            self.sequences[claimed, partition] = sequence + count

    def begin(self) -> None:
        """Add and write, as a correct client does."""
        if not self.transactor.is_new:
            self.transactor.add(*_PARTITIONS)
        self.write()

    def commit_offsets(self) -> None:
        if not self.transactor.is_new and self.choices.random() < 0.8:
            self.transactor.add_offsets(self.cluster.name, self._claimed())
        chosen = self.choices.sample(_PARTITIONS, 2)
        offset = self.choices.randrange(100)
        self.transactor.commit_offsets(self.cluster.name, offset, *chosen, producer=self._claimed())

    def commit_plainly(self) -> None:
        partition, offset = self.choices.choice(_PARTITIONS), self.choices.randrange(100)
        self.cluster.ask(commit(self.cluster.name, self.cluster.name, partition, offset=offset), 8)

    def commit(self) -> None:
        self.transactor.commit(self._claimed())

    def abort(self) -> None:
        self.transactor.abort(self._claimed())

    def end_again(self) -> None:
        """Send an end twice, as a client does that received no response."""
        claimed = self.transactor.producer
        is_commit = self.choices.choice((COMMIT, ABORT))
        for _ in range(2):
            self.transactor.end(is_commit=is_commit, producer=claimed)

    def look(self) -> None:
        """Describe the transaction and the producers, and read offsets and records."""
        name = self.cluster.name
        self.cluster.ask(describe(self.transactor.transactional_id), 0)
        self.cluster.ask(latest(name, *_PARTITIONS), 7)
        self.cluster.ask(describe_producers(name, *_PARTITIONS), 0)
        offsets = fetch(name, name, *_PARTITIONS)
        offsets.require_stable = self.choices.choice((True, False))
        self.cluster.ask(offsets, 8)
        start = self.choices.randrange(6)
        self.cluster.ask(read(name, start, partition=self.choices.choice(_PARTITIONS)), 11)

    @property
    def _epoch(self) -> int:
        return self.transactor.producer.producer_epoch

    def _claimed(self) -> Producer:
        """Return its producer id and epoch, or rarely wrong ones."""
        return self.transactor.at(self.choices.choice((0,) * 18 + (-1, 1)))


_Step: TypeAlias = "Callable[[_Walker], None]"
_STEPS: dict[_Step, int] = {
    _Walker.init: 2,
    _Walker.resume: 2,
    _Walker.add: 2,
    _Walker.verify: 1,
    _Walker.write: 8,
    _Walker.begin: 6,
    _Walker.commit_offsets: 5,
    _Walker.commit_plainly: 1,
    _Walker.commit: 5,
    _Walker.abort: 4,
    _Walker.end_again: 1,
    _Walker.look: 4,
}


def walk(cluster: ScenarioCluster, seed: int, steps: int = _STEPS_OF_A_WALK) -> None:
    """Run random actions of two producers; with some seeds they have the same id."""
    cluster.name = f"{cluster.name}-{seed}"
    choices = random.Random(seed)  # noqa: S311 - the same walk every time
    # The records have early timestamps, and a walk may last until a broker expires producers.
    create_topic(cluster, cluster.name, len(_PARTITIONS), {"retention.ms": "-1"})
    wait_for_group_coordinator(cluster, cluster.name)
    names = [cluster.name, cluster.name if seed % 3 == 0 else f"{cluster.name}-other"]
    wait_for_transaction_coordinator(cluster, *names)
    protocols = _PROTOCOLS[seed % len(_PROTOCOLS)]
    walkers = [
        _Walker(Transactor(cluster, name, protocol), choices)
        for name, protocol in zip(names, protocols, strict=True)
    ]
    for walker in walkers:
        walker.init()
    for _ in range(steps):
        walker = choices.choice(walkers)
        (step,) = choices.choices([*_STEPS], [*_STEPS.values()])
        step(walker)
    for walker in walkers:
        walker.init()
        walker.look()
    for partition in _PARTITIONS:
        cluster.ask(read(cluster.name, partition=partition), 11)
    note_states(cluster, *dict.fromkeys(names))
    note_offsets(cluster, cluster.name, *(walker.transactor.producer for walker in walkers))


def producers_act_at_random(cluster: ScenarioCluster) -> None:
    """Walk with each protocol alone, and with both protocols against each other."""
    name = cluster.name
    for seed in range(3):
        cluster.name = name
        walk(cluster, seed)


SCENARIOS = (producers_act_at_random,)
