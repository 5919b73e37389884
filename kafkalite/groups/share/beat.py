"""ShareBeat: one heartbeat on its way through the steps, and what it has decided so far.

Nothing here changes the group. Each step reads the group as it stands and what the steps before
it decided, and adds records.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

from kafkalite.groups.consumer.target import may_assign_now
from kafkalite.groups.consumer.topics import topic_ids
from kafkalite.groups.events import assigned, moved_on, postponed
from kafkalite.groups.share import records
from kafkalite.groups.share.events import joined, listed
from kafkalite.groups.share.intents import InitializeShareState, ShareStart
from kafkalite.groups.share.java_order import in_java_order, string_hash
from kafkalite.groups.share.member import JOIN_EPOCH, ShareAssignment, ShareMember
from kafkalite.groups.share.simple import SIMPLE, Subscriber, assign_simply
from kafkalite.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatResponse

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kafkalite.coordinator.contract import Event
    from kafkalite.groups.assignors.contract import Assignment
    from kafkalite.groups.consumer.beat import Client
    from kafkalite.groups.directory import GroupDirectory
    from kafkalite.groups.group import GroupId, MemberId, Record
    from kafkalite.groups.share.admission import Admitted
    from kafkalite.groups.share.group import ShareGroup
    from kafkalite.groups.share.settings import ShareSettingsBook
    from kafkalite.metadata.image import MetadataImage
    from kafkalite.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest


class ShareSurroundings:
    """What groups look at besides themselves; topics and settings come in turns."""

    __slots__ = ("_asked_ms", "directory", "settings", "topics_turn")

    def __init__(self, directory: GroupDirectory, settings: ShareSettingsBook) -> None:
        self.directory = directory
        self.settings = settings
        self.topics_turn = 0
        """How often topics changed."""
        # Soft, and apart from the groups: a group's first heartbeat asks before there is a group.
        self._asked_ms: dict[GroupId, dict[bytes, int]] = {}

    @property
    def image(self) -> MetadataImage:
        """The metadata as it is now."""
        return self.directory.image

    def topics_changed(self) -> None:
        """Let every group compare its metadata hash."""
        self.topics_turn += 1

    def asked(self, group_id: GroupId, topic_ids: Iterable[bytes], now_ms: int) -> None:
        """Note that share state of these topics' partitions was asked for."""
        self._asked_ms.setdefault(group_id, {}).update(dict.fromkeys(topic_ids, now_ms))

    def asked_since(self, group_id: GroupId, after_ms: int) -> frozenset[bytes]:
        """Return the topics whose share state was asked for later than that."""
        asked = self._asked_ms.get(group_id, {})
        return frozenset(topic_id for topic_id, at_ms in asked.items() if at_ms > after_ms)

    def answered(self, group_id: GroupId) -> None:
        """Note that nothing is awaited for a group any more."""
        self._asked_ms.pop(group_id, None)


class ShareBeat:
    """One heartbeat of one member, which may be its first."""

    __slots__ = (
        "_admitted", "_around", "_epoch_moved", "_members", "_why", "current", "epoch", "events",
        "group", "intents", "is_join", "member", "member_id", "now_ms", "records", "target",
        "target_epoch",
    )  # fmt: skip

    def __init__(
        self,
        around: ShareSurroundings,
        group: ShareGroup,
        request: ShareGroupHeartbeatRequest,
        admitted: Admitted,
        now_ms: int,
    ) -> None:
        self._around = around
        self._admitted = admitted
        self._epoch_moved = False
        self._why: list[str] = []
        self.group = group
        self.member_id: MemberId = request.member_id
        self.is_join = request.member_epoch == JOIN_EPOCH
        self.now_ms = now_ms
        self.member = admitted.stored
        self.current = admitted.current
        self.epoch = group.epoch
        self.target_epoch = group.target_epoch
        self.target: Assignment = group.target.get(self.member_id, {})
        self._members: Mapping[MemberId, ShareMember] = group.members
        self.records: list[Record] = []
        self.events: list[Event] = []
        self.intents: list[InitializeShareState] = []

    # Step 1: the member's own words.

    def hear(self, request: ShareGroupHeartbeatRequest, client: Client) -> None:
        """Take over what the member says of itself; what it leaves out stays as it was."""
        stored = self._admitted.stored
        self.member = member = heard(stored, request, client)
        group_id, member_id = self.group.group_id, self.member_id
        if member != stored:
            self._members = {**self.group.members, member_id: member}
            self.records.append(records.member_metadata_record(group_id, member_id, member))
        if member.topic_names != stored.topic_names:
            self._why.append(f"member {member_id} subscribes to {listed(member.topic_names)}")
        if self.is_join:
            self.events.append(joined(self.group, member_id, member))

    # Step 2: the group epoch.

    def move_group_epoch(self) -> None:
        """Move the group on when a subscription changed, or topics, or what can be assigned."""
        group, around = self.group, self._around
        if group.target_epoch >= group.epoch and (ready := _ready_topics(group)):
            self._why.append(f"share partitions are ready of {listed(ready)}")
        if not self._why and group.soft.topics_turn == around.topics_turn:
            return
        topics_hash = around.directory.metadata_hash(subscribed_topics(self._members.values()))
        if not self._why and topics_hash != group.metadata_hash:
            self._why.append("topics changed")
        if self._why:
            self.epoch += 1
            self._epoch_moved = True
            self.records.append(records.group_epoch_record(group.group_id, self.epoch, topics_hash))
            self.events.append(moved_on(group.group_id, self.epoch, self._why))
        else:
            # Noted only when there is nothing to write: what was to be written may yet be lost.
            group.soft.topics_turn = around.topics_turn

    # Step 3: the target assignment.

    def compute_target(self) -> None:
        """Run the assignor if the group has moved on since it last ran, and it may run again."""
        group = self.group
        if group.target_epoch >= self.epoch:
            return
        interval_ms = self._around.settings.of(group).assignment_interval_ms
        if not may_assign_now(group.target_timestamp_ms, interval_ms, self.now_ms):
            if self.epoch > group.epoch:
                self.events.append(
                    postponed(group.group_id, self.epoch, group.target_timestamp_ms, interval_ms)
                )
            return
        targets = self._assign()
        changed = [member for member, each in targets.items() if each != group.target.get(member)]
        self.records.extend(
            records.target_assignment_record(group.group_id, member, targets[member])
            for member in changed
        )
        self.events.append(assigned(group.group_id, self.epoch, SIMPLE, changed))
        self.records.append(records.target_epoch_record(group.group_id, self.epoch, self.now_ms))
        self.target = targets[self.member_id]
        self.target_epoch = self.epoch

    def _assign(self) -> Mapping[MemberId, Assignment]:
        # Members mostly subscribe alike, so each subscription is looked up in the image but once.
        topics = self._around.image.topics
        ids_of = {
            names: [
                topics[name].topic_id
                for name in in_java_order(
                    sorted(names & topics.keys()), string_hash, among=len(names)
                )
            ]
            for names in {member.topic_names for member in self._members.values()}
        }
        subscribers = {
            member_id: Subscriber(
                topic_ids=ids_of[member.topic_names],
                previous=self.group.target.get(member_id, {}),
            )
            for member_id, member in self._members.items()
        }
        initialized = self.group.share_partitions().initialized
        counts = {
            topic_id: len(self._around.image.topics_by_id[topic_id].partitions)
            for topic_id in chain.from_iterable(ids_of.values())
        }
        return assign_simply(
            subscribers,
            {
                topic_id: initialized[topic_id].partitions & frozenset(range(count))
                for topic_id, count in counts.items()
                if topic_id in initialized
            },
            is_homogeneous=len(ids_of) == 1,
        )

    # Step 4: the member's way to its target, which is one step.

    def reconcile(self) -> None:
        """Give the member its target, less what it does not subscribe to any more."""
        before = self._admitted.current
        if before.member_epoch == self.target_epoch and not self._epoch_moved:
            return
        wanted = topic_ids(self.member.topic_names, self._around.image)
        assigned = {topic: share for topic, share in self.target.items() if topic in wanted}
        if before.member_epoch == self.target_epoch:
            self.current = replace(before, assigned=assigned)
        else:
            self.current = ShareAssignment(
                member_epoch=self.target_epoch,
                previous_member_epoch=before.member_epoch,
                assigned=assigned,
            )
        if self.current != before:
            self.records.append(
                records.current_assignment_record(self.group.group_id, self.member_id, self.current)
            )

    # Step 5: share state for partitions that have none.

    def ask_for_share_state(self) -> None:
        """Have share state made for partitions of subscribed topics that have none yet.

        The answer does not wait for that: the member hears of these partitions at a later beat.
        """
        group, around = self.group, self._around
        retry_ms = around.settings.of(group).initialize_retry_interval_ms
        partitions = group.share_partitions()
        missing = partitions.uninitialized(
            topic_ids(subscribed_topics(self._members.values()), around.image),
            around.image,
            around.asked_since(group.group_id, self.now_ms - retry_ms),
        )
        if not missing:
            return
        self.records.append(records.partitions_record(group.group_id, partitions.begun(missing)))
        around.asked(group.group_id, missing, self.now_ms)
        self.intents.append(
            InitializeShareState(
                group.group_id,
                tuple(
                    ShareStart(topic_id, partition, self.epoch)
                    for topic_id, named in sorted(missing.items())
                    for partition in sorted(named.partitions)
                ),
            )
        )

    # Step 6: the answer.

    def answer(self, request: ShareGroupHeartbeatRequest) -> ShareGroupHeartbeatResponse:
        """Tell the member where it stands; its assignment only when it needs telling."""
        response = ShareGroupHeartbeatResponse(
            member_id=self.member_id,
            member_epoch=self.current.member_epoch,
            heartbeat_interval_ms=self._around.settings.of(self.group).heartbeat_interval_ms,
        )
        if (
            self.is_join
            or request.subscribed_topic_names is not None
            or self.current.assigned != self._admitted.current.assigned
        ):
            response.assignment = ShareGroupHeartbeatResponse.Assignment(
                topic_partitions=[
                    ShareGroupHeartbeatResponse.TopicPartitions(
                        topic_id=topic_id, partitions=sorted(partitions)
                    )
                    for topic_id, partitions in sorted(self.current.assigned.items())
                ]
            )
        return response


def heard(stored: ShareMember, request: ShareGroupHeartbeatRequest, client: Client) -> ShareMember:
    """Return what is known of a member after its heartbeat: `stored` itself if nothing is new."""
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
    """Return the topics that these members name."""
    return frozenset[str]().union(*(member.topic_names for member in members))


def _ready_topics(group: ShareGroup) -> list[str]:
    """Return subscribed topics with initialized partitions that the target does not cover."""
    partitions = group.partitions
    if partitions is None or not partitions.initialized or not group.members:
        return []
    given: dict[bytes, set[int]] = {}
    for target in group.target.values():
        for topic_id, share in target.items():
            given.setdefault(topic_id, set()).update(share)
    names = subscribed_topics(group.members.values())
    return sorted(
        named.name
        for topic_id, named in partitions.initialized.items()
        if named.name in names and given.get(topic_id, set()) != named.partitions
    )
