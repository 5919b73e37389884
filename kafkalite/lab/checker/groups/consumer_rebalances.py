"""Rebalances of a group of the consumer protocol (KIP-848), from the heartbeats of its members."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from kafkalite.lab.checker.fetched_batches import topic_of
from kafkalite.lab.checker.groups.generations import (
    JOINED,
    LEFT,
    REJOINED,
    REMOVED,
    Generation,
    Rebalance,
    Restart,
    Standstill,
    Trigger,
)
from kafkalite.lab.checker.groups.requests import time_of
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kafkalite.lab.checker.collecting import Observation
    from kafkalite.lab.checker.groups.generations import TopicPartition
    from kafkalite.lab.checker.history import Client

_SESSION_NS: Final = 45_000_000_000
"""Default of `group.consumer.session.timeout.ms`, which no request names."""
_COMMITS: Final = frozenset((int(ApiKey.OFFSET_COMMIT), int(ApiKey.TXN_OFFSET_COMMIT)))


class _Given(NamedTuple):
    """The partitions of a member from an answer on."""

    at_ns: int
    epoch: int
    partitions: frozenset[TopicPartition]


class _Gone(NamedTuple):
    """A member that left or was removed, and its client."""

    member: str
    client: Client
    last_ns: int
    is_static: bool


class _Lost(NamedTuple):
    """A partition without an owner."""

    owner: str
    from_ns: int
    epoch: int
    is_alive: bool


class ConsumerRebalances:
    """The epochs of a group, which partitions were idle in each, and the members that came back."""

    def __init__(self, requests: Sequence[Observation], topic_names: Mapping[bytes, str]) -> None:
        """Read the requests of one group, in the order of their answers."""
        self._requests = requests
        self._names = topic_names
        self._given: dict[str, list[_Given]] = {}
        """Member → its assignments, also after it left."""
        self._members: dict[str, Observation] = {}
        """Member → its latest heartbeat."""
        self._lost: dict[TopicPartition, _Lost] = {}
        self._epochs: list[Generation] = []
        self._standstills: dict[int, list[Standstill]] = {}
        self._pending: list[Trigger] = []
        self._gone: list[_Gone] = []
        self.restarts: list[Restart] = []
        for each in requests:
            is_heartbeat = each.api_key == int(ApiKey.CONSUMER_GROUP_HEARTBEAT)
            if is_heartbeat and each.response is not None:
                self._heartbeat(each)

    @property
    def rebalances(self) -> list[Rebalance]:
        """The epochs after the first one."""
        return [
            Rebalance(before, after, tuple(self._standstills.get(after.number, ())))
            for before, after in pairwise(self._epochs)
        ]

    def refused_commits(self) -> tuple[int, int]:
        """Return the number of refused offsets, and of those that relaxed fencing accepts."""
        refused = [*self._refused()]
        return len(refused), sum(is_accepted for is_accepted in refused)

    # -- heartbeats ----------------------------------------------------------------------------

    def _heartbeat(self, each: Observation) -> None:
        request, response = each.request, each.response
        member = request.member_id or response.member_id or ""
        if response.error_code:
            if response.error_code in _REMOVING and member in self._members:
                self._remove(member, REMOVED, time_of(self._members[member]))
            return
        if request.member_epoch < 0:
            if request.member_epoch == _LEAVES:
                self._remove(member, LEFT, each.event.sent_ns)
            return
        if request.member_epoch == 0 and member not in self._members:
            self._pending.append(Trigger(JOINED, member, each.event.sent_ns, ""))
            self._note_return(member, each)
        elif request.subscribed_topic_names is not None:
            self._pending.append(Trigger(REJOINED, member, each.event.sent_ns, ""))
        self._members[member] = each
        if not self._epochs or response.member_epoch > self._epochs[-1].number:
            self._begin(response.member_epoch, time_of(each))
        if response.assignment is not None:
            self._assign(member, each)

    def _begin(self, epoch: int, at_ns: int) -> None:
        before = self._epochs[-1].number if self._epochs else -1
        triggers = tuple(self._pending)
        self._pending.clear()
        self._epochs.append(Generation(epoch, before, at_ns, "", "", triggers=triggers))
        for partition, lost in self._lost.items():  # by the departure that this epoch follows
            if lost.epoch <= before and any(lost.owner == each.member for each in triggers):
                self._lost[partition] = lost._replace(epoch=epoch)

    def _assign(self, member: str, each: Observation) -> None:
        at_ns, epoch = time_of(each), each.response.member_epoch
        partitions = frozenset(
            (self._named(topic.topic_id), number)
            for topic in each.response.assignment.topic_partitions
            for number in topic.partitions
        )
        own = self._given.setdefault(member, [])
        before = own[-1].partitions if own else frozenset()
        own.append(_Given(at_ns, epoch, partitions))
        latest = self._epochs[-1].number
        for partition in before - partitions:
            self._lost[partition] = _Lost(member, at_ns, latest, is_alive=True)
        for partition in partitions - before:
            if partition not in self._lost:
                self._expire_owner(partition, member)
            lost = self._lost.pop(partition, None)
            if lost is not None:
                self._standstills.setdefault(lost.epoch, []).append(
                    Standstill(partition, lost.owner, member, lost.from_ns, at_ns, lost.is_alive)
                )

    def _expire_owner(self, partition: TopicPartition, next_owner: str) -> None:
        """Remove the member of which no answer took a partition that another one got.

        The coordinator gives a partition to another member only if its owner released it, or was
        removed.
        """
        for member, latest in [*self._members.items()]:
            own = self._given.get(member, [])
            if member != next_owner and own and partition in own[-1].partitions:
                self._remove(member, REMOVED, time_of(latest))
                self._epochs[-1].triggers += (self._pending.pop(),)

    def _remove(self, member: str, kind: str, at_ns: int) -> None:
        latest = self._members.pop(member, None)
        if latest is None:
            return
        self._pending.append(Trigger(kind, member, at_ns, ""))
        is_static = bool(latest.request.instance_id)
        self._gone.append(_Gone(member, latest.event.client, at_ns, is_static))
        own = self._given.get(member, [])
        epoch = self._epochs[-1].number if self._epochs else -1
        for partition in own[-1].partitions if own else ():
            self._lost[partition] = _Lost(member, at_ns, epoch, is_alive=kind == LEFT)
        self._given.setdefault(member, []).append(_Given(at_ns, epoch, frozenset()))

    def _note_return(self, member: str, each: Observation) -> None:
        """Note that a new member is the client of one that has gone within its session timeout."""
        for gone in self._gone:
            waited_ns = each.event.sent_ns - gone.last_ns
            if (
                gone.member != member
                and gone.client == each.event.client
                and not gone.is_static
                and 0 <= waited_ns <= _SESSION_NS
            ):
                self.restarts.append(Restart(gone.member, member, time_of(each)))
                self._gone.remove(gone)
                return

    def _named(self, topic: Any) -> Any:  # noqa: ANN401 - a name or an id
        return self._names.get(topic, topic) if isinstance(topic, bytes) else topic

    # -- commits -------------------------------------------------------------------------------

    def _refused(self) -> Iterator[bool]:
        """Yield for each refused offset whether its member has the partition since its epoch."""
        for each in self._requests:
            if each.api_key not in _COMMITS or each.response is None:
                continue
            for topic in each.response.topics:
                for row in topic.partitions:
                    if row.error_code:
                        partition = self._named(topic_of(topic)), row.partition_index
                        is_stale = row.error_code == int(ErrorCode.STALE_MEMBER_EPOCH)
                        yield is_stale and self._still_has(each, partition)

    def _still_has(self, commit: Observation, partition: tuple[Any, int]) -> bool:
        own = [
            given
            for given in self._given.get(commit.request.member_id, ())
            if given.at_ns < time_of(commit)
        ]
        epoch = commit.request.generation_id_or_member_epoch
        since = [given for given in own if given.epoch <= epoch][-1:]
        later = [given for given in own if given.epoch > epoch]
        return bool(since) and all(partition in given.partitions for given in (*since, *later))


_LEAVES: Final = -1
"""The epoch of a member that leaves; one that leaves temporarily, with -2, comes back."""
_REMOVING: Final = frozenset((int(ErrorCode.UNKNOWN_MEMBER_ID), int(ErrorCode.FENCED_MEMBER_EPOCH)))
"""Errors by which a member learns that it was removed."""
