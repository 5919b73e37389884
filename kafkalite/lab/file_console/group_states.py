"""CapturedGroup: the state of a group, as the requests of its members and their answers show it."""

from __future__ import annotations

from array import array
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Final

from kafkalite.control.console.source import Commit, MemberAssignment
from kafkalite.control.group_status import (
    EMPTY,
    GroupMember,
    GroupOffset,
    GroupStatus,
    ListedGroup,
    TopicPartitions,
)
from kafkalite.groups.classic.membership import subscribed_topics
from kafkalite.lab.checker.groups.generations import departures, partitions_in
from kafkalite.lab.checker.groups.requests import GROUP_APIS, milliseconds, time_of
from kafkalite.lab.checker.groups.timeline import accepted_commits, member_of
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from kafkalite.coordinator.event_history import Entry
    from kafkalite.lab.checker.collecting import Observation

MAX_REQUESTS: Final = 100_000
"""The maximum number of requests of a group, the latest, from which its time line is made."""

_STABLE: Final = "Stable"
_PREPARING: Final = "PreparingRebalance"
_COMPLETING: Final = "CompletingRebalance"
_CLASSIC: Final = "classic"
_REBALANCE: Final = int(ErrorCode.REBALANCE_IN_PROGRESS)
_GONE: Final = frozenset(
    int(each)
    for each in (
        ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID, ErrorCode.FENCED_MEMBER_EPOCH
    )
)  # fmt: skip
_HEARTBEAT: Final = int(ApiKey.HEARTBEAT)
_MODERN_TYPES: Final[Mapping[int, str]] = {
    int(ApiKey.CONSUMER_GROUP_HEARTBEAT): "consumer",
    int(ApiKey.SHARE_GROUP_HEARTBEAT): "share",
    int(ApiKey.STREAMS_GROUP_HEARTBEAT): "streams",
}
_NEWS: Final = (
    "subscribed_topic_names", "subscribed_topic_regex", "topic_partitions", "rack_id",
    "active_tasks", "standby_tasks", "topology",
)  # fmt: skip
"""Fields of a heartbeat that are null if nothing changed."""
_ABOUT_ALL: Final = frozenset((int(ApiKey.JOIN_GROUP), int(ApiKey.LEAVE_GROUP)))
_ENDED: Final = -1
"""The epoch of a member after its end."""
_NO_COORDINATOR: Final = -1
_EXPIRED, _JOINED, _MEMBER = "expired", "joined", "member_id"


def is_about_group(seen: Observation) -> bool:
    """Return whether a request is one of the members of a group."""
    return seen.api_key in GROUP_APIS and seen.request is not None


class GroupState:
    """The state of a group after some requests, in the order of their answers."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self._type = _CLASSIC
        self._protocol_type = self._protocol = ""
        self._state = EMPTY
        self._epoch = 0
        self._members: dict[str, GroupMember] = {}
        self._offsets: dict[tuple[str, int], GroupOffset] = {}

    def add(self, seen: Observation, names: Mapping[bytes, str]) -> None:
        """Change the state by the answer to a request; one without an answer changes nothing."""
        if seen.response is None:
            return
        handle = self._HANDLERS.get(seen.api_key)
        if handle is not None:
            handle(self, seen, names)

    def member(self, member_id: str) -> GroupMember | None:
        """Return a member; None if it is none now."""
        return self._members.get(member_id)

    def status(self) -> GroupStatus:
        """Return the group, without ends of partitions and lags."""
        owners = {
            (row.topic, number): each.member_id
            for each in self._members.values()
            for row in each.assignment
            for number in row.partitions
        }
        return GroupStatus(
            group_id=self.group_id,
            type=self._type,
            protocol_type=self._protocol_type,
            protocol=self._protocol,
            state=self._state,
            epoch=self._epoch,
            assignment_epoch=None,
            coordinator=None,
            members=tuple(self._members[each] for each in sorted(self._members)),
            offsets=tuple(
                replace(each, member_id=owners.get(place))
                for place, each in sorted(self._offsets.items())
            ),
        )

    def listed(self) -> ListedGroup:
        """Return the group as in a list."""
        return ListedGroup(
            self.group_id,
            self._type,
            self._protocol_type,
            self._state,
            _NO_COORDINATOR,
            len(self._members),
        )

    # -- classic groups --------------------------------------------------------------------

    def _joined(self, seen: Observation, _: Mapping[bytes, str]) -> None:
        request, response = seen.request, seen.response
        if response.error_code:
            self._refused(seen, response.error_code)
            return
        self._type, self._protocol_type = _CLASSIC, request.protocol_type
        self._protocol = response.protocol_name or ""
        self._epoch, self._state = response.generation_id, _COMPLETING
        if response.members:  # the leader gets all of them
            listed = {each.member_id for each in response.members}
            self._members = {name: each for name, each in self._members.items() if name in listed}
        metadata = next((bytes(each.metadata) for each in request.protocols or ()), b"")
        self._note(seen, response.member_id, response.generation_id, _subscribed(metadata))

    def _synchronized(self, seen: Observation, _: Mapping[bytes, str]) -> None:
        request, response = seen.request, seen.response
        if response.error_code:
            self._refused(seen, response.error_code)
            return
        self._state = _STABLE
        assigned = _by_topic(partitions_in(response.assignment))
        self._note(seen, request.member_id, request.generation_id, None, assigned)

    def _beaten(self, seen: Observation, _: Mapping[bytes, str]) -> None:
        if seen.response.error_code:
            self._refused(seen, seen.response.error_code)

    def _refused(self, seen: Observation, code: int) -> None:
        if code == _REBALANCE:
            self._state = _PREPARING
        elif code in _GONE:
            self._remove(member_of(seen))

    def _left(self, seen: Observation, _: Mapping[bytes, str]) -> None:
        for each in departures((seen,)):
            self._remove(each.member)
        if self._members and not seen.response.error_code:
            self._state = _PREPARING

    def _remove(self, member_id: str) -> None:
        self._members.pop(member_id, None)
        if not self._members:
            self._state = EMPTY

    # -- groups of the newer protocols -----------------------------------------------------

    def _beaten_modern(self, seen: Observation, names: Mapping[bytes, str]) -> None:
        request, response = seen.request, seen.response
        self._type = _MODERN_TYPES[seen.api_key]
        self._protocol_type = self._type
        if response.error_code:
            self._refused(seen, response.error_code)
            return
        member_id = member_of(seen)
        if request.member_epoch < 0:
            self._remove(member_id)
            return
        self._state = _STABLE
        self._epoch = max(self._epoch, response.member_epoch)
        self._protocol = getattr(request, "server_assignor", None) or self._protocol
        subscribed = getattr(request, "subscribed_topic_names", None)
        topics = None if subscribed is None else tuple(subscribed)
        assignment = getattr(response, "assignment", None)
        assigned = None
        if assignment is not None:
            assigned = tuple(
                TopicPartitions(names.get(row.topic_id, "?"), tuple(sorted(row.partitions)))
                for row in assignment.topic_partitions
            )
        self._note(seen, member_id, response.member_epoch, topics, assigned)
        tasks = getattr(response, "active_tasks", None)
        if tasks is not None:
            self._members[member_id] = replace(
                self._members[member_id],
                active_tasks=tuple(
                    f"{task.subtopology_id}_{number}"
                    for task in tasks
                    for number in task.partitions
                ),
            )

    def _note(
        self,
        seen: Observation,
        member_id: str,
        epoch: int,
        topics: tuple[str, ...] | None,
        assigned: tuple[TopicPartitions, ...] | None = None,
    ) -> None:
        """Note a member; None for topics or partitions that did not change."""
        known = self._members.get(member_id)
        client = seen.event.client
        instance = getattr(seen.request, "group_instance_id", None) or getattr(
            seen.request, "instance_id", None
        )
        if known is None:
            known = GroupMember(
                member_id, instance, client.id, f"/{client.host}", self._type, epoch, (), ()
            )
        self._members[member_id] = replace(
            known,
            epoch=epoch,
            subscription=known.subscription if topics is None else topics,
            assignment=known.assignment if assigned is None else assigned,
        )

    # -- commits ---------------------------------------------------------------------------

    def _committed(self, seen: Observation, names: Mapping[bytes, str]) -> None:
        for topic, row in accepted_commits(seen, names):
            self._offsets[topic, row.partition_index] = GroupOffset(
                topic=topic,
                partition=row.partition_index,
                offset=row.committed_offset,
                leader_epoch=_known(row.committed_leader_epoch),
                metadata=row.committed_metadata or "",
                committed_ms=milliseconds(time_of(seen)),
                end_offset=None,
                lag=None,
                member_id=None,
            )

    _HANDLERS: ClassVar[
        Mapping[int, Callable[[GroupState, Observation, Mapping[bytes, str]], None]]
    ] = {
        int(ApiKey.JOIN_GROUP): _joined,
        int(ApiKey.SYNC_GROUP): _synchronized,
        _HEARTBEAT: _beaten,
        int(ApiKey.LEAVE_GROUP): _left,
        int(ApiKey.OFFSET_COMMIT): _committed,
        int(ApiKey.TXN_OFFSET_COMMIT): _committed,
        **dict.fromkeys(_MODERN_TYPES, _beaten_modern),
    }


def assignments_of(
    group: str, requests: Iterable[Observation], names: Mapping[bytes, str]
) -> Iterator[MemberAssignment]:
    """Yield what members had after requests, whenever it changed, and the ends of members."""
    state, latest = GroupState(group), dict[str, GroupMember]()
    for each in requests:
        state.add(each, names)
        # The leader's JoinGroup and LeaveGroup may end other members.
        is_about_all = each.api_key in _ABOUT_ALL
        for member_id in dict.fromkeys((member_of(each), *(latest if is_about_all else ()))):
            member, before = state.member(member_id), latest.get(member_id)
            if member is None:
                if latest.pop(member_id, None) is not None:
                    yield MemberAssignment(milliseconds(time_of(each)), member_id, _ENDED, {})
                continue
            latest[member_id] = member
            if before is None or before.assignment != member.assignment:
                yield MemberAssignment(
                    milliseconds(time_of(each)),
                    member_id,
                    member.epoch,
                    {row.topic: row.partitions for row in member.assignment},
                )


def without_silent_members(status: GroupStatus, entries: Iterable[Entry]) -> GroupStatus:
    """Return a group without the members that expired, which no answer says.

    `entries` are the events of its time line up to then.
    """
    expired: set[object] = set()
    for each in entries:
        if each.kind == _EXPIRED:
            expired.add(each.facts[_MEMBER])
        elif each.kind == _JOINED:
            expired.discard(each.facts[_MEMBER])
    members = tuple(each for each in status.members if each.member_id not in expired)
    if len(members) == len(status.members):
        return status
    offsets = tuple(
        replace(each, member_id=None) if each.member_id in expired else each
        for each in status.offsets
    )
    state = status.state if members else EMPTY
    return replace(status, members=members, offsets=offsets, state=state)


class CapturedGroup:
    """A group in captures: its state at the end, and the numbers of the requests that matter.

    Heartbeats that changed nothing do not matter: only the time of the last one is known.
    """

    def __init__(self, group_id: str) -> None:
        self.state = GroupState(group_id)
        self._numbers = array("Q")
        self._until_ns = array("q")
        self._latest: dict[str, int] = {}
        """Member → place of its latest request in the arrays."""
        self.is_complete = True
        """Whether no request was left out because there are too many."""

    def add(self, seen: Observation, names: Mapping[bytes, str], number: int) -> None:
        """Add a request with its number."""
        self.state.add(seen, names)
        place = self._latest.get(member_of(seen))
        if _is_quiet(seen) and place is not None:
            self._until_ns[place] = max(self._until_ns[place], time_of(seen))
            return
        self._latest[member_of(seen)] = len(self._numbers)
        self._numbers.append(number)
        self._until_ns.append(time_of(seen))
        if len(self._numbers) > 2 * MAX_REQUESTS:
            self._remove_oldest()

    def _remove_oldest(self) -> None:
        count = len(self._numbers) - MAX_REQUESTS
        del self._numbers[:count], self._until_ns[:count]
        self._latest = {
            name: place - count for name, place in self._latest.items() if place >= count
        }
        self.is_complete = False

    def requests(self) -> Iterator[tuple[int, int]]:
        """Yield the numbers of requests, each with the time until which equal ones followed."""
        return zip(self._numbers[-MAX_REQUESTS:], self._until_ns[-MAX_REQUESTS:], strict=True)


def _is_quiet(seen: Observation) -> bool:
    """Return whether a request is a heartbeat that changed nothing."""
    response = seen.response
    if response is None or bool(getattr(response, "error_code", 0)):
        return False
    if seen.api_key == _HEARTBEAT:
        return True
    if seen.api_key not in _MODERN_TYPES or seen.request.member_epoch <= 0:
        return False
    return (
        seen.request.member_epoch == response.member_epoch
        and getattr(response, "assignment", None) is None
        and getattr(response, "active_tasks", None) is None
        and all(getattr(seen.request, name, None) is None for name in _NEWS)
    )


def commits_of(requests: Iterable[Observation], names: Mapping[bytes, str]) -> Iterator[Commit]:
    """Yield the accepted commits of requests."""
    for each in requests:
        for topic, row in accepted_commits(each, names):
            yield Commit(
                topic, row.partition_index, row.committed_offset, milliseconds(time_of(each))
            )


def _subscribed(metadata: bytes) -> tuple[str, ...]:
    try:
        return tuple(sorted(subscribed_topics(metadata)))
    except ValueError:
        return ()


def _by_topic(partitions: Iterable[tuple[str, int]]) -> tuple[TopicPartitions, ...]:
    found: dict[str, list[int]] = {}
    for topic, number in sorted(partitions):
        found.setdefault(topic, []).append(number)
    return tuple(TopicPartitions(topic, tuple(numbers)) for topic, numbers in found.items())


def _known(epoch: Any) -> int | None:  # noqa: ANN401 - a field that old versions lack
    return epoch if isinstance(epoch, int) and epoch >= 0 else None
