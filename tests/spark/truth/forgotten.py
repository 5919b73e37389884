"""Stories of committed offsets that a retention takes away, and of those that it does not."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kafkalite.protocol.messages.offset_commit import OffsetCommitRequest
from kafkalite.protocol.messages.offset_fetch import OffsetFetchRequest
from kafkalite.protocol.messages.produce import ProduceRequest
from tests.conformance.batches import Batch
from tests.spark.truth.crew import Crew, Member, Topics, Truth

if TYPE_CHECKING:
    from tests.spark.truth.stage import Line, Stage

TOPIC = "visited"
PARTITIONS = 2
RETENTION_MIN = 60
SWEEP_MS = 600_000
ALONE_AT = 5


@dataclass(slots=True)
class Forgotten:
    """What there is to find: (group, fate) of every offset that goes, and what a broker said."""

    fates: set[tuple[str, str]] = field(default_factory=set)
    missing: dict[str, bool] = field(default_factory=dict)
    """A group that came back → whether its broker had lost its offset by then."""
    spared: dict[str, bool] = field(default_factory=dict)
    """A group that an older rule had robbed → whether it asked for its offset then."""
    alone: int = 0
    """The commits of nobody who is a member."""
    lags: dict[str, int] = field(default_factory=dict)
    """A group → how far behind it was."""


def offsets(stage: Stage, topics: Topics, prefix: str) -> Forgotten:
    """Let groups go for longer than offsets are kept, for less, and not at all."""
    truth = Forgotten()
    topics.create(TOPIC, PARTITIONS)

    def member(name: str) -> Member:
        crew = Crew(stage, topics, f"{prefix}/{name}", Truth())
        made = Member(crew, stage.line(f"c-{name}", host=11), [TOPIC], f"m-{prefix}-{name}")
        made.join()
        made.commit(made.owned)
        return made

    away, brief, gone, late = (member(name) for name in ("away", "brief", "gone", "late"))
    simple = stage.line("simple", host=12)
    _commit_alone(simple, f"{prefix}/simple")
    _produce(simple, topics.ids[TOPIC], records=12)
    _commit_alone(simple, f"{prefix}/laggard")
    truth.alone = 2
    truth.lags[f"{prefix}/laggard"] = 12 - ALONE_AT
    for each in (away, brief, gone):
        each.leave()
    _live_on(stage, late, minutes=RETENTION_MIN // 2)
    brief.join()
    truth.missing[f"{prefix}/brief"] = _ask(brief.line, f"{prefix}/brief")
    brief.commit(brief.owned)
    _live_on(stage, late, minutes=RETENTION_MIN, also=brief)
    for name in ("away", "simple"):
        truth.fates.add((f"{prefix}/{name}", "lost"))
        truth.missing[f"{prefix}/{name}"] = _ask(simple, f"{prefix}/{name}")
    # Before KIP-211 their offsets had gone meanwhile, members or not.
    assert not _ask(late.line, f"{prefix}/late")
    truth.spared = {f"{prefix}/late": True, f"{prefix}/brief": False}
    truth.fates.add((f"{prefix}/gone", "expired"))
    truth.fates.add((f"{prefix}/laggard", "expired"))
    late.commit(late.owned)
    late.leave()
    truth.fates.add((f"{prefix}/late", "at risk"))
    brief.commit(brief.owned)
    brief.leave()
    truth.fates.add((f"{prefix}/brief", "at risk"))
    return truth


def _live_on(stage: Stage, member: Member, *, minutes: int, also: Member | None = None) -> None:
    """Stay for so long, and long enough for the broker's own sweep to have come by."""
    for _ in range((minutes * 60_000 + SWEEP_MS) // 30_000):
        stage.wait(30_000)
        member.beat()
        if also is not None:
            also.beat()


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
    """Ask for a group's offset, and return whether its broker has none."""
    topic = OffsetFetchRequest.OffsetFetchRequestTopics(name=TOPIC, partition_indexes=[0])
    group = OffsetFetchRequest.OffsetFetchRequestGroup(group_id=group_id, topics=[topic])
    answer = line.ask(OffsetFetchRequest(groups=[group]), 8)
    return bool(answer.groups[0].topics[0].partitions[0].committed_offset < 0)
