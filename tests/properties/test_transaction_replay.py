"""The replay law of transactions: replaying the log, compacted or not, gives the decided state.

Any producer sends any requests in any order. In the log, each transactional id has only the state
transitions that Kafka allows.
"""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kafkalite.config.broker import BrokerConfig
from kafkalite.coordinator.loading import replay_latest
from kafkalite.metadata.image import MetadataImage
from kafkalite.protocol.errors import KafkaError
from kafkalite.transactions.shard import TransactionShard
from kafkalite.transactions.state import (
    LAST_PRODUCER_EPOCH,
    PREPARED_STATES,
    ProducerIdAndEpoch,
    Transaction,
    TransactionState,
)
from kafkalite.transactions.transaction_records import TransactionSerde
from tests.effort import examples
from tests.unit.transactions.transaction_coordinator import A, B, C, ManualTransactionCoordinator

if TYPE_CHECKING:
    from kafkalite.testing.coordinator_log import MemoryCoordinatorLog

IDS = st.sampled_from(["x", "x", "x", "y"])
PARTITIONS = st.sets(st.sampled_from([A, B, C]), min_size=1)
TIMES_MS = st.sampled_from([0, 1, 10, 1_000, 5_000, 10_000, 60_000, 600_000, 8 * 24 * 3_600_000])
VERSIONS = st.sampled_from([0, 2])
SHIFTS = st.sampled_from([0, 0, 0, 0, 0, 0, -1, -2, 1])
RARELY = st.sampled_from([False, False, False, False, False, True])

CONFIG = BrokerConfig.from_text()
SERDE = TransactionSerde(lambda: 0)
S = TransactionState
NEXT_STATES = {
    S.EMPTY: {S.EMPTY, S.ONGOING, S.PREPARE_ABORT},
    S.ONGOING: {S.ONGOING, S.PREPARE_COMMIT, S.PREPARE_ABORT},
    S.PREPARE_COMMIT: {S.COMPLETE_COMMIT},
    S.PREPARE_ABORT: {S.COMPLETE_ABORT},
    S.COMPLETE_COMMIT: {S.EMPTY, S.ONGOING, S.PREPARE_ABORT},
    S.COMPLETE_ABORT: {S.EMPTY, S.ONGOING, S.PREPARE_ABORT},
}


def hard_state(machine: TransactionShard, *, has_tags: bool = True) -> dict[str, Transaction]:
    """Return the durable state, without the previous epoch and fields of newer versions."""
    tags = (
        {}
        if has_tags
        else {"previous_producer_id": -1, "next_producer_id": -1, "client_transaction_version": 0}
    )
    return {
        transaction.transactional_id: transaction._replace(last_producer_epoch=-1, **tags)  # type: ignore[arg-type]
        for transaction in machine.transactions()
    }


def loaded(log: MemoryCoordinatorLog) -> TransactionShard:
    """Return a machine that has replayed a log."""
    machine = TransactionShard(config=CONFIG, image=MetadataImage(), generate_producer_id=lambda: 0)
    replay_latest(log, SERDE, machine)
    return machine


class TransactionHistory(RuleBasedStateMachine):
    """Clients send any requests, time passes, the disk fails, markers are late or repeated."""

    @initialize(level=st.sampled_from([0, 1, 2]), epochs_left=st.sampled_from([None, 0, 1, 2]))
    def begin(self, level: int, epochs_left: int | None) -> None:
        self.coordinator = ManualTransactionCoordinator(level=level, writes_markers=False)
        self.writes_tags = level > 0
        if epochs_left is not None:
            self.coordinator.seed(producer_epoch=LAST_PRODUCER_EPOCH - epochs_left)

    def producer_of(
        self, name: str, shift: int, *, is_previous: bool = False
    ) -> ProducerIdAndEpoch:
        """Return the producer of an id, or a stale or unknown one."""
        try:
            transaction = self.coordinator.describe(name)
        except KafkaError:
            return ProducerIdAndEpoch(4_000, 0)
        if is_previous:
            return ProducerIdAndEpoch(transaction.previous_producer_id, LAST_PRODUCER_EPOCH)
        return ProducerIdAndEpoch(transaction.producer_id, transaction.producer_epoch + shift)

    def send(self, request: object, *, fails: bool) -> None:
        assert callable(request)
        entries = len(self.coordinator.log.entries)
        before = dict(hard_state(self.coordinator.machine))
        self.coordinator.log.next_error = OSError(28, "no space left on device") if fails else None
        try:
            request()
        except KafkaError:
            # A new producer that fences another gets a retriable error, and a record is written;
            # other refusals write none.
            if len(self.coordinator.log.entries) == entries:
                assert hard_state(self.coordinator.machine) == before
        finally:
            self.coordinator.log.next_error = None

    @rule(name=IDS, shift=SHIFTS, keeps_id=st.booleans(), is_previous=RARELY,
          fails=RARELY)  # fmt: skip
    def init(
        self, name: str, shift: int, *, keeps_id: bool, is_previous: bool, fails: bool
    ) -> None:
        expected = self.producer_of(name, shift, is_previous=is_previous) if keeps_id else None
        self.send(lambda: self.coordinator.init(expected, transactional_id=name), fails=fails)

    @rule(name=IDS, shift=SHIFTS, partitions=PARTITIONS, version=VERSIONS, fails=RARELY)
    def add(
        self, name: str, shift: int, partitions: set[tuple[str, int]], version: int, *, fails: bool
    ) -> None:
        producer = self.producer_of(name, shift)
        self.send(
            lambda: self.coordinator.add(
                producer, *partitions, version=version, transactional_id=name
            ),
            fails=fails,
        )

    @rule(name=IDS, shift=SHIFTS, version=VERSIONS, is_commit=st.booleans(),
          is_previous=RARELY, fails=RARELY)  # fmt: skip
    def end(
        self, name: str, shift: int, version: int, *, is_commit: bool, is_previous: bool,
        fails: bool,
    ) -> None:  # fmt: skip
        producer = self.producer_of(name, shift, is_previous=is_previous)
        self.send(
            lambda: self.coordinator.end(
                producer, is_commit=is_commit, version=version, transactional_id=name
            ),
            fails=fails,
        )

    @rule(fails=RARELY)
    def complete_all_markers(self, *, fails: bool) -> None:
        pending, self.coordinator.markers = self.coordinator.markers, []
        for intent in pending:
            self.send(partial(self.coordinator.complete, intent), fails=fails)
            if fails:
                self.coordinator.markers.append(intent)

    @rule(data=st.data(), fails=RARELY)
    def complete_marker(self, data: st.DataObject, *, fails: bool) -> None:
        markers = self.coordinator.markers + self.coordinator.written
        if markers:
            intent = data.draw(st.sampled_from(markers))
            self.send(lambda: self.coordinator.complete(intent), fails=fails)

    @rule(ms=TIMES_MS, fails=RARELY)
    def advance_clock(self, ms: int, *, fails: bool) -> None:
        self.send(lambda: self.coordinator.clock.advance(ms), fails=fails)

    @rule(level=st.sampled_from([1, 2]))
    def change_level(self, level: int) -> None:
        if self.writes_tags:
            self.coordinator.set_level(level)

    @rule(name=IDS, partitions=PARTITIONS, version=VERSIONS, is_commit=st.booleans())
    def run_transaction(
        self, name: str, partitions: set[tuple[str, int]], version: int, *, is_commit: bool
    ) -> None:
        self.add(name, 0, partitions, version, fails=False)
        producer = self.producer_of(name, 0)
        self.send(
            lambda: self.coordinator.end(
                producer, is_commit=is_commit, version=version, transactional_id=name
            ),
            fails=False,
        )
        self.complete_all_markers(fails=False)

    @rule(name=IDS, fails=RARELY)
    def reset(self, name: str, *, fails: bool) -> None:
        """Abort the open transaction, or remove an id without one, as a reset does."""
        self.send(lambda: self.coordinator.reset(name), fails=fails)

    @rule()
    def restart(self) -> None:
        self.coordinator = self.coordinator.restart()
        pending = {marker.transactional_id for marker in self.coordinator.markers}
        assert pending == {
            transaction.transactional_id
            for transaction in self.coordinator.machine.transactions()
            if transaction.state in PREPARED_STATES
        }

    @invariant()
    def replay_equals_state(self) -> None:
        if not hasattr(self, "coordinator"):
            return
        expected = hard_state(self.coordinator.machine, has_tags=self.writes_tags)
        log = self.coordinator.log
        for form in (
            log,
            log.compact(),
            log.compact(keep_tombstones=True),
            log.with_short_runs(),
        ):
            assert hard_state(loaded(form)) == expected

    @invariant()
    def states_follow_each_other(self) -> None:
        states_by_id: dict[str, list[Transaction | None]] = {}
        for record in self.coordinator.records() if hasattr(self, "coordinator") else ():
            assert isinstance(record.key, str)
            assert record.value is None or isinstance(record.value, Transaction)
            states_by_id.setdefault(record.key, []).append(record.value)
        for states in states_by_id.values():
            for earlier, later in pairwise(states):
                if earlier is None:
                    assert later is None or later.state is S.EMPTY
                elif later is not None:
                    self.check_step(earlier, later)

    def check_step(self, earlier: Transaction, later: Transaction) -> None:
        assert later.state in NEXT_STATES[earlier.state]
        if later.producer_id == earlier.producer_id:
            assert 0 <= later.producer_epoch - earlier.producer_epoch <= 1 or (
                earlier.producer_epoch == 0  # a test may write a record that raises the epoch
            )
        else:
            assert later.producer_epoch == 0
            assert later.producer_id > earlier.producer_id
        assert later.last_update_timestamp_ms >= earlier.last_update_timestamp_ms
        if later.state in PREPARED_STATES:
            assert later.partitions == earlier.partitions
        if later.state is S.ONGOING and earlier.state is S.ONGOING:
            assert later.partitions > earlier.partitions
            assert later.start_timestamp_ms == earlier.start_timestamp_ms
        if later.state in {S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT}:
            assert not later.partitions


TransactionHistory.TestCase.settings = settings(
    max_examples=examples(45),
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
TestTransactionHistory = TransactionHistory.TestCase
