"""Scenarios: offsets are committed in transactions, and are pending until those end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.metadata.image import MetadataDelta
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from tests.scenarios.group_coordinator import (
    ManualGroupCoordinator,
    Producer,
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


def test_pending_offsets_survive_a_migration_of_the_group() -> None:
    coordinator = ManualGroupCoordinator()
    (leader,) = coordinator.stable(None)
    coordinator.commit({T0: 5}, member_id=leader, generation=1, producer=P)
    coordinator.leave((leader, None))
    assert coordinator.beat("c1").member_epoch > 0
    assert refusal_of(coordinator, member_id=leader, generation=1) is ErrorCode.UNKNOWN_MEMBER_ID
    coordinator.end(P)
    for each in everywhere(coordinator):
        assert each.committed() == {T0: 5}


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
