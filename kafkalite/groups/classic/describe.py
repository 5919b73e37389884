"""Descriptions of classic groups for DescribeGroups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.coordinator.java_order import in_java_order, string_hash
from kafkalite.groups.classic.membership import ClassicState
from kafkalite.protocol._generated.messages.describe_groups import DescribeGroupsResponse

if TYPE_CHECKING:
    from kafkalite.groups.classic.group import ClassicGroup


def describe_group(group: ClassicGroup) -> DescribeGroupsResponse.DescribedGroup:
    """Describe a group and its members; only a Stable group shows its protocol and metadata.

    During a rebalance, as in Kafka, each member still has its last assignment.
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
            for member in map(soft.members.__getitem__, in_java_order(soft.members, string_hash))
        ],
    )
