"""A story of a group that goes over from one protocol to the other with its members, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.protocol import codec
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.records.consumer_protocol_assignment import ConsumerProtocolAssignment
from tests.spark.truth.crew import Crew, Key, Member
from tests.spark.truth.rebalanced import TOPIC, Consumer, Group, Rebalanced

if TYPE_CHECKING:
    from tests.spark.truth.crew import Topics, Truth
    from tests.spark.truth.stage import Stage

_INTERVAL_MS = 1_100
"""A coordinator assigns partitions anew after a second."""


def commits(
    stage: Stage, topics: Topics, prefix: str, by_epoch: Truth, by_generation: Rebalanced
) -> None:
    """Let clients of a classic group be replaced by newer ones, one by one, and the other way."""
    topics.create(TOPIC, 4)
    group_id = f"{prefix}/changing"
    group = Group(stage, group_id, by_generation)
    crew = Crew(stage, topics, group_id, by_epoch)
    going, staying = group.consumer("going"), group.consumer("staying")
    group.rebalance([going], {"going": {0, 1, 2, 3}})
    group.rebalance([going, staying], {"going": {0, 1}, "staying": {2, 3}})
    assert staying.commit({2, 3}) == ErrorCode.NONE
    assert going.commit({0, 2}, generation=1) == ErrorCode.ILLEGAL_GENERATION
    going.leave()
    stayed = _Stayed(staying, crew)
    first = Member(crew, stage.line("first", host=15), [TOPIC], f"first-{prefix}")
    _upgrade(stayed, first)
    second = Member(crew, stage.line("second", host=15), [TOPIC], f"second-{prefix}")
    _share(stayed, first, second)
    last_epoch = staying.generation
    for each in (first, second):
        each.leave()
    assert first.commit([(topics.ids[TOPIC], 0)]) == ErrorCode.UNKNOWN_MEMBER_ID
    _downgrade(group, staying, last_epoch)


def _upgrade(stayed: _Stayed, first: Member) -> None:
    first.join()
    # It does not know yet, and may go on as before.
    assert stayed.who.beat() == ErrorCode.REBALANCE_IN_PROGRESS
    stayed.wait()
    stayed.rejoin()
    before = stayed.epochs[0]
    assert stayed.commit({2, 3}) == ErrorCode.NONE
    assert stayed.commit({2}, before) == ErrorCode.NONE
    first.beat()
    first.commit(first.owned)


def _share(stayed: _Stayed, first: Member, second: Member) -> None:
    """Let a third come: whoever has too much gives it up."""
    second.join()
    for _ in range(3):
        stayed.wait()
        first.beat()
        if stayed.who.beat() == ErrorCode.REBALANCE_IN_PROGRESS:
            stayed.rejoin()
        second.beat()
    owned = [stayed.owned, *({part for _, part in each.owned} for each in (first, second))]
    assert sorted(part for each in owned for part in each) == [0, 1, 2, 3]
    assert all(owned)
    assert stayed.commit(stayed.owned) == ErrorCode.NONE
    for epoch in stayed.epochs[:-1]:
        for part in range(4):
            stayed.commit({part}, epoch)
    for each in (first, second):
        each.commit(each.owned)


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

    def __init__(self, who: Consumer, crew: Crew) -> None:
        self.who = who
        self.owned: set[int] = {2, 3}
        self.epochs = [who.generation]
        self._crew = crew

    def wait(self) -> None:
        """Let the coordinator assign anew."""
        self._crew.stage.wait(_INTERVAL_MS)

    def rejoin(self) -> None:
        """Join again, keeping what it has, and give up what it is not to have."""
        self.who.owned = set(self.owned)
        self.who.joined(self.who.join())
        self._crew.watch()
        answer = self.who.sync({}).answer()
        assert answer.error_code == ErrorCode.NONE
        told = codec.decode_message(ConsumerProtocolAssignment.CODEC, answer.assignment)
        self.owned = {part for each in told.assigned_partitions for part in each.partitions}
        self._crew.watch()
        if self.who.generation != self.epochs[-1]:
            self.epochs.append(self.who.generation)

    def commit(self, partitions: set[int], epoch: int | None = None) -> int:
        """Commit at an epoch, by default its own; the coordinator's machine tells the truth."""
        crew, line = self._crew, self.who.line
        epoch = self.who.generation if epoch is None else epoch
        crew.stage.wait(0)
        for each in partitions:
            key = Key(line.number, crew.stage.now_us, TOPIC, each)
            part = (crew.topics.ids[TOPIC], each)
            crew.truth.commits[key] = crew.judge(self.who.member_id, epoch, part)
        return self.who.ask_to_commit(partitions, epoch, line)
