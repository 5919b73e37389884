"""The `simple` assignor: how partitions of a share group are spread over its members (KIP-932).

A partition may go to several members. What is aimed at is that every partition has as many readers
as every other, and every member as many partitions; what members had before they keep as far as
that goes. This follows Kafka 4.3 to the letter, its order of walking included, so that the same
group gets the same assignment from both.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Generic, TypeVar

from kafkalite.groups.share.java_order import (
    JavaTable,
    in_java_order,
    int_hash,
    string_hash,
    topic_partition_hash,
    uuid_hash,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from kafkalite.groups.assignors.contract import Assignment
    from kafkalite.groups.group import MemberId

SIMPLE = "simple"

U = TypeVar("U")


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscriber:
    """One member as the assignor sees it."""

    topic_ids: Sequence[bytes]
    """The topics it subscribes to, those alone that exist, in Java's order of their names."""
    previous: Assignment
    """Its last target assignment."""


_Shares = dict[bytes, set[int]]


def assign_simply(
    subscribers: Mapping[MemberId, Subscriber],
    assignable: Mapping[bytes, frozenset[int]],
    *,
    is_homogeneous: bool,
) -> Mapping[MemberId, Assignment]:
    """Return what each member should have of the partitions whose share state is set up.

    A topic that a member was given and has nothing left of stays in its assignment, with nothing.
    """
    order = in_java_order(subscribers, string_hash)
    topic_ids = list(dict.fromkeys(t for each in order for t in subscribers[each].topic_ids))
    if not topic_ids:
        return {member_id: {} for member_id in order}
    had = [subscribers[member_id].previous for member_id in order]
    shares = [{topic: set(had_of) for topic, had_of in each.items()} for each in had]
    if is_homogeneous:
        _share_all(shares, topic_ids, assignable)
    else:
        for topic_id in topic_ids:
            readers = [
                index
                for index, member_id in enumerate(order)
                if topic_id in subscribers[member_id].topic_ids
            ]
            _share_topic(shares, topic_id, sorted(assignable.get(topic_id, ())), readers)
    return {
        member_id: {topic: frozenset(share) for topic, share in shares[index].items()}
        for index, member_id in enumerate(order)
    }


def _share_all(
    shares: Sequence[_Shares],
    topic_ids: Sequence[bytes],
    assignable: Mapping[bytes, frozenset[int]],
) -> None:
    """Share the partitions of all topics at once: all members want the same."""
    for share in shares:
        for topic_id in share.keys() - set(topic_ids):
            del share[topic_id]
    targets = [(topic, index) for topic in topic_ids for index in sorted(assignable.get(topic, ()))]
    sharing: _Sharing[tuple[bytes, int]] = _Sharing(
        hash_of=topic_partition_hash, targets=targets, readers=range(len(shares))
    )
    for member, share in enumerate(shares):
        for topic_id in in_java_order(share, uuid_hash):
            sharing.keep(
                member,
                [(topic_id, index) for index in in_java_order(sorted(share[topic_id]), int_hash)],
            )
    sharing.settle()
    for member, share in enumerate(shares):
        for indexes in share.values():
            indexes.clear()
        for topic_id, index in sharing.units_of(member):
            share.setdefault(topic_id, set()).add(index)


def _share_topic(
    shares: Sequence[_Shares], topic_id: bytes, targets: Sequence[int], readers: Sequence[int]
) -> None:
    """Share the partitions of one topic among those who want it."""
    sharing: _Sharing[int] = _Sharing(hash_of=int_hash, targets=targets, readers=readers)
    for member, share in enumerate(shares):
        sharing.keep(member, in_java_order(sorted(share.get(topic_id, ())), int_hash))
    sharing.settle()
    for member, share in enumerate(shares):
        units = sharing.units_of(member)
        if units or topic_id in share:
            share[topic_id] = set(units)


class _Sharing(Generic[U]):
    """Partitions on the one side, members on the other, and who has what; members are numbers."""

    __slots__ = ("_by_member", "_by_unit", "_hash_of", "_quota", "_readers", "_sharing", "_targets")

    def __init__(
        self, *, hash_of: Callable[[U], int], targets: Sequence[U], readers: Sequence[int]
    ) -> None:
        self._hash_of = hash_of
        self._targets = targets
        self._readers = readers
        self._by_unit: JavaTable[U, JavaTable[int, None]] = JavaTable(hash_of, len(targets))
        self._by_member: JavaTable[int, JavaTable[U, None]] = JavaTable(int_hash, len(readers))
        self._sharing = -(-len(readers) // len(targets)) if targets else 0
        """How many members a partition goes to."""
        each = self._sharing * len(targets) / len(readers)
        self._quota = {
            member: ceil(each * (place + 1)) - ceil(each * place)
            for place, member in enumerate(readers)
        }
        """How many partitions a member gets; one that is no reader gets none."""

    def keep(self, member: int, units: Iterable[U]) -> None:
        """Begin with what a member had."""
        for unit in units:
            self._give(unit, member)

    def units_of(self, member: int) -> list[U]:
        """Return what a member has."""
        held = self._by_member.get(member)
        return [] if held is None else held.keys()

    def settle(self) -> None:
        """Take what is too much, and give what is missing."""
        self._take_from_overfilled_members()
        self._take_from_overshared_partitions()
        for unit in self._targets:
            self._by_unit.get_or_make(unit, self._no_members)
        self._give_to_unfilled_members()

    def _take_from_overfilled_members(self) -> None:
        for member in self._by_member.keys():  # noqa: SIM118 - not a dict: this is Java's order
            held = self._by_member[member]
            too_many = len(held) - self._quota.get(member, 0)
            if too_many > 0:
                for unit in held.keys()[:too_many]:
                    self._take(unit, member)

    def _take_from_overshared_partitions(self) -> None:
        for unit in self._by_unit.keys():  # noqa: SIM118
            holders = self._by_unit[unit]
            too_many = len(holders) - self._sharing
            if too_many > 0:
                for member in holders.keys()[:too_many]:
                    self._take(unit, member)

    def _give_to_unfilled_members(self) -> None:
        """Go round the members with room; one round leads on into the next partition."""
        unfilled = [member for member in self._readers if self._has_room(member)]
        going_round = iter(list(unfilled))
        has_given = False
        for unit in self._by_unit.keys():  # noqa: SIM118
            if not unfilled:
                return
            holders = self._by_unit[unit]
            while len(holders) < self._sharing:
                member = next(going_round, None)
                if member is None:
                    if not has_given or not unfilled:
                        break
                    going_round, has_given = iter(list(unfilled)), False
                elif member not in holders:
                    self._give(unit, member)
                    has_given = True
                    if not self._has_room(member):
                        unfilled.remove(member)

    def _has_room(self, member: int) -> bool:
        held = self._by_member.get(member)
        return (0 if held is None else len(held)) < self._quota[member]

    def _give(self, unit: U, member: int) -> None:
        self._by_unit.get_or_make(unit, self._no_members).put(member, None)
        self._by_member.get_or_make(member, self._no_units).put(unit, None)

    @staticmethod
    def _no_members() -> JavaTable[int, None]:
        return JavaTable(int_hash)

    def _no_units(self) -> JavaTable[U, None]:
        return JavaTable(self._hash_of)

    def _take(self, unit: U, member: int) -> None:
        self._by_unit[unit].remove(member)
        self._by_member[member].remove(unit)
