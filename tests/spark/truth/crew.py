"""Members of consumer groups that a story moves, and what coordinators made of each commit."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from kafkalite.groups.consumer.group import ConsumerGroup
from kafkalite.groups.fencing import RULES, Standing, fence_commit
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kafkalite.protocol.messages.create_topics import CreateTopicsRequest
from kafkalite.protocol.messages.metadata import MetadataRequest
from kafkalite.protocol.messages.offset_commit import OffsetCommitRequest
from kafkalite.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.spark.truth.stage import Line, Stage

REBALANCE_TIMEOUT_MS = 60_000
Part = tuple[bytes, int]
"""A topic's id, and a partition."""


class Key(NamedTuple):
    """A partition of a commit, as tables tell it."""

    connection: int
    start_us: int
    topic: str
    partition: int


class Verdict(NamedTuple):
    """What the coordinator's machine and the story know of one partition of a commit."""

    truth: str
    by_rule: dict[str, str]


@dataclass(slots=True)
class Truth:
    """What a story planted, and what the machines held meanwhile."""

    commits: dict[Key, Verdict] = field(default_factory=dict)
    undecidable: set[Key] = field(default_factory=set)
    """Those of which a capture cannot tell: a heartbeat was under way, or its answer was lost."""


@dataclass(slots=True)
class Topics:
    """The topics of a stage, by name and by id."""

    stage: Stage
    ids: dict[str, bytes] = field(default_factory=dict)

    def create(self, name: str, partitions: int) -> None:
        """Make a topic unless it is there, and have a client ask for its id."""
        if name in self.ids:
            return
        line = self.stage.line("admin")
        wanted = CreateTopicsRequest.CreatableTopic(
            name=name, num_partitions=partitions, replication_factor=1
        )
        made = line.ask(CreateTopicsRequest(topics=[wanted], timeout_ms=1000), 7)
        assert made.topics[0].error_code == ErrorCode.NONE
        asked = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name=name)])
        self.ids[name] = line.ask(asked, 12).topics[0].topic_id

    def name(self, topic_id: bytes) -> str:
        """Return a topic's name."""
        return next(name for name, known in self.ids.items() if known == topic_id)


@dataclass(slots=True)
class Crew:
    """A consumer group, watched at its coordinator after every step of a member."""

    stage: Stage
    topics: Topics
    group_id: str
    truth: Truth
    gains: dict[Part, list[tuple[int, str]]] = field(default_factory=lambda: defaultdict(list))
    """partition → (epoch, member) in the order in which they were given it."""

    def group(self) -> ConsumerGroup | None:
        """Return the group as its coordinator has it; None while it is none of this kind."""
        found = self.stage.groups.directory.groups.get(self.group_id)
        return found if isinstance(found, ConsumerGroup) else None

    def watch(self) -> None:
        """Note who was given what since the last look; to be called after every step."""
        group = self.group()
        if group is None:
            return
        for member_id in group.members:
            for topic_id, parts in group.current_of(member_id).assigned.items():
                for partition, epoch in parts.items():
                    given = self.gains[(topic_id, partition)]
                    if (epoch, member_id) not in given:
                        given.append((epoch, member_id))

    def standing(self, member_id: str) -> Standing | None:
        """Return what the coordinator knows of a member now."""
        group = self.group()
        if group is None or member_id not in group.members:
            return None
        current = group.current_of(member_id)
        return Standing(
            current.member_epoch,
            current.revocation,
            lambda _, topic_id, partition: current.assignment_epoch(topic_id, partition),
        )

    def judge(self, member_id: str, epoch: int, part: Part) -> Verdict:
        """Ask the machine's own comparing function what each rule makes of a commit now."""
        standing = self.standing(member_id)
        if standing is None:
            return Verdict("departed", dict.fromkeys(RULES, "refuse"))
        by_rule = {rule: _ask(rule, epoch, standing, part) for rule in RULES}
        held = standing.assignment_epoch("", *part)
        given = self.gains[part]
        if held is not None and held <= epoch:
            truth = "innocent"
        elif any(owner != member_id and since > epoch for since, owner in given):
            truth = "zombie"
        else:
            truth = "given up"
        if epoch == standing.member_epoch:
            truth = "current"
        elif not any(owner == member_id for _, owner in given):
            truth = "never its own"
        return Verdict(truth, by_rule)


def _ask(rule: str, epoch: int, standing: Standing, part: Part) -> str:
    try:
        check = fence_commit(rule, epoch, standing, lambda _: KafkaError(ErrorCode.NONE, ""))
        if check is not None:
            check("", *part)
    except KafkaError:
        return "refuse"
    return "accept"


@dataclass(slots=True)
class Member:
    """One consumer: what it knows of itself, which may be behind."""

    crew: Crew
    line: Line
    subscribed: list[str]
    member_id: str
    version: int = 1
    epoch: int = 0
    owned: set[Part] = field(default_factory=set)
    told: set[Part] = field(default_factory=set)
    """What it was last assigned; what it owns beyond that it has yet to give up."""

    def join(self, *, is_lost: bool = False) -> ConsumerGroupHeartbeatResponse | None:
        """Join the group, as whoever it is."""
        self.epoch, self.owned, self.told = 0, set(), set()
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.crew.group_id,
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
        """Send a heartbeat; one that has given partitions up says what it still owns."""
        gives_up = is_full or self.owned != self.told
        if gives_up:
            self.owned = set(self.told)
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.crew.group_id,
            member_id=self.member_id,
            member_epoch=self.epoch,
            topic_partitions=_nested(self.owned) if gives_up else None,
        )
        return self._beat(request, is_lost=is_lost, is_waited_for=is_waited_for, takes_us=takes_us)

    def subscribe(self, *topics: str) -> None:
        """Subscribe to other topics, and give up what is no longer assigned."""
        self.subscribed = list(topics)
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.crew.group_id,
            member_id=self.member_id,
            member_epoch=self.epoch,
            subscribed_topic_names=self.subscribed,
        )
        self._beat(request)

    def leave(self) -> None:
        """Leave the group for good."""
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.crew.group_id, member_id=self.member_id, member_epoch=-1
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
        self.crew.watch()
        if answer is not None and not answer.error_code:
            self.member_id = answer.member_id or self.member_id
            self.epoch = answer.member_epoch
            if answer.assignment is not None:
                self.told = {
                    (each.topic_id, partition)
                    for each in answer.assignment.topic_partitions
                    for partition in each.partitions
                }
                self.owned |= self.told
        return answer

    def commit(
        self,
        parts: Iterable[Part],
        epoch: int | None = None,
        line: Line | None = None,
        *,
        is_decidable: bool = True,
    ) -> int:
        """Commit these partitions at an epoch, by default the own; return the first error."""
        epoch = self.epoch if epoch is None else epoch
        by_topic: dict[str, list[int]] = defaultdict(list)
        for topic_id, partition in sorted(parts):
            by_topic[self.crew.topics.name(topic_id)].append(partition)
        topics = [
            OffsetCommitRequest.OffsetCommitRequestTopic(
                name=name,
                partitions=[
                    OffsetCommitRequest.OffsetCommitRequestPartition(
                        partition_index=each, committed_offset=self.crew.stage.now_us % 10**6
                    )
                    for each in partitions
                ],
            )
            for name, partitions in by_topic.items()
        ]
        request = OffsetCommitRequest(
            group_id=self.crew.group_id,
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
        crew = self.crew
        crew.stage.wait(0)
        for name, partitions in by_topic.items():
            for partition in partitions:
                key = Key(line.number, crew.stage.now_us, name, partition)
                part = (crew.topics.ids[name], partition)
                crew.truth.commits[key] = crew.judge(self.member_id, epoch, part)
                if not is_decidable:
                    crew.truth.undecidable.add(key)

    def commit_in_transaction(
        self, parts: Iterable[Part], line: Line, producer: tuple[str, int, int], epoch: int
    ) -> int:
        """Commit by TxnOffsetCommit for a producer: (transactional id, producer id, epoch)."""
        by_topic: dict[str, list[int]] = defaultdict(list)
        for topic_id, partition in sorted(parts):
            by_topic[self.crew.topics.name(topic_id)].append(partition)
        transactional_id, producer_id, producer_epoch = producer
        topics = [
            TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(
                name=name,
                partitions=[
                    TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(
                        partition_index=each, committed_offset=7
                    )
                    for each in partitions
                ],
            )
            for name, partitions in by_topic.items()
        ]
        request = TxnOffsetCommitRequest(
            transactional_id=transactional_id,
            group_id=self.crew.group_id,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            generation_id=epoch,
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
