"""Share groups under any history: the replay law, and what must hold of each record after a step.

A naive twin follows each record by itself: who has it, how often it was delivered, whether it was
acknowledged. The share partition must say the same, and so must one that begins anew with what is
kept, except that it knows nothing of who has what.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kafkalite.coordinator.journal import Journal
from kafkalite.protocol.errors import KafkaError
from kafkalite.shares.acquiring import Fetched, Wish
from kafkalite.shares.settling import AckBatch, AckType
from kafkalite.shares.state import FINAL_STATES, DeliveryState
from kafkalite.shares.table import SharePartitions
from tests.effort import examples
from tests.unit.shares.share_world import KEY, ShareWorld

if TYPE_CHECKING:
    from kafkalite.shares.in_flight import Run
    from kafkalite.shares.partition import SharePartition

DELIVERIES = 3
RECORDS = 40
MOST_OUT = 100
MEMBERS = st.sampled_from(["a", "b", "c"])
WORDS = st.sampled_from([AckType.ACCEPT, AckType.RELEASE, AckType.REJECT, AckType.GAP])


class ShareHistory(RuleBasedStateMachine):
    """Members do what they like, locks run out, disks fail and leaders change."""

    @initialize(updates=st.integers(0, 3))
    def begin(self, updates: int) -> None:
        self.settings = {
            "group.share.delivery.count.limit": str(DELIVERIES),
            "group.share.partition.max.record.locks": str(MOST_OUT),
            "share.coordinator.snapshot.update.records.per.snapshot": str(updates),
        }
        self.world = ShareWorld(self.settings)
        self.world.begin()
        self.log: list[tuple[int, int]] = []
        self.log_start = 0
        self.leader_epoch = 0
        self.lead()
        self.holder: dict[int, str] = {}
        self.delivered: dict[int, int] = {}
        self.acknowledged: set[int] = set()
        self.start_before = 0

    def lead(self) -> None:
        self.table = SharePartitions(
            clock=self.world.clock,
            config=self.world.config,
            store=self.world.coordinator,
            journal=Journal(),
        )
        self.share: SharePartition = self.table.begin(
            KEY, name="t-0", leader_epoch=self.leader_epoch, choose_start=lambda: 0
        )

    def runs(self) -> list[Run]:
        return [run for batch in self.share.window.in_flight.batches for run in batch.runs]

    # What befalls a share partition

    @rule(size=st.integers(1, 8))
    def produce(self, size: int) -> None:
        base = self.log[-1][1] + 1 if self.log else 0
        self.log.append((base, base + size - 1))

    @rule(member=MEMBERS, most=st.integers(1, 12), size=st.integers(1, 12), exact=st.booleans())
    def fetch(self, member: str, most: int, size: int, *, exact: bool) -> None:
        offset = self.share.window.next_fetch_offset()
        if offset < self.log_start:
            self.share.follow_log_start(self.log_start)
            return
        read = [batch for batch in self.log if batch[1] >= offset]
        if not read or not self.share.can_acquire():
            return
        acquired, count = self.share.acquire(
            Fetched(read, offset), Wish(member, most, size, is_exact=exact)
        )
        assert count == sum(one.size for one in acquired)
        assert not exact or count <= most
        for one in acquired:
            for record in range(one.first, one.last + 1):
                assert record not in self.acknowledged, "an acknowledged record came again"
                assert record not in self.holder, "a record came to two members"
                assert one.delivery_count <= DELIVERIES
                assert one.delivery_count > self.delivered.get(record, 0)
                self.holder[record] = member
                self.delivered[record] = one.delivery_count

    @rule(data=st.data(), fails=st.booleans())
    def acknowledge(self, data: st.DataObject, *, fails: bool) -> None:
        start = self.share.window.start_offset
        known = sorted(record for record in self.holder if record >= start)
        if not known:
            return
        first = data.draw(st.sampled_from(known))
        member = self.holder[first]
        last = first
        while self.holder.get(last + 1) == member and data.draw(st.booleans()):
            last += 1
        words = data.draw(st.lists(WORDS, min_size=last - first + 1, max_size=last - first + 1))
        self.world.log.fails_with = OSError(28, "no space left on device") if fails else None
        before = repr(self.runs())
        try:
            self.share.acknowledge(member, [AckBatch(first, last, words)])
        except KafkaError:
            assert fails
            assert repr(self.runs()) == before
            return
        finally:
            self.world.log.fails_with = None
        for record, word in zip(range(first, last + 1), words, strict=True):
            del self.holder[record]
            if word is AckType.ACCEPT:
                self.acknowledged.add(record)

    @rule(member=MEMBERS, first=st.integers(-2, RECORDS), size=st.integers(1, 10), word=WORDS)
    def acknowledge_anything(self, member: str, first: int, size: int, word: AckType) -> None:
        before = repr(self.runs())
        last = first + size - 1
        start = self.share.window.start_offset
        try:
            self.share.acknowledge(member, [AckBatch(first, last, [word])])
        except KafkaError:
            assert repr(self.runs()) == before
            return
        for record in range(max(first, start), last + 1):
            holder = self.holder.pop(record, None)
            if holder is not None:
                assert holder == member, "a record of another member was acknowledged"
                if word is AckType.ACCEPT:
                    self.acknowledged.add(record)

    @rule(member=MEMBERS)
    def leave(self, member: str) -> None:
        self.share.release(member)
        self.holder = {record: held for record, held in self.holder.items() if held != member}

    @rule(ms=st.sampled_from([1, 14_999, 30_000]), fails=st.booleans())
    def wait(self, ms: int, *, fails: bool) -> None:
        self.world.log.fails_with = OSError(28, "no space left on device") if fails else None
        self.world.clock.advance(ms)
        self.world.log.fails_with = None
        held = {
            record
            for run in self.runs()
            if run.state is DeliveryState.ACQUIRED
            for record in range(run.first, run.last + 1)
        }
        self.holder = {record: who for record, who in self.holder.items() if record in held}

    @precondition(lambda self: self.log)
    @rule(data=st.data())
    def lose_records(self, data: st.DataObject) -> None:
        self.log_start = data.draw(st.integers(self.log_start, self.log[-1][1] + 1))
        self.log = [batch for batch in self.log if batch[1] >= self.log_start] or self.log[-1:]
        self.share.follow_log_start(self.log_start)
        self.holder = {
            record: who
            for record, who in self.holder.items()
            if record >= self.log_start or self._is_held(record)
        }

    def _is_held(self, record: int) -> bool:
        return any(
            run.first <= record <= run.last and run.state is DeliveryState.ACQUIRED
            for run in self.runs()
        )

    @rule(restarts=st.booleans())
    def change_leader(self, *, restarts: bool) -> None:
        self.share.close()
        if restarts:
            clock = self.world.clock
            self.world = ShareWorld(self.settings, self.world.restarted().log)
            self.world.clock.advance(clock.now_ms() - self.world.clock.now_ms())
        self.leader_epoch += 1
        self.lead()
        self.share.follow_log_start(self.log_start)
        self.holder.clear()
        # A delivery that nobody said anything of is forgotten with the leader.
        self.delivered.clear()
        self.start_before = min(self.start_before, self.share.window.start_offset)

    # What must hold

    @invariant()
    def each_record_is_where_it_should_be(self) -> None:
        window = self.share.window
        behind = None
        for batch in window.in_flight.batches:
            assert behind is None or batch.first > behind
            behind = batch.last
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
    def counts_are_right(self) -> None:
        window = self.share.window
        final = sum(window.counted(run) for run in self.runs() if run.is_final)
        assert window.complete_count == final
        assert window.start_offset >= self.start_before, "the start moved back"
        self.start_before = window.start_offset

    @invariant()
    def what_is_decided_is_what_its_log_makes_of_it(self) -> None:
        states = self.world.machine.states()
        assert self.world.restarted().machine.states() == states
        snapshots = [
            index
            for index, record in enumerate(self.world.records())
            if type(record.key).__name__ == "ShareSnapshotKey"
        ]
        assert self.world.restarted(snapshots[-1]).machine.states() == states


ShareHistory.TestCase.settings = settings(
    max_examples=examples(80),
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
TestShareHistory = ShareHistory.TestCase
