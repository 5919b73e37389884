"""A scenario of a group that migrates between protocols with its members, in both directions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.protocol import codec
from kafkalite.protocol._generated.records.consumer_protocol_assignment import (
    ConsumerProtocolAssignment,
)
from kafkalite.protocol.error_codes import ErrorCode
from tests.spark.truth.classic_groups import TOPIC, Consumer, Group, Rebalanced
from tests.spark.truth.tracked_group import Key, Member, TrackedGroup

if TYPE_CHECKING:
    from tests.spark.truth.simulation import Stage
    from tests.spark.truth.tracked_group import Topics, Truth

_INTERVAL_MS = 1_100
"""Longer than the coordinator's assignment interval of one second."""


def commits(
    stage: Stage, topics: Topics, prefix: str, by_epoch: Truth, by_generation: Rebalanced
) -> None:
    """Replace clients of a classic group by consumer group members one by one, and back."""
    topics.create(TOPIC, 4)
    group_id = f"{prefix}/changing"
    group = Group(stage, group_id, by_generation)
    tracked = TrackedGroup(stage, topics, group_id, by_epoch)
    going, staying = group.consumer("going"), group.consumer("staying")
    group.rebalance([going], {"going": {0, 1, 2, 3}})
    group.rebalance([going, staying], {"going": {0, 1}, "staying": {2, 3}})
    assert staying.commit({2, 3}) == ErrorCode.NONE
    assert going.commit({0, 2}, generation=1) == ErrorCode.ILLEGAL_GENERATION
    going.leave()
    stayed = _Stayed(staying, tracked)
    first = Member(tracked, stage.line("first", host=15), [TOPIC], f"first-{prefix}")
    _upgrade(stayed, first)
    second = Member(tracked, stage.line("second", host=15), [TOPIC], f"second-{prefix}")
    _share(stayed, first, second)
    last_epoch = staying.generation
    for member in (first, second):
        member.leave()
    assert first.commit([(topics.ids[TOPIC], 0)]) == ErrorCode.UNKNOWN_MEMBER_ID
    _downgrade(group, staying, last_epoch)


def _upgrade(stayed: _Stayed, first: Member) -> None:
    first.join()
    # The classic member does not know yet that the group was migrated.
    assert stayed.who.beat() == ErrorCode.REBALANCE_IN_PROGRESS
    stayed.wait()
    stayed.rejoin()
    before = stayed.epochs[0]
    assert stayed.commit({2, 3}) == ErrorCode.NONE
    assert stayed.commit({2}, before) == ErrorCode.NONE
    first.beat()
    first.commit(first.owned)


def _share(stayed: _Stayed, first: Member, second: Member) -> None:
    """Add a third member, for which the others release partitions."""
    second.join()
    for _ in range(3):
        stayed.wait()
        first.beat()
        if stayed.who.beat() == ErrorCode.REBALANCE_IN_PROGRESS:
            stayed.rejoin()
        second.beat()
    owned = [stayed.owned, *({part for _, part in member.owned} for member in (first, second))]
    assert sorted(part for each in owned for part in each) == [0, 1, 2, 3]
    assert all(owned)
    assert stayed.commit(stayed.owned) == ErrorCode.NONE
    for epoch in stayed.epochs[:-1]:
        for part in range(4):
            stayed.commit({part}, epoch)
    for member in (first, second):
        member.commit(member.owned)


def _downgrade(group: Group, staying: Consumer, last_epoch: int) -> None:
    assert staying.beat() in {ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION}
    group.rebalance([staying], {"staying": {0, 1, 2, 3}})
    assert staying.generation > last_epoch
    assert staying.commit({0, 1, 2, 3}) == ErrorCode.NONE
    other = group.consumer("other")
    group.rebalance([staying, other], {"staying": {0, 1}, "other": {2, 3}})
    assert staying.commit({0, 2}, generation=staying.generation - 1) == ErrorCode.ILLEGAL_GENERATION
    for each in (staying, other):
        each.leave()


class _Stayed:
    """A classic member of a group whose members have epochs."""

    def __init__(self, who: Consumer, tracked: TrackedGroup) -> None:
        self.who = who
        self.owned: set[int] = {2, 3}
        self.epochs = [who.generation]
        self._tracked = tracked

    def wait(self) -> None:
        """Wait until the coordinator assigns again."""
        self._tracked.stage.wait(_INTERVAL_MS)

    def rejoin(self) -> None:
        """Join again with the owned partitions, and release those no longer assigned."""
        self.who.owned = set(self.owned)
        self.who.joined(self.who.join())
        self._tracked.watch()
        answer = self.who.sync({}).answer()
        assert answer.error_code == ErrorCode.NONE
        content = codec.decode_message(ConsumerProtocolAssignment.CODEC, answer.assignment)
        self.owned = {
            part for partition in content.assigned_partitions for part in partition.partitions
        }
        self._tracked.watch()
        if self.who.generation != self.epochs[-1]:
            self.epochs.append(self.who.generation)

    def commit(self, partitions: set[int], epoch: int | None = None) -> int:
        """Commit at an epoch, by default the current one, and store the expected result."""
        tracked, line = self._tracked, self.who.line
        epoch = self.who.generation if epoch is None else epoch
        tracked.stage.wait(0)
        for partition in partitions:
            key = Key(line.number, tracked.stage.now_us, TOPIC, partition)
            part = (tracked.topics.ids[TOPIC], partition)
            tracked.truth.commits[key] = tracked.classify(self.who.member_id, epoch, part)
        return self.who.ask_to_commit(partitions, epoch, line)
