"""ShareHeartbeat: the steps of a heartbeat of a share group (KIP-932)."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

from kafkalite.coordinator.java_order import in_java_order, string_hash
from kafkalite.groups.assignors.contract import Assignment
from kafkalite.groups.modern.context import GroupContext
from kafkalite.groups.modern.heartbeat import AssignorRun, HeartbeatRecords, ModernHeartbeat
from kafkalite.groups.modern.member import JOIN_EPOCH
from kafkalite.groups.modern.topics import partitions_by_topic, topic_ids
from kafkalite.groups.share import share_group_records as records
from kafkalite.groups.share.events import format_topic_names, member_joined_event
from kafkalite.groups.share.group import ShareGroup
from kafkalite.groups.share.intents import (
    UNKNOWN_START_OFFSET,
    InitializeShareState,
    SharePartitionInitialization,
)
from kafkalite.groups.share.member import ShareAssignment, ShareMember
from kafkalite.groups.share.settings import ShareSettings, ShareSettingsCache
from kafkalite.groups.share.simple_assignor import SIMPLE_ASSIGNOR, Subscriber, assign_partitions
from kafkalite.protocol._generated.messages.share_group_heartbeat import ShareGroupHeartbeatResponse

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kafkalite.groups.directory import GroupDirectory
    from kafkalite.groups.group import GroupId, MemberId
    from kafkalite.groups.modern.member import Client
    from kafkalite.groups.share.admission import AdmittedMember
    from kafkalite.metadata.image import MetadataImage
    from kafkalite.protocol._generated.messages.share_group_heartbeat import (
        ShareGroupHeartbeatRequest,
    )


class ShareContext(GroupContext[ShareSettingsCache]):
    """The directory, the settings and the pending initializations of share state."""

    __slots__ = ("_initialization_requested_at_ms",)

    def __init__(self, directory: GroupDirectory) -> None:
        super().__init__(directory, ShareSettingsCache(directory.config))
        # The groups cannot store this: the first heartbeat of a group requests share state before
        # the group exists.
        self._initialization_requested_at_ms: dict[GroupId, dict[bytes, int]] = {}

    @property
    def image(self) -> MetadataImage:
        """The current metadata."""
        return self.directory.image

    def record_initialization_request(
        self, group_id: GroupId, topic_ids: Iterable[bytes], now_ms: int
    ) -> None:
        """Record that the initialization of these topics' share state was requested."""
        self._initialization_requested_at_ms.setdefault(group_id, {}).update(
            dict.fromkeys(topic_ids, now_ms)
        )

    def topics_initializing_since(self, group_id: GroupId, after_ms: int) -> frozenset[bytes]:
        """Return the topics whose initialization was requested after this time."""
        requested = self._initialization_requested_at_ms.get(group_id, {})
        return frozenset(topic_id for topic_id, at_ms in requested.items() if at_ms > after_ms)

    def clear_initialization_requests(self, group_id: GroupId) -> None:
        """Record that no initialization of a group is pending."""
        self._initialization_requested_at_ms.pop(group_id, None)


class ShareHeartbeat(
    ModernHeartbeat[ShareContext, ShareGroup, ShareMember, ShareAssignment, Assignment]
):
    """One heartbeat of one member of a share group."""

    __slots__ = ("_is_epoch_raised", "_members", "intents")

    RECORDS = HeartbeatRecords(
        records.TYPES, records.target_assignment_record, records.current_assignment_record
    )

    def __init__(
        self,
        context: ShareContext,
        group: ShareGroup,
        request: ShareGroupHeartbeatRequest,
        admitted_member: AdmittedMember,
        now_ms: int,
    ) -> None:
        super().__init__(
            context,
            group,
            request.member_id,
            is_join=request.member_epoch == JOIN_EPOCH,
            member=admitted_member.stored,
            current=admitted_member.current,
            target=group.target.get(request.member_id, {}),
            now_ms=now_ms,
        )
        self._is_epoch_raised = False
        self._members: Mapping[MemberId, ShareMember] = group.members
        self.intents: list[InitializeShareState] = []

    # Step 1: update of the member.

    def update_member(self, request: ShareGroupHeartbeatRequest, client: Client) -> None:
        """Update the member's metadata from the request; omitted fields keep their values."""
        stored = self.member
        self.member = member = updated_member(stored, request, client)
        group_id, member_id = self.group.group_id, self.member_id
        if member != stored:
            self._members = {**self.group.members, member_id: member}
            self.records.append(records.member_metadata_record(group_id, member_id, member))
        if member.topic_names != stored.topic_names:
            self._reasons.append(
                f"member {member_id} subscribes to {format_topic_names(member.topic_names)}"
            )
        if self.is_join:
            self.events.append(member_joined_event(self.group, member_id, member))

    # Step 2: the group epoch.

    def update_group_epoch(self) -> None:
        """Raise the group epoch if subscriptions, topics or initialized partitions changed."""
        group, context = self.group, self._context
        if group.target_epoch >= group.epoch and (topics := _newly_initialized_topics(group)):
            self._reasons.append(
                f"share partitions of {format_topic_names(topics)} are initialized"
            )
        if not self._reasons and context.is_metadata_hash_current(group.soft):
            return
        topics_hash = context.directory.metadata_hash(subscribed_topics(self._members.values()))
        if not self._reasons and topics_hash != group.metadata_hash:
            self._reasons.append("topics changed")
        if self._reasons:
            self._is_epoch_raised = True
            self._raise_group_epoch(
                records.group_epoch_record(group.group_id, self.epoch + 1, topics_hash),
                self._reasons,
            )
        else:
            # The hash is marked only if no record is written, because an append may fail.
            context.mark_metadata_hash_current(group.soft)

    # Step 3: the target assignment.

    def _assign(self) -> AssignorRun:
        # Most members have the same subscription. Its topics are looked up once, not per member.
        topics = self._context.image.topics
        topic_ids_by_subscription = {
            names: [
                topics[name].topic_id
                for name in in_java_order(
                    sorted(names & topics.keys()), string_hash, set_size=len(names)
                )
            ]
            for names in {member.topic_names for member in self._members.values()}
        }
        subscribers = {
            member_id: Subscriber(
                topic_ids=topic_ids_by_subscription[member.topic_names],
                previous=self.group.target.get(member_id, {}),
            )
            for member_id, member in self._members.items()
        }
        initialized = self.group.share_partitions().initialized
        partition_counts = {
            topic_id: len(self._context.image.topics_by_id[topic_id].partitions)
            for topic_id in chain.from_iterable(topic_ids_by_subscription.values())
        }
        targets = assign_partitions(
            subscribers,
            {
                topic_id: initialized[topic_id].partitions & frozenset(range(count))
                for topic_id, count in partition_counts.items()
                if topic_id in initialized
            },
            is_homogeneous=len(topic_ids_by_subscription) == 1,
        )
        return AssignorRun(SIMPLE_ASSIGNOR, targets, self.group.target)

    # Step 4: the current assignment, which becomes the target in one step.

    def reconcile(self) -> None:
        """Assign the target to the member, except topics that it no longer subscribes to."""
        before = self._initial_current
        if before.member_epoch == self.target_epoch and not self._is_epoch_raised:
            return
        subscribed = topic_ids(self.member.topic_names, self._context.image)
        assigned = {
            topic: partitions for topic, partitions in self.target.items() if topic in subscribed
        }
        if before.member_epoch == self.target_epoch:
            after = replace(before, assigned=assigned)
        else:
            after = ShareAssignment(
                member_epoch=self.target_epoch,
                previous_member_epoch=before.member_epoch,
                assigned=assigned,
            )
        if after != before:
            self._set_current(after)

    # Step 5: initialization of share state.

    def request_share_state(self) -> None:
        """Request the initialization of share state for partitions that have none.

        The response does not wait for it: the member gets these partitions by a later heartbeat.
        """
        group, context = self.group, self._context
        retry_ms = context.settings.of(group).initialize_retry_interval_ms
        partitions = group.share_partitions()
        missing = partitions.uninitialized(
            topic_ids(subscribed_topics(self._members.values()), context.image),
            context.image,
            context.topics_initializing_since(group.group_id, self.now_ms - retry_ms),
        )
        if not missing:
            return
        self.records.append(
            records.partitions_record(group.group_id, partitions.with_initializing(missing))
        )
        context.record_initialization_request(group.group_id, missing, self.now_ms)
        known_topic_ids = (
            partitions.initialized.keys() | partitions.initializing.keys()
            if context.directory.rules.starts_added_partitions_at_zero
            else ()
        )
        self.intents.append(
            InitializeShareState(
                group.group_id,
                tuple(
                    SharePartitionInitialization(
                        topic_id,
                        partition,
                        self.epoch,
                        0 if topic_id in known_topic_ids else UNKNOWN_START_OFFSET,
                    )
                    for topic_id, topic in sorted(missing.items())
                    for partition in sorted(topic.partitions)
                ),
            )
        )

    def record_unchanged_group(self) -> None:
        """If the heartbeat changed nothing in the whole group, record that.

        Then the next heartbeats are steady until a record is replayed or the metadata changes. A
        group is never steady during an initialization, because heartbeats may have to repeat it.
        """
        group = self.group
        if (
            not self.records
            and group.target_epoch == group.epoch
            and not group.share_partitions().initializing
        ):
            group.soft.steady_topics_version = self._context.topics_version

    # Step 6: the response.

    def answer(self, request: ShareGroupHeartbeatRequest) -> ShareGroupHeartbeatResponse:
        """Return the response; it has the assignment only if the member needs it."""
        response = ShareGroupHeartbeatResponse(
            member_id=self.member_id,
            member_epoch=self.current.member_epoch,
            heartbeat_interval_ms=self._context.settings.of(self.group).heartbeat_interval_ms,
        )
        if (
            self.is_join
            or request.subscribed_topic_names is not None
            or self.current.assigned != self._initial_current.assigned
        ):
            response.assignment = ShareGroupHeartbeatResponse.Assignment(
                topic_partitions=partitions_by_topic(
                    ShareGroupHeartbeatResponse.TopicPartitions, self.current.assigned
                )
            )
        return response


def is_steady(  # noqa: PLR0917 - called by SteadyHeartbeats for each group type
    context: ShareContext,
    group: ShareGroup,
    member: ShareMember,
    current: ShareAssignment,
    request: ShareGroupHeartbeatRequest,
    client: Client,
    settings: ShareSettings,
) -> bool:
    """Whether no step of the heartbeat would change anything."""
    del settings
    return (
        current.member_epoch == group.target_epoch
        and group.soft.steady_topics_version == context.topics_version
        and request.subscribed_topic_names is None
        and updated_member(member, request, client) is member
    )


def updated_member(
    stored: ShareMember, request: ShareGroupHeartbeatRequest, client: Client
) -> ShareMember:
    """Return the member's metadata after a heartbeat: `stored` itself if nothing changed."""
    names = request.subscribed_topic_names
    rack_id = request.rack_id
    if (
        names is None
        and rack_id in (None, stored.rack_id)
        and client.client_id == stored.client_id
        and client.host == stored.client_host
    ):
        return stored
    return ShareMember(
        rack_id=stored.rack_id if rack_id is None else rack_id,
        client_id=client.client_id,
        client_host=client.host,
        topic_names=stored.topic_names if names is None else frozenset(names),
    )


def subscribed_topics(members: Iterable[ShareMember]) -> frozenset[str]:
    """Return the topics that these members subscribe to."""
    return frozenset[str]().union(*(member.topic_names for member in members))


def _newly_initialized_topics(group: ShareGroup) -> list[str]:
    """Return the subscribed topics that have initialized partitions which are in no target."""
    share_partitions = group.partitions
    if share_partitions is None or not share_partitions.initialized or not group.members:
        return []
    assigned_partitions: dict[bytes, set[int]] = {}
    for target in group.target.values():
        for topic_id, partitions in target.items():
            assigned_partitions.setdefault(topic_id, set()).update(partitions)
    names = subscribed_topics(group.members.values())
    return sorted(
        topic.name
        for topic_id, topic in share_partitions.initialized.items()
        if topic.name in names and assigned_partitions.get(topic_id, set()) != topic.partitions
    )
