"""ShareGroups: deciders, replayers and timers of share groups (KIP-932).

A heartbeat has six steps, and each is skipped if nothing has changed: update of the member, group
epoch, target assignment, current assignment, initialization of share state, response.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kafkalite.coordinator.contract import CoordinatorResult, SetTimer
from kafkalite.groups.modern.admission import find_group, find_member
from kafkalite.groups.modern.events import LEFT, SESSION_TIMED_OUT
from kafkalite.groups.modern.member import JOIN_EPOCH
from kafkalite.groups.modern.sessions import SessionExpiry, Sessions
from kafkalite.groups.modern.steady import SteadyHeartbeats
from kafkalite.groups.modern.timers import (
    MemberTimers,
    remove_members_result,
    target_reset_records,
    with_response,
)
from kafkalite.groups.share import offsets
from kafkalite.groups.share import share_group_records as records
from kafkalite.groups.share.admission import (
    admit,
    check_max_size,
    find_or_create_group,
)
from kafkalite.groups.share.describe import describe_group
from kafkalite.groups.share.events import member_removed_event
from kafkalite.groups.share.group import ShareGroup
from kafkalite.groups.share.heartbeat import (
    ShareContext,
    ShareHeartbeat,
    is_steady,
    subscribed_topics,
)
from kafkalite.groups.share.intents import InitializeShareState, SharePartitionInitialization
from kafkalite.groups.share.replay import replayers
from kafkalite.protocol._generated.messages.share_group_heartbeat import ShareGroupHeartbeatResponse

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from kafkalite.coordinator.contract import TimerChange
    from kafkalite.groups.directory import GroupDirectory
    from kafkalite.groups.group import GroupId, MemberId, Record
    from kafkalite.groups.modern.events import Departure
    from kafkalite.groups.modern.member import Client
    from kafkalite.groups.share.offsets import StateDeletion
    from kafkalite.metadata.image import MetadataDelta
    from kafkalite.protocol._generated.messages.share_group_describe import (
        ShareGroupDescribeResponse,
    )
    from kafkalite.protocol._generated.messages.share_group_heartbeat import (
        ShareGroupHeartbeatRequest,
    )

# All records of a decision are in one batch, so they are limited.
_MAX_SIZE_PER_DECISION = 10_000
"""Maximum size of the records of one decision, in the unit of `SharePartitions.size`."""
_RECORD_BASE_SIZE = 20
"""Size of a record without topics and partitions."""
_MAX_GROUP_ID_CHARACTERS_PER_DECISION = 200_000
"""Maximum number of characters of all group ids in the records of one decision."""


@dataclass(frozen=True, slots=True)
class ShareSessionExpiry(SessionExpiry):
    """Timer event: a session in a share group may have expired."""


@dataclass(frozen=True, slots=True)
class DeletedShareTopics:
    """Timer event: remove deleted topics from share groups."""

    topic_ids: tuple[bytes, ...]


class ShareGroups:
    """The share groups of one shard: deciders, replayers and timers."""

    def __init__(self, directory: GroupDirectory) -> None:
        self._directory = directory
        self._sessions = Sessions(ShareSessionExpiry)
        self._context = ShareContext(directory)
        self._settings = self._context.settings
        self._member_timers = MemberTimers(
            directory, ShareGroup, self._sessions, self._remove, SESSION_TIMED_OUT
        )
        self.steady_heartbeat = SteadyHeartbeats(
            self._context, self._sessions, ShareGroup, is_steady, ShareGroupHeartbeatResponse
        ).answer
        """Returns the response to a steady heartbeat; None if `heartbeat` must decide."""
        self.replayers = replayers(directory)
        self.timers: Mapping[type, Callable[[Any, int], CoordinatorResult[None]]] = {
            ShareSessionExpiry: self._member_timers.expire_session,
            DeletedShareTopics: self.remove_deleted_topics,
        }

    def heartbeat(
        self, request: ShareGroupHeartbeatRequest, client: Client, now_ms: int
    ) -> CoordinatorResult[ShareGroupHeartbeatResponse]:
        """Handle a heartbeat of a member that joins, stays or leaves.

        The caller has validated the request's fields. Raises KafkaError for every refusal.
        """
        if request.member_epoch < JOIN_EPOCH:
            return self._leave(request, now_ms)
        group = find_or_create_group(
            self._directory, request.group_id, is_joining=request.member_epoch == JOIN_EPOCH
        )
        check_max_size(group, request.member_id, self._settings.of(group).max_size)
        admitted_member = admit(group, request.member_id, request.member_epoch)
        heartbeat = ShareHeartbeat(self._context, group, request, admitted_member, now_ms)
        heartbeat.update_member(request, client)
        heartbeat.update_group_epoch()
        heartbeat.compute_target()
        heartbeat.reconcile()
        heartbeat.request_share_state()
        heartbeat.record_unchanged_group()
        return CoordinatorResult(
            response=heartbeat.answer(request),
            records=heartbeat.records,
            timers=self._timers_after(heartbeat),
            events=heartbeat.events,
            intents=heartbeat.intents,
        )

    def _timers_after(self, heartbeat: ShareHeartbeat) -> list[TimerChange]:
        group_id, member_id = heartbeat.group.group_id, heartbeat.member_id
        deadline_ms = heartbeat.now_ms + self._settings.of(heartbeat.group).session_timeout_ms
        return [
            *self._sessions.after_heartbeat(
                group_id, member_id, deadline_ms, is_join=heartbeat.is_join
            )
        ]

    def _leave(
        self, request: ShareGroupHeartbeatRequest, now_ms: int
    ) -> CoordinatorResult[ShareGroupHeartbeatResponse]:
        group = find_group(self._directory.groups, request.group_id, ShareGroup)
        find_member(group, request.member_id)
        removed = self._remove(group, request.member_id, LEFT, now_ms)
        response = ShareGroupHeartbeatResponse(
            member_id=request.member_id, member_epoch=request.member_epoch
        )
        return with_response(removed, response)

    def _remove(
        self, group: ShareGroup, member_id: MemberId, departure: Departure, now_ms: int
    ) -> CoordinatorResult[None]:
        return self.remove_members(group, (member_id,), departure, now_ms)

    def remove_members(
        self, group: ShareGroup, member_ids: Iterable[MemberId], departure: Departure, now_ms: int
    ) -> CoordinatorResult[None]:
        """Remove members, which exist, and raise the group epoch."""
        group_id = group.group_id
        leaving = {each: member_removed_event(group, each, departure) for each in member_ids}
        remaining = [member for each, member in group.members.items() if each not in leaving]
        topics_hash = self._directory.metadata_hash(subscribed_topics(remaining))
        return remove_members_result(
            group,
            departure,
            leaving,
            records=[
                *(
                    tombstone
                    for each in leaving
                    for tombstone in records.member_tombstones(group_id, each)
                ),
                records.group_epoch_record(group_id, group.epoch + 1, topics_hash),
                *target_reset_records(
                    records.TYPES, group, self._directory.rules, is_emptied=not remaining
                ),
            ],
            timers=[self._sessions.end_session(group_id, each) for each in leaving],
            now_ms=now_ms,
        )

    def describe(self, group_id: GroupId) -> ShareGroupDescribeResponse.DescribedGroup:
        """Describe a group; raises KafkaError(GROUP_ID_NOT_FOUND) if none of this type exists."""
        directory = self._directory
        return describe_group(find_group(directory.groups, group_id, ShareGroup), directory.image)

    # Share state and requests of administrators; see `offsets`.

    def select_uninitialized(self, intent: InitializeShareState) -> InitializeShareState:
        """Return the intent without initialized partitions; empty if the group was deleted."""
        group = self._directory.groups.get(intent.group_id)
        if not isinstance(group, ShareGroup):
            return intent._replace(partitions=())
        initialized = group.share_partitions().initialized
        return intent._replace(
            partitions=tuple(
                initialization
                for initialization in intent.partitions
                if initialization.topic_id in self._directory.image.topics_by_id
                and (
                    initialization.topic_id not in initialized
                    or initialization.partition
                    not in initialized[initialization.topic_id].partitions
                )
            )
        )

    def record_initialized_state(
        self, intent: InitializeShareState, now_ms: int
    ) -> CoordinatorResult[None]:
        """Record that an intent was carried out, so that its partitions can be assigned."""
        del now_ms
        return self.record_initialized_partitions(intent.group_id, intent.partitions)

    def record_initialized_partitions(
        self, group_id: GroupId, initializations: Sequence[SharePartitionInitialization]
    ) -> CoordinatorResult[None]:
        """Record that share partitions are initialized, if the group still exists."""
        group = self._directory.groups.get(group_id)
        if not isinstance(group, ShareGroup):
            return offsets.NO_CHANGE
        result = offsets.record_initialized(group, initializations, self._directory.image)
        initialized_topic_ids = {initialization.topic_id for initialization in initializations}
        if group.share_partitions().initializing.keys() <= initialized_topic_ids:
            self._context.clear_initialization_requests(group_id)
        return result

    def initialized_partitions(self, group_id: GroupId) -> Mapping[bytes, list[int]]:
        """Return the initialized partitions by topic id; {} if the group does not exist."""
        group = self._directory.groups.get(group_id)
        if not isinstance(group, ShareGroup):
            return {}
        topics = group.share_partitions().initialized
        return {topic_id: sorted(topic.partitions) for topic_id, topic in topics.items()}

    def alter_offsets(
        self, group_id: GroupId, requested_offsets: Mapping[bytes, Mapping[int, int]]
    ) -> CoordinatorResult[tuple[SharePartitionInitialization, ...]]:
        """Start to alter a group's offsets: topic id → partition → offset."""
        group = find_or_create_group(self._directory, group_id, is_joining=True)
        return offsets.alter(group, requested_offsets, self._directory.image)

    def begin_deleting_offsets(
        self, group_id: GroupId, topics: Iterable[str]
    ) -> CoordinatorResult[StateDeletion]:
        """Start to delete a group's offsets of these topics."""
        group = find_group(self._directory.groups, group_id, ShareGroup)
        return offsets.begin_deleting(group, topics, self._directory.image)

    def record_deleted_state(
        self, group_id: GroupId, topic_ids: Collection[bytes]
    ) -> CoordinatorResult[None]:
        """Record that the share state of these topics was deleted."""
        return offsets.record_deleted(
            find_group(self._directory.groups, group_id, ShareGroup), topic_ids
        )

    def begin_deleting_group(
        self, group_id: GroupId
    ) -> CoordinatorResult[Mapping[bytes, list[int]]]:
        """Start to delete a group; return the partitions whose share state is deleted first."""
        group = find_group(self._directory.groups, group_id, ShareGroup)
        self._context.clear_initialization_requests(group_id)
        return offsets.begin_deleting_all(group, self._directory.image)

    # Timers.

    def remove_deleted_topics(
        self, event: DeletedShareTopics, now_ms: int
    ) -> CoordinatorResult[None]:
        """Remove deleted topics from the share partitions of all groups, in steps."""
        written: list[Record] = []
        timers: list[SetTimer] = []
        records_size = character_count = 0
        for group in self._member_timers.groups():
            partitions = group.share_partitions()
            if partitions.topic_ids().isdisjoint(event.topic_ids):
                continue
            if (
                records_size >= _MAX_SIZE_PER_DECISION
                or character_count >= _MAX_GROUP_ID_CHARACTERS_PER_DECISION
            ):
                timers.append(SetTimer(event, now_ms, event))
                break
            remaining_state = partitions.without_topics(event.topic_ids)
            written.append(records.partitions_record(group.group_id, remaining_state))
            records_size += _RECORD_BASE_SIZE + remaining_state.size()
            character_count += len(group.group_id)
        return CoordinatorResult(response=None, records=written, timers=timers)

    def deletion_timer(self, changes: MetadataDelta, now_ms: int) -> SetTimer:
        """Return the timer that removes deleted topics if the records of `on_image` are refused."""
        event = _deleted_topics_event(changes)
        return SetTimer(event, now_ms, event)

    # Loading and metadata.

    def on_loaded(self, now_ms: int) -> CoordinatorResult[None]:
        """Start new sessions of all members, and repeat unfinished initializations."""
        intents: list[InitializeShareState] = []
        for group in self._member_timers.groups():
            incomplete = group.share_partitions().incomplete()
            if incomplete:
                self._context.record_initialization_request(group.group_id, incomplete, now_ms)
                intents.append(_initialization_intent(group, incomplete))
        timers = self._member_timers.start_all(self._settings, now_ms)
        return CoordinatorResult(response=None, timers=timers, intents=intents)

    def on_image(self, changes: MetadataDelta, now_ms: int) -> CoordinatorResult[None]:
        """Record changed topics and settings, and remove deleted topics."""
        self._context.on_image(changes)
        if not changes.deleted:
            return offsets.NO_CHANGE
        return self.remove_deleted_topics(_deleted_topics_event(changes), now_ms)


def _deleted_topics_event(changes: MetadataDelta) -> DeletedShareTopics:
    return DeletedShareTopics(tuple(topic.topic_id for topic in changes.deleted))


def _initialization_intent(
    group: ShareGroup, incomplete: Mapping[bytes, list[int]]
) -> InitializeShareState:
    return InitializeShareState(
        group.group_id,
        tuple(
            SharePartitionInitialization(topic_id, partition, group.epoch)
            for topic_id, partitions in sorted(incomplete.items())
            for partition in partitions
        ),
    )
