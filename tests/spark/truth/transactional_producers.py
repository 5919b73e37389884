"""Scenarios of transactional producers: takeovers, late writes by zombies, open transactions."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kafkalite.protocol._generated.messages.end_txn import EndTxnRequest
from kafkalite.protocol._generated.messages.find_coordinator import FindCoordinatorRequest
from kafkalite.protocol._generated.messages.init_producer_id import InitProducerIdRequest
from kafkalite.protocol._generated.messages.produce import ProduceRequest
from kafkalite.protocol.error_codes import ErrorCode
from tests.conformance.batches import TRANSACTIONAL, Batch

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from tests.spark.truth.simulation import Line, Stage
    from tests.spark.truth.tracked_group import Topics

TOPIC = "ledger"
TIMEOUT_MS = 30_000
CONNECT_GROUP = "workers"
CONFIG_TOPIC = "connect-configs"


@dataclass(slots=True)
class Produced:
    """Expected results."""

    zombies: dict[tuple[int, int], str] = field(default_factory=dict)
    """(connection, time sent) → refused or accepted."""
    takeovers: set[tuple[str, int]] = field(default_factory=set)
    """(transactional id, epoch that fences)."""
    admin_fences: set[tuple[str, int]] = field(default_factory=set)
    ends: dict[str, list[str]] = field(default_factory=dict)
    """Transactional id → how its transactions ended, in order."""
    tasks: dict[tuple[str, int, int], tuple[str | None, int]] = field(default_factory=dict)
    """(connector, task, generation) → how it ended, and number of writes after that."""
    rounds: dict[tuple[str, int], tuple[int, int | None, int, int, int]] = field(
        default_factory=dict
    )
    """(connector, generation) → tasks, previous tasks, fenced, unfenced, started too early."""


@dataclass(slots=True)
class Producer:
    """An instance of a transactional producer."""

    stage: Stage
    topics: Topics
    line: Line
    transactional_id: str
    truth: Produced
    producer_id: int = -1
    epoch: int = -1
    sequence: int = 0

    def begin(self) -> None:
        """Initialize the producer, which fences any previous one."""
        find = FindCoordinatorRequest(key_type=1, coordinator_keys=[self.transactional_id])
        self.line.ask(find, 4)
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id, transaction_timeout_ms=TIMEOUT_MS
        )
        answer = self.line.ask(request, 4)
        while answer.error_code == ErrorCode.CONCURRENT_TRANSACTIONS:
            self.stage.wait(50)
            answer = self.line.ask(request, 4)
        assert answer.error_code == ErrorCode.NONE, answer
        self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        self.sequence = 0

    def write(
        self,
        rewrite: Callable[[Any], None] | None = None,
        *,
        topic: str = TOPIC,
        key: str = "key",
        value: str = "value",
    ) -> int:
        """Write one record in a transaction; returns its error."""
        batch = Batch(
            attributes=TRANSACTIONAL,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=self.sequence,
            key=key.encode(),
            values=(value.encode(),),
        )
        part = ProduceRequest.PartitionProduceData(index=0, records=batch.encode())
        request = ProduceRequest(
            transactional_id=self.transactional_id,
            acks=-1,
            timeout_ms=1000,
            topic_data=[
                ProduceRequest.TopicProduceData(
                    topic_id=self.topics.ids[topic], partition_data=[part]
                )
            ],
        )
        answer = self.line.ask(request, 13, rewrite=rewrite)
        code = int(answer.responses[0].partition_responses[0].error_code)
        self.sequence += not code
        return code

    def end(self, *, is_commit: bool) -> int:
        """End the transaction; returns its error."""
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=is_commit,
        )
        answer = self.line.ask(request, 5)
        if not answer.error_code:
            self.truth.ends.setdefault(self.transactional_id, []).append(
                "committed" if is_commit else "aborted"
            )
            if answer.producer_epoch >= 0:
                self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
                self.sequence = 0
        return int(answer.error_code)

    def note_zombie(self, outcome: str) -> None:
        """Record that the next request is sent by a zombie."""
        self.stage.wait(0)
        self.truth.zombies[(self.line.number, self.stage.now_us)] = outcome


def transactions(stage: Stage, topics: Topics, prefix: str) -> Produced:
    """Run producers that work, take over ids, and write after being fenced."""
    truth = Produced()
    topics.create(TOPIC, 2)

    def producer(name: str, host: int = 3) -> Producer:
        made = Producer(
            stage, topics, stage.line(f"p-{name}", host=host), f"{prefix}/{name}", truth
        )
        made.begin()
        return made

    _work(producer("diligent"), stage)
    _take_over(
        producer("contested"), lambda: producer("contested", host=4), truth, is_accepted=False
    )
    _take_over(producer("leaky"), lambda: producer("leaky", host=4), truth, is_accepted=True)
    fenced = producer("fenced-by-admin")
    fenced.write()
    fenced.end(is_commit=True)
    admin = producer("fenced-by-admin", host=9)
    truth.takeovers.add((admin.transactional_id, admin.epoch))
    truth.admin_fences.add((admin.transactional_id, admin.epoch))
    _connect(stage, topics, truth, prefix)
    open_ = producer("forgetful")
    open_.write()
    truth.ends[open_.transactional_id] = ["overdue"]
    # This broker would abort it, but a capture may lack that.
    stage.wait(TIMEOUT_MS + 1_000)
    late = producer("late")
    late.write()
    truth.ends[late.transactional_id] = ["open"]
    return truth


def _work(producer: Producer, stage: Stage) -> None:
    for number in range(12):
        assert producer.write() == ErrorCode.NONE
        assert producer.write() == ErrorCode.NONE
        assert producer.end(is_commit=number % 4 != 3) == ErrorCode.NONE
        stage.wait(20)


def _take_over(
    old: Producer, successor: Callable[[], Producer], truth: Produced, *, is_accepted: bool
) -> None:
    """Leave a transaction open, be fenced, and write: refused, or accepted by a faulty broker."""
    old.write()
    new = successor()
    truth.takeovers.add((new.transactional_id, new.epoch))
    truth.ends.setdefault(new.transactional_id, []).append("fenced")
    old.note_zombie("accepted" if is_accepted else "refused")
    code = old.write(rewrite=_take if is_accepted else None)
    assert (code == ErrorCode.NONE) is is_accepted
    if not is_accepted:
        old.note_zombie("refused")
        assert old.end(is_commit=True) != ErrorCode.NONE
        new.write()
        new.end(is_commit=True)


def _take(answer: Any) -> None:  # noqa: ANN401 - a ProduceResponse
    answer.responses[0].partition_responses[0].error_code = 0


def _connect(stage: Stage, topics: Topics, truth: Produced, prefix: str) -> None:
    """Run source connectors through generations of tasks, with correct and missing fencing."""
    topics.create(CONFIG_TOPIC, 1)
    workers = _Workers(stage, topics, truth, f"{prefix}-{CONNECT_GROUP}")
    first = workers.configured("my-source", tasks=2, before=None)
    assert workers.begin(first, 0).end(is_commit=True) == ErrorCode.NONE
    old = workers.begin(first, 1)
    assert old.end(is_commit=True) == ErrorCode.NONE
    second = workers.configured("my-source", tasks=2, before=2)
    # The old task does not know yet that it is fenced.
    old.note_zombie("refused")
    assert old.write() != ErrorCode.NONE
    truth.tasks["my-source", 1, 1] = ("fenced", 1)
    for task in (0, 1):
        workers.begin(second, task).end(is_commit=True)
    # The leader omits one of three tasks, and one new task starts too early.
    hasty = workers.configured("hasty", tasks=3, before=None)
    for task in range(3):
        workers.begin(hasty, task).end(is_commit=True)
    again = workers.configured("hasty", tasks=3, before=3, forgotten=2, early=1)
    for task in (0, 2):
        workers.begin(again, task).end(is_commit=True)
    # A single task is fenced by its successor only.
    lonely = workers.configured("lonely", tasks=1, before=None)
    workers.begin(lonely, 0).end(is_commit=True)
    lonely = workers.configured("lonely", tasks=1, before=1)
    workers.begin(lonely, 0).end(is_commit=True)


@dataclass(slots=True)
class _Workers:
    """The workers of a group, and their leader's actions between generations of tasks."""

    stage: Stage
    topics: Topics
    truth: Produced
    group: str
    generations: dict[str, int] = field(default_factory=dict)
    producers: dict[tuple[str, int], int] = field(default_factory=dict)
    """(connector, task) → number of its producers."""
    leader: Producer = field(init=False)

    def __post_init__(self) -> None:
        """Create the leader's producer."""
        self.leader = self._producer(f"connect-cluster-{self.group}", 21)

    def configured(
        self,
        connector: str,
        *,
        tasks: int,
        before: int | None,
        forgotten: int | None = None,
        early: int | None = None,
    ) -> str:
        """Act as leader: write configurations, fence previous tasks, and write the task count."""
        generation = self.generations[connector] = self.generations.get(connector, 0) + 1
        for task in range(tasks):
            self._write_configuration(f"task-{connector}-{task}", {"topic": "t"})
        self._write_configuration(f"commit-{connector}", {"tasks": tasks})
        is_due = before is not None and max(before, tasks) > 1
        fenced = [task for task in range(before or 0) if is_due and task != forgotten]
        for task in fenced:
            producer = self._next(connector, task, "fenced", host=21)
            self.truth.admin_fences.add((producer.transactional_id, producer.epoch))
        if early is not None:
            self.begin(connector, early).end(is_commit=True)
        self._write_configuration(f"tasks-fencing-{connector}", {"task-count": tasks})
        unfenced = (before or 0) - len(fenced) if is_due else 0
        self.truth.rounds[connector, generation] = (
            tasks, before, len(fenced), unfenced, int(early is not None)
        )  # fmt: skip
        return connector

    def begin(self, connector: str, task: int) -> Producer:
        """Start a task, which writes a record."""
        producer = self._next(connector, task, "replaced", host=22 + task)
        assert producer.write() == ErrorCode.NONE
        return producer

    def _next(self, connector: str, task: int, end: str, host: int) -> Producer:
        """Create the next producer of a task, which ends the previous one."""
        number = self.producers.get((connector, task), 0)
        producer = self._producer(f"{self.group}-{connector}-{task}", host)
        if number:
            self.truth.takeovers.add((producer.transactional_id, producer.epoch))
            self.truth.tasks[connector, task, number] = (end, 0)
        self.producers[connector, task] = number + 1
        self.truth.tasks[connector, task, number + 1] = (None, 0)
        return producer

    def _write_configuration(self, key: str, value: dict[str, object]) -> None:
        error = self.leader.write(topic=CONFIG_TOPIC, key=key, value=json.dumps(value))
        assert error == ErrorCode.NONE
        assert self.leader.end(is_commit=True) == ErrorCode.NONE

    def _producer(self, transactional_id: str, host: int) -> Producer:
        line = self.stage.line(f"worker-{host}", host=host)
        producer = Producer(self.stage, self.topics, line, transactional_id, self.truth)
        producer.begin()
        return producer
