"""Scenarios of commits in streams groups, with tasks that move like partitions (KAFKA-19779)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkalite.groups.modern.offset_commit_fencing import CommitterState
from kafkalite.groups.streams.group import StreamsGroup
from kafkalite.protocol._generated.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
)
from kafkalite.protocol.error_codes import ErrorCode
from tests.spark.truth.tracked_group import REBALANCE_TIMEOUT_MS, Member, TrackedGroup

if TYPE_CHECKING:
    from tests.spark.truth.simulation import Stage
    from tests.spark.truth.tracked_group import Topics, Truth

SETTINGS = {"group.streams.initial.rebalance.delay.ms": "0"}
TOPIC = "orders"
_SUBTOPOLOGY = "reader"
_BEAT_MS = 1_000
_ROUNDS = 5


def commits(stage: Stage, topics: Topics, prefix: str, truth: Truth) -> None:
    """Start instances one after another, which commit in time, late and too late."""
    flow = _Flow(stage, topics, f"{prefix}/streams", truth)
    instances: list[_Instance] = []
    past: list[tuple[_Instance, int, list[tuple[bytes, int]]]] = []
    codes: set[int] = set()
    for number in range(4):
        line = stage.line(f"instance-{number}", host=5)
        instance_ = _Instance(flow, line, [TOPIC], f"instance-{number}")
        instance_.come()
        instances.append(instance_)
        for _ in range(_ROUNDS):
            for instance in instances:
                instance.tick()
                if instance.owned:
                    instance.commit(instance.owned)
            stage.wait(_BEAT_MS)
        for instance, epoch, owned in past:
            codes |= {instance.commit([part], epoch) for part in owned}
        past += [(instance, instance.epoch, sorted(instance.owned)) for instance in instances]
    assert codes == {ErrorCode.NONE, ErrorCode.STALE_MEMBER_EPOCH}
    for instance in instances:
        instance.go()


class _Flow(TrackedGroup):
    """A streams group whose state at the coordinator is recorded."""

    def watch(self) -> None:
        """Record new task assignments."""
        group = self._streams()
        for member_id in group.members:
            held = group.current_of(member_id).assigned.active.get(_SUBTOPOLOGY, {})
            for partition, epoch in held.items():
                given = self.gains[(self.topics.ids[TOPIC], partition)]
                if (epoch, member_id) not in given:
                    given.append((epoch, member_id))

    def committer_state(self, member_id: str) -> CommitterState | None:
        """Return the coordinator's state of a member."""
        group = self._streams()
        if member_id not in group.members:
            return None
        current = group.current_of(member_id)
        return CommitterState(
            current.member_epoch,
            current.revocation,
            lambda _, __, partition: current.assignment_epoch(_SUBTOPOLOGY, partition),
        )

    def _streams(self) -> StreamsGroup:
        group = self.stage.groups.directory.groups[self.group_id]
        assert isinstance(group, StreamsGroup)
        return group


@dataclass(slots=True)
class _Instance(Member):
    """An instance of a streams application."""

    def come(self) -> None:
        """Join with the topology."""
        subtopology = StreamsGroupHeartbeatRequest.Subtopology(
            subtopology_id=_SUBTOPOLOGY, source_topics=[TOPIC]
        )
        self._ask(
            StreamsGroupHeartbeatRequest(
                group_id=self.tracked.group_id,
                member_id=self.member_id,
                rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
                topology=StreamsGroupHeartbeatRequest.Topology(
                    epoch=0, subtopologies=[subtopology]
                ),
                active_tasks=[],
                standby_tasks=[],
                warmup_tasks=[],
                process_id=self.member_id,
            )
        )

    def tick(self) -> None:
        """Send a heartbeat; reports owned tasks after releasing some."""
        reports_owned = self.owned != self.assigned
        self.owned = set(self.assigned)
        tasks = StreamsGroupHeartbeatRequest.TaskIds(
            subtopology_id=_SUBTOPOLOGY, partitions=sorted(part for _, part in self.owned)
        )
        self._ask(
            StreamsGroupHeartbeatRequest(
                group_id=self.tracked.group_id,
                member_id=self.member_id,
                member_epoch=self.epoch,
                active_tasks=[tasks] if reports_owned else None,
                standby_tasks=[] if reports_owned else None,
                warmup_tasks=[] if reports_owned else None,
            )
        )

    def go(self) -> None:
        """Leave the group."""
        self._ask(
            StreamsGroupHeartbeatRequest(
                group_id=self.tracked.group_id, member_id=self.member_id, member_epoch=-1
            )
        )

    def _ask(self, request: StreamsGroupHeartbeatRequest) -> None:
        answer = self.line.ask(request, 0)
        assert answer.error_code == ErrorCode.NONE, answer.error_message
        self.tracked.watch()
        self.epoch = answer.member_epoch
        if answer.active_tasks is not None:
            topic_id = self.tracked.topics.ids[TOPIC]
            self.assigned = {
                (topic_id, partition)
                for active_task in answer.active_tasks
                for partition in active_task.partitions
            }
            self.owned |= self.assigned
