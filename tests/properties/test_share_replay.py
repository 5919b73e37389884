"""Share groups with any history: the replay law, and the state of each record after every step.

A simple model tracks each record: its member, its delivery count, and whether it was acknowledged.
The share partition must have the same state. A new one that is loaded from the
stored state must have it too, but without acquisitions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kafkalite.coordinator.event_history import EventHistory
from kafkalite.protocol.errors import KafkaError
from kafkalite.shares.acknowledgement import AcknowledgementBatch, AcknowledgeType
from kafkalite.shares.acquisition import AcquireRequest, FetchedBatches
from kafkalite.shares.partition import SharePartition
from kafkalite.shares.partition_table import SharePartitionTable
from kafkalite.shares.state import FINAL_STATES, DeliveryState
from tests.effort import examples
from tests.unit.shares.share_coordinator import KEY, DeadLetterLog, ManualShareCoordinator

if TYPE_CHECKING:
    from kafkalite.shares.in_flight import Run

DELIVERIES = 3
RECORDS = 40
MAX_IN_FLIGHT = 100
MEMBERS = st.sampled_from(["a", "b", "c"])
ACKNOWLEDGE_TYPES = st.sampled_from(
    [AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT, AcknowledgeType.GAP]
)


class ShareHistory(RuleBasedStateMachine):
    """Members send any requests, locks expire, disks fail and leaders change."""

    @initialize(updates=st.integers(0, 3))
    def begin(self, updates: int) -> None:
        self.settings = {
            "group.share.delivery.count.limit": str(DELIVERIES),
            "group.share.partition.max.record.locks": str(MAX_IN_FLIGHT),
            "share.coordinator.snapshot.update.records.per.snapshot": str(updates),
        }
        self.coordinator = ManualShareCoordinator(self.settings)
        self.coordinator.initialize()
        self.log: list[tuple[int, int]] = []
        self.log_start = 0
        self.leader_epoch = 0
        self.become_leader()
        self.holder: dict[int, str] = {}
        self.delivered: dict[int, int] = {}
        self.acknowledged: set[int] = set()
        self.last_start = 0

    def become_leader(self) -> None:
        self.table = SharePartitionTable(
            clock=self.coordinator.clock,
            config=self.coordinator.config,
            history=EventHistory(),
        )
        share = self.table.get_or_load(
            KEY,
            store=self.coordinator.store,
            dead_letter_queues=DeadLetterLog(),
            name="t-0",
            leader=1,
            leader_epoch=self.leader_epoch,
            choose_start_offset=lambda: 0,
        )
        assert isinstance(share, SharePartition)
        self.share = share

    def runs(self) -> list[Run]:
        return [run for batch in self.share.window.in_flight.batches for run in batch.runs]

    # Events of a share partition

    @rule(size=st.integers(1, 8))
    def produce(self, size: int) -> None:
        base = self.log[-1][1] + 1 if self.log else 0
        self.log.append((base, base + size - 1))

    @rule(
        member=MEMBERS, max_records=st.integers(1, 12), size=st.integers(1, 12), exact=st.booleans()
    )
    def fetch(self, member: str, max_records: int, size: int, *, exact: bool) -> None:
        offset = self.share.window.next_fetch_offset()
        if offset < self.log_start:
            self.share.advance_log_start(self.log_start)
            return
        read = [batch for batch in self.log if batch[1] >= offset]
        if not read or not self.share.can_acquire():
            return
        acquired, count = self.share.acquire(
            FetchedBatches(read, offset), AcquireRequest(member, max_records, size, is_exact=exact)
        )
        assert count == sum(batch.size for batch in acquired)
        assert not exact or count <= max_records
        for batch in acquired:
            for record in range(batch.first, batch.last + 1):
                assert record not in self.acknowledged, "an acknowledged record came again"
                assert record not in self.holder, "a record came to two members"
                assert batch.delivery_count <= DELIVERIES
                assert batch.delivery_count > self.delivered.get(record, 0)
                self.holder[record] = member
                self.delivered[record] = batch.delivery_count

    @rule(data=st.data(), fails=st.booleans())
    def acknowledge(self, data: st.DataObject, *, fails: bool) -> None:
        start = self.share.window.start_offset
        acquired = sorted(record for record in self.holder if record >= start)
        if not acquired:
            return
        first = data.draw(st.sampled_from(acquired))
        member = self.holder[first]
        last = first
        while self.holder.get(last + 1) == member and data.draw(st.booleans()):
            last += 1
        acknowledge_types = data.draw(
            st.lists(ACKNOWLEDGE_TYPES, min_size=last - first + 1, max_size=last - first + 1)
        )
        self.coordinator.log.next_error = OSError(28, "no space left on device") if fails else None
        before = repr(self.runs())
        try:
            self.share.acknowledge(member, [AcknowledgementBatch(first, last, acknowledge_types)])
        except KafkaError:
            assert fails
            assert repr(self.runs()) == before
            return
        finally:
            self.coordinator.log.next_error = None
        for record, ack_type in zip(range(first, last + 1), acknowledge_types, strict=True):
            del self.holder[record]
            if ack_type is AcknowledgeType.ACCEPT:
                self.acknowledged.add(record)

    @rule(
        member=MEMBERS,
        first=st.integers(-2, RECORDS),
        size=st.integers(1, 10),
        ack_type=ACKNOWLEDGE_TYPES,
    )
    def acknowledge_anything(
        self, member: str, first: int, size: int, ack_type: AcknowledgeType
    ) -> None:
        before = repr(self.runs())
        last = first + size - 1
        start = self.share.window.start_offset
        try:
            self.share.acknowledge(member, [AcknowledgementBatch(first, last, [ack_type])])
        except KafkaError:
            assert repr(self.runs()) == before
            return
        for record in range(max(first, start), last + 1):
            holder = self.holder.pop(record, None)
            if holder is not None:
                assert holder == member, "a record of another member was acknowledged"
                if ack_type is AcknowledgeType.ACCEPT:
                    self.acknowledged.add(record)

    @rule(member=MEMBERS)
    def leave(self, member: str) -> None:
        self.share.release(member)
        self.holder = {record: holder for record, holder in self.holder.items() if holder != member}

    @rule(ms=st.sampled_from([1, 14_999, 30_000]), fails=st.booleans())
    def wait(self, ms: int, *, fails: bool) -> None:
        self.coordinator.log.next_error = OSError(28, "no space left on device") if fails else None
        self.coordinator.clock.advance(ms)
        self.coordinator.log.next_error = None
        acquired = {
            record
            for run in self.runs()
            if run.state is DeliveryState.ACQUIRED
            for record in range(run.first, run.last + 1)
        }
        self.holder = {
            record: member for record, member in self.holder.items() if record in acquired
        }

    @precondition(lambda self: self.log)
    @rule(data=st.data())
    def lose_records(self, data: st.DataObject) -> None:
        self.log_start = data.draw(st.integers(self.log_start, self.log[-1][1] + 1))
        self.log = [batch for batch in self.log if batch[1] >= self.log_start] or self.log[-1:]
        self.share.advance_log_start(self.log_start)
        self.holder = {
            record: member
            for record, member in self.holder.items()
            if record >= self.log_start or self._is_acquired(record)
        }

    def _is_acquired(self, record: int) -> bool:
        return any(
            run.first <= record <= run.last and run.state is DeliveryState.ACQUIRED
            for run in self.runs()
        )

    @rule(restarts=st.booleans())
    def change_leader(self, *, restarts: bool) -> None:
        self.share.close()
        if restarts:
            clock = self.coordinator.clock
            self.coordinator = ManualShareCoordinator(self.settings, self.coordinator.restart().log)
            self.coordinator.clock.advance(clock.now_ms() - self.coordinator.clock.now_ms())
        self.leader_epoch += 1
        self.become_leader()
        self.share.advance_log_start(self.log_start)
        self.holder.clear()
        # The next leader does not know deliveries that were not acknowledged.
        self.delivered.clear()
        self.last_start = min(self.last_start, self.share.window.start_offset)

    # Invariants

    @invariant()
    def runs_cover_each_batch(self) -> None:
        window = self.share.window
        previous_end = None
        for batch in window.in_flight.batches:
            assert previous_end is None or batch.first > previous_end
            previous_end = batch.last
            offset = batch.first
            for run in batch.runs:
                assert run.first == offset
                offset = run.last + 1
                self._check_run(run)
            assert offset == batch.last + 1
            assert batch.is_split or len(batch.runs) == 1

    def _check_run(self, run: Run) -> None:
        assert run.delivery_count <= DELIVERIES
        is_acquired = run.state is DeliveryState.ACQUIRED
        assert is_acquired is bool(run.member_id)
        for record in range(run.first, run.last + 1):
            if is_acquired:
                assert self.holder.get(record) == run.member_id
            elif record >= self.share.window.start_offset:
                assert record not in self.holder
            if record in self.acknowledged:
                assert run.state in FINAL_STATES

    @invariant()
    def counts_equal_the_runs(self) -> None:
        window = self.share.window
        final = sum(window.count_in_window(run) for run in self.runs() if run.is_final)
        assert window.complete_count == final
        assert window.start_offset >= self.last_start, "the start moved back"
        self.last_start = window.start_offset

    @invariant()
    def replay_equals_state(self) -> None:
        states = self.coordinator.machine.states()
        assert self.coordinator.restart().machine.states() == states
        snapshots = [
            index
            for index, record in enumerate(self.coordinator.records())
            if type(record.key).__name__ == "ShareSnapshotKey"
        ]
        assert self.coordinator.restart(snapshots[-1]).machine.states() == states


ShareHistory.TestCase.settings = settings(
    max_examples=examples(50),
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
TestShareHistory = ShareHistory.TestCase
