"""The events of a group that its records in `__consumer_offsets` show, as entries of a history."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kafkalite.control.time_travel.points import LATEST
from kafkalite.control.time_travel.replay import needle_of, new_replay
from kafkalite.control.time_travel.scan import Scan
from kafkalite.control.time_travel.view import applied_records
from kafkalite.coordinator.event_history import Entry
from kafkalite.coordinator.member_clients import MemberClient
from kafkalite.metadata.internal_topics import OFFSETS_TOPIC
from kafkalite.ports.texts import count_text
from kafkalite.protocol._generated.records.consumer_group_current_member_assignment import (
    ConsumerGroupCurrentMemberAssignmentKey,
)
from kafkalite.protocol._generated.records.consumer_group_member_metadata import (
    ConsumerGroupMemberMetadataKey,
)
from kafkalite.protocol._generated.records.consumer_group_metadata import ConsumerGroupMetadataKey
from kafkalite.protocol._generated.records.group_metadata import GroupMetadataKey
from kafkalite.protocol._generated.records.share_group_current_member_assignment import (
    ShareGroupCurrentMemberAssignmentKey,
)
from kafkalite.protocol._generated.records.share_group_member_metadata import (
    ShareGroupMemberMetadataKey,
)
from kafkalite.protocol._generated.records.share_group_metadata import ShareGroupMetadataKey
from kafkalite.protocol._generated.records.streams_group_current_member_assignment import (
    StreamsGroupCurrentMemberAssignmentKey,
)
from kafkalite.protocol._generated.records.streams_group_member_metadata import (
    StreamsGroupMemberMetadataKey,
)
from kafkalite.protocol._generated.records.streams_group_metadata import StreamsGroupMetadataKey

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from kafkalite.control.time_travel.logs import LogSource
    from kafkalite.coordinator.event_history import Fact
    from kafkalite.metadata.image import MetadataImage

_EPOCH_KEYS: Final = (ConsumerGroupMetadataKey, ShareGroupMetadataKey, StreamsGroupMetadataKey)
_MEMBER_KEYS: Final = (
    ConsumerGroupMemberMetadataKey,
    ShareGroupMemberMetadataKey,
    StreamsGroupMemberMetadataKey,
)
_ASSIGNMENT_KEYS: Final = (
    ConsumerGroupCurrentMemberAssignmentKey,
    ShareGroupCurrentMemberAssignmentKey,
    StreamsGroupCurrentMemberAssignmentKey,
)
_MAX_PARTITIONS: Final = 8


class _Event:
    """What happened, before it has a number."""

    __slots__ = ("facts", "kind", "text")

    def __init__(self, kind: str, text: str, **facts: Fact) -> None:
        self.kind = kind
        self.text = text
        self.facts: Mapping[str, Fact] = facts


class _GroupEvents:
    """Compares the records of a group with the earlier ones."""

    def __init__(self, group: str, image: MetadataImage) -> None:
        self._group = group
        self._image = image
        self._generation = 0
        self._classic_members: set[str] = set()
        self._members: set[str] = set()
        self.clients: dict[str, MemberClient] = {}
        self._handlers: Mapping[type, Callable[[Any, Any], Iterator[_Event]]] = {
            GroupMetadataKey: self._classic,
            **dict.fromkeys(_EPOCH_KEYS, self._epoch),
            **dict.fromkeys(_MEMBER_KEYS, self._member),
            **dict.fromkeys(_ASSIGNMENT_KEYS, self._assignment),
        }

    def events(self, key: Any, value: Any) -> Iterator[_Event]:  # noqa: ANN401 - of any record
        """Yield what a record changes; nothing for commits and other groups."""
        handle = self._handlers.get(type(key))
        name = getattr(key, "group_id", None) or getattr(key, "group", None)
        if handle is not None and name == self._group:
            yield from handle(key, value)

    def _classic(self, _: Any, value: Any) -> Iterator[_Event]:  # noqa: ANN401 - as above
        if value is None:
            self._classic_members.clear()
            yield _Event("removed", f"group {self._group} was removed")
            return
        present = {each.member_id for each in value.members}
        for each in value.members:
            host = each.client_host.removeprefix("/")
            self.clients[each.member_id] = MemberClient(each.member_id, each.client_id, host)
        for member in sorted(present - self._classic_members):
            yield _Event("joined", f"member {member} joined", member_id=member)
        for member in sorted(self._classic_members - present):
            yield _Event("left", f"member {member} left or was removed", member_id=member)
        self._classic_members = present
        if value.generation != self._generation:
            self._generation = value.generation
            count = count_text(len(present), "member")
            led = f", led by {value.leader}, protocol {value.protocol}" if present else ""
            text = f"generation {value.generation} of group {self._group} has {count}{led}"
            yield _Event("generation", text, generation=value.generation, members=sorted(present))

    def _epoch(self, _: Any, value: Any) -> Iterator[_Event]:  # noqa: ANN401 - as above
        if value is None:
            yield _Event("removed", f"group {self._group} was removed")
        elif self._members:
            text = f"group {self._group} has epoch {value.epoch}"
            yield _Event("rebalance", text, group_epoch=value.epoch)
        else:
            text = f"group {self._group} has epoch {value.epoch}, and no members"
            yield _Event("generation", text, generation=value.epoch, members=[])

    def _member(self, key: Any, value: Any) -> Iterator[_Event]:  # noqa: ANN401 - as above
        member = key.member_id
        if value is None:
            self._members.discard(member)
            text = f"member {member} left or was removed"
            yield _Event("left", text, member_id=member)
            return
        host = value.client_host.removeprefix("/")
        self.clients[member] = MemberClient(member, value.client_id, host)
        topics = ", ".join(getattr(value, "subscribed_topic_names", None) or ())
        subscribed = f", subscribed to {topics}" if topics else ""
        is_new = member not in self._members
        self._members.add(member)
        yield _Event(
            "joined" if is_new else "changed",
            f"member {member} {'joined' if is_new else 'changed'}{subscribed}",
            member_id=member,
        )

    def _assignment(self, key: Any, value: Any) -> Iterator[_Event]:  # noqa: ANN401 - as above
        if value is None:
            return
        text = f"member {key.member_id} has {self._assigned(value)} at epoch {value.member_epoch}"
        yield _Event("assigned", text, member_id=key.member_id, member_epoch=value.member_epoch)

    def _assigned(self, value: Any) -> str:  # noqa: ANN401 - as above
        rows = getattr(value, "assigned_partitions", None)
        if rows is None:
            found = [
                f"{row.subtopology_id}_{each}"
                for row in value.active_tasks
                for each in row.partitions
            ]
        else:
            found = [
                f"{self._image.topic_name(row.topic_id) or 'a topic'}-{each}"
                for row in rows
                for each in row.partitions
            ]
        more = len(found) - _MAX_PARTITIONS
        suffix = f" and {more} more" if more > 0 else ""
        return f"{', '.join(found[:_MAX_PARTITIONS])}{suffix}" if found else "nothing"


def group_entries(logs: LogSource, index: int, group: str, image: MetadataImage) -> list[Entry]:
    """Return the entries of a group, oldest first; raises TimeTravelError for a damaged log.

    `index` is the partition of `__consumer_offsets` that has the group. Records that compaction has
    removed are missing.
    """
    replay = new_replay(logs, OFFSETS_TOPIC, index, (needle_of(group),), image)
    scan = Scan(logs.log(OFFSETS_TOPIC, index), LATEST, replay.needles)
    found, entries = _GroupEvents(group, image), list[Entry]()
    for applied in applied_records(scan, replay):
        content = replay.decoded(applied)
        if isinstance(content, str):
            continue
        for event in found.events(content.key, content.value):
            entries.append(
                Entry(
                    number=len(entries) + 1,
                    group=group,
                    transactional_id=None,
                    topic=None,
                    client=None,
                    kind=event.kind,
                    text=event.text,
                    facts={**event.facts, "offset": applied.offset},
                    times=1,
                    first_ms=applied.timestamp_ms,
                    at_ms=applied.timestamp_ms,
                )
            )
    clients = [*found.clients.values()]
    return [
        each._replace(members=tuple(one for one in clients if one.member_id in each.text))
        for each in entries
    ]
