"""Target assignments of streams groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.groups.streams.assignor import MemberSpec, SubtopologySize, assign_tasks
from kafkalite.groups.streams.tasks import NO_TASKS, Tasks

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalite.groups.group import MemberId
    from kafkalite.groups.streams.configured_topology import ConfiguredTopology
    from kafkalite.groups.streams.member import MemberMetadata

STICKY_ASSIGNOR = "sticky"
"""The name of the only assignor."""

STANDBY_REPLICAS = "num.standby.replicas"
"""The only assignment setting; a changed value causes a new assignment."""


def compute_target(
    members: Mapping[MemberId, MemberMetadata],
    previous: Mapping[MemberId, Tasks],
    topology: ConfiguredTopology,
    assignment_configs: Mapping[str, str],
) -> Mapping[MemberId, Tasks]:
    """Run the assignor on these members; `previous` has their previous targets.

    No tasks are assigned while topics of the topology are missing or invalid.
    """
    if not topology.is_ready or topology.subtopologies is None:
        return dict.fromkeys(members, NO_TASKS)
    return assign_tasks(
        {
            member_id: MemberSpec(
                process_id=member.process_id, previous=previous.get(member_id, NO_TASKS)
            )
            for member_id, member in members.items()
        },
        {
            name: SubtopologySize(task_count=each.task_count, is_stateful=each.is_stateful)
            for name, each in topology.subtopologies.items()
        },
        int(assignment_configs.get(STANDBY_REPLICAS, 0)),
    )
