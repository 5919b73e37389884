"""Consumer groups with members that scenarios control, and the expected result of each commit."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from kafkalite.groups.consumer.group import ConsumerGroup
from kafkalite.groups.modern.offset_commit_fencing import RULES, CommitterState, fence_commit
from kafkalite.protocol._generated.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kafkalite.protocol._generated.messages.create_topics import CreateTopicsRequest
from kafkalite.protocol._generated.messages.metadata import MetadataRequest
from kafkalite.protocol._generated.messages.offset_commit import OffsetCommitRequest
from kafkalite.protocol._generated.messages.txn_offset_commit import TxnOffsetCommitRequest
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.spark.truth.simulation import Line, Stage

REBALANCE_TIMEOUT_MS = 60_000
Part = tuple[bytes, int]
"""A topic's id, and a partition."""


class Key(NamedTuple):
    """A partition of a commit, as tables identify it."""

    connection: int
    start_us: int
    topic: str
    partition: int


class Classification(NamedTuple):
    """The expected classification of one partition of a commit."""

    truth: str
    by_rule: dict[str, str]


@dataclass(slots=True)
class Truth:
    """Expected classifications of a scenario's commits."""

    commits: dict[Key, Classification] = field(default_factory=dict)
    undecidable: set[Key] = field(default_factory=set)
    """Commits that a capture cannot decide: a heartbeat was in flight or its response was lost."""


@dataclass(slots=True)
class Topics:
    """Topics of a simulation, by name and id."""

    stage: Stage
    ids: dict[str, bytes] = field(default_factory=dict)

    def create(self, name: str, partitions: int) -> None:
        """Create a topic unless it exists, and request its id by Metadata."""
        if name in self.ids:
            return
        line = self.stage.line("admin")
        topic = CreateTopicsRequest.CreatableTopic(
            name=name, num_partitions=partitions, replication_factor=1
        )
        made = line.ask(CreateTopicsRequest(topics=[topic], timeout_ms=1000), 7)
        assert made.topics[0].error_code == ErrorCode.NONE
        asked = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name=name)])
        self.ids[name] = line.ask(asked, 12).topics[0].topic_id

    def name(self, topic_id: bytes) -> str:
        """Return a topic's name."""
        return next(name for name, known in self.ids.items() if known == topic_id)


@dataclass(slots=True)
class TrackedGroup:
    """A consumer group whose state at the coordinator is recorded after every step."""

    stage: Stage
    topics: Topics
    group_id: str
    truth: Truth
    gains: dict[Part, list[tuple[int, str]]] = field(default_factory=lambda: defaultdict(list))
    """partition → (epoch, member id) of its assignments in order."""

    def group(self) -> ConsumerGroup | None:
        """Return the coordinator's group; None if it is not a consumer group."""
        found = self.stage.groups.directory.groups.get(self.group_id)
        return found if isinstance(found, ConsumerGroup) else None

    def watch(self) -> None:
        """Record new assignments; must be called after every step."""
        group = self.group()
        if group is None:
            return
        for member_id in group.members:
            for topic_id, parts in group.current_of(member_id).assigned.items():
                for partition, epoch in parts.items():
                    given = self.gains[(topic_id, partition)]
                    if (epoch, member_id) not in given:
                        given.append((epoch, member_id))

    def committer_state(self, member_id: str) -> CommitterState | None:
        """Return the coordinator's state of a member."""
        group = self.group()
        if group is None or member_id not in group.members:
            return None
        current = group.current_of(member_id)
        return CommitterState(
            current.member_epoch,
            current.revocation,
            lambda _, topic_id, partition: current.assignment_epoch(topic_id, partition),
        )

    def classify(self, member_id: str, epoch: int, part: Part) -> Classification:
        """Classify a commit now, with the coordinator's own function for each rule."""
        committer_state = self.committer_state(member_id)
        if committer_state is None:
            truth = "zombie" if self._is_zombie(member_id, epoch, part) else "departed"
            return Classification(truth, dict.fromkeys(RULES, "refuse"))
        by_rule = {rule: _ask(rule, epoch, committer_state, part) for rule in RULES}
        held = committer_state.assignment_epoch("", *part)
        if held is not None and held <= epoch:
            truth = "still owned"
        elif self._is_zombie(member_id, epoch, part):
            truth = "zombie"
        else:
            truth = "revoked"
        if epoch == committer_state.member_epoch:
            truth = "current"
        elif not self._was_assigned(member_id, part):
            truth = "never assigned"
        return Classification(truth, by_rule)

    def _is_zombie(self, member_id: str, epoch: int, part: Part) -> bool:
        """Return whether another member got a partition of this one at a later epoch."""
        return self._was_assigned(member_id, part) and any(
            owner != member_id and since > epoch for since, owner in self.gains[part]
        )

    def _was_assigned(self, member_id: str, part: Part) -> bool:
        return any(owner == member_id for _, owner in self.gains[part])


def _ask(rule: str, epoch: int, committer_state: CommitterState, part: Part) -> str:
    try:
        check = fence_commit(rule, epoch, committer_state, lambda _: KafkaError(ErrorCode.NONE, ""))
        if check is not None:
            check("", *part)
    except KafkaError:
        return "refuse"
    return "accept"


@dataclass(slots=True)
class Member:
    """A consumer with its own, possibly outdated, state."""

    tracked: TrackedGroup
    line: Line
    subscribed: list[str]
    member_id: str
    version: int = 1
    epoch: int = 0
    owned: set[Part] = field(default_factory=set)
    assigned: set[Part] = field(default_factory=set)
    """The last assignment; owned partitions beyond it are still to be released."""

    def join(self, *, is_lost: bool = False) -> ConsumerGroupHeartbeatResponse | None:
        """Join the group."""
        self.epoch, self.owned, self.assigned = 0, set(), set()
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.tracked.group_id,
            member_id=self.member_id,
            member_epoch=0,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
            subscribed_topic_names=self.subscribed,
            topic_partitions=[],
        )
        return self._beat(request, is_lost=is_lost)

    def beat(
        self,
        *,
        is_waited_for: bool = True,
        takes_us: int | None = None,
        is_lost: bool = False,
        is_full: bool = False,
    ) -> ConsumerGroupHeartbeatResponse | None:
        """Send a heartbeat; reports owned partitions after releasing some."""
        reports_owned = is_full or self.owned != self.assigned
        if reports_owned:
            self.owned = set(self.assigned)
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.tracked.group_id,
            member_id=self.member_id,
            member_epoch=self.epoch,
            topic_partitions=_nested(self.owned) if reports_owned else None,
        )
        return self._beat(request, is_lost=is_lost, is_waited_for=is_waited_for, takes_us=takes_us)

    def subscribe(self, *topics: str) -> None:
        """Subscribe to other topics."""
        self.subscribed = list(topics)
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.tracked.group_id,
            member_id=self.member_id,
            member_epoch=self.epoch,
            subscribed_topic_names=self.subscribed,
        )
        self._beat(request)

    def leave(self) -> None:
        """Leave the group."""
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.tracked.group_id, member_id=self.member_id, member_epoch=-1
        )
        self._beat(request)

    def _beat(
        self,
        request: ConsumerGroupHeartbeatRequest,
        *,
        is_lost: bool = False,
        is_waited_for: bool = True,
        takes_us: int | None = None,
    ) -> ConsumerGroupHeartbeatResponse | None:
        answer: ConsumerGroupHeartbeatResponse | None = self.line.ask(
            request,
            self.version,
            is_lost=is_lost,
            is_waited_for=is_waited_for,
            takes_us=takes_us,
        )
        self.tracked.watch()
        if answer is not None and not answer.error_code:
            self.member_id = answer.member_id or self.member_id
            self.epoch = answer.member_epoch
            if answer.assignment is not None:
                self.assigned = {
                    (topic.topic_id, partition)
                    for topic in answer.assignment.topic_partitions
                    for partition in topic.partitions
                }
                self.owned |= self.assigned
        return answer

    def commit(
        self,
        parts: Iterable[Part],
        epoch: int | None = None,
        line: Line | None = None,
        *,
        is_decidable: bool = True,
    ) -> int:
        """Commit at an epoch, by default the current one; returns the first error."""
        epoch = self.epoch if epoch is None else epoch
        by_topic: dict[str, list[int]] = defaultdict(list)
        for topic_id, partition in sorted(parts):
            by_topic[self.tracked.topics.name(topic_id)].append(partition)
        topics = [
            OffsetCommitRequest.OffsetCommitRequestTopic(
                name=name,
                partitions=[
                    OffsetCommitRequest.OffsetCommitRequestPartition(
                        partition_index=partition,
                        committed_offset=self.tracked.stage.now_us % 10**6,
                    )
                    for partition in partitions
                ],
            )
            for name, partitions in by_topic.items()
        ]
        request = OffsetCommitRequest(
            group_id=self.tracked.group_id,
            member_id=self.member_id,
            generation_id_or_member_epoch=epoch,
            topics=topics,
        )
        line = line or self.line
        self._note(line, epoch, by_topic, is_decidable=is_decidable)
        answer = line.ask(request, 9)
        return int(answer.topics[0].partitions[0].error_code)

    def _note(
        self,
        line: Line,
        epoch: int,
        by_topic: dict[str, list[int]],
        *,
        is_decidable: bool = True,
    ) -> None:
        tracked = self.tracked
        tracked.stage.wait(0)
        for name, partitions in by_topic.items():
            for partition in partitions:
                key = Key(line.number, tracked.stage.now_us, name, partition)
                part = (tracked.topics.ids[name], partition)
                tracked.truth.commits[key] = tracked.classify(self.member_id, epoch, part)
                if not is_decidable:
                    tracked.truth.undecidable.add(key)

    def commit_in_transaction(
        self, parts: Iterable[Part], line: Line, producer: tuple[str, int, int], epoch: int
    ) -> int:
        """Commit by TxnOffsetCommit for (transactional id, producer id, producer epoch)."""
        by_topic: dict[str, list[int]] = defaultdict(list)
        for topic_id, partition in sorted(parts):
            by_topic[self.tracked.topics.name(topic_id)].append(partition)
        transactional_id, producer_id, producer_epoch = producer
        topics = [
            TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(
                name=name,
                partitions=[
                    TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(
                        partition_index=partition, committed_offset=7
                    )
                    for partition in partitions
                ],
            )
            for name, partitions in by_topic.items()
        ]
        request = TxnOffsetCommitRequest(
            transactional_id=transactional_id,
            group_id=self.tracked.group_id,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            generation_id_or_member_epoch=epoch,
            member_id=self.member_id,
            topics=topics,
        )
        self._note(line, epoch, by_topic)
        answer = line.ask(request, 5)
        return int(answer.topics[0].partitions[0].error_code)


def _nested(parts: Iterable[Part]) -> list[ConsumerGroupHeartbeatRequest.TopicPartitions]:
    by_topic: dict[bytes, list[int]] = defaultdict(list)
    for topic_id, partition in sorted(parts):
        by_topic[topic_id].append(partition)
    return [
        ConsumerGroupHeartbeatRequest.TopicPartitions(topic_id=topic_id, partitions=partitions)
        for topic_id, partitions in by_topic.items()
    ]
