"""Stories of transactional producers: takeovers, zombies that write on, what is left open."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.messages.end_txn import EndTxnRequest
from kafkalite.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkalite.protocol.messages.init_producer_id import InitProducerIdRequest
from kafkalite.protocol.messages.produce import ProduceRequest
from tests.conformance.batches import TRANSACTIONAL, Batch

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from tests.spark.truth.crew import Topics
    from tests.spark.truth.stage import Line, Stage

TOPIC = "ledger"
TIMEOUT_MS = 30_000
CONNECT_GROUP = "workers"


@dataclass(slots=True)
class Produced:
    """What there is to find."""

    zombies: dict[tuple[int, int], str] = field(default_factory=dict)
    """(connection, when it was sent) → refused or accepted."""
    takeovers: set[tuple[str, int]] = field(default_factory=set)
    """(transactional id, the epoch that fences)."""
    admin_fences: set[tuple[str, int]] = field(default_factory=set)
    ends: dict[str, list[str]] = field(default_factory=dict)
    """A transactional id → how its transactions ended, in order."""
    tasks: set[tuple[str, int, int]] = field(default_factory=set)
    """(connector, task, generation)."""


@dataclass(slots=True)
class Producer:
    """One instance of a transactional producer."""

    stage: Stage
    topics: Topics
    line: Line
    transactional_id: str
    truth: Produced
    producer_id: int = -1
    epoch: int = -1
    sequence: int = 0

    def begin(self) -> None:
        """Become the producer of the transactional id, whoever was it before."""
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

    def write(self, rewrite: Callable[[Any], None] | None = None) -> int:
        """Write one record in a transaction; return its error."""
        batch = Batch(
            attributes=TRANSACTIONAL,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=self.sequence,
        )
        part = ProduceRequest.PartitionProduceData(index=0, records=batch.encode())
        request = ProduceRequest(
            transactional_id=self.transactional_id,
            acks=-1,
            timeout_ms=1000,
            topic_data=[
                ProduceRequest.TopicProduceData(
                    topic_id=self.topics.ids[TOPIC], partition_data=[part]
                )
            ],
        )
        answer = self.line.ask(request, 13, rewrite=rewrite)
        code = int(answer.responses[0].partition_responses[0].error_code)
        self.sequence += not code
        return code

    def end(self, *, is_commit: bool) -> int:
        """End the transaction; return its error."""
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
        """Write down that what is sent next comes from a grave."""
        self.stage.wait(0)
        self.truth.zombies[(self.line.number, self.stage.now_us)] = outcome


def transactions(stage: Stage, topics: Topics, prefix: str) -> Produced:
    """Let producers work, take each other's places and write on from the grave."""
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
    # The broker would abort it; whoever captures elsewhere may well not see that.
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
    """Leave a transaction open, be fenced, and write on: refused, or by a broken broker taken."""
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
    """Run a source connector of two tasks through two generations, its leader fencing between."""
    group = f"{prefix}-{CONNECT_GROUP}"

    def made(transactional_id: str, host: int) -> Producer:
        line = stage.line(f"worker-{host}", host=host)
        producer = Producer(stage, topics, line, transactional_id, truth)
        producer.begin()
        return producer

    made(f"connect-cluster-{group}", 21)
    for generation in (1, 2, 3):
        for task in (0, 1):
            transactional_id = f"{group}-my-source-{task}"
            producer = made(transactional_id, 21 + task)
            truth.tasks.add(("my-source", task, generation))
            if generation > 1:
                truth.takeovers.add((transactional_id, producer.epoch))
            if generation == 2:  # the leader's fence between the generations of tasks
                truth.admin_fences.add((transactional_id, producer.epoch))
            else:
                producer.write()
                producer.end(is_commit=True)
