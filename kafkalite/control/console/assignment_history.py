"""The latest assignments of the members of a group, from the records of its coordinator."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final

from kafkalite.control.console.source import MemberAssignment
from kafkalite.groups import assigned_partitions
from kafkalite.protocol._generated.records.consumer_group_current_member_assignment import (
    ConsumerGroupCurrentMemberAssignmentKey,
)
from kafkalite.protocol._generated.records.group_metadata import GroupMetadataKey
from kafkalite.protocol._generated.records.share_group_current_member_assignment import (
    ShareGroupCurrentMemberAssignmentKey,
)
from kafkalite.protocol._generated.records.streams_group_current_member_assignment import (
    StreamsGroupCurrentMemberAssignmentKey,
)
from kafkalite.protocol.uuids import uuid_to_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from kafkalite.coordinator.contract import CoordinatorRecord

MAX_ASSIGNMENTS: Final = 2_000
"""The maximum number of assignments, the latest, that are returned."""

_CONSUMER: Final = "consumer"
_MODERN: Final = (
    ConsumerGroupCurrentMemberAssignmentKey,
    ShareGroupCurrentMemberAssignmentKey,
    StreamsGroupCurrentMemberAssignmentKey,
)


class AssignmentCollector:
    """The latest assignments of the members of a group."""

    def __init__(
        self,
        group: str,
        topic_name: Callable[[bytes], str | None],
        limit: int = MAX_ASSIGNMENTS,
    ) -> None:
        """Collect those of `group`; `topic_name` returns the name of a topic with an id."""
        self._group = group
        self._topic_name = topic_name
        self.assignments: deque[MemberAssignment] = deque(maxlen=limit)
        """Oldest first."""

    def note(self, at_ms: int, record: CoordinatorRecord[object, object]) -> None:
        """Add the assignments in a record that was written at a time; others have no effect."""
        key, value = record
        if isinstance(key, GroupMetadataKey) and key.group == self._group:
            self.assignments += _classic(at_ms, value)
        elif isinstance(key, _MODERN) and key.group_id == self._group:
            self.assignments.append(self._modern(at_ms, key, value))

    def _modern(self, at_ms: int, key: Any, value: Any) -> MemberAssignment:  # noqa: ANN401 - of three types
        if value is None:  # the member has left
            return MemberAssignment(at_ms, key.member_id, -1, {})
        if isinstance(key, StreamsGroupCurrentMemberAssignmentKey):
            given = [
                (f"task {each.subtopology_id}", each.partitions) for each in value.active_tasks
            ]
        else:
            given = [
                (self._name(each.topic_id), each.partitions) for each in value.assigned_partitions
            ]
        return MemberAssignment(at_ms, key.member_id, value.member_epoch, _sorted(given))

    def _name(self, topic_id: bytes) -> str:
        return self._topic_name(topic_id) or uuid_to_text(topic_id)


def _classic(at_ms: int, value: Any) -> Iterator[MemberAssignment]:  # noqa: ANN401 - GroupMetadataValue, or None
    if value is None or value.protocol_type != _CONSUMER:
        return
    for each in value.members:
        given = assigned_partitions.of_classic_member(each.assignment)
        yield MemberAssignment(at_ms, each.member_id, value.generation, _sorted(given.items()))


def _sorted(given: Iterable[tuple[str, Iterable[int]]]) -> Mapping[str, tuple[int, ...]]:
    found = {name: tuple(sorted(partitions)) for name, partitions in given}
    return {name: found[name] for name in sorted(found) if found[name]}
