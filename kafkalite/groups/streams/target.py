"""Target assignments of streams groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.coordinator.java_order import in_java_order, string_hash
from kafkalite.groups.streams.assignor import (
    NOTHING_PLACED,
    MemberSpec,
    StandbyPlacement,
    SubtopologySize,
    assign_tasks,
)
from kafkalite.groups.streams.tasks import NO_TASKS, Tasks
from kafkalite.ports.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalite.config.rules import Rules
    from kafkalite.groups.group import MemberId
    from kafkalite.groups.streams.configured_topology import ConfiguredTopology
    from kafkalite.groups.streams.member import MemberMetadata, TaskOffsets

STANDBY_REPLICAS = "num.standby.replicas"
"""The assignment setting of standby replicas; a changed value causes a new assignment."""
RACK_TAGS = "rack.aware.assignment.tags"
"""The assignment setting of the tags for rack-aware assignment; `sticky` does not use it."""


class AssignmentInput(NamedTuple):
    """The members and their state, from which the assignor computes a target."""

    members: Mapping[MemberId, MemberMetadata]
    previous: Mapping[MemberId, Tasks]
    """The tasks that the assignor tries to retain."""
    task_offsets: Mapping[MemberId, TaskOffsets]
    rules: Rules


class TargetAssignment(NamedTuple):
    """The target tasks of each member, and the reasons for the places of the standby tasks."""

    targets: Mapping[MemberId, Tasks]
    standbys: StandbyPlacement


def compute_target(
    inputs: AssignmentInput, topology: ConfiguredTopology, assignment_configs: Mapping[str, str]
) -> TargetAssignment:
    """Run the assignor; the targets are in the order in which Kafka writes them.

    No tasks are assigned while topics of the topology are missing or invalid.
    """
    member_ids = in_java_order(sorted(inputs.members), string_hash)
    members = {member_id: inputs.members[member_id] for member_id in member_ids}
    if not topology.is_ready or topology.subtopologies is None:
        return TargetAssignment(dict.fromkeys(members, NO_TASKS), NOTHING_PLACED)
    return TargetAssignment(
        *assign_tasks(
            {
                member_id: MemberSpec(
                    process_id=member.process_id,
                    previous=inputs.previous.get(member_id, NO_TASKS),
                    offsets=inputs.task_offsets[member_id].offsets
                    if member_id in inputs.task_offsets
                    else {},
                )
                for member_id, member in members.items()
            },
            {
                name: SubtopologySize(task_count=each.task_count, is_stateful=each.is_stateful)
                for name, each in topology.subtopologies.items()
            },
            int(assignment_configs.get(STANDBY_REPLICAS, 0)),
            inputs.rules,
        )
    )
