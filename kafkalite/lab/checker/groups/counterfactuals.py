"""What other rules would have changed in a group: the rebalances of a capture, replayed.

The functions are pure: they replay what members did under another rule, and compare how long
partitions were idle and how many commits were refused. Partitions stand still from the time when
a member gives them up until a member gets them again.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from kafkalite.lab.checker.fetched_batches import topic_of
from kafkalite.lab.checker.groups.consumer_rebalances import ConsumerRebalances
from kafkalite.lab.checker.groups.generations import (
    JOINED,
    LEFT,
    REMOVED,
    Rebalance,
    Restart,
    Standstill,
    generations_of,
)
from kafkalite.lab.checker.groups.requests import time_of
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kafkalite.lab.checker.collecting import Observation
    from kafkalite.lab.checker.groups.generations import Generation, TopicPartition
    from kafkalite.lab.checker.groups.requests import GroupRequests

COOPERATIVE: Final = "cooperative assignment"
CONSUMER_PROTOCOL: Final = "KIP-848"
STATIC_MEMBERSHIP: Final = "static membership"
RELAXED_FENCING: Final = "relaxed fencing"

_CLASSIC_HEARTBEAT_NS: Final = 3_000_000_000
"""Default of `heartbeat.interval.ms` of consumers."""
_HEARTBEAT_NS: Final = 5_000_000_000
"""Default of `group.consumer.heartbeat.interval.ms`."""
_MILLISECOND_NS: Final = 1_000_000
_SECOND_NS: Final = 1_000_000_000
_COMMITS: Final = frozenset((int(ApiKey.OFFSET_COMMIT), int(ApiKey.TXN_OFFSET_COMMIT)))
_STALE: Final = frozenset((int(ErrorCode.ILLEGAL_GENERATION), int(ErrorCode.STALE_MEMBER_EPOCH)))

ASSUMPTIONS: Final = (
    "members do the same work at the same times, and assignments are those of the capture",
    (
        "a partition stands still from the member's JoinGroup or LeaveGroup, or from the last "
        "request of a member that was removed, until the answer to SyncGroup of its next owner"
    ),
    (
        "cooperative assignment: partitions that stay with their owner do not stand still, and "
        "those that move stand still for one heartbeat interval of 3 s, until a second rebalance "
        "has ended, unless it was less in the capture"
    ),
    (
        "KIP-848: partitions that stay do not stand still, and those that move stand still for one "
        "heartbeat interval of 5 s, unless it was less in the capture"
    ),
    (
        "static membership: a client that leaves or is removed, and joins again from the same host "
        "within its session timeout, causes no rebalance; its own partitions wait for it"
    ),
    (
        "relaxed fencing: a commit of an earlier generation is accepted if its member has the "
        "partition in both generations (KIP-1251); KIP-848 is assumed to have this rule"
    ),
    (
        "a group of the consumer protocol has KIP-848 already, so only static membership and "
        "relaxed fencing change it; a partition of it stands still from the answer that takes it "
        "away, or from the last heartbeat of a member that left or was removed, until the answer "
        "that gives it to the next owner; its session timeout is 45 s, the default of a broker"
    ),
    "partitions whose next owner is not in the capture are left out",
)
"""What the numbers assume, for a report."""


@dataclass(frozen=True, slots=True)
class Counterfactual:
    """The difference that another rule makes to a group."""

    group: str
    rule: str
    rebalances: int
    """Rebalances of the group with another one before them."""
    fewer_rebalances: int
    partition_seconds: float
    """How long partitions were idle in the capture, added up."""
    fewer_partition_seconds: float
    refused_commits: int
    """Offsets of partitions whose commit was refused."""
    fewer_refused_commits: int

    def __str__(self) -> str:
        seconds = self.fewer_partition_seconds
        change = "fewer" if seconds >= 0 else "more"
        return (
            f"group {self.group} with {self.rule}: {self.fewer_rebalances} of {self.rebalances} "
            f"rebalances fewer, {abs(seconds):.1f} partition-seconds of standstill {change} than "
            f"{self.partition_seconds:.1f}, {self.fewer_refused_commits} of "
            f"{self.refused_commits} refused commits fewer"
        )


def counterfactuals(requests: GroupRequests) -> list[Counterfactual]:
    """Return the rows of all groups in which partitions were idle or commits were refused."""
    return [row for group in requests.groups for row in _of_group(requests, group)]


def _of_group(requests: GroupRequests, group: str) -> Iterator[Counterfactual]:
    own = requests.of(group)
    generations = generations_of(own)
    consumers = ConsumerRebalances(own, requests.topic_names)
    if consumers.rebalances and not generations:
        yield from _of_consumer_group(group, consumers)
        return
    rebalances = _rebalances(own, generations)
    refused, accepted_if_relaxed = _refused_commits(own, generations)
    total = sum(each.length_ns for row in rebalances for each in row.standstills)
    if not total and not refused:
        return
    static = _restarts(own, rebalances)
    changes = {
        COOPERATIVE: (0, sum(map(_fewer_if_cooperative, rebalances)), 0),
        CONSUMER_PROTOCOL: (0, sum(map(_fewer_with_kip_848, rebalances)), accepted_if_relaxed),
        STATIC_MEMBERSHIP: (*_fewer_if_static(rebalances, static), 0),
        RELAXED_FENCING: (0, 0, accepted_if_relaxed),
    }
    yield from _rows(group, rebalances, refused, changes)


def _of_consumer_group(group: str, consumers: ConsumerRebalances) -> Iterator[Counterfactual]:
    """Yield the rules that change a group of the consumer protocol: KIP-848 is its own."""
    rebalances = consumers.rebalances
    refused, accepted_if_relaxed = consumers.refused_commits()
    if not refused and not any(each.length_ns for row in rebalances for each in row.standstills):
        return
    changes = {
        STATIC_MEMBERSHIP: (*_fewer_if_static(rebalances, consumers.restarts), 0),
        RELAXED_FENCING: (0, 0, accepted_if_relaxed),
    }
    yield from _rows(group, rebalances, refused, changes)


def _rows(
    group: str,
    rebalances: Sequence[Rebalance],
    refused: int,
    changes: Mapping[str, tuple[int, int, int]],
) -> Iterator[Counterfactual]:
    total = sum(each.length_ns for row in rebalances for each in row.standstills)
    for rule, (fewer_rebalances, fewer_ns, fewer_refused) in changes.items():
        yield Counterfactual(
            group=group,
            rule=rule,
            rebalances=len(rebalances),
            fewer_rebalances=fewer_rebalances,
            partition_seconds=total / _SECOND_NS,
            fewer_partition_seconds=fewer_ns / _SECOND_NS,
            refused_commits=refused,
            fewer_refused_commits=fewer_refused,
        )


# -- rebalances of the capture -----------------------------------------------------------------


def _rebalances(
    requests: Sequence[Observation], generations: Sequence[Generation]
) -> list[Rebalance]:
    found = []
    for before, after in pairwise(generations):
        owners = {
            partition: member
            for member, each in before.assigned.items()
            for partition in each.partitions
        }
        next_owners = {
            partition: (member, each.at_ns)
            for member, each in after.assigned.items()
            for partition in each.partitions
        }
        standstills = []
        for partition, owner in owners.items():
            if partition not in next_owners:
                continue
            next_owner, until_ns = next_owners[partition]
            if _is_cooperative(after) and owner == next_owner:
                continue  # the member has it all the time
            from_ns, is_alive = _given_up(requests, after, owner)
            standstills.append(
                Standstill(partition, owner, next_owner, from_ns, until_ns, is_alive)
            )
        found.append(Rebalance(before, after, tuple(standstills)))
    return found


def _is_cooperative(generation: Generation) -> bool:
    return "cooperative" in generation.protocol


def _given_up(requests: Sequence[Observation], after: Generation, owner: str) -> tuple[int, bool]:
    """Return when a member gave up its partitions, and whether it did so itself."""
    join = after.joins.get(owner)
    if join is not None:
        return join.event.sent_ns, True
    for each in after.triggers:
        if each.member == owner and each.kind == LEFT:
            return each.at_ns, True
    own = [
        each.event.sent_ns
        for each in requests
        if getattr(each.request, "member_id", "") == owner and time_of(each) < after.begun_ns
    ]
    return max(own, default=after.started_ns), False


# -- other rules -------------------------------------------------------------------------------


def _fewer_if_cooperative(rebalance: Rebalance) -> int:
    if _is_cooperative(rebalance.after):
        return 0
    return sum(
        each.length_ns - (min(each.length_ns, _CLASSIC_HEARTBEAT_NS) if each.has_moved else 0)
        for each in rebalance.standstills
        if each.is_alive
    )


def _fewer_with_kip_848(rebalance: Rebalance) -> int:
    return sum(
        each.length_ns - (min(each.length_ns, _HEARTBEAT_NS) if each.has_moved else 0)
        for each in rebalance.standstills
        if each.is_alive
    )


def _restarts(requests: Sequence[Observation], rebalances: Sequence[Rebalance]) -> list[Restart]:
    """Return the members without an instance id that came back within their session timeout."""
    joins = {
        member: join
        for row in rebalances
        for generation in (row.before, row.after)
        for member, join in generation.joins.items()
    }
    gone = [
        trigger
        for row in rebalances
        for trigger in row.after.triggers
        if trigger.kind in {LEFT, REMOVED} and trigger.member in joins
    ]
    found = []
    for row in rebalances:
        for trigger in row.after.triggers:
            if trigger.kind != JOINED:
                continue
            new = row.after.joins[trigger.member]
            for each in [*gone]:
                old = joins[each.member]
                last_ns = _last_request_ns(requests, each.member, row.after.begun_ns)
                is_back = (
                    each.member != trigger.member
                    and old.event.client == new.event.client
                    and not old.request.group_instance_id
                    and last_ns <= new.event.sent_ns
                    and new.event.sent_ns - last_ns
                    <= old.request.session_timeout_ms * _MILLISECOND_NS
                )
                if is_back:
                    assigned = row.after.assigned.get(trigger.member)
                    back_ns = row.after.begun_ns if assigned is None else assigned.at_ns
                    found.append(Restart(each.member, trigger.member, back_ns))
                    gone.remove(each)
                    break
    return found


def _last_request_ns(requests: Sequence[Observation], member: str, before_ns: int) -> int:
    own = (
        each.event.sent_ns
        for each in requests
        if getattr(each.request, "member_id", "") == member and each.event.sent_ns < before_ns
    )
    return max(own, default=0)


def _fewer_if_static(
    rebalances: Sequence[Rebalance], restarts: Sequence[Restart]
) -> tuple[int, int]:
    """Return by how many rebalances there are fewer, and by how much partitions stand still less.

    A rebalance is not needed if restarts are its only triggers. The partitions of a restarted
    member stand still until it is back.
    """
    gone = {each.member for each in restarts}
    returned = {each.new_member for each in restarts}
    needless = {LEFT: gone, REMOVED: gone, JOINED: returned}
    back_ns = {each.member: each.back_ns for each in restarts}
    count = fewer_ns = 0
    waited: set[tuple[str, TopicPartition]] = set()
    for row in rebalances:
        if not row.after.triggers or any(
            each.member not in needless.get(each.kind, ()) for each in row.after.triggers
        ):
            continue
        count += 1
        for each in row.standstills:
            fewer_ns += each.length_ns
            if each.owner in back_ns and (each.owner, each.partition) not in waited:
                waited.add((each.owner, each.partition))
                fewer_ns -= max(0, back_ns[each.owner] - each.from_ns)
    return count, fewer_ns


# -- commits -----------------------------------------------------------------------------------


def _refused_commits(
    requests: Sequence[Observation], generations: Sequence[Generation]
) -> tuple[int, int]:
    """Return the number of refused offsets, and of those that relaxed fencing accepts."""
    refused = relaxed = 0
    for each in requests:
        if each.api_key not in _COMMITS or each.response is None:
            continue
        for topic in each.response.topics:
            for row in topic.partitions:
                if not row.error_code:
                    continue
                refused += 1
                partition = topic_of(topic), row.partition_index
                relaxed += row.error_code in _STALE and _has_both(each, partition, generations)
    return refused, relaxed


def _has_both(
    commit: Observation, partition: tuple[Any, int], generations: Sequence[Generation]
) -> bool:
    """Return whether a member had a partition at the generation of its commit, and has it now."""
    number, member = commit.request.generation_id_or_member_epoch, commit.request.member_id
    own = next((each for each in generations if each.number == number), None)
    begun = [each for each in generations if each.begun_ns < time_of(commit)]
    if own is None or not begun or begun[-1].number <= number:
        return False
    return all(
        member in each.assigned and partition in each.assigned[member].partitions
        for each in (own, begun[-1])
    )
