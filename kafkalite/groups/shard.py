"""GroupShard: the groups whose ids fall on one partition of `__consumer_offsets`.

The shard itself decides next to nothing: it holds the components that do, and shows each request,
record, timer and change of metadata to the one it concerns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.coordinator.contract import CoordinatorResult
from kafkalite.groups.classic.answers import join_refused
from kafkalite.groups.classic.group import ClassicGroup
from kafkalite.groups.classic.groups import ClassicGroups
from kafkalite.groups.classic.refusals import refusal_event, refused
from kafkalite.groups.consumer.group import ConsumerGroup
from kafkalite.groups.consumer.heartbeat import ConsumerGroups
from kafkalite.groups.directory import GroupDirectory
from kafkalite.groups.group import GroupType
from kafkalite.groups.migration.members import ClassicMembers
from kafkalite.groups.offsets import Offsets
from kafkalite.groups.share.heartbeat import ShareGroups
from kafkalite.groups.streams.heartbeat import StreamsGroups
from kafkalite.groups.sweeps import ForgetTopics, OffsetSweeps
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.records.offset_commit import OffsetCommitKey, OffsetCommitValue

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalite.config.broker import BrokerConfig
    from kafkalite.coordinator.contract import CoordinatorRecord
    from kafkalite.groups.classic.caller import Caller
    from kafkalite.groups.group import Group, GroupId
    from kafkalite.metadata.image import MetadataDelta, MetadataImage
    from kafkalite.ports.entropy import Entropy
    from kafkalite.protocol.errors import KafkaError
    from kafkalite.protocol.messages.heartbeat import HeartbeatRequest
    from kafkalite.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
    from kafkalite.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
    from kafkalite.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse


class GroupShard:
    """One partition's worth of groups, as a machine on the coordinator runtime."""

    def __init__(self, *, config: BrokerConfig, entropy: Entropy, image: MetadataImage) -> None:
        self.directory = GroupDirectory(config=config, entropy=entropy, image=image)
        self.offsets = Offsets(self.directory)
        self.sweeps = OffsetSweeps(self.directory, self.offsets)
        self.classic = ClassicGroups(self.directory)
        self.consumer = ConsumerGroups(self.directory)
        self.classic_members = ClassicMembers(self.directory, self.consumer)
        self.share = ShareGroups(self.directory)
        self.streams = StreamsGroups(self.directory)
        self._components = (
            self.offsets, self.sweeps, self.classic, self.consumer, self.classic_members,
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
        """Make one record of the log true; kinds that are not ours yet are passed over."""
        replayer = self._replayers.get(type(record.key))
        if replayer is not None:
            replayer(record.key, record.value)

    def replay_transactional(
        self, producer_id: int, record: CoordinatorRecord[object, object]
    ) -> None:
        """Keep an offset that a transaction commits; anything else is as true in it as without."""
        key, value = record
        if isinstance(key, OffsetCommitKey):
            assert value is None or isinstance(value, OffsetCommitValue), "as its key says"
            self.offsets.replay_pending(producer_id, key, value)
        else:
            self.replay(record)

    def end_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        """Let the offsets count that a producer's transaction has committed, or forget them."""
        self.offsets.replay_transaction_end(producer_id, is_commit=is_commit)

    def on_loaded(self, now_ms: int) -> CoordinatorResult[None]:
        """Take up work after the whole log was replayed."""
        return _together([component.on_loaded(now_ms) for component in self._components])

    def on_timer(self, event: object, now_ms: int) -> CoordinatorResult[None]:
        """Decide what the expiry of a timer means."""
        return self._timers[type(event)](event, now_ms)

    def on_append_failed(
        self, records: Sequence[CoordinatorRecord[object, object]], error: KafkaError, now_ms: int
    ) -> CoordinatorResult[None]:
        """Give up soft state that foresaw these records."""
        self.sweeps.on_append_failed(records, error)
        return _together(
            [
                self.classic.on_append_failed(records, error, now_ms),
                self.consumer.on_append_failed(records, now_ms),
            ]
        )

    def on_image(
        self, image: MetadataImage, delta: MetadataDelta, now_ms: int
    ) -> CoordinatorResult[None]:
        """Look at the cluster as it is now, and drop offsets of topics that are no more."""
        self.directory.image = image
        return _together(
            [
                self.sweeps.forget_topics(_deleted(delta), now_ms),
                self.consumer.on_image(delta, now_ms),
                self.share.on_image(delta, now_ms),
                self.streams.on_image(delta, now_ms),
            ]
        )

    def on_image_failed(self, delta: MetadataDelta, now_ms: int) -> CoordinatorResult[None]:
        """Try again to drop the offsets that could not be dropped with the image itself."""
        return CoordinatorResult(
            response=None,
            timers=[
                self.sweeps.forget_later(_deleted(delta), now_ms),
                self.share.forget_later(delta, now_ms),
            ],
        )

    # Classic requests, to whichever protocol the group speaks

    def join(
        self, request: JoinGroupRequest, caller: Caller, now_ms: int
    ) -> CoordinatorResult[JoinGroupResponse]:
        """Decide a JoinGroup."""
        if self._is_closed_to_classic_members(request.group_id):
            refusal = _closed(request, self.directory.groups[request.group_id])
            told = refusal_event(request.group_id, refusal)
            return CoordinatorResult(join_refused(refusal.code), events=[told])
        group = self._consumer_group(request.group_id)
        if group is None:
            return self.classic.join(request, caller, now_ms)
        return self.classic_members.join(group, request, caller, now_ms)

    def sync(self, request: SyncGroupRequest, now_ms: int) -> CoordinatorResult[SyncGroupResponse]:
        """Decide a SyncGroup."""
        group = self._consumer_group(request.group_id)
        if group is None:
            return self.classic.sync(request, now_ms)
        return self.classic_members.sync(group, request, now_ms)

    def heartbeat(self, request: HeartbeatRequest, now_ms: int) -> CoordinatorResult[ErrorCode]:
        """Decide a Heartbeat that the short path could not."""
        group = self._consumer_group(request.group_id)
        if group is None:
            return self.classic.beat(request, now_ms)
        return self.classic_members.heartbeat(group, request, now_ms)

    def leave(
        self, request: LeaveGroupRequest, now_ms: int
    ) -> CoordinatorResult[LeaveGroupResponse]:
        """Decide a LeaveGroup."""
        group = self._consumer_group(request.group_id)
        if group is None:
            return self.classic.leave(request, now_ms)
        return self.consumer.leave_classically(group, request, now_ms)

    # Queries

    def group(self, group_id: GroupId) -> Group | None:
        """Return a group of any protocol, or None."""
        return self.directory.groups.get(group_id)

    def classic_group(self, group_id: GroupId) -> ClassicGroup | None:
        """Return a group if it is classic."""
        group = self.directory.groups.get(group_id)
        return group if isinstance(group, ClassicGroup) else None

    def _consumer_group(self, group_id: GroupId) -> ConsumerGroup | None:
        """Return a group if it is a consumer group with members, which no classic one replaces."""
        group = self.directory.groups.get(group_id)
        return group if isinstance(group, ConsumerGroup) and not group.is_empty() else None

    def _is_closed_to_classic_members(self, group_id: GroupId) -> bool:
        """Whether a group is of a kind that classic members neither join nor replace."""
        group = self.directory.groups.get(group_id)
        if group is None:
            return False
        kind = group.group_type
        return kind is GroupType.SHARE or (kind is GroupType.STREAMS and not group.is_empty())


def _deleted(delta: MetadataDelta) -> ForgetTopics:
    return ForgetTopics(tuple((topic.name, topic.topic_id) for topic in delta.deleted))


def _closed(request: JoinGroupRequest, group: Group) -> KafkaError:
    kind = group.group_type.value
    why = f"members of the classic protocol do not join a {kind} group"
    facts = {"rule": "group-type", "group_type": kind}
    code = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return refused(code, "join", request.member_id, why, facts)


def _together(results: Sequence[CoordinatorResult[None]]) -> CoordinatorResult[None]:
    """Return several decisions as one."""
    return CoordinatorResult(
        response=None,
        records=[record for result in results for record in result.records],
        replies=[reply for result in results for reply in result.replies],
        timers=[timer for result in results for timer in result.timers],
        events=[event for result in results for event in result.events],
        intents=[intent for result in results for intent in result.intents],
    )
