"""GroupShard: the groups whose ids map to one partition of `__consumer_offsets`.

The shard passes each request, record, timer and metadata change to the component that handles it.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from kafkalite.coordinator.contract import CoordinatorResult
from kafkalite.groups.classic.group import ClassicGroup
from kafkalite.groups.classic.groups import ClassicGroups
from kafkalite.groups.classic.refusals import classic_group_error, refusal_event
from kafkalite.groups.classic.responses import join_error_response
from kafkalite.groups.consumer.group import ConsumerGroup
from kafkalite.groups.consumer.groups import ConsumerGroups
from kafkalite.groups.directory import GroupDirectory
from kafkalite.groups.group import GroupType
from kafkalite.groups.migration.members import ClassicMembers
from kafkalite.groups.modern.events import RESET
from kafkalite.groups.modern.timers import with_response
from kafkalite.groups.offset_expiration import DeletedTopics, OffsetExpiration
from kafkalite.groups.offsets import Offsets
from kafkalite.groups.share.group import ShareGroup
from kafkalite.groups.share.groups import ShareGroups
from kafkalite.groups.streams.group import StreamsGroup
from kafkalite.groups.streams.groups import StreamsGroups
from kafkalite.protocol._generated.records.offset_commit import OffsetCommitKey, OffsetCommitValue
from kafkalite.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from kafkalite.config.broker import BrokerConfig
    from kafkalite.coordinator.contract import CoordinatorRecord
    from kafkalite.groups.classic.member import Caller
    from kafkalite.groups.group import Group, GroupId, MemberId
    from kafkalite.groups.modern.events import Departure
    from kafkalite.metadata.image import MetadataDelta, MetadataImage
    from kafkalite.ports.entropy import Entropy
    from kafkalite.protocol._generated.messages.heartbeat import HeartbeatRequest
    from kafkalite.protocol._generated.messages.join_group import (
        JoinGroupRequest,
        JoinGroupResponse,
    )
    from kafkalite.protocol._generated.messages.leave_group import (
        LeaveGroupRequest,
        LeaveGroupResponse,
    )
    from kafkalite.protocol._generated.messages.sync_group import (
        SyncGroupRequest,
        SyncGroupResponse,
    )
    from kafkalite.protocol.errors import KafkaError

_NO_CHANGE: CoordinatorResult[None] = CoordinatorResult(response=None)


class GroupShard:
    """The state machine of one partition of `__consumer_offsets`."""

    def __init__(self, *, config: BrokerConfig, entropy: Entropy, image: MetadataImage) -> None:
        self.directory = GroupDirectory(config=config, entropy=entropy, image=image)
        self.offsets = Offsets(self.directory)
        self.offset_expiration = OffsetExpiration(self.directory, self.offsets)
        self.classic = ClassicGroups(self.directory)
        self.consumer = ConsumerGroups(self.directory)
        self.classic_members = ClassicMembers(self.directory, self.consumer)
        self.share = ShareGroups(self.directory)
        self.streams = StreamsGroups(self.directory)
        self._components = (
            self.offsets, self.offset_expiration, self.classic, self.consumer, self.classic_members,
            self.share, self.streams,
        )  # fmt: skip
        self._replayers = {
            key: replayer
            for component in self._components
            for key, replayer in component.replayers.items()
        }
        self._timers = {
            event: decide
            for component in self._components
            for event, decide in component.timers.items()
        }

    # The contract with the runtime

    def replay(self, record: CoordinatorRecord[object, object]) -> None:
        """Apply a record of the log; unknown kinds of records are skipped."""
        replayer = self._replayers.get(type(record.key))
        if replayer is not None:
            replayer(record.key, record.value)

    def replay_transactional(
        self, producer_id: int, record: CoordinatorRecord[object, object]
    ) -> None:
        """Apply a record of an open transaction: only offsets wait for the transaction's end."""
        key, value = record
        if isinstance(key, OffsetCommitKey):
            assert value is None or isinstance(value, OffsetCommitValue), (
                "the key's type determines the value's"
            )
            self.offsets.replay_pending(producer_id, key, value)
        else:
            self.replay(record)

    def end_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        """Commit or drop the pending offsets of a producer's transaction."""
        self.offsets.replay_transaction_end(producer_id, is_commit=is_commit)

    def on_loaded(self, now_ms: int) -> CoordinatorResult[None]:
        """Start timers and continue unfinished work after the log was replayed."""
        return _merge_results([component.on_loaded(now_ms) for component in self._components])

    def on_timer(self, event: object, now_ms: int) -> CoordinatorResult[None]:
        """Handle an expired timer."""
        return self._timers[type(event)](event, now_ms)

    def on_append_failed(
        self, records: Sequence[CoordinatorRecord[object, object]], error: KafkaError, now_ms: int
    ) -> CoordinatorResult[None]:
        """Reset soft state that was changed for these records."""
        self.offset_expiration.on_append_failed(records, error)
        return _merge_results(
            [
                self.classic.on_append_failed(records, error, now_ms),
                self.consumer.on_append_failed(records, now_ms),
            ]
        )

    def on_image(
        self, image: MetadataImage, delta: MetadataDelta, now_ms: int
    ) -> CoordinatorResult[None]:
        """Use a new metadata image, and delete the offsets of deleted topics."""
        self.directory.image = image
        return _merge_results(
            [
                self.offset_expiration.delete_offsets_of_deleted_topics(
                    _deleted_topics(delta), now_ms
                ),
                self.consumer.on_image(delta, now_ms),
                self.share.on_image(delta, now_ms),
                self.streams.on_image(delta, now_ms),
            ]
        )

    def on_image_failed(self, delta: MetadataDelta, now_ms: int) -> CoordinatorResult[None]:
        """Schedule another attempt to delete the offsets of deleted topics."""
        return CoordinatorResult(
            response=None,
            timers=[
                self.offset_expiration.deletion_timer(_deleted_topics(delta), now_ms),
                self.share.deletion_timer(delta, now_ms),
            ],
        )

    # Requests of the classic protocol, to classic and consumer groups

    def join(
        self, request: JoinGroupRequest, caller: Caller, now_ms: int
    ) -> CoordinatorResult[JoinGroupResponse]:
        """Handle a JoinGroup."""
        if self._is_closed_to_classic_members(request.group_id):
            refusal = _group_type_error(request, self.directory.groups[request.group_id])
            event = refusal_event(request.group_id, refusal)
            return CoordinatorResult(join_error_response(refusal.code), events=[event])
        group = self._consumer_group(request.group_id)
        if group is None:
            return self.classic.join(request, caller, now_ms)
        return self.classic_members.join(group, request, caller, now_ms)

    def sync(self, request: SyncGroupRequest, now_ms: int) -> CoordinatorResult[SyncGroupResponse]:
        """Handle a SyncGroup."""
        group = self._consumer_group(request.group_id)
        if group is None:
            return self.classic.sync(request, now_ms)
        return self.classic_members.sync(group, request, now_ms)

    def heartbeat(self, request: HeartbeatRequest, now_ms: int) -> CoordinatorResult[ErrorCode]:
        """Handle a Heartbeat that `ClassicGroups.steady_heartbeat` did not answer."""
        group = self._consumer_group(request.group_id)
        if group is None:
            return self.classic.heartbeat(request, now_ms)
        return self.classic_members.heartbeat(group, request, now_ms)

    def leave(
        self, request: LeaveGroupRequest, now_ms: int
    ) -> CoordinatorResult[LeaveGroupResponse]:
        """Handle a LeaveGroup."""
        group = self._consumer_group(request.group_id)
        if group is None:
            return self.classic.leave(request, now_ms)
        return self.consumer.leave_group(group, request, now_ms)

    # Removal of members by resets, faults and commands

    def remove_members(self, group_id: GroupId, now_ms: int, limit: int) -> CoordinatorResult[bool]:
        """Remove at most `limit` members of a group, because the broker is reset.

        The response is whether members remain. Otherwise the group can be deleted.
        """
        group = self.directory.groups.get(group_id)
        if isinstance(group, ClassicGroup):
            return self.classic.remove_members(group, limit, RESET.kind, RESET.reason, now_ms)
        if group is None or group.is_empty():
            return CoordinatorResult(response=False)
        self.directory.record_reset(group_id)
        assert isinstance(group, ConsumerGroup | ShareGroup | StreamsGroup)
        member_ids = tuple(islice(group.members, limit))
        removed = self._remove_modern_members(group, member_ids, RESET, now_ms)
        return with_response(removed, response=len(member_ids) < len(group.members))

    def expel_members(
        self, group_id: GroupId, member_ids: Collection[MemberId], departure: Departure, now_ms: int
    ) -> CoordinatorResult[Sequence[MemberId]]:
        """Remove those of these members that a group has; the response has their ids.

        The others rebalance, as after the end of a session.
        """
        group = self.directory.groups.get(group_id)
        if isinstance(group, ClassicGroup):
            return self.classic.expel_members(group, member_ids, *departure, now_ms)
        if group is None:
            return CoordinatorResult(())
        assert isinstance(group, ConsumerGroup | ShareGroup | StreamsGroup)
        known = [each for each in member_ids if each in group.members]
        if not known:
            return CoordinatorResult(())
        return with_response(self._remove_modern_members(group, known, departure, now_ms), known)

    def _remove_modern_members(
        self, group: Group, member_ids: Collection[MemberId], departure: Departure, now_ms: int
    ) -> CoordinatorResult[None]:
        if isinstance(group, ConsumerGroup):
            return self.consumer.remove_members(group, member_ids, departure, now_ms)
        if isinstance(group, ShareGroup):
            return self.share.remove_members(group, member_ids, departure, now_ms)
        assert isinstance(group, StreamsGroup)
        return self.streams.remove_members(group, member_ids, departure, now_ms)

    # Queries

    def group(self, group_id: GroupId) -> Group | None:
        """Return a group of any type; None if it does not exist."""
        return self.directory.groups.get(group_id)

    def classic_group(self, group_id: GroupId) -> ClassicGroup | None:
        """Return a classic group; None if there is none with this id."""
        group = self.directory.groups.get(group_id)
        return group if isinstance(group, ClassicGroup) else None

    def _consumer_group(self, group_id: GroupId) -> ConsumerGroup | None:
        """Return a consumer group with members, None otherwise: an empty one is replaceable."""
        group = self.directory.groups.get(group_id)
        return group if isinstance(group, ConsumerGroup) and not group.is_empty() else None

    def _is_closed_to_classic_members(self, group_id: GroupId) -> bool:
        """Whether classic members can neither join nor replace the group, due to its type."""
        group = self.directory.groups.get(group_id)
        if group is None:
            return False
        kind = group.group_type
        return kind is GroupType.SHARE or (kind is GroupType.STREAMS and not group.is_empty())


def _deleted_topics(delta: MetadataDelta) -> DeletedTopics:
    return DeletedTopics(tuple((topic.name, topic.topic_id) for topic in delta.deleted))


def _group_type_error(request: JoinGroupRequest, group: Group) -> KafkaError:
    kind = group.group_type.value
    reason = f"members of the classic protocol cannot join a {kind} group"
    facts = {"rule": "group-type", "group_type": kind}
    code = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return classic_group_error(code, "join", request.member_id, reason, facts)


def _merge_results(results: Sequence[CoordinatorResult[None]]) -> CoordinatorResult[None]:
    """Merge several results into one; most shards have no groups, so most results are empty."""
    changes = [result for result in results if any(result[1:])]
    if not changes:
        return _NO_CHANGE
    return CoordinatorResult(
        response=None,
        records=[record for result in changes for record in result.records],
        replies=[reply for result in changes for reply in result.replies],
        timers=[timer for result in changes for timer in result.timers],
        events=[event for result in changes for event in result.events],
        intents=[intent for result in changes for intent in result.intents],
    )
