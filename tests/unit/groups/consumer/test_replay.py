"""Decisions, replay of the log and replay of the compacted log give the same state."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from kafkalite.coordinator.contract import CoordinatorRecord, CoordinatorResult
from kafkalite.groups.consumer.consumer_group_records import member_metadata_of
from kafkalite.protocol._generated.records.consumer_group_member_metadata import (
    ConsumerGroupMemberMetadataValue,
)
from kafkalite.protocol.errors import KafkaError
from tests.effort import examples
from tests.unit.groups.consumer.stage import G, Stage, state_of

MEMBERS = ("a", "b", "c")
INSTANCES = (None, None, "i", "j")
TOPICS = ("T", "U", "V")
REGEXES = (None, None, None, "", "[TU]", "V")


@dataclass(frozen=True)
class Command:
    kind: str
    member: str = "a"
    instance: str | None = None
    topics: tuple[str, ...] | None = None
    regex: str | None = None
    lets_go: bool = True
    number: int = 0


commands = st.builds(
    Command,
    kind=st.sampled_from(
        ["join", "join", "beat", "beat", "beat", "leave", "away", "wait", "cluster"]
    ),
    member=st.sampled_from(MEMBERS),
    instance=st.sampled_from(INSTANCES),
    topics=st.none() | st.lists(st.sampled_from(TOPICS), unique=True).map(tuple),
    regex=st.sampled_from(REGEXES),
    lets_go=st.booleans(),
    number=st.integers(0, 5),
)


def carry_out(stage: Stage, command: Command) -> None:
    group = stage.directory.groups.get(G)
    current = stage.group.current_of(command.member) if group is not None else None
    match command.kind:
        case "join":
            stage.join(
                command.member,
                command.topics or (),
                instance_id=command.instance,
                regex=command.regex,
                assignor="range" if command.number == 0 else None,
            )
        case "beat" if current is not None:
            owned = {
                topic_id.lstrip(b".").decode(): sorted(epochs)
                for topic_id, epochs in current.assigned.items()
            }
            stage.beat(
                command.member,
                current.member_epoch,
                owned if command.lets_go else None,
                instance_id=command.instance,
                topics=command.topics if command.number == 0 else None,
                regex=command.regex if command.number == 1 else None,
            )
        case "leave":
            stage.beat(command.member, -1, instance_id=command.instance)
        case "away":
            stage.beat(command.member, -2, instance_id=command.instance)
        case "wait":
            stage.advance((0, 10, 1_500, 11_000, 46_000, 301_000)[command.number])
        case "cluster":
            stage.change_topics(dict.fromkeys(TOPICS[: command.number], command.number + 1))
        case _:
            pass


def check_invariants(stage: Stage) -> None:
    if G not in stage.directory.groups:
        return
    group = stage.group
    assert group.target_epoch <= group.epoch
    assert group.current.keys() == group.members.keys()
    assert group.target.keys() <= group.members.keys()
    owners: dict[tuple[bytes, int], str] = {}
    for member_id, current in group.current.items():
        assert current.member_epoch <= group.target_epoch
        for owned in (current.assigned, current.pending_revocation):
            for topic_id, epochs in owned.items():
                assert epochs
                for partition, epoch in epochs.items():
                    assert epoch <= max(current.member_epoch, group.target_epoch)
                    assert owners.setdefault((topic_id, partition), member_id) == member_id
                    assert group.owner_of(topic_id, partition) == member_id


@settings(max_examples=examples(150))
@given(st.lists(commands, max_size=40))
def test_replay_gives_the_state_of_the_decisions(script: list[Command]) -> None:
    stage = Stage({"T": 2, "U": 3})
    for command in script:
        # A refused request changes nothing, so it is a valid command.
        with contextlib.suppress(KafkaError):
            carry_out(stage, command)
        check_invariants(stage)
    decided = state_of(stage.directory.groups.get(G))
    for log in (stage.log, stage.compacted(tombstones=True), stage.compacted()):
        replayed = Stage({})
        for record in log:
            replayed.replay(record)
        assert state_of(replayed.directory.groups.get(G)) == decided


def test_tombstones_of_a_group_remove_all_its_state() -> None:
    stage = Stage({"T": 2})
    stage.join("a", instance_id="i", regex="T")
    stage.join("b")
    stage.advance(0)
    tombstones = stage.group.tombstones()
    assert [type(t.key).__name__.removeprefix("ConsumerGroup") for t in tombstones] == [
        "CurrentMemberAssignmentKey", "CurrentMemberAssignmentKey",
        "TargetAssignmentMemberKey", "TargetAssignmentMemberKey",
        "TargetAssignmentMetadataKey",
        "MemberMetadataKey", "MemberMetadataKey",
        "RegularExpressionKey",
        "PartitionMetadataKey",
        "MetadataKey",
    ]  # fmt: skip
    stage.run(CoordinatorResult(response=None, records=tombstones))
    assert stage.directory.groups == {}
    assert stage.compacted() == []


def test_tombstones_of_a_missing_group_change_nothing() -> None:
    stage = Stage()
    stage.join("a")
    for record in stage.log:
        empty = Stage()
        empty.replay(CoordinatorRecord(record.key, None))
        assert empty.directory.groups == {}


def test_sets_of_names_are_shared_unless_large() -> None:
    """Shared sets stay in a cache, even after their members are removed."""
    for count, is_shared in ((10, True), (10_000, False)):
        value = ConsumerGroupMemberMetadataValue(
            subscribed_topic_names=[f"t{number}" for number in range(count)]
        )
        first, again = member_metadata_of(value), member_metadata_of(value)
        assert first.topic_names == again.topic_names == set(value.subscribed_topic_names)
        assert (first.topic_names is again.topic_names) is is_shared
