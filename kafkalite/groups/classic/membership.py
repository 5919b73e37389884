"""Membership: a classic group's members and rebalance between one record and the next.

All of it is soft state: what the group settled on last is a record, and losing the rest is what a
move of the coordinator looks like to its members.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from kafkalite.coordinator.runtime import java_string_hash
from kafkalite.groups.classic.member import ClassicMember
from kafkalite.groups.classic.refusals import fenced_instance, unknown_instance, unknown_member
from kafkalite.groups.classic.states import COMES_FROM, ClassicState
from kafkalite.groups.classic.subscription import subscribed_topics
from kafkalite.protocol.records.group_metadata import GroupMetadataValue

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from kafkalite.groups.group import MemberId

CONSUMER_PROTOCOL_TYPE = "consumer"
"""The protocol type of groups whose subscriptions the broker can read."""

_NO_TIMESTAMP = -1


def _bucket(name: str, count: int) -> int:
    """Return where a name stands in a Java HashMap of so many, which decides who comes first."""
    size = 16
    while count > size * 3 // 4:
        size *= 2
    code = java_string_hash(name) & 0xFFFF_FFFF
    return (code ^ code >> 16) & (size - 1)


def _names(protocols: Sequence[tuple[str, bytes]]) -> set[str]:
    """Return the protocols' names; who says one twice does not count for two members."""
    return {name for name, _ in protocols}


class Membership:
    """Who is in the group, and how far its rebalance has come."""

    __slots__ = (
        "_pending_joins", "_pending_syncs", "_read", "_support", "generation_id", "leader_id",
        "members", "new_member_added", "previous_state", "protocol_name", "protocol_type", "state",
        "state_timestamp_ms", "static_members",
    )  # fmt: skip

    def __init__(self) -> None:
        self.state = ClassicState.EMPTY
        self.previous_state = ClassicState.EMPTY
        self.state_timestamp_ms: int | None = None
        self.generation_id = 0
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.leader_id: MemberId | None = None
        self.members: dict[MemberId, ClassicMember] = {}
        self.static_members: dict[str, MemberId] = {}
        """group instance id → member id."""
        self.new_member_added = False
        """Whether somebody joined during the initial delay, which may prolong it."""
        # What a group needs only while it rebalances is made when it does: there are many groups.
        self._pending_joins: set[MemberId] | None = None
        self._pending_syncs: set[MemberId] | None = None
        self._support: Counter[str] | None = None
        self._read: tuple[int, frozenset[str] | None] | None = None
        """What a generation reads, with its number, once it was worked out."""

    @classmethod
    def from_record(cls, value: GroupMetadataValue) -> Membership:
        """Return what a group is after its coordinator loaded: Stable, or Empty."""
        membership = cls()
        membership.generation_id = value.generation
        membership.protocol_type = value.protocol_type or None
        membership.protocol_name = value.protocol
        membership.leader_id = value.leader
        if value.current_state_timestamp != _NO_TIMESTAMP:
            membership.state_timestamp_ms = value.current_state_timestamp
        for recorded in value.members:
            timeout_ms = recorded.rebalance_timeout
            membership._insert(
                ClassicMember(
                    member_id=recorded.member_id,
                    group_instance_id=recorded.group_instance_id,
                    client_id=recorded.client_id,
                    client_host=recorded.client_host,
                    rebalance_timeout_ms=recorded.session_timeout if timeout_ms < 0 else timeout_ms,
                    session_timeout_ms=recorded.session_timeout,
                    protocol_type=value.protocol_type,
                    protocols=[(value.protocol or "", recorded.subscription)],
                    assignment=recorded.assignment,
                )
            )
        if membership.members:
            membership.state = membership.previous_state = ClassicState.STABLE
        membership.subscribed_topics()
        return membership

    def to_record(self, assignments: Mapping[MemberId, bytes]) -> GroupMetadataValue:
        """Return what the group would be, were its members assigned this."""
        timestamp_ms = self.state_timestamp_ms
        return GroupMetadataValue(
            protocol_type=self.protocol_type or "",
            generation=self.generation_id,
            protocol=self.protocol_name,
            leader=self.leader_id,
            current_state_timestamp=_NO_TIMESTAMP if timestamp_ms is None else timestamp_ms,
            members=[
                GroupMetadataValue.MemberMetadata(
                    member_id=member.member_id,
                    group_instance_id=member.group_instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    rebalance_timeout=member.rebalance_timeout_ms,
                    session_timeout=member.session_timeout_ms,
                    subscription=member.metadata(self.protocol_name),
                    assignment=assignments.get(member.member_id, b""),
                )
                for member in self.members.values()
            ],
        )

    # Reading

    @property
    def pending_joins(self) -> set[MemberId]:
        """Ids given out to clients that have yet to join with them (KIP-394)."""
        if self._pending_joins is None:
            self._pending_joins = set()
        return self._pending_joins

    @property
    def pending_syncs(self) -> set[MemberId]:
        """Members of this generation that have yet to send SyncGroup."""
        if self._pending_syncs is None:
            self._pending_syncs = set()
        return self._pending_syncs

    @property
    def _supported(self) -> Counter[str]:
        """How many members speak each protocol."""
        if self._support is None:
            self._support = Counter()
            for member in self.members.values():
                self._support.update(_names(member.protocols))
        return self._support

    def is_leader(self, member_id: MemberId) -> bool:
        """Whether this member makes the assignment."""
        return member_id == self.leader_id

    def member_of(
        self, member_id: MemberId, group_instance_id: str | None, action: str
    ) -> ClassicMember:
        """Return the member that a request names; UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID.

        `action` is what it wants to do, for the explanation of a refusal.
        """
        if group_instance_id is not None:
            known = self.static_members.get(group_instance_id)
            if known is None:
                raise unknown_instance(action, member_id, group_instance_id)
            if known != member_id:
                raise fenced_instance(action, member_id, group_instance_id, known)
        member = self.members.get(member_id)
        if member is None:
            raise unknown_member(self, action, member_id)
        return member

    def subscribed_topics(self) -> frozenset[str] | None:
        """Return what the members of a `consumer` group read; None when that cannot be told.

        A generation is asked once, when it begins: what members say later counts in the next.
        """
        if self._read is None or self._read[0] != self.generation_id:
            self._read = (self.generation_id, self._topics_of_members())
        return self._read[1]

    def _topics_of_members(self) -> frozenset[str] | None:
        if self.protocol_type != CONSUMER_PROTOCOL_TYPE:
            return None
        if not self.members:
            return frozenset()
        if self.protocol_name is None:
            return None
        try:
            read = {
                subscribed_topics(member.metadata(self.protocol_name))
                for member in self.members.values()
            }
        except ValueError:
            return None
        # All read the same in most groups, and many groups do.
        return read.pop() if len(read) == 1 else frozenset().union(*read)

    def accepts(self, member_id: MemberId, max_size: int) -> bool:
        """Whether there is room for this member, who may be in already."""
        if self.state is ClassicState.EMPTY:
            return True
        member = self.members.get(member_id)
        if self.state is ClassicState.PREPARING_REBALANCE:
            # Not all members may have come back, so those who have are what counts.
            if member is not None and member.awaiting_join is not None:
                return True
            return self.joined_count() < max_size
        return member is not None or len(self.members) < max_size

    def supports(self, protocol_type: str, protocols: Collection[str]) -> bool:
        """Whether a member with these protocols fits in with the others."""
        if self.state is ClassicState.EMPTY:
            return bool(protocol_type) and bool(protocols)
        return protocol_type == self.protocol_type and any(
            self._supported[name] == len(self.members) for name in protocols
        )

    def selected_protocol(self) -> str:
        """Return the protocol all members know that gets most of their votes.

        A tie goes to the name that Kafka's hash table of votes comes to first.
        """
        candidates = frozenset(
            name for name, count in self._supported.items() if count == len(self.members)
        )
        votes = Counter(member.vote(candidates) for member in self.members.values())
        return min(votes, key=lambda name: (-votes[name], _bucket(name, len(votes)), name))

    def rebalance_timeout_ms(self) -> int:
        """Return how long the slowest member may take to rejoin."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def joined_count(self) -> int:
        """Count the members that have joined the generation to come."""
        return sum(member.awaiting_join is not None for member in self.members.values())

    def has_all_members_joined(self) -> bool:
        """Whether nobody is left to wait for."""
        return not self.pending_joins and self.joined_count() == len(self.members)

    # Changing; deciders do, on the way to a record

    def add(self, member: ClassicMember) -> None:
        """Take in a new member; the first one leads."""
        if not self.members:
            self.protocol_type = member.protocol_type
        if self.leader_id is None:
            self.leader_id = member.member_id
        self._insert(member)
        self.pending_joins.discard(member.member_id)

    def remove(self, member_id: MemberId) -> ClassicMember | None:
        """Strike off a member, or an id that was given out; another member may come to lead."""
        self.pending_joins.discard(member_id)
        self.pending_syncs.discard(member_id)
        member = self.members.pop(member_id, None)
        if member is not None:
            if self._support is not None:
                self._support.subtract(_names(member.protocols))
            if member.group_instance_id is not None:
                del self.static_members[member.group_instance_id]
        if member_id == self.leader_id:
            self.leader_id = next(iter(self.members), None)
        return member

    def replace_static(self, old_id: MemberId, new_id: MemberId) -> ClassicMember:
        """Give a static member a new id; its role and assignment come along.

        Not so the sync it may owe: as in Kafka that of the old id is awaited, in vain, and the
        group rebalances when its time is over.
        """
        old = self.members.pop(old_id)
        new = ClassicMember(
            member_id=new_id,
            group_instance_id=old.group_instance_id,
            client_id=old.client_id,
            client_host=old.client_host,
            rebalance_timeout_ms=old.rebalance_timeout_ms,
            session_timeout_ms=old.session_timeout_ms,
            protocol_type=old.protocol_type,
            protocols=old.protocols,
            assignment=old.assignment,
        )
        self.members[new_id] = new
        if old.group_instance_id is not None:
            self.static_members[old.group_instance_id] = new_id
        if self.leader_id == old_id:
            self.leader_id = new_id
        return new

    def update(self, member: ClassicMember, protocols: Sequence[tuple[str, bytes]]) -> None:
        """Let a member say anew which protocols it speaks."""
        self._supported.subtract(_names(member.protocols))
        member.protocols = protocols
        self._supported.update(_names(protocols))

    def move_to(self, state: ClassicState, now_ms: int) -> None:
        """Enter a state; RuntimeError when it cannot follow the one we are in."""
        if self.state not in COMES_FROM[state]:
            raise RuntimeError(f"a classic group went from {self.state} to {state}")
        self.previous_state, self.state = self.state, state
        self.state_timestamp_ms = now_ms

    def begin_generation(self, now_ms: int) -> None:
        """Count up the generation; with members it awaits their syncs, without any it is Empty."""
        self.generation_id += 1
        if self.members:
            self.protocol_name = self.selected_protocol()
            self.move_to(ClassicState.COMPLETING_REBALANCE, now_ms)
        else:
            self.protocol_name = None
            self.move_to(ClassicState.EMPTY, now_ms)
        self.pending_syncs.clear()
        self.subscribed_topics()

    def elect_leader(self) -> bool:
        """See to it that the leader is somebody who joined; False when nobody did."""
        if self.leader_id is None:
            return False
        if self.members[self.leader_id].awaiting_join is not None:
            return True
        for member in self.members.values():
            if member.awaiting_join is not None:
                self.leader_id = member.member_id
                return True
        return False

    def _insert(self, member: ClassicMember) -> None:
        self.members[member.member_id] = member
        if self._support is not None:
            self._support.update(_names(member.protocols))
        if member.group_instance_id is not None:
            self.static_members[member.group_instance_id] = member.member_id
