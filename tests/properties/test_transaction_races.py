"""Two producers race for one transactional id, while time passes and the broker restarts.

The coordinator is the real machine with its log. The partitions are a small model: their records,
the producer epochs they know, and their open transactions. Producers behave as clients do: they add
partitions before they write, end their transactions, and retry when a response was lost. At any
time these hold:

- at most one of the producers of an id may write;
- markers equal a Prepare record, and only the transaction's own producer decides to commit;
- the last stable offset of a partition never moves back;
- readers of committed records see only committed transactions, and in the end all of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.transactions.state import (
    LAST_PRODUCER_EPOCH,
    MAX_PRODUCER_EPOCH,
    PREPARED_STATES,
    ProducerIdAndEpoch,
    Transaction,
    TransactionState,
)
from tests.effort import examples
from tests.unit.transactions.transaction_coordinator import ID, A, B, ManualTransactionCoordinator

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalite.transactions.intents import WriteMarkers
    from kafkalite.transactions.state import TopicPartition

TOPIC_PARTITIONS = (A, B)


class ClientTransaction:
    """A transaction as its producer sees it: its records, and the requested end."""

    def __init__(self) -> None:
        self.requested_commit: bool | None = None
        """Whether it requested a commit or an abort; None before either."""
        self.decided: bool | None = None


class Written(NamedTuple):
    """A record in a partition."""

    producer_id: int
    client_transaction: ClientTransaction


class Marker(NamedTuple):
    """A marker in a partition."""

    producer_id: int
    is_commit: bool


class PartitionModel:
    """A model of a partition."""

    def __init__(self) -> None:
        self.log: list[Written | Marker] = []
        self.epochs: dict[int, int] = {}
        self.open: dict[int, int] = {}
        """Producer id → the offset at which its open transaction begins."""
        self.last_stable_before = 0

    def is_open(self, producer: ProducerIdAndEpoch) -> bool:
        self.check_epoch(producer)
        known_epoch = self.epochs.get(producer.producer_id)
        return producer.producer_id in self.open and known_epoch == producer.producer_epoch

    def check_epoch(self, producer: ProducerIdAndEpoch) -> None:
        if producer.producer_epoch < self.epochs.get(producer.producer_id, -1):
            raise KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH)

    def append(self, producer: ProducerIdAndEpoch, client_transaction: ClientTransaction) -> None:
        self.check_epoch(producer)
        self.epochs[producer.producer_id] = producer.producer_epoch
        self.open.setdefault(producer.producer_id, len(self.log))
        self.log.append(Written(producer.producer_id, client_transaction))

    def end(self, marker: WriteMarkers) -> None:
        """Append a marker, or ignore it if its epoch is stale."""
        known_epoch = self.epochs.get(marker.producer_id, -1)
        is_repeated = marker.producer_epoch == known_epoch and marker.producer_id not in self.open
        min_epoch = known_epoch + 1 if marker.transaction_version >= 2 else known_epoch
        if is_repeated and marker.transaction_version >= 2:
            return
        assert marker.producer_epoch >= min_epoch or marker.producer_epoch == MAX_PRODUCER_EPOCH
        self.epochs[marker.producer_id] = marker.producer_epoch
        self.open.pop(marker.producer_id, None)
        self.log.append(Marker(marker.producer_id, marker.is_commit))

    def last_stable_offset(self) -> int:
        return min(self.open.values(), default=len(self.log))

    def committed(self) -> list[ClientTransaction]:
        """Return the transaction of each record that a reader of committed records sees."""
        transactions: list[ClientTransaction] = []
        stable = self.last_stable_offset()
        for offset, entry in enumerate(self.log[:stable]):
            if isinstance(entry, Written):
                ending = next(
                    later_entry
                    for later_entry in self.log[offset:]
                    if isinstance(later_entry, Marker)
                    and later_entry.producer_id == entry.producer_id
                )
                if ending.is_commit:
                    transactions.append(entry.client_transaction)
        return transactions


class Client:
    """The client of a producer, with its state."""

    def __init__(self, version: int) -> None:
        self.version = version
        self.producer: ProducerIdAndEpoch | None = None
        self.client_transaction = ClientTransaction()
        self.has_lost_answer = False

    def reset(self, producer: ProducerIdAndEpoch | None) -> None:
        self.producer = producer
        self.client_transaction = ClientTransaction()
        self.has_lost_answer = False


class Step(NamedTuple):
    """One event with its parameters; each kind of event uses some of them."""

    event: str
    client_index: int
    choice: bool
    """A random choice of the step: commit or abort, keep the id or not, the first partition."""
    is_lost: bool
    fails: bool


EVENT_WEIGHTS = {
    "init": 1, "produce": 4, "produce to all": 9, "end": 12, "a marker": 4, "all markers": 7,
    "a second": 2, "a round": 2, "a timeout": 1, "expiry": 1, "restart": 2,
}  # fmt: skip
"""Event → relative frequency."""
RARELY = st.sampled_from([False, False, False, False, False, False, True])
STEPS = st.lists(
    st.builds(
        Step,
        event=st.sampled_from(
            [event for event, weight in EVENT_WEIGHTS.items() for _ in range(weight)]
        ),
        client_index=st.sampled_from([0, 0, 0, 0, 1]),
        choice=st.booleans(),
        is_lost=RARELY,
        fails=RARELY,
    ),
    min_size=30,
    max_size=60,
)


class Races:
    """Two clients, one transactional id, two partitions, and events in between."""

    def __init__(self, level: int, versions: tuple[int, int], epochs_left: int | None) -> None:
        self.coordinator = ManualTransactionCoordinator(level=level, writes_markers=False)
        self.clients = [Client(version if level == 2 else 0) for version in versions]
        self.partitions = {
            topic_partition: PartitionModel() for topic_partition in TOPIC_PARTITIONS
        }
        self.issued: set[ProducerIdAndEpoch] = set()
        self.marked: list[TopicPartition] = []
        """Partitions to which the first marker was already written."""
        self.client_transaction: ClientTransaction | None = None
        """The open transaction of the id."""
        self.entries = 0
        if epochs_left is not None:
            self.coordinator.seed(producer_epoch=LAST_PRODUCER_EPOCH - epochs_left)
        self.read_log()

    # Decisions in the log

    def read_log(self) -> None:
        """Check the records since the last call; only these may lead to requests for markers."""
        for record in self.coordinator.records()[self.entries :]:
            self.entries += 1
            if record.value is None:
                continue
            assert isinstance(record.value, Transaction)
            state = record.value.state
            if state in PREPARED_STATES and self.client_transaction is not None:
                self.client_transaction.decided = state is TransactionState.PREPARE_COMMIT
                assert (
                    not self.client_transaction.decided
                    or self.client_transaction.requested_commit is True
                ), "its commit was not requested"
                self.client_transaction = None
        for marker in self.coordinator.markers:
            decided = self.coordinator.describe()
            assert decided.producer == (marker.producer_id, marker.producer_epoch)
            assert decided.state in PREPARED_STATES
            assert marker.is_commit is (decided.state is TransactionState.PREPARE_COMMIT)
            assert marker.partitions == tuple(sorted(decided.partitions))

    def fail_next_append(self, *, fails: bool) -> None:
        self.coordinator.log.next_error = OSError(28, "no space left on device") if fails else None

    # Actions of clients

    def apply(self, step: Step) -> None:
        """Let one event happen, then check the invariants."""
        first, second = TOPIC_PARTITIONS if step.choice else reversed(TOPIC_PARTITIONS)
        handlers: dict[str, Callable[[], None]] = {
            "init": lambda: self.init(step.client_index, keeps_id=step.choice, fails=step.fails),
            "produce": lambda: self.produce(step.client_index, first),
            "produce to all": lambda: self.produce_to_all(step.client_index, first, second),
            "end": lambda: self.end(
                step.client_index, is_commit=step.choice, is_lost=step.is_lost, fails=step.fails
            ),
            "a marker": self.write_marker,
            "all markers": self.write_all_markers,
            "a second": lambda: self.advance_clock(1_000),
            "a round": lambda: self.advance_clock(10_000),
            "a timeout": lambda: self.advance_clock(70_000),
            "expiry": lambda: self.advance_clock(8 * 24 * 3_600_000),
            "restart": self.restart,
        }
        if (
            step.event in {"produce", "produce to all", "end"}
            and not self.clients[step.client_index].producer
        ):
            self.init(step.client_index, keeps_id=False, fails=step.fails)
        handlers[step.event]()
        self.one_producer_at_most_may_write()
        self.last_stable_offsets_never_move_back()
        self.readers_see_what_was_committed()

    def init(self, client_index: int, *, keeps_id: bool, fails: bool) -> None:
        client = self.clients[client_index]
        expected = client.producer if keeps_id else None
        self.fail_next_append(fails=fails)
        try:
            producer = self.coordinator.init(expected)
        except KafkaError as error:
            if error.code is ErrorCode.PRODUCER_FENCED:
                client.reset(None)
        else:
            assert producer not in self.issued or producer == client.producer or expected
            self.issued.add(producer)
            client.reset(producer)
        finally:
            self.fail_next_append(fails=False)
        self.read_log()

    def produce_to_all(self, client_index: int, *partitions: TopicPartition) -> None:
        for topic_partition in partitions:
            self.produce(client_index, topic_partition)

    def produce(self, client_index: int, topic_partition: TopicPartition) -> None:
        client = self.clients[client_index]
        if client.producer is None or client.has_lost_answer:
            return
        partition = self.partitions[topic_partition]
        try:
            if client.version < 2:
                self.coordinator.add(client.producer, topic_partition, version=0)
            if not partition.is_open(client.producer):
                self.add_partition(client, topic_partition)
        except KafkaError as error:
            if error.code is not ErrorCode.CONCURRENT_TRANSACTIONS:
                client.reset(None)
            self.read_log()
            return
        partition.append(client.producer, client.client_transaction)
        self.read_log()
        assert client.client_transaction.decided is not True, "a record came after its commit"
        if client.client_transaction.decided is None:
            assert self.client_transaction in {None, client.client_transaction}, (
                "two producers write in one transaction"
            )
            self.client_transaction = client.client_transaction

    def add_partition(self, client: Client, topic_partition: TopicPartition) -> None:
        assert client.producer is not None
        codes = self.coordinator.coordinator.verify_or_add_partitions(
            ID, client.producer, [topic_partition], adds_missing=client.version >= 2
        )
        if codes[topic_partition] is not ErrorCode.NONE:
            raise KafkaError(codes[topic_partition])
        if (
            self.coordinator.describe().state is TransactionState.ONGOING
            and client.client_transaction.decided is None
        ):
            assert self.client_transaction in {None, client.client_transaction}, (
                "two producers write in one transaction"
            )
            self.client_transaction = client.client_transaction

    def end(self, client_index: int, *, is_commit: bool, is_lost: bool, fails: bool) -> None:
        client = self.clients[client_index]
        if client.producer is None:
            return
        if client.has_lost_answer:
            assert client.client_transaction.requested_commit is not None
            is_commit = client.client_transaction.requested_commit
        client.client_transaction.requested_commit = is_commit
        self.fail_next_append(fails=fails)
        try:
            successor = self.coordinator.end(
                client.producer, is_commit=is_commit, version=client.version
            )
        except KafkaError as error:
            is_retriable = {ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NOT_COORDINATOR}
            if error.code in is_retriable:
                client.has_lost_answer = True
            else:
                client.reset(None)
        else:
            self.read_log()
            assert not is_commit or client.client_transaction.decided is not False, (
                "committed, yet aborted"
            )
            if is_lost:
                client.has_lost_answer = True
            else:
                client.reset(successor if client.version >= 2 else client.producer)
                self.issued.add(client.producer)
        finally:
            self.fail_next_append(fails=False)
        self.read_log()

    # Other events

    def write_marker(self) -> None:
        if not self.coordinator.markers:
            return
        intent = self.coordinator.markers[0]
        unmarked = [
            topic_partition
            for topic_partition in intent.partitions
            if topic_partition not in self.marked
        ]
        if unmarked:
            self.partitions[unmarked[0]].end(intent)
            self.marked.append(unmarked[0])
        else:
            self.coordinator.complete(self.coordinator.markers.pop(0))
            self.marked.clear()
            self.read_log()

    def write_all_markers(self) -> None:
        while self.coordinator.markers:
            self.write_marker()

    def advance_clock(self, ms: int) -> None:
        self.coordinator.clock.advance(ms)
        self.read_log()

    def restart(self) -> None:
        self.coordinator = self.coordinator.restart()
        # The coordinator has lost which markers were written, and writes them again.
        self.marked.clear()
        self.read_log()

    # Invariants

    def one_producer_at_most_may_write(self) -> None:
        live = []
        for producer in self.issued:
            try:
                self.coordinator.verify(producer, A)
            except KafkaError:
                continue
            live.append(producer)
        assert len(live) <= 1

    def last_stable_offsets_never_move_back(self) -> None:
        for partition in self.partitions.values():
            stable = partition.last_stable_offset()
            assert stable >= partition.last_stable_before
            partition.last_stable_before = stable

    def readers_see_what_was_committed(self) -> None:
        for partition in self.partitions.values():
            assert all(
                client_transaction.decided is True for client_transaction in partition.committed()
            )

    def finish(self) -> None:
        """Complete decided transactions, and let open ones time out."""
        self.restart()
        self.write_all_markers()
        self.advance_clock(70_000)
        self.write_all_markers()
        for partition in self.partitions.values():
            assert not partition.open
            written = [
                entry.client_transaction for entry in partition.log if isinstance(entry, Written)
            ]
            assert partition.committed() == [
                client_transaction for client_transaction in written if client_transaction.decided
            ]
            assert all(client_transaction.decided is not None for client_transaction in written)


@given(
    level=st.sampled_from([0, 1, 2, 2]),
    versions=st.tuples(st.sampled_from([0, 2]), st.sampled_from([0, 2])),
    epochs_left=st.sampled_from([None, 0, 1, 2, 3]),
    steps=STEPS,
)
@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_transactions_are_committed_or_aborted_completely(
    level: int, versions: tuple[int, int], epochs_left: int | None, steps: list[Step]
) -> None:
    races = Races(level, versions, epochs_left)
    for step in steps:
        races.apply(step)
    races.finish()
