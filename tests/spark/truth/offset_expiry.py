"""Scenarios of committed offsets that expire, and of some that do not."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from kafkalite.protocol._generated.messages.offset_commit import OffsetCommitRequest
from kafkalite.protocol._generated.messages.offset_fetch import OffsetFetchRequest
from kafkalite.protocol._generated.messages.produce import ProduceRequest
from tests.conformance.batches import Batch
from tests.spark.truth.classic_groups import Group
from tests.spark.truth.tracked_group import Member, Topics, TrackedGroup, Truth

if TYPE_CHECKING:
    from tests.spark.truth.classic_groups import Consumer, Rebalanced
    from tests.spark.truth.simulation import Line, Stage

TOPIC = "visited"
OTHER = "orders"
PARTITIONS = 2
RETENTION_MIN = 60
SWEEP_MS = 600_000
ALONE_AT = 5
_BEAT_MS = 20_000


@dataclass(slots=True)
class Forgotten:
    """Expected results: (group id, outcome) of every offset that expires, and responses."""

    outcomes: set[tuple[str, str]] = field(default_factory=set)
    missing: dict[str, bool] = field(default_factory=dict)
    """Group that returned → whether its broker had expired the offset by then."""
    spared: dict[str, bool] = field(default_factory=dict)
    """Group with an offset expired by the old rule → whether it fetched the offset afterwards."""
    alone: int = 0
    """Number of commits by clients that are not members."""
    lags: dict[str, int] = field(default_factory=dict)
    """Group → its lag."""


class _Beats(Protocol):
    """A member that sends heartbeats."""

    def beat(self) -> object:
        """Send a heartbeat."""


def offsets(stage: Stage, topics: Topics, prefix: str, by_generation: Rebalanced) -> Forgotten:
    """Run groups that are empty for longer than the retention, for less, and not at all."""
    truth = Forgotten()
    topics.create(TOPIC, PARTITIONS)
    topics.create(OTHER, 1)

    def member(name: str) -> Member:
        made = _member(TrackedGroup(stage, topics, f"{prefix}/{name}", Truth()), name)
        made.commit(made.owned)
        return made

    away, brief, gone, late = (member(name) for name in ("away", "brief", "gone", "late"))
    unread = _unread(stage, topics, prefix, by_generation)
    simple = stage.line("simple", host=12)
    _commit_alone(simple, f"{prefix}/simple")
    _produce(simple, topics.ids[TOPIC], records=12)
    _commit_alone(simple, f"{prefix}/laggard")
    truth.alone = 2
    truth.lags[f"{prefix}/laggard"] = 12 - ALONE_AT
    for each in (away, brief, gone):
        each.leave()
    _live_on(stage, late, *unread, minutes=RETENTION_MIN // 2)
    brief.join()
    truth.missing[f"{prefix}/brief"] = _ask(brief.line, f"{prefix}/brief")
    brief.commit(brief.owned)
    _live_on(stage, late, brief, *unread, minutes=RETENTION_MIN)
    for name in ("away", "simple", "narrow", "narrow-classic"):
        truth.outcomes.add((f"{prefix}/{name}", "lost"))
        truth.missing[f"{prefix}/{name}"] = _ask(simple, f"{prefix}/{name}")
    # By the rule before KIP-211 their offsets had expired, members or not.
    assert not _ask(late.line, f"{prefix}/late")
    truth.spared = {f"{prefix}/{name}": True for name in ("late", "shared")}
    truth.spared[f"{prefix}/brief"] = False
    assert not _ask(late.line, f"{prefix}/shared")
    truth.outcomes.add((f"{prefix}/gone", "expired"))
    truth.outcomes.add((f"{prefix}/laggard", "expired"))
    late.commit(late.owned)
    late.leave()
    truth.outcomes.add((f"{prefix}/late", "at risk"))
    brief.commit(brief.owned)
    brief.leave()
    truth.outcomes.add((f"{prefix}/brief", "at risk"))
    unread[0].commit(unread[0].owned)
    for member_ in unread:
        member_.leave()
    truth.outcomes.add((f"{prefix}/shared", "at risk"))
    return truth


def _member(tracked: TrackedGroup, name: str) -> Member:
    member_id = f"m-{tracked.group_id}-{name}"
    made = Member(tracked, tracked.stage.line(f"c-{name}", host=11), [TOPIC], member_id)
    made.join()
    return made


def _unread(
    stage: Stage, topics: Topics, prefix: str, by_generation: Rebalanced
) -> tuple[Member, Member, Member, Consumer]:
    """Let members of three groups subscribe to another topic; in one group a reader remains."""
    tracked = TrackedGroup(stage, topics, f"{prefix}/shared", Truth())
    reads, stops = _member(tracked, "reads"), _member(tracked, "stops")
    narrow = _member(TrackedGroup(stage, topics, f"{prefix}/narrow", Truth()), "narrow")
    narrow.commit(narrow.owned)
    stops.subscribe(OTHER)
    stage.wait(_BEAT_MS)
    for each in (stops, reads, reads):
        each.beat()
    assert reads.owned == {(topics.ids[TOPIC], part) for part in range(PARTITIONS)}
    reads.commit(reads.owned)
    narrow.subscribe(OTHER)
    group = Group(stage, f"{prefix}/narrow-classic", by_generation)
    classic = group.consumer("narrow")
    classic.topic, classic.topics = TOPIC, [TOPIC, OTHER]
    group.rebalance([classic], {"narrow": set(range(PARTITIONS))})
    classic.commit(set(range(PARTITIONS)))
    classic.topics = [OTHER]
    group.rebalance([classic], {})
    return reads, stops, narrow, classic


def _live_on(stage: Stage, *members: _Beats, minutes: int) -> None:
    """Send heartbeats for a number of minutes, and for one more sweep of the broker."""
    for _ in range((minutes * 60_000 + SWEEP_MS) // _BEAT_MS):
        stage.wait(_BEAT_MS)
        for member in members:
            member.beat()


def _commit_alone(line: Line, group_id: str) -> None:
    part = OffsetCommitRequest.OffsetCommitRequestPartition(
        partition_index=0, committed_offset=ALONE_AT
    )
    topic = OffsetCommitRequest.OffsetCommitRequestTopic(name=TOPIC, partitions=[part])
    line.ask(OffsetCommitRequest(group_id=group_id, topics=[topic]), 8)


def _produce(line: Line, topic_id: bytes, records: int) -> None:
    batch = Batch(values=(b"v",) * records).encode()
    part = ProduceRequest.PartitionProduceData(index=0, records=batch)
    topic = ProduceRequest.TopicProduceData(topic_id=topic_id, partition_data=[part])
    answer = line.ask(ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[topic]), 13)
    assert not answer.responses[0].partition_responses[0].error_code


def _ask(line: Line, group_id: str) -> bool:
    """Fetch a group's offset; returns whether the broker has none."""
    topic = OffsetFetchRequest.OffsetFetchRequestTopics(name=TOPIC, partition_indexes=[0])
    group = OffsetFetchRequest.OffsetFetchRequestGroup(group_id=group_id, topics=[topic])
    answer = line.ask(OffsetFetchRequest(groups=[group]), 8)
    return bool(answer.groups[0].topics[0].partitions[0].committed_offset < 0)
