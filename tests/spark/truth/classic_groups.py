"""Scenarios of commits in classic groups through several generations, some by zombies."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kafkalite.groups.classic.group import ClassicGroup
from kafkalite.protocol import codec
from kafkalite.protocol._generated.messages.delete_groups import DeleteGroupsRequest
from kafkalite.protocol._generated.messages.heartbeat import HeartbeatRequest
from kafkalite.protocol._generated.messages.join_group import JoinGroupRequest
from kafkalite.protocol._generated.messages.leave_group import LeaveGroupRequest
from kafkalite.protocol._generated.messages.offset_commit import OffsetCommitRequest
from kafkalite.protocol._generated.messages.sync_group import SyncGroupRequest
from kafkalite.protocol._generated.records.consumer_protocol_assignment import (
    ConsumerProtocolAssignment,
)
from kafkalite.protocol._generated.records.consumer_protocol_subscription import (
    ConsumerProtocolSubscription,
)
from kafkalite.protocol.error_codes import ErrorCode
from tests.spark.truth.tracked_group import Classification, Key, Truth

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tests.spark.truth.simulation import Line, Stage, Waiting

TOPIC = "payments"
PARTITIONS = 4
SESSION_MS = 30_000
_JOIN, _SYNC, _BEAT, _COMMIT, _LEAVE = 5, 3, 4, 8, 4
_TOOK_MS = 20
Given = dict[str, set[int]]
"""Member → its partitions."""


@dataclass(slots=True)
class Rebalanced:
    """Expected results."""

    truth: Truth = field(default_factory=Truth)
    commits: int = 0
    """Number of all commits, including those that were simply accepted."""


def commits(stage: Stage, prefix: str) -> Rebalanced:
    """Run consumers of classic groups that join, leave, and commit in time, late and too late."""
    found = Rebalanced()
    _grow(Group(stage, f"{prefix}/classic-growing", found))
    _take_place(Group(stage, f"{prefix}/classic-static", found))
    _restart_generations(Group(stage, f"{prefix}/classic-recreated", found))
    _not_consumers(Group(stage, f"{prefix}/classic-other", found))
    return found


def _grow(group: Group) -> None:
    first = group.consumer("first")
    group.rebalance([first], {"first": {0, 1, 2, 3}})
    for _ in range(5):
        assert first.commit({0, 1, 2, 3}) == ErrorCode.NONE
        first.beat()
    second = group.consumer("second")
    joining = second.join()
    assert first.beat() == ErrorCode.REBALANCE_IN_PROGRESS
    # Until all members have joined, the old generation is valid.
    assert first.commit({0, 1}) == ErrorCode.NONE
    rejoining = first.join()
    group.stage.wait(_TOOK_MS)
    _between(group, first, joining, rejoining)
    group.hand_out([first, second], {"first": {0, 1}, "second": {2, 3}})
    assert first.commit({0, 1}) == ErrorCode.NONE
    assert second.commit({2, 3}) == ErrorCode.NONE
    # Partitions that it still owns, lost, and never owned.
    assert first.commit({0, 2, 3}, generation=1) == ErrorCode.ILLEGAL_GENERATION
    assert first.commit({1}, generation=1) == ErrorCode.ILLEGAL_GENERATION
    _shrink(group, first, second)


def _between(group: Group, first: Consumer, joining: Waiting, rejoining: Waiting) -> None:
    """Commit while join responses are in flight, and before partitions are assigned."""
    other = group.stage.line("another-connection", host=14)
    first.commit({0}, generation=1, line=other, is_decidable=False)
    first.joined(rejoining)
    group.consumers[1].joined(joining)
    assert first.commit({0, 1}) == ErrorCode.REBALANCE_IN_PROGRESS
    assert first.commit({0}, generation=1) == ErrorCode.ILLEGAL_GENERATION


def _shrink(group: Group, first: Consumer, second: Consumer) -> None:
    third = group.consumer("third")
    group.rebalance([first, second, third], {"first": {0}, "second": {1}, "third": {2}})
    # Partition 3 is unassigned; 1 and 2 have other owners.
    assert second.commit({3}, generation=2) == ErrorCode.ILLEGAL_GENERATION
    assert second.commit({2, 3}, generation=2) == ErrorCode.ILLEGAL_GENERATION
    assert first.commit({0, 1}, generation=1) == ErrorCode.ILLEGAL_GENERATION
    # It never owned partitions that others had then.
    assert first.commit({2}, generation=2) == ErrorCode.ILLEGAL_GENERATION
    third.leave()
    assert third.commit({2}) == ErrorCode.UNKNOWN_MEMBER_ID
    group.rebalance([first, second], {"first": {0, 1}, "second": {2, 3}})
    assert second.commit({3}, generation=2) == ErrorCode.ILLEGAL_GENERATION
    # Another member has one of the partitions by now.
    assert third.commit({2, 3}) == ErrorCode.UNKNOWN_MEMBER_ID
    for member in (first, second):
        assert member.commit(group.given[-1][1][member.member_id]) == ErrorCode.NONE
        member.leave()


def _take_place(group: Group) -> None:
    """Replace a static member by another with the same instance id."""
    old = group.consumer("old", instance_id="the-one")
    group.rebalance([old], {"old": {0, 1, 2, 3}})
    assert old.commit({0}) == ErrorCode.NONE
    new = group.consumer("new", instance_id="the-one")
    new.joined(new.join())
    assert old.commit({0}) == ErrorCode.FENCED_INSTANCE_ID
    assert new.commit({0}) == ErrorCode.NONE
    new.leave()


def _restart_generations(group: Group) -> None:
    """Delete a group with several generations, and create it again."""
    only = group.consumer("only")
    for _ in range(3):
        group.rebalance([only], {"only": {0, 1, 2, 3}})
        assert only.commit({0, 1}) == ErrorCode.NONE
    only.leave()
    line = group.stage.line("admin", host=14)
    deleted = line.ask(DeleteGroupsRequest(groups_names=[group.group_id]), 2)
    assert deleted.results[0].error_code == ErrorCode.NONE
    group.given.clear()
    again = group.consumer("again")
    group.rebalance([again], {"again": {0, 1, 2, 3}})
    assert again.generation == 1
    assert again.commit({0, 1}) == ErrorCode.NONE
    again.leave()


def _not_consumers(group: Group) -> None:
    """Use assignments that only the members can decode, so that zombies cannot be recognized."""
    group.is_readable = False
    first, second = group.consumer("first"), group.consumer("second")
    group.rebalance([first], {"first": {0, 1, 2, 3}})
    group.rebalance([first, second], {"first": {0, 1}, "second": {2, 3}})
    assert first.commit({0}) == ErrorCode.NONE
    assert first.commit({0, 2}, generation=1) == ErrorCode.ILLEGAL_GENERATION
    for member in (first, second):
        member.leave()


class Group:
    """A classic group, and its leaders' assignments."""

    def __init__(self, stage: Stage, group_id: str, found: Rebalanced) -> None:
        self.stage = stage
        self.group_id = group_id
        self.found = found
        self.consumers: list[Consumer] = []
        self.given: list[tuple[int, Given]] = []
        """(generation, assignment)."""
        self.is_readable = True

    def machine(self) -> ClassicGroup:
        """Return the coordinator's group."""
        found = self.stage.groups.directory.groups[self.group_id]
        assert isinstance(found, ClassicGroup)
        return found

    def consumer(self, name: str, instance_id: str | None = None) -> Consumer:
        """Add a consumer that is not a member yet."""
        line = self.stage.line(f"{name}-of-{self.group_id}", host=13)
        made = Consumer(self, name, line, instance_id)
        self.consumers.append(made)
        return made

    def rebalance(self, members: Sequence[Consumer], given: Mapping[str, set[int]]) -> None:
        """Let members join and receive these assignments."""
        new = [member for member in members if not member.member_id]
        waiting = [(member, member.join()) for member in new]
        waiting += [(member, member.join()) for member in members if member not in new]
        self.stage.wait(_TOOK_MS)
        for pending, join in waiting:
            pending.joined(join)
        self.hand_out(members, given)

    def hand_out(self, members: Sequence[Consumer], given: Mapping[str, set[int]]) -> None:
        """Sync all members, the leader last."""
        leader_id = self.machine().soft.leader_id
        leader = next(member for member in members if member.member_id == leader_id)
        waiting = [member.sync({}) for member in members if member is not leader]
        by_id = {member.member_id: given.get(member.name, set()) for member in members}
        waiting.append(leader.sync(by_id))
        self.given.append((leader.generation, by_id))
        for pending in waiting:
            assert pending.answer().error_code == ErrorCode.NONE
        self.stage.wait(_TOOK_MS)

    def classify(self, member_id: str, generation: int, partition: int) -> str:
        """Classify a commit by the coordinator's state and past assignments."""
        soft = self.machine().soft
        is_member = member_id in soft.members
        if is_member and generation == soft.generation_id:
            return "current"
        if not self.is_readable:
            return "undecidable" if is_member else "departed"
        then = next((given for number, given in self.given if number == generation), {})
        since = [given for number, given in self.given if number > generation]
        was_assigned = partition in then.get(member_id, ())
        if was_assigned and any(
            partition in had for step in since for who, had in step.items() if who != member_id
        ):
            return "zombie"
        if not is_member:
            return "departed"
        if not was_assigned:
            return "never assigned"
        is_owner = all(partition in step.get(member_id, ()) for step in since)
        return "still owned" if is_owner else "revoked"


class Consumer:
    """A consumer of a classic group."""

    def __init__(self, group: Group, name: str, line: Line, instance_id: str | None) -> None:
        self.name = name
        self.member_id = ""
        self.generation = -1
        self.topic, self.topics = TOPIC, [TOPIC]
        self.owned: set[int] = set()
        """Owned partitions in its subscription; empty unless it retains some while it joins."""
        self.line = line
        self._group = group
        self._instance_id = instance_id

    def join(self) -> Waiting:
        """Send JoinGroup; a new dynamic member first receives its id."""
        if not self.member_id and self._instance_id is None:
            answer = self.line.ask(self._join_request(), _JOIN)
            assert answer.error_code == ErrorCode.MEMBER_ID_REQUIRED
            self.member_id = answer.member_id
        return self.line.send(self._join_request(), _JOIN)

    def joined(self, join: Waiting) -> None:
        """Store the response."""
        answer = join.answer()
        assert answer.error_code == ErrorCode.NONE, answer
        self.member_id, self.generation = answer.member_id, answer.generation_id

    def _join_request(self) -> JoinGroupRequest:
        row = ConsumerProtocolSubscription.TopicPartition
        owned = [row(topic=self.topic, partitions=sorted(self.owned))] if self.owned else []
        metadata = codec.encode_value(
            ConsumerProtocolSubscription(topics=self.topics, owned_partitions=owned), 1
        )
        return JoinGroupRequest(
            group_id=self._group.group_id,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=SESSION_MS,
            member_id=self.member_id,
            group_instance_id=self._instance_id,
            protocol_type="consumer",
            protocols=[
                JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=bytes(metadata))
            ],
        )

    def sync(self, given: Given) -> Waiting:
        """Send SyncGroup; the leader's has the assignments."""
        rows = [
            SyncGroupRequest.SyncGroupRequestAssignment(
                member_id=member_id, assignment=self._assignment(partitions)
            )
            for member_id, partitions in given.items()
        ]
        request = SyncGroupRequest(
            group_id=self._group.group_id,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self._instance_id,
            assignments=rows,
        )
        return self.line.send(request, _SYNC)

    def _assignment(self, partitions: Iterable[int]) -> bytes:
        if not self._group.is_readable:
            return b"\0\1\0\0\0\x63"
        row = ConsumerProtocolAssignment.TopicPartition
        rows = [row(topic=self.topic, partitions=sorted(partitions))]
        return bytes(codec.encode_value(ConsumerProtocolAssignment(assigned_partitions=rows), 1))

    def beat(self) -> int:
        """Send a heartbeat; returns its error."""
        request = HeartbeatRequest(
            group_id=self._group.group_id,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self._instance_id,
        )
        return int(self.line.ask(request, _BEAT).error_code)

    def leave(self) -> None:
        """Leave the group."""
        identity = LeaveGroupRequest.MemberIdentity(
            member_id=self.member_id, group_instance_id=self._instance_id
        )
        request = LeaveGroupRequest(group_id=self._group.group_id, members=[identity])
        assert self.line.ask(request, _LEAVE).error_code == ErrorCode.NONE

    def commit(
        self,
        partitions: set[int],
        generation: int | None = None,
        line: Line | None = None,
        *,
        is_decidable: bool = True,
    ) -> int:
        """Commit at a generation, by default the current one; stores the expected result."""
        generation = self.generation if generation is None else generation
        group, line = self._group, line or self.line
        group.stage.wait(0)
        truths: dict[Key, str] = defaultdict(str)
        for partition in partitions:
            key = Key(line.number, group.stage.now_us, self.topic, partition)
            truths[key] = group.classify(self.member_id, generation, partition)
        code = self.ask_to_commit(partitions, generation, line)
        self._note(truths, code, is_decidable=is_decidable)
        return code

    def ask_to_commit(self, partitions: set[int], generation: int, line: Line) -> int:
        """Commit; returns the error."""
        rows = [
            OffsetCommitRequest.OffsetCommitRequestPartition(
                partition_index=each, committed_offset=each
            )
            for each in sorted(partitions)
        ]
        request = OffsetCommitRequest(
            group_id=self._group.group_id,
            member_id=self.member_id,
            group_instance_id=self._instance_id,
            generation_id_or_member_epoch=generation,
            topics=[OffsetCommitRequest.OffsetCommitRequestTopic(name=self.topic, partitions=rows)],
        )
        return int(line.ask(request, _COMMIT).topics[0].partitions[0].error_code)

    def _note(self, truths: Mapping[Key, str], code: int, *, is_decidable: bool) -> None:
        found = self._group.found
        found.commits += 1
        if code == ErrorCode.NONE and is_decidable:
            assert set(truths.values()) == {"current"}
            return
        decision = "accept" if code == ErrorCode.NONE else "refuse"
        for key, truth in truths.items():
            found.truth.commits[key] = Classification(truth, {"strict": decision})
            if not is_decidable:
                found.truth.undecidable.add(key)
