"""Stories of commits in streams groups: tasks come and go as partitions do (KAFKA-19779)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkalite.groups.fencing import Standing
from kafkalite.groups.streams.group import StreamsGroup
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from tests.spark.truth.crew import REBALANCE_TIMEOUT_MS, Crew, Member

if TYPE_CHECKING:
    from tests.spark.truth.crew import Topics, Truth
    from tests.spark.truth.stage import Stage

SETTINGS = {"group.streams.initial.rebalance.delay.ms": "0"}
TOPIC = "orders"
_SUBTOPOLOGY = "reader"
_BEAT_MS = 1_000
_ROUNDS = 5


def commits(stage: Stage, topics: Topics, prefix: str, truth: Truth) -> None:
    """Let instances come one after another, and commit in time, late and far too late."""
    flow = _Flow(stage, topics, f"{prefix}/streams", truth)
    instances: list[_Instance] = []
    past: list[tuple[_Instance, int, list[tuple[bytes, int]]]] = []
    codes: set[int] = set()
    for number in range(4):
        line = stage.line(f"instance-{number}", host=5)
        newcomer = _Instance(flow, line, [TOPIC], f"instance-{number}")
        newcomer.come()
        instances.append(newcomer)
        for _ in range(_ROUNDS):
            for instance in instances:
                instance.tick()
                if instance.owned:
                    instance.commit(instance.owned)
            stage.wait(_BEAT_MS)
        for instance, epoch, owned in past:
            codes |= {instance.commit([part], epoch) for part in owned}
        past += [(each, each.epoch, sorted(each.owned)) for each in instances]
    assert codes == {ErrorCode.NONE, ErrorCode.STALE_MEMBER_EPOCH}
    for instance in instances:
        instance.go()


class _Flow(Crew):
    """A streams group, watched at its coordinator."""

    def watch(self) -> None:
        """Note who was given which task since the last look."""
        group = self._streams()
        for member_id in group.members:
            held = group.current_of(member_id).assigned.active.get(_SUBTOPOLOGY, {})
            for partition, epoch in held.items():
                given = self.gains[(self.topics.ids[TOPIC], partition)]
                if (epoch, member_id) not in given:
                    given.append((epoch, member_id))

    def standing(self, member_id: str) -> Standing | None:
        """Return what the coordinator knows of a member now."""
        group = self._streams()
        if member_id not in group.members:
            return None
        current = group.current_of(member_id)
        return Standing(
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
    """One instance of a streams application."""

    def come(self) -> None:
        """Join with the topology."""
        subtopology = StreamsGroupHeartbeatRequest.Subtopology(
            subtopology_id=_SUBTOPOLOGY, source_topics=[TOPIC]
        )
        self._ask(
            StreamsGroupHeartbeatRequest(
                group_id=self.crew.group_id,
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
        """Send a heartbeat; one that has given tasks up says which it still has."""
        gives_up = self.owned != self.told
        self.owned = set(self.told)
        tasks = StreamsGroupHeartbeatRequest.TaskIds(
            subtopology_id=_SUBTOPOLOGY, partitions=sorted(part for _, part in self.owned)
        )
        self._ask(
            StreamsGroupHeartbeatRequest(
                group_id=self.crew.group_id,
                member_id=self.member_id,
                member_epoch=self.epoch,
                active_tasks=[tasks] if gives_up else None,
                standby_tasks=[] if gives_up else None,
                warmup_tasks=[] if gives_up else None,
            )
        )

    def go(self) -> None:
        """Leave the group for good."""
        self._ask(
            StreamsGroupHeartbeatRequest(
                group_id=self.crew.group_id, member_id=self.member_id, member_epoch=-1
            )
        )

    def _ask(self, request: StreamsGroupHeartbeatRequest) -> None:
        answer = self.line.ask(request, 0)
        assert answer.error_code == ErrorCode.NONE, answer.error_message
        self.crew.watch()
        self.epoch = answer.member_epoch
        if answer.active_tasks is not None:
            topic_id = self.crew.topics.ids[TOPIC]
            self.told = {
                (topic_id, partition)
                for each in answer.active_tasks
                for partition in each.partitions
            }
            self.owned |= self.told
