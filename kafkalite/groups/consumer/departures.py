"""Departures: how members go, whoever wished it, and what becomes of the group without them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.coordinator.contract import CoordinatorResult
from kafkalite.groups.classic.draft import Draft
from kafkalite.groups.consumer import events, records
from kafkalite.groups.consumer.group import subscribed_topics
from kafkalite.groups.consumer.incarnations import may_join_anew
from kafkalite.groups.events import moved_on

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from kafkalite.coordinator.contract import Event, TimerChange
    from kafkalite.groups.consumer.group import ConsumerGroup
    from kafkalite.groups.consumer.member import MemberMetadata
    from kafkalite.groups.consumer.sessions import Sessions
    from kafkalite.groups.directory import GroupDirectory
    from kafkalite.groups.events import Going
    from kafkalite.groups.group import MemberId, Record
    from kafkalite.groups.migration.downgrade import Downgrade


class Departures:
    """Takes members out of the consumer groups of one shard."""

    __slots__ = ("_directory", "_downgrade", "_sessions")

    def __init__(self, directory: GroupDirectory, sessions: Sessions, downgrade: Downgrade) -> None:
        self._directory = directory
        self._sessions = sessions
        self._downgrade = downgrade

    def remove(
        self, group: ConsumerGroup, leaving: Mapping[MemberId, Going], now_ms: int
    ) -> CoordinatorResult[None]:
        """Take members out of the group, each as told, and move the group on without them.

        When only members of the classic protocol stay, it may move on as a classic group.
        """
        told = [self._tell(group, member_id, how, now_ms) for member_id, how in leaving.items()]
        staying = {m: member for m, member in group.members.items() if m not in leaving}
        if self._downgrade.is_due(staying):
            result = self._continue_as_classic(group, staying, now_ms)
        else:
            result = self._continue(group, leaving, staying)
        return result._replace(events=(*told, *result.events))

    def _tell(self, group: ConsumerGroup, member_id: MemberId, going: Going, now_ms: int) -> Event:
        may_join_anew(group, member_id)
        group.hand_overs().note_departure(member_id, going.how, now_ms)
        return events.gone(group, member_id, going)

    def _continue(
        self,
        group: ConsumerGroup,
        member_ids: Collection[MemberId],
        staying: Mapping[MemberId, MemberMetadata],
    ) -> CoordinatorResult[None]:
        group_id = group.group_id
        written: list[Record] = []
        timers: list[TimerChange] = []
        for member_id in member_ids:
            written += records.member_tombstones(group_id, member_id)
            timers += self._sessions.end(group_id, member_id)
        wanted = {member.topic_regex for member in staying.values()}
        left = {group.members[member_id].topic_regex for member_id in member_ids}
        resolved = dict(group.resolved_regexes)
        for regex in sorted(resolved.keys() & left - wanted):
            written.append(records.regex_tombstone(group_id, regex))
            del resolved[regex]
        names = subscribed_topics(staying.values(), resolved)
        topics_hash = self._directory.metadata_hash(names)
        written.append(records.group_epoch_record(group_id, group.epoch + 1, topics_hash))
        why = [f"member {member_id} is gone" for member_id in member_ids]
        event = moved_on(group_id, group.epoch + 1, why)
        return CoordinatorResult(response=None, records=written, timers=timers, events=(event,))

    def _continue_as_classic(
        self, group: ConsumerGroup, staying: Mapping[MemberId, MemberMetadata], now_ms: int
    ) -> CoordinatorResult[None]:
        draft = Draft(now_ms)
        for member_id in group.members:
            draft.timers.extend(self._sessions.end(group.group_id, member_id))
        self._downgrade.begin(draft, group, staying, heirs={}, rebalances=True)
        return draft.result(None)
