"""Generations of classic groups, from the requests of their members."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from kafkalite.groups.migration.consumer_protocol import parse_assignment
from kafkalite.lab.checker.groups.requests import time_of
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.protocol.api_keys import ApiKey

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kafkalite.lab.checker.collecting import Observation

JOINED: Final = "joined"
LEFT: Final = "left"
REMOVED: Final = "removed"
REJOINED: Final = "rejoined"

TopicPartition = tuple[str, int]


class Trigger(NamedTuple):
    """What began a rebalance."""

    kind: str
    member: str
    at_ns: int
    detail: str
    """The reason that the member gave, or empty."""

    def __str__(self) -> str:
        if self.kind == REMOVED:
            return f"{self.member} removed: it did not rejoin, and sent no LeaveGroup"
        return f"{self.member} {self.kind}" + (f": {self.detail}" if self.detail else "")


class Assigned(NamedTuple):
    """What a member got with the answer to SyncGroup."""

    at_ns: int
    partitions: frozenset[TopicPartition]


@dataclass(slots=True)
class Generation:
    """One generation of a group."""

    number: int
    before: int
    """Number of the generation before, as far as it is known; else -1."""
    begun_ns: int
    """When the first JoinGroup was answered."""
    protocol: str
    leader: str
    joins: dict[str, Observation] = field(default_factory=dict)
    members: tuple[str, ...] = ()
    triggers: tuple[Trigger, ...] = ()
    assigned: dict[str, Assigned] = field(default_factory=dict)
    assigned_ns: int | None = None
    """When the leader's SyncGroup was answered."""

    @property
    def started_ns(self) -> int:
        """When its rebalance began: the first request that caused it."""
        sent = [each.at_ns for each in self.triggers]
        return min(sent, default=self.begun_ns)


class Standstill(NamedTuple):
    """A partition that no member had for some time."""

    partition: TopicPartition
    owner: str
    next_owner: str
    from_ns: int
    until_ns: int
    is_alive: bool
    """Whether the earlier owner gave it up; else it was removed."""

    @property
    def length_ns(self) -> int:
        """How long it took; never negative."""
        return max(0, self.until_ns - self.from_ns)

    @property
    def has_moved(self) -> bool:
        """Whether another member got the partition."""
        return self.owner != self.next_owner


class Rebalance(NamedTuple):
    """The change from one generation to the next one."""

    before: Generation
    after: Generation
    standstills: tuple[Standstill, ...]


class Restart(NamedTuple):
    """A member that was replaced by one of the same client."""

    member: str
    new_member: str
    back_ns: int
    """When the new member had its partitions."""


def generations_of(requests: Sequence[Observation]) -> list[Generation]:
    """Return the generations that the requests of a group show, in their order."""
    found = _joined(requests)
    for generation in found:
        _add_assignments(generation, requests)
    previous: Generation | None = None
    for generation in found:
        generation.triggers = _triggers(previous, generation, requests)
        previous = generation
    return found


def _joined(requests: Iterable[Observation]) -> list[Generation]:
    by_number: dict[int, Generation] = {}
    latest = -1
    for each in requests:
        response = each.response
        if each.api_key != int(ApiKey.JOIN_GROUP) or response is None or response.error_code:
            continue
        generation = by_number.get(response.generation_id)
        if generation is None:
            generation = by_number[response.generation_id] = Generation(
                number=response.generation_id,
                before=latest,
                begun_ns=time_of(each),
                protocol=response.protocol_name or "",
                leader=response.leader,
            )
            latest = response.generation_id
        generation.joins.setdefault(response.member_id, each)
        listed = tuple(row.member_id for row in response.members or ())
        generation.members = listed or generation.members or ()
    for generation in by_number.values():
        generation.members = generation.members or tuple(generation.joins)
    return sorted(by_number.values(), key=_begun_ns)


def _begun_ns(generation: Generation) -> int:
    return generation.begun_ns


def _add_assignments(generation: Generation, requests: Iterable[Observation]) -> None:
    for each in requests:
        request, response = each.request, each.response
        if each.api_key != int(ApiKey.SYNC_GROUP) or request.generation_id != generation.number:
            continue
        if response is None or response.error_code:
            continue
        partitions = partitions_in(response.assignment)
        generation.assigned[request.member_id] = Assigned(time_of(each), partitions)
        if request.member_id == generation.leader:
            generation.assigned_ns = time_of(each)


def partitions_in(assignment: bytes) -> frozenset[TopicPartition]:
    """Return the partitions of a consumer's assignment; none for another kind of members."""
    try:
        parsed = parse_assignment(bytes(assignment))
    except ValueError:
        return frozenset()
    return frozenset(
        (topic, number) for topic, numbers in parsed.partitions.items() for number in numbers
    )


def _triggers(
    previous: Generation | None, generation: Generation, requests: Sequence[Observation]
) -> tuple[Trigger, ...]:
    """Return why a generation began: changed members, or the first member that rejoined."""
    known = set() if previous is None else {*previous.members}
    since_ns = -1 if previous is None else previous.begun_ns
    left = [each for each in departures(requests) if since_ns < each.at_ns <= generation.begun_ns]
    joined = [
        Trigger(JOINED, member, join.event.sent_ns, _reason(join))
        for member, join in generation.joins.items()
        if member not in known and join.event.sent_ns <= generation.begun_ns
    ]
    gone = known - {*generation.members} - {each.member for each in left}
    removed = [Trigger(REMOVED, member, generation.begun_ns, "") for member in sorted(gone)]
    changed = [*(each for each in left if each.member in known), *joined, *removed]
    if changed:
        return tuple(sorted(changed, key=_at_ns))
    first = min(generation.joins.items(), key=lambda item: item[1].event.sent_ns)
    return (Trigger(REJOINED, first[0], first[1].event.sent_ns, _reason(first[1])),)


def _at_ns(trigger: Trigger) -> int:
    return trigger.at_ns


def departures(requests: Iterable[Observation]) -> list[Trigger]:
    """Return the members that left with LeaveGroup."""
    found = []
    for each in requests:
        if each.api_key != int(ApiKey.LEAVE_GROUP) or each.response is None:
            continue
        if each.response.error_code:
            continue
        rows = [(row.member_id, row.reason) for row in each.request.members or ()]
        for member, reason in rows or [(each.request.member_id, None)]:
            found.append(Trigger(LEFT, member, each.event.sent_ns, reason or ""))
    return found


def _reason(join: Observation) -> str:
    return join.request.reason or ""
