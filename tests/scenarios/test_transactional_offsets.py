"""Scenarios: offsets are committed in transactions, and are pending until those end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.metadata.image import MetadataDelta
from kafkalite.protocol._generated.records.offset_commit import OffsetCommitKey, OffsetCommitValue
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from tests.scenarios.group_coordinator import (
    SESSION_MS,
    ManualGroupCoordinator,
    Producer,
    answered,
    topic_image,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

P, Q = Producer(1), Producer(2)
T0, T1 = ("t", 0), ("t", 1)
NONE = ErrorCode.NONE
WEEK_MS = 7 * 24 * 3_600_000
SWEEP_MS = 600_000


def everywhere(coordinator: ManualGroupCoordinator) -> Iterator[ManualGroupCoordinator]:
    """Yield a coordinator, and copies after a restart with and without a compacted log."""
    yield coordinator
    yield coordinator.restarted()
    yield coordinator.restarted(coordinator.log.compact())


def refusal_of(coordinator: ManualGroupCoordinator, **claim: object) -> ErrorCode:
    """Return the error of a transactional commit that is refused as a whole."""
    with pytest.raises(KafkaError) as refusal:
        coordinator.commit({T0: 1}, producer=P, **claim)  # type: ignore[arg-type]
    return refusal.value.code


def test_all_offsets_of_a_transaction_become_visible_together() -> None:
    coordinator = ManualGroupCoordinator()
    coordinator.commit({T0: 1})
    coordinator.commit({T0: 5, T1: 6}, producer=P)
    coordinator.commit({T1: 7}, group="h", producer=P)
    for each in everywhere(coordinator):
        assert (each.committed(), each.committed("h")) == ({T0: 1}, {})
        assert (each.pending(), each.pending("h")) == ({T0: {1: 5}, T1: {1: 6}}, {T1: {1: 7}})
    coordinator.end(P)
    for each in everywhere(coordinator):
        assert (each.committed(), each.committed("h")) == ({T0: 5, T1: 6}, {T1: 7})
        assert each.pending() == each.pending("h") == {}


def test_an_abort_leaves_the_previous_offset() -> None:
    coordinator = ManualGroupCoordinator()
    coordinator.commit({T0: 1})
    coordinator.commit({T0: 5, T1: 6}, producer=P)
    coordinator.end(P, is_commit=False)
    for each in everywhere(coordinator):
        assert (each.committed(), each.pending()) == ({T0: 1}, {})


def test_the_record_of_a_transactional_offset_has_the_topic_id() -> None:
    coordinator = ManualGroupCoordinator()
    coordinator.commit({T0: 5}, producer=P, metadata="note")
    (record,) = coordinator.records()
    assert record.key == OffsetCommitKey(group="g", topic="t", partition=0)
    assert isinstance(record.value, OffsetCommitValue)
    assert (record.value.offset, record.value.metadata) == (5, "note")
    assert record.value.topic_id == coordinator.topics["t"].topic_id


@pytest.mark.parametrize("first", [P, Q])
def test_of_two_transactions_the_offset_written_last_counts(first: Producer) -> None:
    coordinator = ManualGroupCoordinator()
    coordinator.commit({T0: 5}, producer=P)
    coordinator.commit({T0: 4, T1: 4}, producer=Q)
    assert coordinator.pending() == {T0: {1: 5, 2: 4}, T1: {2: 4}}
    for producer in (first, Q if first is P else P):
        coordinator.end(producer)
    for each in everywhere(coordinator):
        assert each.committed() == {T0: 4, T1: 4}


def test_an_aborted_later_transaction_does_not_affect_an_earlier_one() -> None:
    coordinator = ManualGroupCoordinator()
    coordinator.commit({T0: 5}, producer=P)
    coordinator.commit({T0: 4}, producer=Q)
    coordinator.end(Q, is_commit=False)
    coordinator.end(P)
    for each in everywhere(coordinator):
        assert each.committed() == {T0: 5}


def test_a_later_plain_commit_overrides_a_pending_offset() -> None:
    """As in Kafka, where compaction has the same result."""
    coordinator = ManualGroupCoordinator()
    coordinator.commit({T0: 5, T1: 5}, producer=P)
    coordinator.commit({T0: 9})
    for each in everywhere(coordinator):
        assert each.committed() == {T0: 9}
        assert T0 in each.pending(), "unstable until the transaction ends"
    coordinator.end(P)
    for each in everywhere(coordinator):
        assert each.committed() == {T0: 9, T1: 5}


def test_a_group_may_begin_with_pending_offsets() -> None:
    coordinator = ManualGroupCoordinator()
    assert coordinator.commit({T0: 5}, producer=P) == [NONE]
    assert coordinator.state() == coordinator.restarted().state() == "Empty"
    coordinator.end(P, is_commit=False)
    assert coordinator.state() == "Empty"
    coordinator.clock.advance(SWEEP_MS)
    assert coordinator.state() is None


def test_a_commit_that_the_log_refuses_leaves_nothing_pending() -> None:
    coordinator = ManualGroupCoordinator()
    coordinator.log.next_error = OSError(28, "disk full")
    assert refusal_of(coordinator) is ErrorCode.NOT_COORDINATOR
    assert (coordinator.state(), coordinator.pending()) == (None, {})


class TestMembership:
    def test_an_invalid_generation_is_refused(self) -> None:
        coordinator = ManualGroupCoordinator()
        code = ErrorCode.ILLEGAL_GENERATION
        assert refusal_of(coordinator, member_id="m", generation=1) is code
        (leader,) = coordinator.stable(None)
        for generation in (0, 2):
            assert refusal_of(coordinator, member_id=leader, generation=generation) is code
        assert refusal_of(coordinator, member_id="x", generation=1) is ErrorCode.UNKNOWN_MEMBER_ID
        assert refusal_of(coordinator, instance="none") is ErrorCode.UNKNOWN_MEMBER_ID
        assert coordinator.commit({T0: 1}, member_id=leader, generation=1, producer=P) == [NONE]
        # A producer from before KIP-447 does not send a member.
        assert coordinator.commit({T0: 1}, producer=P) == [NONE]

    def test_a_transactional_commit_is_accepted_during_a_rebalance(self) -> None:
        coordinator = ManualGroupCoordinator()
        joining = coordinator.join()
        coordinator.clock.advance(0)
        joined = answered(joining)
        assert coordinator.state() == "CompletingRebalance"
        claim = {"member_id": joined.member_id, "generation": joined.generation_id}
        assert coordinator.commit({T0: 1}, producer=P, **claim) == [NONE]  # type: ignore[arg-type]
        assert coordinator.commit({T0: 1}, producer=P) == [NONE]

    def test_a_transactional_commit_does_not_extend_the_session(self) -> None:
        coordinator = ManualGroupCoordinator()
        (leader,) = coordinator.stable(None)
        coordinator.clock.advance(SESSION_MS - 1)
        coordinator.commit({T0: 1}, member_id=leader, generation=1, producer=P)
        coordinator.clock.advance(1)
        assert coordinator.state() == "Empty"

    def test_pending_offsets_survive_a_migration_of_the_group(self) -> None:
        coordinator = ManualGroupCoordinator()
        (leader,) = coordinator.stable(None)
        coordinator.commit({T0: 5}, member_id=leader, generation=1, producer=P)
        coordinator.leave((leader, None))
        assert coordinator.beat("c1").member_epoch > 0
        assert (
            refusal_of(coordinator, member_id=leader, generation=1) is ErrorCode.UNKNOWN_MEMBER_ID
        )
        coordinator.end(P)
        for each in everywhere(coordinator):
            assert each.committed() == {T0: 5}

    def test_members_of_consumer_groups_commit_at_their_epoch(self) -> None:
        coordinator = ManualGroupCoordinator()
        epoch = coordinator.beat("c1").member_epoch
        assert coordinator.commit({T0: 1}, member_id="c1", generation=epoch, producer=P) == [NONE]
        code = ErrorCode.ILLEGAL_GENERATION
        assert refusal_of(coordinator, member_id="c1", generation=epoch + 1) is code
        assert refusal_of(coordinator, member_id="c1") is code
        assert coordinator.commit({T0: 1}, producer=P) == [NONE]


class TestDeletion:
    def test_a_pending_offset_can_be_deleted(self) -> None:
        coordinator = ManualGroupCoordinator()
        coordinator.commit({T1: 1})
        coordinator.commit({T0: 5, T1: 5}, producer=P)
        coordinator.commit({T0: 6}, producer=Q)
        requested = [T0, T1, ("t", 2)]
        before = len(coordinator.log.entries)
        codes = coordinator.shard.write(lambda machine, _: machine.offsets.delete("g", requested))
        assert codes == [NONE] * 3
        assert len(coordinator.log.entries) == before + 2
        coordinator.end(P)
        coordinator.commit({T0: 7}, producer=Q)
        coordinator.end(Q)
        for each in everywhere(coordinator):
            assert (each.committed(), each.pending()) == ({T0: 7}, {})

    def test_a_deleted_group_loses_its_pending_offsets(self) -> None:
        coordinator = ManualGroupCoordinator()
        coordinator.commit({T1: 1})
        coordinator.commit({T0: 5, T1: 5}, producer=P)
        coordinator.shard.write(lambda machine, _: machine.offsets.delete_group("g"))
        for each in everywhere(coordinator):
            assert (each.state(), each.committed(), each.pending()) == (None, {}, {})
        deleted = coordinator.events("deleted")
        assert deleted[0].text == "group g with 2 offsets deleted by DeleteGroups"
        coordinator.end(P)
        assert (coordinator.state(), coordinator.committed()) == (None, {})

    def test_a_deleted_topic_loses_its_pending_offsets(self) -> None:
        coordinator = ManualGroupCoordinator(topics=[topic_image("t", 2), topic_image("u", 1)])
        coordinator.commit({T0: 1})
        coordinator.commit({T0: 5, ("u", 0): 5}, producer=P)
        coordinator.commit({T1: 5}, group="h", producer=Q)
        deleted = coordinator.topics.pop("t")
        coordinator.show(MetadataDelta(deleted=(deleted,)))
        for each in everywhere(coordinator):
            assert each.committed() == {}
            assert (each.pending(), each.pending("h")) == ({("u", 0): {1: 5}}, {})
        for producer in (P, Q):
            coordinator.end(producer)
        for each in everywhere(coordinator):
            assert (each.committed(), each.committed("h")) == ({("u", 0): 5}, {})


class TestExpiry:
    def test_an_offset_does_not_expire_while_another_is_pending_for_its_partition(self) -> None:
        coordinator = ManualGroupCoordinator()
        coordinator.commit({T0: 1, T1: 1})
        coordinator.clock.advance(WEEK_MS - 1)
        coordinator.commit({T0: 5}, producer=P)
        coordinator.clock.advance(SWEEP_MS + 1)
        assert coordinator.committed() == {T0: 1}
        coordinator.end(P, is_commit=False)
        coordinator.clock.advance(SWEEP_MS)
        assert (coordinator.state(), coordinator.committed()) == (None, {})

    def test_a_group_with_pending_offsets_is_not_removed(self) -> None:
        coordinator = ManualGroupCoordinator()
        coordinator.commit({T0: 1})
        coordinator.commit({T1: 5}, producer=P)
        coordinator.clock.advance(WEEK_MS + SWEEP_MS)
        assert (coordinator.state(), coordinator.committed()) == ("Empty", {})
        coordinator.end(P)
        assert coordinator.committed() == {T1: 5}
        coordinator.clock.advance(SWEEP_MS)
        assert (coordinator.state(), coordinator.committed()) == (None, {})
