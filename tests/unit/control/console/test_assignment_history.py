"""Assignments of the members of a group, read from the log of its coordinator."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.control.console.assignment_history import AssignmentCollector
from kafkalite.control.console.source import MemberAssignment
from kafkalite.coordinator.contract import CoordinatorRecord
from kafkalite.protocol._generated.records.share_group_current_member_assignment import (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupCurrentMemberAssignmentValue,
)
from kafkalite.protocol._generated.records.streams_group_current_member_assignment import (
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupCurrentMemberAssignmentValue,
)
from kafkalite.protocol.uuids import uuid_to_text
from tests.unit.control.console.served_console import NOW_MS, ServedConsole, served_console
from tests.unit.control.group_members import TOPIC

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

ID = bytes(range(16))


@pytest.fixture
async def console() -> AsyncIterator[ServedConsole]:
    async with served_console() as found:
        yield found


async def test_assignments_of_a_classic_group_are_found(console: ServedConsole) -> None:
    member, generation = await console.members.join_classic("shop")
    await console.members.join_classic("other")
    found = (await console.source.commits("shop")).assignments
    assert found[-1] == MemberAssignment(NOW_MS, member, generation, {TOPIC: (0, 1)})
    assert {each.member_id for each in found} == {member}


async def test_assignments_of_a_consumer_group_are_found(console: ServedConsole) -> None:
    await console.members.join_consumer("shop", "m")
    console.clock.advance(10)
    await console.members.join_consumer("shop", "m", -1)
    first, *_, last = (await console.source.commits("shop")).assignments
    assert first == MemberAssignment(NOW_MS, "m", 2, {TOPIC: (0, 1)})
    assert last == MemberAssignment(NOW_MS + 10, "m", -1, {})


def test_assignments_of_share_and_streams_groups_are_found() -> None:
    collector = AssignmentCollector("g", lambda _: None, limit=2)
    share = ShareGroupCurrentMemberAssignmentValue(
        member_epoch=3,
        assigned_partitions=[
            ShareGroupCurrentMemberAssignmentValue.TopicPartitions(topic_id=ID, partitions=[2, 1])
        ],
    )
    streams = StreamsGroupCurrentMemberAssignmentValue(
        member_epoch=4,
        active_tasks=[
            StreamsGroupCurrentMemberAssignmentValue.TaskIds(subtopology_id="s", partitions=[0])
        ],
    )
    keys = (
        (ShareGroupCurrentMemberAssignmentKey(group_id="g", member_id="first"), share),
        (ShareGroupCurrentMemberAssignmentKey(group_id="other", member_id="m"), share),
        (ShareGroupCurrentMemberAssignmentKey(group_id="g", member_id="m"), share),
        (StreamsGroupCurrentMemberAssignmentKey(group_id="g", member_id="n"), streams),
    )
    for at_ms, (key, value) in enumerate(keys):
        collector.note(at_ms, CoordinatorRecord(key, value))
    assert [*collector.assignments] == [
        MemberAssignment(2, "m", 3, {uuid_to_text(ID): (1, 2)}),
        MemberAssignment(3, "n", 4, {"task s": (0,)}),
    ]
