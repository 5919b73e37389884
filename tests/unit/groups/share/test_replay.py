"""Decisions, replay of the log and replay of the compacted log give the same state."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from kafkalite.coordinator.contract import CoordinatorResult
from kafkalite.groups.share.group import ShareGroup
from kafkalite.protocol.errors import KafkaError
from tests.effort import examples
from tests.unit.groups.consumer.stage import G, topic_id
from tests.unit.groups.share.stage import ShareStage, kinds, state_of

MEMBERS = ("a", "b", "c")
TOPICS = ("T", "U", "V")


@dataclass(frozen=True)
class Command:
    kind: str
    member: str = "a"
    topics: tuple[str, ...] = ("T",)
    number: int = 0


commands = st.builds(
    Command,
    kind=st.sampled_from(
        [
            "join",
            "join",
            "beat",
            "beat",
            "beat",
            "done",
            "leave",
            "wait",
            "cluster",
            "alter",
            "forget",
            "delete",
            "restart",
        ]
    ),
    member=st.sampled_from(MEMBERS),
    topics=st.lists(st.sampled_from(TOPICS), unique=True, min_size=1).map(tuple),
    number=st.integers(0, 5),
)


def carry_out(stage: ShareStage, command: Command) -> None:
    group = stage.directory.groups.get(G)
    match command.kind:
        case "join":
            stage.join(command.member, command.topics)
        case "beat" if isinstance(group, ShareGroup):
            epoch = group.current_of(command.member).member_epoch
            topics = command.topics if command.number == 0 else None
            stage.beat(command.member, epoch, topics)
        case "done":
            stage.carry_out()
        case "leave":
            stage.beat(command.member, -1)
        case "wait":
            stage.advance((0, 999, 1_001, 29_999, 45_000, 45_001)[command.number])
        case "cluster":
            stage.change_topics(dict.fromkeys(command.topics, 1 + command.number))
        case "restart":
            stage.restart()
        case _:
            administer(stage, command)


def administer(stage: ShareStage, command: Command) -> None:
    """Run an administrator's request completely or only in part."""
    groups, goes_on = stage.groups, command.number % 2
    there = [name for name in command.topics if name in stage.directory.image.topics]
    match command.kind:
        case "alter":
            offsets = {topic_id(name): {0: command.number} for name in there}
            starts = stage.run(groups.alter_offsets(G, offsets))
            if goes_on and G in stage.directory.groups:
                stage.run(groups.record_initialized_partitions(G, starts))
        case "forget":
            doomed = stage.run(groups.begin_deleting_offsets(G, command.topics))
            if goes_on:
                stage.run(groups.record_deleted_state(G, list(doomed.partitions)))
        case "delete":
            stage.run(groups.begin_deleting_group(G))
            if goes_on:
                stage.run(CoordinatorResult(None, stage.group.tombstones()))


def check_invariants(stage: ShareStage) -> None:
    """Epochs are ordered, and partitions without share state are not assigned."""
    group = stage.directory.groups.get(G)
    if not isinstance(group, ShareGroup):
        return
    assert group.target_epoch <= group.epoch
    if "TargetAssignmentMetadata" in kinds(stage.written):
        there = group.share_partitions().initialized
        for target in group.target.values():
            for topic, partitions in target.items():
                assert not partitions or partitions <= there[topic].partitions
    assert group.members.keys() == group.current.keys()
    for current in group.current.values():
        assert current.previous_member_epoch <= current.member_epoch <= group.target_epoch


def assert_replay_equals_decisions(stage: ShareStage) -> None:
    """Compare the state of the decisions with the state after replay of the log."""
    decided = state_of(stage.directory.groups.get(G))
    for log in (stage.log, stage.compacted()):
        other = ShareStage({"T": 3, "U": 2})
        for record in log:
            other.replay(record)
        assert state_of(other.directory.groups.get(G)) == decided


@settings(max_examples=examples(150), deadline=None)
@given(st.lists(commands, max_size=25))
def test_replay_gives_the_state_of_the_decisions(history: list[Command]) -> None:
    stage = ShareStage({"T": 3, "U": 2})
    epoch = 0
    for command in history:
        with contextlib.suppress(KafkaError):
            carry_out(stage, command)
        check_invariants(stage)
        group = stage.directory.groups.get(G)
        is_there = isinstance(group, ShareGroup)
        assert not is_there or stage.group.epoch >= epoch
        epoch = stage.group.epoch if is_there else 0
        assert_replay_equals_decisions(stage)
    decided = state_of(stage.directory.groups.get(G))
    for log in (None, stage.compacted(), stage.compacted(tombstones=True)):
        stage.restart(log)
        assert state_of(stage.directory.groups.get(G)) == decided


def test_a_restart_repeats_unfinished_initializations() -> None:
    stage = ShareStage()
    stage.join("a")
    (initialization,) = stage.pending_intents
    stage.restart()
    assert stage.pending_intents == [initialization]
    stage.carry_out()
    stage.restart()
    assert stage.pending_intents == []
