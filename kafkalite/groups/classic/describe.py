"""What DescribeGroups shows of a classic group."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.groups.classic.states import ClassicState
from kafkalite.protocol.messages.describe_groups import DescribeGroupsResponse

if TYPE_CHECKING:
    from kafkalite.groups.classic.group import ClassicGroup


def described(group: ClassicGroup) -> DescribeGroupsResponse.DescribedGroup:
    """Return the group and its members; their protocol only shows while it is Stable.

    Through a rebalance Kafka goes on to show what each member was assigned last.
    """
    soft = group.soft
    is_stable = soft.state is ClassicState.STABLE
    return DescribeGroupsResponse.DescribedGroup(
        group_id=group.group_id,
        group_state=soft.state.value,
        protocol_type=group.protocol_type,
        protocol_data=(soft.protocol_name or "") if is_stable else "",
        members=[
            DescribeGroupsResponse.DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata(soft.protocol_name) if is_stable else b"",
                member_assignment=member.assignment,
            )
            for member in soft.members.values()
        ],
    )
