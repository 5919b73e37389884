"""Beat: one heartbeat on its way through the steps, and what it has decided so far.

Nothing here changes the group. Each step reads the group as it stands and what the steps before
it decided, and adds records.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from kafkalite.coordinator.contract import SetTimer
from kafkalite.groups.assignors.table import assignor_names
from kafkalite.groups.consumer import events, records
from kafkalite.groups.consumer.group import subscribed_topics, topics_of
from kafkalite.groups.consumer.member import JOIN_EPOCH, MemberMetadata, MemberState
from kafkalite.groups.consumer.reconcile import Towards, reconcile
from kafkalite.groups.consumer.regex import (
    MIN_REFRESH_INTERVAL_MS,
    NEVER_RESOLVED_MS,
    RegexRefresh,
    ResolvedRegex,
    check_regex,
)
from kafkalite.groups.consumer.sessions import cancel_rebalance_timer, rebalance_timer
from kafkalite.groups.consumer.target import compute_target, may_assign_now, preferred_assignor
from kafkalite.groups.consumer.topics import topic_ids
from kafkalite.groups.events import assigned, moved_on, postponed
from kafkalite.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafkalite.coordinator.contract import Event, TimerChange
    from kafkalite.groups.assignors.contract import Assignment
    from kafkalite.groups.consumer.admission import Admitted, Identity
    from kafkalite.groups.consumer.group import ConsumerGroup
    from kafkalite.groups.consumer.member import OwnedPartitions
    from kafkalite.groups.consumer.surroundings import Surroundings
    from kafkalite.groups.group import MemberId, Record
    from kafkalite.protocol.messages.consumer_group_heartbeat import (
        ConsumerGroupHeartbeatRequest,
    )

_UNCHANGED_MS = -1
"""What a member sends as its rebalance timeout when it has not changed."""


class Client(NamedTuple):
    """The connection a request came over."""

    client_id: str
    host: str
    """As Java prints an address: "/127.0.0.1"."""


class Beat:
    """One heartbeat of one member."""

    __slots__ = (
        "_around", "_before", "_identity", "_replaces", "_stored", "_subscription_changed",
        "_why_on", "current", "epoch", "events", "group", "member", "now_ms", "records",
        "resolved_regexes", "target", "target_epoch", "timers",
    )  # fmt: skip

    def __init__(
        self,
        around: Surroundings,
        group: ConsumerGroup,
        identity: Identity,
        admitted: Admitted,
        *,
        made_room: Sequence[Record],
        now_ms: int,
    ) -> None:
        self._around = around
        self._identity = identity
        self._replaces = admitted.replaces
        self._stored = self.member = admitted.stored
        self._before = self.current = admitted.current
        self._subscription_changed = False
        self._why_on: list[str] = []
        self.group = group
        self.now_ms = now_ms
        self.epoch = group.epoch
        self.target_epoch = group.target_epoch
        self.target: Assignment = group.target.get(admitted.replaces or identity.member_id, {})
        self.resolved_regexes: Mapping[str, ResolvedRegex] = group.resolved_regexes
        self.records: list[Record] = [*made_room, *admitted.records]
        self.timers: list[TimerChange] = []
        self.events: list[Event] = []

    @property
    def member_id(self) -> MemberId:
        """Whose heartbeat it is."""
        return self._identity.member_id

    @property
    def is_join(self) -> bool:
        """Whether the member joins, for the first time or anew."""
        return self._identity.member_epoch == JOIN_EPOCH

    @property
    def _is_new_instance(self) -> bool:
        """Whether the member brings an instance id that the group has not heard of."""
        instance_id = self.member.instance_id
        return instance_id is not None and instance_id not in self.group.static_members

    # Step 1: the member's own words.

    def hear(self, request: ConsumerGroupHeartbeatRequest, client: Client) -> None:
        """Take over what the member says of itself; what it leaves out stays as it was.

        KafkaError(INVALID_REGULAR_EXPRESSION) for an expression nobody brought before.
        """
        self.learn(heard(self._stored, request, client))

    def learn(self, member: MemberMetadata) -> None:
        """Take over what is known of the member now; it may be what was known before."""
        stored = self._stored
        self.member = member
        if member is not stored:
            self.records.append(
                records.member_metadata_record(self.group.group_id, self.member_id, member)
            )
        if self.is_join:
            self.events.append(events.joined(self.group, self.member_id, member, self._replaces))
        if member.topic_names != stored.topic_names:
            self._subscription_changed = True
            self._move_on("subscribes to other topics")
        if member.topic_regex != stored.topic_regex:
            self._change_regex(stored.topic_regex, member.topic_regex)
        elif self.group.regex_subscribers:
            self._consider_resolving(self.group.regex_subscribers, is_new=False)

    def _change_regex(self, old: str | None, new: str | None) -> None:
        self._subscription_changed = True
        group = self.group
        is_new = bool(new) and group.regex_subscribers[new or ""] == 0
        if is_new:
            check_regex(new or "")
        # One that is not resolved yet stands for nothing: the epoch moves when it does.
        elif new in group.resolved_regexes or (old and not new):
            self._move_on("subscribes by another expression")
        subscribers = Counter(group.regex_subscribers)
        subscribers[new or ""] += 1
        subscribers[old or ""] -= 1
        del subscribers[""]
        if old and subscribers[old] == 0:
            self.records.append(records.regex_tombstone(group.group_id, old))
            resolved = dict(group.resolved_regexes)
            resolved.pop(old, None)
            self.resolved_regexes = resolved
        self._consider_resolving(+subscribers, is_new=is_new)

    def _move_on(self, why: str) -> None:
        """Have the group epoch moved, and say what of this member's moves it."""
        is_new = self.member_id not in self.group.members and self._replaces is None
        self._why_on.append(f"member {self.member_id} {'joined' if is_new else why}")

    def _consider_resolving(self, subscribers: Counter[str], *, is_new: bool) -> None:
        """Have the group's expressions resolved, if that is due and was not just done.

        It is done apart from the heartbeat, as Kafka does it: the member that brings a new
        expression is answered first, and learns its topics by a later heartbeat.
        """
        group, around = self.group, self._around
        resolved = group.resolved_regexes.values()
        last_ms = max((regex.timestamp_ms for regex in resolved), default=NEVER_RESOLVED_MS)
        if not subscribers or self.now_ms <= last_ms + MIN_REFRESH_INTERVAL_MS:
            return
        if (
            is_new
            or len(subscribers) != len(group.resolved_regexes)
            or max(regex.version for regex in resolved) < around.newest_topic_version
            or self.now_ms > last_ms + around.settings.of(group).regex_refresh_interval_ms
        ):
            key = ("consumer-regex", group.group_id)
            self.timers.append(SetTimer(key, self.now_ms, RegexRefresh(group.group_id)))

    def _members(self) -> dict[MemberId, MemberMetadata]:
        """Return the group's members as they will be."""
        members = dict(self.group.members)
        if self._replaces is not None:
            del members[self._replaces]
        members[self.member_id] = self.member
        return members

    # Step 2: the group epoch.

    def move_group_epoch(self) -> None:
        """Move the group on when a subscription changed, or topics did."""
        group, around = self.group, self._around
        if not self._why_on and around.has_seen_topics(group):
            return
        names = subscribed_topics(self._members().values(), self.resolved_regexes)
        topics_hash = around.directory.metadata_hash(names)
        if self._why_on or topics_hash != group.metadata_hash:
            self.epoch += 1
            why = list(dict.fromkeys(self._why_on)) or [
                f"topic {name} has changed" for name in around.changed_since_seen(group, names)
            ]
            why = why or ["topics subscribed to have changed"]
            self.events.append(moved_on(group.group_id, self.epoch, why))
            self.records.append(records.group_epoch_record(group.group_id, self.epoch, topics_hash))
        else:
            # Noted only when there is nothing to write: what was to be written may yet be lost.
            around.saw_topics(group)
        if group.has_partition_metadata:
            self.records.append(records.partition_metadata_tombstone(group.group_id))

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
        directory = self._around.directory
        default_assignor = assignor_names(directory.config.list("group.consumer.assignors"))[0]
        members = self._members()
        previous = dict(group.target)
        if self._replaces is not None:
            previous[self.member_id] = group.target.get(self._replaces, {})
        assignor = preferred_assignor(members.values(), default_assignor)
        targets = compute_target(
            assignor, members, previous, self.resolved_regexes, directory.image
        )
        moved = [m for m, target in targets.items() if target != previous.get(m)]
        self.records += [
            records.target_assignment_record(group.group_id, m, targets[m]) for m in moved
        ]
        self.events.append(assigned(group.group_id, self.epoch, assignor, moved))
        self.records.append(records.target_epoch_record(group.group_id, self.epoch, self.now_ms))
        self.target = targets[self.member_id]
        self.target_epoch = self.epoch

    # Step 4: the member's next step towards its target.

    def reconcile(self) -> None:
        """Take from the member and give it what can be taken and given now."""
        if not self._subscription_changed and self.current.is_reconciled_to(self.target_epoch):
            return
        if self._is_new_instance and self.target_epoch == self.group.target_epoch:
            # Kafka looks for the target by the instance, which has none before the next one.
            self.target = {}
        names = topics_of(self.member, self.resolved_regexes)
        stepped = reconcile(
            self.current,
            Towards(
                target_epoch=self.target_epoch,
                target=self.target,
                topic_ids=topic_ids(names, self._around.directory.image),
                subscription_changed=self._subscription_changed,
                reported=self._identity.reported,
                is_held_by_another=self._is_held_by_another,
            ),
        )
        if stepped is self.current:
            return
        self.group.hand_overs().note(self.member_id, self.current, stepped, self.now_ms)
        self.current = stepped
        group_id, member_id = self.group.group_id, self.member_id
        self.records.append(records.current_assignment_record(group_id, member_id, stepped))
        if self.member.classic is not None:
            # It has timers of its own, for when it is to join and to sync.
            return
        if stepped.state is MemberState.UNREVOKED_PARTITIONS:
            deadline_ms = self.now_ms + self.member.rebalance_timeout_ms
            self.timers.append(
                rebalance_timer(group_id, member_id, stepped.member_epoch, deadline_ms)
            )
        else:
            self.timers.append(cancel_rebalance_timer(group_id, member_id))

    def _is_held_by_another(self, topic_id: bytes, partition: int) -> bool:
        owner = self.group.owner_of(topic_id, partition)
        return owner not in (None, self.member_id, self._replaces)

    # Step 5: the answer.

    def answer(self, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse:
        """Tell the member where it stands; its assignment only when it needs telling."""
        response = ConsumerGroupHeartbeatResponse(
            member_id=self.member_id,
            member_epoch=self.current.member_epoch,
            heartbeat_interval_ms=self._around.settings.of(self.group).heartbeat_interval_ms,
        )
        if (
            self.is_join
            or self.current.assigned != self._before.assigned
            or is_full_request(request)
        ):
            response.assignment = _assignment(self.current.assigned)
        return response


def is_full_request(request: ConsumerGroupHeartbeatRequest) -> bool:
    """Whether a member says everything again, as it does when it is unsure of the last answer."""
    return (
        request.rebalance_timeout_ms != _UNCHANGED_MS
        and request.topic_partitions is not None
        and (
            request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
        )
    )


def heard(
    stored: MemberMetadata, request: ConsumerGroupHeartbeatRequest, client: Client
) -> MemberMetadata:
    """Return what is known of a member after its heartbeat: `stored` itself if nothing is new."""
    if (
        request.subscribed_topic_names is None
        and request.subscribed_topic_regex is None
        and request.rebalance_timeout_ms == _UNCHANGED_MS
        and request.rack_id is None
        and request.server_assignor is None
        and request.instance_id in (None, stored.instance_id)
        and client.client_id == stored.client_id
        and client.host == stored.client_host
        and stored.classic is None
    ):
        # As most heartbeats are.
        return stored
    names = request.subscribed_topic_names
    timeout_ms = request.rebalance_timeout_ms
    member = MemberMetadata(
        instance_id=_said(request.instance_id, stored.instance_id),
        rack_id=_said(request.rack_id, stored.rack_id),
        client_id=client.client_id,
        client_host=client.host,
        rebalance_timeout_ms=(
            stored.rebalance_timeout_ms if timeout_ms == _UNCHANGED_MS else timeout_ms
        ),
        topic_names=stored.topic_names if names is None else frozenset(names),
        topic_regex=_said(request.subscribed_topic_regex, stored.topic_regex),
        server_assignor=_said(request.server_assignor, stored.server_assignor),
    )
    return stored if member == stored else member


def _said(now: str | None, before: str | None) -> str | None:
    return before if now is None else now


def _assignment(assigned: OwnedPartitions) -> ConsumerGroupHeartbeatResponse.Assignment:
    return ConsumerGroupHeartbeatResponse.Assignment(
        topic_partitions=[
            ConsumerGroupHeartbeatResponse.TopicPartitions(
                topic_id=topic_id, partitions=sorted(epochs)
            )
            for topic_id, epochs in sorted(assigned.items())
        ]
    )
