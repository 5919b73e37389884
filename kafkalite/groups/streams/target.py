"""Target assignments: which tasks each member should have at a group epoch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.groups.streams.assignor import MemberSpec, SubtopologySize, assign_sticky
from kafkalite.groups.streams.tasks import NO_TASKS, Tasks

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalite.groups.group import MemberId
    from kafkalite.groups.streams.configured import ConfiguredTopology
    from kafkalite.groups.streams.member import MemberMetadata

STANDBY_REPLICAS = "num.standby.replicas"
"""The one assignment setting; a group that was assigned by another value is assigned anew."""


def compute_target(
    members: Mapping[MemberId, MemberMetadata],
    previous: Mapping[MemberId, Tasks],
    topology: ConfiguredTopology,
    assignment_configs: Mapping[str, str],
) -> Mapping[MemberId, Tasks]:
    """Run the assignor over these members; stickiness is to `previous`.

    Nobody has a task of a topology whose topics are not in order.
    """
    if not topology.is_ready or topology.subtopologies is None:
        return dict.fromkeys(members, NO_TASKS)
    return assign_sticky(
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
