"""Downgrade: a consumer group whose last consumer-protocol member goes becomes a classic group.

Those who stay are members of the classic protocol. What they should have had is what they are
assigned in the classic group, which begins Stable in a generation named after the epoch, and
mostly rebalances at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.groups.classic import rebalance, sessions
from kafkalite.groups.classic.group import CONSUMER_PROTOCOL_TYPE, ClassicGroup
from kafkalite.groups.classic.member import ClassicMember
from kafkalite.groups.classic.membership import Membership
from kafkalite.groups.classic.states import ClassicState
from kafkalite.groups.migration.embedded import assignment_bytes, version_of
from kafkalite.groups.migration.policy import migration_policy
from kafkalite.groups.records import group_metadata_record

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalite.groups.classic.draft import Draft
    from kafkalite.groups.consumer.group import ConsumerGroup
    from kafkalite.groups.consumer.member import MemberMetadata
    from kafkalite.groups.directory import GroupDirectory
    from kafkalite.groups.group import MemberId

_TOLD = 20
"""How many members an event names."""


class Downgrade:
    """Turns consumer groups of one shard into classic ones."""

    __slots__ = ("_directory",)

    def __init__(self, directory: GroupDirectory) -> None:
        self._directory = directory

    def is_due(self, members: Mapping[MemberId, MemberMetadata]) -> bool:
        """Whether a consumer group that is left with these members is to be classic."""
        config = self._directory.config
        return (
            migration_policy(config).downgrades
            and 0 < len(members) <= config.int("group.max.size")
            and all(member.classic is not None for member in members.values())
            and _is_readable(members)
        )

    def begin(
        self,
        draft: Draft,
        group: ConsumerGroup,
        members: Mapping[MemberId, MemberMetadata],
        *,
        heirs: Mapping[MemberId, MemberId],
        rebalances: bool,
    ) -> None:
        """Write the group anew as a classic one of these members; `is_due` holds for them.

        `heirs` names, for a member whose place another took just now, who that other is.
        """
        group_id, image = group.group_id, self._directory.image
        draft.records.extend(group.tombstones(heirs))
        made = ClassicGroup(group_id)
        soft = made.soft = _membership(group, members, draft.now_ms)
        places = {heir: place for place, heir in heirs.items()}
        for member in soft.members.values():
            target = group.target.get(places.get(member.member_id, member.member_id), {})
            version = version_of(member.metadata(soft.protocol_name))
            member.assignment = assignment_bytes(target, image, version)
        value = soft.to_record({each.member_id: each.assignment for each in soft.members.values()})
        draft.records.append(group_metadata_record(group_id, value))
        self._directory.begun[group_id] = made
        for member in soft.members.values():
            sessions.renew(draft, group_id, member, member.session_timeout_ms)
        gone = sorted(group.members.keys() - members.keys())
        text = f"no member of the consumer protocol is left, after {', '.join(gone[:_TOLD])} went"
        draft.tell(
            group_id,
            "downgraded",
            f"The consumer group became a classic group of generation {group.epoch}: {text}.",
            generation=group.epoch,
            gone=gone[:_TOLD],
            rebalances=rebalances,
        )
        if rebalances:
            config = self._directory.config
            rebalance.prepare(draft, made, config, rebalance.Why("downgrade", text, gone))


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


def _is_readable(members: Mapping[MemberId, MemberMetadata]) -> bool:
    """Whether the members know one protocol in common, and say what they read in all of them."""
    offered = [member.classic.protocols for member in members.values() if member.classic]
    common = set.intersection(*({name for name, _ in protocols} for protocols in offered))
    try:
        for protocols in offered:
            for _, metadata in protocols:
                version_of(metadata)
    except ValueError:
        return False
    return bool(common)
