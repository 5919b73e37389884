"""Downgrade: a consumer group becomes a classic group when its last consumer member leaves.

The remaining members use the classic protocol. Their target assignments become the assignments of
the classic group. It starts in state Stable with the group epoch as generation, and usually
rebalances at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.groups.classic import rebalance, sessions
from kafkalite.groups.classic.group import CONSUMER_PROTOCOL_TYPE, ClassicGroup
from kafkalite.groups.classic.member import ClassicMember
from kafkalite.groups.classic.membership import ClassicState, Membership
from kafkalite.groups.migration.consumer_protocol import encode_assignment, parse_version
from kafkalite.groups.migration.policy import migration_policy
from kafkalite.groups.offsets_topic_records import group_metadata_record

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalite.groups.classic.decision import DecisionBuilder
    from kafkalite.groups.consumer.group import ConsumerGroup
    from kafkalite.groups.consumer.member import MemberMetadata
    from kafkalite.groups.directory import GroupDirectory
    from kafkalite.groups.group import MemberId

_MAX_NAMED = 20
"""The maximum number of members that an event names."""


class Downgrade:
    """Converts consumer groups of one shard to classic groups."""

    __slots__ = ("_directory",)

    def __init__(self, directory: GroupDirectory) -> None:
        self._directory = directory

    def is_due(self, members: Mapping[MemberId, MemberMetadata]) -> bool:
        """Whether a consumer group with these remaining members becomes classic."""
        config = self._directory.config
        return (
            migration_policy(config).downgrades
            and 0 < len(members) <= config.int("group.max.size")
            and all(member.classic is not None for member in members.values())
            and _has_common_protocol(members)
        )

    def convert(
        self,
        decision: DecisionBuilder,
        group: ConsumerGroup,
        members: Mapping[MemberId, MemberMetadata],
        *,
        replacements: Mapping[MemberId, MemberId],
        must_rebalance: bool,
    ) -> None:
        """Write the records of a classic group with these members.

        The caller has checked `is_due` for them.

        `replacements` maps the id of a static member that was just replaced to the new id.
        """
        group_id, image = group.group_id, self._directory.image
        decision.records.extend(group.tombstones(replacements))
        classic_group = ClassicGroup(group_id)
        soft = classic_group.soft = _membership(group, members, decision.now_ms)
        old_ids = {new_id: old_id for old_id, new_id in replacements.items()}
        for member in soft.members.values():
            target = group.target.get(old_ids.get(member.member_id, member.member_id), {})
            version = parse_version(member.metadata(soft.protocol_name))
            member.assignment = encode_assignment(target, image, version)
        value = soft.to_record({each.member_id: each.assignment for each in soft.members.values()})
        decision.records.append(group_metadata_record(group_id, value))
        self._directory.unreplayed_groups[group_id] = classic_group
        for member in soft.members.values():
            sessions.extend(decision, group_id, member, member.session_timeout_ms)
        removed = sorted(group.members.keys() - members.keys())
        names = ", ".join(removed[:_MAX_NAMED])
        text = f"no consumer-protocol member remains after removal of {names}"
        decision.add_event(
            group_id,
            "downgraded",
            f"the consumer group became a classic group with generation {group.epoch}: {text}",
            generation=group.epoch,
            removed_members=removed[:_MAX_NAMED],
            rebalances=must_rebalance,
        )
        if must_rebalance:
            config = self._directory.config
            rebalance.prepare(
                decision,
                classic_group,
                config,
                rebalance.RebalanceReason("downgrade", text, removed),
            )


def _membership(
    group: ConsumerGroup, members: Mapping[MemberId, MemberMetadata], now_ms: int
) -> Membership:
    soft = Membership()
    for member_id, member in members.items():
        assert member.classic is not None, "a downgrade is due"
        soft.add(
            ClassicMember(
                member_id=member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout_ms=member.rebalance_timeout_ms,
                session_timeout_ms=member.classic.session_timeout_ms,
                protocol_type=CONSUMER_PROTOCOL_TYPE,
                protocols=list(member.classic.protocols),
            )
        )
    soft.state = soft.previous_state = ClassicState.STABLE
    soft.state_timestamp_ms = now_ms
    soft.generation_id = group.epoch
    soft.protocol_name = soft.selected_protocol()
    return soft


def _has_common_protocol(members: Mapping[MemberId, MemberMetadata]) -> bool:
    """Whether the members have a common protocol, and all their subscriptions can be parsed."""
    offered = [member.classic.protocols for member in members.values() if member.classic]
    common = set.intersection(*({name for name, _ in protocols} for protocols in offered))
    try:
        for protocols in offered:
            for _, metadata in protocols:
                parse_version(metadata)
    except ValueError:
        return False
    return bool(common)
