"""Three nodes that fail and are killed while clients live on; everything follows from a seed.

A client that transforms reads its committed offset, writes the results of the next input to one or
two partitions, commits the next offset in the same transaction, and ends it. It repeats
requests as clients do, until it gets an answer that is final. Another client writes with acks=all
and commits offsets without transactions. All nodes are killed together at a random write to the
disk, with a write that may be incomplete.

At any time, what a reader of committed records has read once stays. When the nodes have recovered:

- each input below a committed offset has all its results once, and no other input has any;
- the results of an acknowledged commit are there, and those of an acknowledged abort are not;
- acknowledged records and offsets are there, records once and in order.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from kafkalite.cluster.node import NodeState
from kafkalite.cluster.node_control import NodeError
from kafkalite.protocol._generated.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kafkalite.protocol._generated.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from kafkalite.protocol._generated.messages.end_txn import EndTxnRequest
from kafkalite.protocol._generated.messages.find_coordinator import FindCoordinatorRequest
from kafkalite.protocol._generated.messages.init_producer_id import InitProducerIdRequest
from kafkalite.protocol._generated.messages.offset_commit import OffsetCommitRequest
from kafkalite.protocol._generated.messages.offset_fetch import OffsetFetchRequest
from kafkalite.protocol._generated.messages.produce import ProduceRequest
from kafkalite.protocol._generated.messages.txn_offset_commit import TxnOffsetCommitRequest
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.storage.batch import TRANSACTIONAL, BatchProducer
from kafkalite.testing.files import CrashedError, FaultyFiles, MemoryFiles
from kafkalite.transactions.state import NO_PRODUCER, PREPARED_STATES, ProducerIdAndEpoch
from tests.cluster.responses import PendingResponse
from tests.scenarios.transaction_nodes import TransactionNodes, committed_values
from tests.unit.data_plane import batch_of

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Generator, Mapping, Sequence

    from kafkalite.protocol.message import Message
    from kafkalite.transactions.state import TopicPartition

NODE_IDS = (1, 2, 3)
INPUT, RESULTS, PLAIN = "input", "results", "plain"
RESULT_PARTITIONS = [(RESULTS, index) for index in range(4)]
PLAIN_PARTITION = (PLAIN, 0)
REPLICAS = {
    INPUT: ((1, 2, 3), (1, 2, 3)),
    RESULTS: ((1, 2), (2, 3), (3, 1), (2, 1)),
    PLAIN: ((3, 1, 2),),
}
TRANSACTION_TIMEOUT_MS = 60_000
REQUEST_TIMEOUT_MS = 30_000
RECOVERY_STEPS = 900
"""Steps within which every client completes a transaction after all nodes have recovered."""

_GROUP_KEY, _TRANSACTION_KEY = 0, 1
_RETRIABLE = frozenset((
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNSTABLE_OFFSET_COMMIT,
))  # fmt: skip
"""Errors after which clients repeat a request.

OUT_OF_ORDER_SEQUENCE_NUMBER is that of a former leader, which lacks the batches before.
"""


class Protocol(NamedTuple):
    """The versions of a client's requests."""

    produce: int
    commit_offset: int
    end: int
    adds: bool
    """Whether the client adds partitions to its transactions."""


NEW = Protocol(produce=12, commit_offset=5, end=5, adds=False)
OLD = Protocol(produce=11, commit_offset=4, end=4, adds=True)


class Ask(NamedTuple):
    """A request to a node."""

    node: int
    request: Message
    version: int


def partitions_of(position: int) -> list[TopicPartition]:
    """Return where the results of an input are written."""
    count = len(RESULT_PARTITIONS)
    return RESULT_PARTITIONS[position % count : position % count + 1 + position % 2]


class Client:
    """A client whose steps are taken one by one; it survives all nodes.

    A step yields a request and gets its answer, None if the answer was lost; or it yields None.
    """

    def __init__(self, name: str, choices: random.Random) -> None:
        self.name = name
        self.random = choices
        self.nodes: dict[object, int] = {}
        """Partition or coordinator's key → the node that is asked next."""
        self.completed = 0
        """Acknowledged transactions or writes."""
        self.codes: Counter[str] = Counter()

    def node(self, key: object) -> int:
        return self.nodes.setdefault(key, self.random.choice(NODE_IDS))

    def repeat(
        self,
        key: object,
        request: Callable[[], Message],
        version: int,
        code_of: Callable[[Any], int],
    ) -> Generator[Ask | None, Any, tuple[ErrorCode, Any, int]]:
        """Ask until an answer is final; return its code, the answer and the number of losses."""
        losses = 0
        while True:
            answer = yield Ask(self.node(key), request(), version)
            if answer is not None:
                code = ErrorCode(code_of(answer))
                self.codes[code.name] += 1
                if code not in _RETRIABLE:
                    return code, answer, losses
                if code is ErrorCode.CONCURRENT_TRANSACTIONS:
                    yield None
                    continue
            losses += 1
            yield from self.find(key)

    def find(self, key: object) -> Generator[Ask | None, Any, None]:
        """Find the node to ask next: a coordinator by request, a leader by chance."""
        yield None
        self.nodes[key] = self.random.choice(NODE_IDS)
        if isinstance(key, int):
            request = FindCoordinatorRequest(key_type=key, coordinator_keys=[self.name])
            answer = yield Ask(self.nodes[key], request, 4)
            if answer is not None and not answer.coordinators[0].error_code:
                self.nodes[key] = answer.coordinators[0].node_id

    def committed_offset(self, index: int) -> Generator[Ask | None, Any, int]:
        """Return the client's committed offset of an input."""
        topic = OffsetFetchRequest.OffsetFetchRequestTopic(name=INPUT, partition_indexes=[index])
        request = OffsetFetchRequest(group_id=self.name, topics=[topic], require_stable=True)

        def code_of(answer: Any) -> int:  # noqa: ANN401 - a response
            code: int = answer.error_code or answer.topics[0].partitions[0].error_code
            return code

        code, answer, _ = yield from self.repeat(_GROUP_KEY, lambda: request, 7, code_of)
        assert code is ErrorCode.NONE, code
        offset: int = answer.topics[0].partitions[0].committed_offset
        return max(offset, 0)

    def produce(
        self, partition: TopicPartition, records: bytes, version: int, transactional_id: str | None
    ) -> Generator[Ask | None, Any, tuple[ErrorCode, Any, int]]:
        """Write a batch with acks=all; return the final code."""
        topic, index = partition

        def request() -> ProduceRequest:
            data = ProduceRequest.PartitionProduceData(index=index, records=records)
            return ProduceRequest(
                transactional_id=transactional_id,
                acks=-1,
                timeout_ms=self.random.choice((1_000, REQUEST_TIMEOUT_MS)),
                topic_data=[ProduceRequest.TopicProduceData(name=topic, partition_data=[data])],
            )

        return (
            yield from self.repeat(
                partition,
                request,
                version,
                lambda answer: answer.responses[0].partition_responses[0].error_code,
            )
        )


class Transformer(Client):
    """Writes the results of each input and the next offset in one transaction."""

    def __init__(self, index: int, choices: random.Random, protocol: Protocol) -> None:
        super().__init__(f"transformer-{index}", choices)
        self.index = index
        self.protocol = protocol
        self.attempts = 0
        self.sequences: dict[tuple[ProducerIdAndEpoch, TopicPartition], int] = defaultdict(int)
        self.ends: dict[int, bool] = {}
        """Attempt → its acknowledged end."""
        self.offset = 0
        """The acknowledged offset."""

    def run(self) -> Generator[Ask | None, Any, None]:
        while True:
            producer: ProducerIdAndEpoch | None = yield from self.init()
            position = yield from self.committed_offset(self.index)
            assert position >= self.offset, "an acknowledged offset is lost"
            while producer is not None:
                self.attempts += 1
                is_written = yield from self.write(producer, position)
                is_commit = is_written and self.random.random() < 0.75
                producer = yield from self.end(producer, position, is_commit=is_commit)
                position += is_commit
                if not is_written:
                    break

    def init(self) -> Generator[Ask | None, Any, ProducerIdAndEpoch]:
        request = InitProducerIdRequest(
            transactional_id=self.name,
            transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
            producer_id=NO_PRODUCER.producer_id,
            producer_epoch=NO_PRODUCER.producer_epoch,
        )
        code, answer, _ = yield from self.repeat(
            _TRANSACTION_KEY, lambda: request, 5, lambda answer: answer.error_code
        )
        assert code is ErrorCode.NONE, code
        return ProducerIdAndEpoch(answer.producer_id, answer.producer_epoch)

    def write(
        self, producer: ProducerIdAndEpoch, position: int
    ) -> Generator[Ask | None, Any, bool]:
        """Write the results and the offset; return whether all of it was acknowledged."""
        partitions = partitions_of(position)
        if self.protocol.adds and not (yield from self.add(producer, partitions)):
            return False
        value = b"%d %d %d" % (self.index, position, self.attempts)
        for partition in partitions:
            key = producer, partition
            records = batch_of(
                value,
                attributes=TRANSACTIONAL,
                producer=BatchProducer(*producer, self.sequences[key]),
            )
            code, _, _ = yield from self.produce(
                partition, records, self.protocol.produce, self.name
            )
            if code not in {ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER}:
                return False
            self.sequences[key] += 1
        row = TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(
            partition_index=self.index, committed_offset=position + 1
        )
        topic = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(name=INPUT, partitions=[row])
        request = TxnOffsetCommitRequest(
            transactional_id=self.name,
            group_id=self.name,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            topics=[topic],
        )
        code, _, _ = yield from self.repeat(
            _GROUP_KEY,
            lambda: request,
            self.protocol.commit_offset,
            lambda answer: answer.topics[0].partitions[0].error_code,
        )
        return code is ErrorCode.NONE

    def add(
        self, producer: ProducerIdAndEpoch, added: Sequence[TopicPartition]
    ) -> Generator[Ask | None, Any, bool]:
        """Add partitions and the group to the transaction."""
        topic = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(
            name=RESULTS, partitions=[index for _, index in added]
        )
        partitions = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=producer.producer_id,
            v3_and_below_producer_epoch=producer.producer_epoch,
            v3_and_below_topics=[topic],
        )

        def code_of(answer: Any) -> int:  # noqa: ANN401 - a response
            rows = answer.results_by_topic_v3_and_below[0].results_by_partition
            code: int = max(row.partition_error_code for row in rows)
            return code

        code, _, _ = yield from self.repeat(_TRANSACTION_KEY, lambda: partitions, 3, code_of)
        if code is not ErrorCode.NONE:
            return False
        offsets = AddOffsetsToTxnRequest(
            transactional_id=self.name,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            group_id=self.name,
        )
        code, _, _ = yield from self.repeat(
            _TRANSACTION_KEY, lambda: offsets, 4, lambda answer: answer.error_code
        )
        return code is ErrorCode.NONE

    def end(
        self, producer: ProducerIdAndEpoch, position: int, *, is_commit: bool
    ) -> Generator[Ask | None, Any, ProducerIdAndEpoch | None]:
        """End the transaction; return the next producer, None if it must be initialised again."""
        request = EndTxnRequest(
            transactional_id=self.name,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            committed=is_commit,
        )
        code, answer, losses = yield from self.repeat(
            _TRANSACTION_KEY, lambda: request, self.protocol.end, lambda answer: answer.error_code
        )
        if code is not ErrorCode.NONE:
            if not losses and is_commit:
                self.ends[self.attempts] = False
            return None
        self.completed += 1
        self.ends[self.attempts] = is_commit
        if is_commit:
            self.offset = position + 1
        if self.protocol.adds:
            return producer
        return ProducerIdAndEpoch(answer.producer_id, answer.producer_epoch)


class Writer(Client):
    """Writes with acks=all as an idempotent producer, and commits offsets, without transactions."""

    def __init__(self, choices: random.Random) -> None:
        super().__init__("writer", choices)
        self.written: list[int] = []
        """Acknowledged records."""
        self.offset = 0

    def run(self) -> Generator[Ask | None, Any, None]:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1)
        code, answer, _ = yield from self.repeat(
            "any", lambda: request, 5, lambda answer: answer.error_code
        )
        assert code is ErrorCode.NONE, code
        number = 0
        while True:
            producer = BatchProducer(answer.producer_id, answer.producer_epoch, number)
            records = batch_of(b"%d" % number, producer=producer)
            code, _, _ = yield from self.produce(PLAIN_PARTITION, records, 11, None)
            assert code in {ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER}, code
            self.written.append(number)
            number += 1
            before = yield from self.committed_offset(0)
            assert before >= self.offset, "an acknowledged offset is lost"
            yield from self.commit(number)
            self.completed += 1

    def commit(self, offset: int) -> Generator[Ask | None, Any, None]:
        row = OffsetCommitRequest.OffsetCommitRequestPartition(
            partition_index=0, committed_offset=offset
        )
        topic = OffsetCommitRequest.OffsetCommitRequestTopic(name=INPUT, partitions=[row])
        request = OffsetCommitRequest(group_id=self.name, topics=[topic])
        code, _, _ = yield from self.repeat(
            _GROUP_KEY,
            lambda: request,
            8,
            lambda answer: answer.topics[0].partitions[0].error_code,
        )
        assert code is ErrorCode.NONE, code
        self.offset = offset


class Slot:
    """A client, and the answer that it waits for."""

    def __init__(self, client: Transformer | Writer) -> None:
        self.client = client
        self.steps = client.run()
        self.answer: Any = None
        self.pending: PendingResponse | None = None
        self.node, self.incarnation = 0, 0
        self.deadline_ms = 0


class FailingNodes:
    """The nodes, their clients and a reader."""

    def __init__(self, choices: random.Random, protocol: Protocol, min_isr: int) -> None:
        self.random = choices
        self.config = {
            "transaction.state.log.num.partitions": "2",
            "transaction.state.log.replication.factor": "3",
            "transaction.state.log.min.isr": "1",
            "offsets.topic.num.partitions": "2",
            "offsets.topic.replication.factor": "3",
            "replica.lag.time.max.ms": "30000",
            "min.insync.replicas": f"{min_isr}",
            "transaction.version": "1" if protocol.adds else "2",
        }
        self.files = FaultyFiles(MemoryFiles())
        self.wire = TransactionNodes(self.config, files=self.files)
        for name, replicas in REPLICAS.items():
            self.wire.create_replicated(name, *replicas)
        self.wire.find("any", kind=_GROUP_KEY)
        transformers = [Slot(Transformer(index, choices, protocol)) for index in (0, 1)]
        self.slots = [*transformers, Slot(Writer(choices))]
        self.incarnations = dict.fromkeys(NODE_IDS, 0)
        self.visible: dict[TopicPartition, list[bytes | None]] = defaultdict(list)
        self.events: Counter[str] = Counter()
        self.is_failing = False

    # --- a round -------------------------------------------------------------------------------

    def run_round(self) -> None:
        """Let nodes fail, kill all of them, and check everything after their recovery."""
        self.files.fail_from(self.files.steps + self.random.randrange(1, 500))
        self.is_failing = True
        with suppress(CrashedError):
            for _ in range(self.random.randrange(50, 400)):
                self.step()
        self.is_failing = False
        self.kill()
        self.recover()
        self.check()

    def step(self) -> None:
        chance = self.random.random()
        if chance < 0.80:
            self.step_client(self.random.choice(self.slots))
        elif chance < 0.92:
            self.wire.clock.advance(self.random.choice((1, 500, 500, 1_000, 9_000, 31_000)))
        else:
            self.fail()
            self.read()

    def kill(self) -> None:
        """Kill all nodes at once, and start them again on what they have written."""
        self.events["kill"] += 1
        disk = self.files.disk.after_power_loss(lambda size: size)
        self.files = FaultyFiles(disk)
        self.wire.start_again(self.files)
        for node_id in NODE_IDS:
            self.incarnations[node_id] += 1

    def recover(self) -> None:
        """Let every client complete something on nodes that do not fail."""
        before = [slot.client.completed for slot in self.slots]
        for _ in range(RECOVERY_STEPS):
            for slot in self.slots:
                self.step_client(slot)
            self.wire.clock.advance(100)
            if all(
                slot.client.completed > count
                for slot, count in zip(self.slots, before, strict=True)
            ):
                return
        raise AssertionError(
            f"stalled: {[(slot.client.name, slot.client.codes) for slot in self.slots]}"
        )

    # --- clients -------------------------------------------------------------------------------

    def step_client(self, slot: Slot) -> None:
        """Let a client send its next request, or give it the answer that has arrived."""
        if slot.pending is not None:
            has_lost = slot.incarnation != self.incarnations[slot.node]
            if slot.pending.has_arrived and not has_lost:
                slot.answer = slot.pending.response
            elif has_lost or self.wire.clock.now_ms() >= slot.deadline_ms:
                slot.answer = None
            else:
                return
            slot.pending = None
        asked = slot.steps.send(slot.answer)
        slot.answer = None
        if asked is None or self.wire.cluster.nodes[asked.node].state is NodeState.STOPPED:
            return
        fail_over = None
        if self.is_failing and isinstance(asked.request, EndTxnRequest):
            fail_over = self.lag_behind_a_leader() if self.random.random() < 0.2 else None
        answer = self.wire.ask(asked.request, asked.version, asked.node)
        if isinstance(answer, PendingResponse):
            slot.pending = answer
            slot.node, slot.incarnation = asked.node, self.incarnations[asked.node]
            slot.deadline_ms = self.wire.clock.now_ms() + 2 * REQUEST_TIMEOUT_MS
        elif self.random.random() > 0.02:
            slot.answer = answer
        if fail_over is not None:
            fail_over()

    # --- failures ------------------------------------------------------------------------------

    def fail(self) -> None:
        """Let a node fail or recover, or move a leader."""
        control = self.wire.control
        node_id = self.random.choice(NODE_IDS)
        events: Mapping[str, Callable[[int], None]] = {
            "stop": control.stop,
            "shut down": control.shut_down,
            "isolate": control.isolate,
            "start": control.start,
            "pause": control.pause_replication,
            "resume": control.resume_replication,
            "freeze": control.freeze_metadata,
            "thaw": control.thaw_metadata,
            "move": self.move_leader,
        }
        weights = (2, 1, 2, 6, 3, 4, 1, 3, 3)
        (event,) = self.random.choices(list(events), weights)
        self.events[event] += 1
        with suppress(NodeError, KafkaError):
            events[event](node_id)
        self.note_stops()

    def lag_behind_a_leader(self) -> Callable[[], None] | None:
        """Let a follower lag; return a function that lets its leader fail and the follower follow.

        None if the partition has no follower in sync.
        """
        partition = self.wire.partition(*self.random.choice(RESULT_PARTITIONS))
        leader = partition.leader
        followers = [node_id for node_id in partition.isr if node_id != leader]
        if leader not in NODE_IDS or not followers:
            return None
        lagging = self.random.choice(followers)
        control = self.wire.control
        changes = (control.stop, control.shut_down, control.isolate)
        self.events["fail over"] += 1
        control.pause_replication(lagging)

        def fail_over() -> None:
            with suppress(NodeError, KafkaError):
                self.random.choice(changes)(leader)
            control.resume_replication(lagging)
            self.note_stops()

        return fail_over

    def note_stops(self) -> None:
        """Let the answers of stopped nodes be lost."""
        for node in self.wire.cluster.nodes.values():
            if node.state is NodeState.STOPPED:
                self.incarnations[node.id] += 1

    def move_leader(self, node_id: int) -> None:
        topics = self.wire.cluster.metadata.image.topics
        topic = topics[self.random.choice(sorted(topics))]
        index = self.random.randrange(len(topic.partitions))
        self.wire.cluster.metadata.move_leader(topic.name, index, node_id)

    # --- checks --------------------------------------------------------------------------------

    def read(self) -> None:
        """Read committed records, and check that those that were read before have not changed."""
        for partition in (*RESULT_PARTITIONS, PLAIN_PARTITION):
            leader = self.wire.partition(*partition).leader
            node = self.wire.cluster.nodes.get(leader)
            if node is None or node.state is NodeState.STOPPED:
                continue
            answer = self.wire.fetch(partition, leader)
            if answer.error_code:
                continue
            values, before = committed_values(answer), self.visible[partition]
            common = min(len(values), len(before))
            assert values[:common] == before[:common], f"{partition}: what was read has changed"
            self.visible[partition] = max(values, before, key=len)

    def check(self) -> None:
        """End all transactions, and check all acknowledgements."""
        for _ in range(20):
            self.wire.clock.advance(5_000)
        states = {
            transaction.transactional_id: transaction.state
            for shard in self.wire.cluster.transactions.shards()
            for transaction in shard.machine.transactions()
        }
        assert not PREPARED_STATES.intersection(states.values()), f"not completed: {states}"
        self.read()
        for partition in (*RESULT_PARTITIONS, PLAIN_PARTITION):
            answer = self.wire.fetch(partition, self.wire.partition(*partition).leader)
            assert answer.error_code == 0
            end_offset = self.wire.partition(*partition).end_offset
            assert answer.last_stable_offset == end_offset, f"{partition}: an open transaction"
            assert committed_values(answer) == self.visible[partition]
        for slot in self.slots:
            if isinstance(slot.client, Transformer):
                self.check_transformer(slot.client)
            else:
                self.check_writer(slot.client)

    def check_transformer(self, client: Transformer) -> None:
        offset = self.committed_offset(client.name, client.index)
        assert offset >= client.offset, "an acknowledged offset is lost"
        attempts: dict[int, int] = {}
        for partition in RESULT_PARTITIONS:
            rows = map(_numbers, self.visible[partition])
            found = [
                (position, attempt) for index, position, attempt in rows if index == client.index
            ]
            expected = [each for each in range(offset) if partition in partitions_of(each)]
            assert [position for position, _ in found] == expected, f"{client.name} {partition}"
            for position, attempt in found:
                assert attempts.setdefault(position, attempt) == attempt, "half a transaction"
        visible = set(attempts.values())
        for attempt, is_commit in client.ends.items():
            assert (attempt in visible) is is_commit, f"{client.name}: end {attempt} is reversed"

    def check_writer(self, client: Writer) -> None:
        found = [number for (number,) in map(_numbers, self.visible[PLAIN_PARTITION])]
        assert found == list(range(len(found)))
        assert len(client.written) <= len(found) <= len(client.written) + 1
        offset = self.committed_offset(client.name, 0)
        assert client.offset <= offset <= client.offset + 1

    def committed_offset(self, group: str, index: int) -> int:
        topic = OffsetFetchRequest.OffsetFetchRequestTopic(name=INPUT, partition_indexes=[index])
        request = OffsetFetchRequest(group_id=group, topics=[topic], require_stable=True)
        (node,) = self.wire.find(group, kind=_GROUP_KEY)
        row = self.wire.ask(request, 7, node).topics[0].partitions[0]
        assert row.error_code == 0
        offset: int = row.committed_offset
        return max(offset, 0)


def _numbers(value: bytes | None) -> tuple[int, ...]:
    assert value is not None
    return tuple(map(int, value.split()))
