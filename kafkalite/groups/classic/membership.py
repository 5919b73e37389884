"""Membership: a classic group's members and rebalance state.

All of it is soft state. A record is written for each generation; changes after that record are lost
when the coordinator moves.
"""

from __future__ import annotations

import struct
from collections import Counter
from enum import Enum
from functools import lru_cache
from typing import TYPE_CHECKING

from kafkalite.coordinator.java_order import java_string_hash
from kafkalite.groups.classic.member import ClassicMember
from kafkalite.groups.classic.refusals import (
    fenced_instance_error,
    unknown_instance_error,
    unknown_member_error,
)
from kafkalite.protocol import codec
from kafkalite.protocol._generated.records.group_metadata import GroupMetadataValue

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from kafkalite.groups.group import MemberId


CONSUMER_PROTOCOL_TYPE = "consumer"
"""The protocol type of groups whose subscriptions the broker can parse."""

_NO_TIMESTAMP = -1


def _java_bucket(name: str, count: int) -> int:
    """Return a name's bucket in a Java HashMap of `count` keys, which determines their order."""
    size = 16
    while count > size * 3 // 4:
        size *= 2
    code = java_string_hash(name) & 0xFFFF_FFFF
    return (code ^ code >> 16) & (size - 1)


def _protocol_names(protocols: Sequence[tuple[str, bytes]]) -> set[str]:
    """Return the protocols' names; a name listed twice by a member counts once."""
    return {name for name, _ in protocols}


class ClassicState(Enum):
    """The states of classic groups, by the names that clients see.

    Kafka has a fifth state, Dead, for groups whose coordinator moves. Here such groups are removed
    at once, and waiting requests get NOT_COORDINATOR.
    """

    EMPTY = "Empty"
    """No members, but perhaps offsets."""
    PREPARING_REBALANCE = "PreparingRebalance"
    """Collecting JoinGroup requests."""
    COMPLETING_REBALANCE = "CompletingRebalance"
    """Waiting for the leader's assignment."""
    STABLE = "Stable"


PREVIOUS_STATES = {
    ClassicState.EMPTY: frozenset((ClassicState.PREPARING_REBALANCE,)),
    ClassicState.PREPARING_REBALANCE: frozenset(
        (ClassicState.STABLE, ClassicState.COMPLETING_REBALANCE, ClassicState.EMPTY)
    ),
    ClassicState.COMPLETING_REBALANCE: frozenset((ClassicState.PREPARING_REBALANCE,)),
    ClassicState.STABLE: frozenset((ClassicState.COMPLETING_REBALANCE,)),
}
"""State → its possible previous states."""


class Membership:
    """The members of a group, and the state of its rebalance."""

    __slots__ = (
        "_pending_joins",
        "_pending_syncs",
        "_protocol_counts",
        "_subscribed",
        "generation_id",
        "leader_id",
        "members",
        "new_member_added",
        "previous_state",
        "protocol_name",
        "protocol_type",
        "state",
        "state_timestamp_ms",
        "static_members",
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
        """Whether a member joined during the initial delay, which may extend it."""
        # Created only for a rebalance, to save memory: there may be many groups.
        self._pending_joins: set[MemberId] | None = None
        self._pending_syncs: set[MemberId] | None = None
        self._protocol_counts: Counter[str] | None = None
        self._subscribed: tuple[int, frozenset[str] | None] | None = None
        """The generation, and its subscribed topics; computed on demand."""

    @classmethod
    def from_record(cls, value: GroupMetadataValue) -> Membership:
        """Return the membership after loading: Stable or Empty."""
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
        """Return the record of the group with these assignments."""
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

    # Queries

    @property
    def pending_joins(self) -> set[MemberId]:
        """Member ids issued to clients that have not joined with them yet (KIP-394)."""
        if self._pending_joins is None:
            self._pending_joins = set()
        return self._pending_joins

    @property
    def pending_syncs(self) -> set[MemberId]:
        """Members of this generation that have not sent SyncGroup yet."""
        if self._pending_syncs is None:
            self._pending_syncs = set()
        return self._pending_syncs

    @property
    def _counts_by_protocol(self) -> Counter[str]:
        """The number of members that support each protocol."""
        if self._protocol_counts is None:
            self._protocol_counts = Counter()
            for member in self.members.values():
                self._protocol_counts.update(_protocol_names(member.protocols))
        return self._protocol_counts

    def is_leader(self, member_id: MemberId) -> bool:
        """Whether this member is the leader."""
        return member_id == self.leader_id

    def find_member(
        self, member_id: MemberId, group_instance_id: str | None, action: str
    ) -> ClassicMember:
        """Return the member of a request; raises UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID.

        `action` names the request in explanations, such as "heartbeat".
        """
        if group_instance_id is not None:
            current_id = self.static_members.get(group_instance_id)
            if current_id is None:
                raise unknown_instance_error(action, member_id, group_instance_id)
            if current_id != member_id:
                raise fenced_instance_error(action, member_id, group_instance_id, current_id)
        member = self.members.get(member_id)
        if member is None:
            raise unknown_member_error(self, action, member_id)
        return member

    def subscribed_topics(self) -> frozenset[str] | None:
        """Return the subscribed topics of a group of type "consumer", None if they are unknown.

        They are computed once per generation: later changes apply to the next generation.
        """
        if self._subscribed is None or self._subscribed[0] != self.generation_id:
            self._subscribed = (self.generation_id, self._topics_of_members())
        return self._subscribed[1]

    def _topics_of_members(self) -> frozenset[str] | None:
        if self.protocol_type != CONSUMER_PROTOCOL_TYPE:
            return None
        if not self.members:
            return frozenset()
        if self.protocol_name is None:
            return None
        try:
            topics = {
                subscribed_topics(member.metadata(self.protocol_name))
                for member in self.members.values()
            }
        except ValueError:
            return None
        # In most groups all members have the same topics and can share one set.
        return topics.pop() if len(topics) == 1 else frozenset().union(*topics)

    def has_room_for(self, member_id: MemberId, max_size: int) -> bool:
        """Whether this member, which may be in the group already, fits into the maximum size."""
        if self.state is ClassicState.EMPTY:
            return True
        member = self.members.get(member_id)
        if self.state is ClassicState.PREPARING_REBALANCE:
            # Some members may never return, so only those that have rejoined count.
            if member is not None and member.awaiting_join is not None:
                return True
            return self.joined_count() < max_size
        return member is not None or len(self.members) < max_size

    def supports_any_of(self, protocol_type: str, protocols: Collection[str]) -> bool:
        """Whether all members support one of these protocols."""
        if self.state is ClassicState.EMPTY:
            return bool(protocol_type) and bool(protocols)
        return protocol_type == self.protocol_type and any(
            self._counts_by_protocol[name] == len(self.members) for name in protocols
        )

    def selected_protocol(self) -> str:
        """Return the protocol that all members support, with the most votes.

        In a tie the first name in the order of Kafka's hash map wins.
        """
        candidates = frozenset(
            name for name, count in self._counts_by_protocol.items() if count == len(self.members)
        )
        votes = Counter(member.vote(candidates) for member in self.members.values())
        return min(votes, key=lambda name: (-votes[name], _java_bucket(name, len(votes)), name))

    def rebalance_timeout_ms(self) -> int:
        """Return the largest rebalance timeout of the members."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def joined_count(self) -> int:
        """Return the number of members that have joined the next generation."""
        return sum(member.awaiting_join is not None for member in self.members.values())

    def has_all_members_joined(self) -> bool:
        """Whether all members and pending member ids have joined."""
        return not self.pending_joins and self.joined_count() == len(self.members)

    # Changes, called by deciders

    def add(self, member: ClassicMember) -> None:
        """Add a new member; the first one is the leader."""
        if not self.members:
            self.protocol_type = member.protocol_type
        if self.leader_id is None:
            self.leader_id = member.member_id
        self._insert(member)
        self.pending_joins.discard(member.member_id)

    def remove(self, member_id: MemberId) -> ClassicMember | None:
        """Remove a member or a pending member id; the leader may change."""
        self.pending_joins.discard(member_id)
        self.pending_syncs.discard(member_id)
        member = self.members.pop(member_id, None)
        if member is not None:
            if self._protocol_counts is not None:
                self._protocol_counts.subtract(_protocol_names(member.protocols))
            if member.group_instance_id is not None:
                del self.static_members[member.group_instance_id]
        if member_id == self.leader_id:
            self.leader_id = next(iter(self.members), None)
        return member

    def replace_static(self, old_id: MemberId, new_id: MemberId) -> ClassicMember:
        """Give a static member a new id; it keeps its role and its assignment.

        `pending_syncs` retains the old id, as in Kafka: no SyncGroup arrives for that id, and the
        group rebalances when the sync timer expires.
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
        """Replace a member's protocols."""
        self._counts_by_protocol.subtract(_protocol_names(member.protocols))
        member.protocols = protocols
        self._counts_by_protocol.update(_protocol_names(protocols))

    def move_to(self, state: ClassicState, now_ms: int) -> None:
        """Change the state; raises RuntimeError if this change is not possible."""
        if self.state not in PREVIOUS_STATES[state]:
            raise RuntimeError(f"a classic group went from {self.state} to {state}")
        self.previous_state, self.state = self.state, state
        self.state_timestamp_ms = now_ms

    def begin_generation(self, now_ms: int) -> None:
        """Increment the generation; the state is CompletingRebalance, or Empty without members."""
        self.generation_id += 1
        if self.members:
            self.protocol_name = self.selected_protocol()
            self.move_to(ClassicState.COMPLETING_REBALANCE, now_ms)
        else:
            self.protocol_name = None
            self.move_to(ClassicState.EMPTY, now_ms)
        self.pending_syncs.clear()
        self.subscribed_topics()

    def skip_generation(self) -> None:
        """Increment the generation during a rebalance: the next one begins after it."""
        self.generation_id += 1
        self.subscribed_topics()

    def elect_leader(self) -> bool:
        """Ensure that the leader is a member that has joined; False if no member has joined."""
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
        if self._protocol_counts is not None:
            self._protocol_counts.update(_protocol_names(member.protocols))
        if member.group_instance_id is not None:
            self.static_members[member.group_instance_id] = member.member_id


_VERSION = struct.Struct(">h")


_MAX_CACHED, _MAX_CACHED_BYTES = 1_024, 8_192
"""The maximum number and length of cached subscriptions: members may send megabytes."""


def subscribed_topics(metadata: bytes) -> frozenset[str]:
    """Return the topics of a consumer subscription of any version.

    All versions begin like the oldest one, so fields of newer versions are not parsed. Raises
    ValueError for other bytes. Many members send the same bytes, so short ones are cached.
    """
    return (_cached_topics if len(metadata) <= _MAX_CACHED_BYTES else _parse_topics)(metadata)


def _parse_topics(metadata: bytes) -> frozenset[str]:
    parse = codec.parser("consumer_protocol_subscription", 0)
    try:
        _VERSION.unpack_from(metadata)
        subscription, _ = parse(metadata, _VERSION.size, len(metadata))
    except codec.PARSE_ERRORS as error:
        raise ValueError("not an embedded consumer subscription") from error
    return frozenset(subscription.topics)


_cached_topics = lru_cache(_MAX_CACHED)(_parse_topics)
