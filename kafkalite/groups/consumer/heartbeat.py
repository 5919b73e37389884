"""ConsumerHeartbeat: the steps of a heartbeat of a consumer group (KIP-848)."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from kafkalite.coordinator.contract import SetTimer
from kafkalite.groups.assignors.contract import Assignment
from kafkalite.groups.assignors.table import assignor_names
from kafkalite.groups.consumer import consumer_group_records as records
from kafkalite.groups.consumer import events
from kafkalite.groups.consumer.context import ConsumerContext
from kafkalite.groups.consumer.group import ConsumerGroup, subscribed_topics, topics_of
from kafkalite.groups.consumer.member import CurrentAssignment, MemberMetadata, MemberState
from kafkalite.groups.consumer.reconcile import ReconcileInput, reconcile
from kafkalite.groups.consumer.regex import (
    MIN_REFRESH_INTERVAL_MS,
    NEVER_RESOLVED_MS,
    RegexRefresh,
    ResolvedRegex,
    check_regex,
)
from kafkalite.groups.consumer.sessions import ConsumerRebalanceExpiry
from kafkalite.groups.consumer.target import compute_target, preferred_assignor
from kafkalite.groups.modern.heartbeat import AssignorRun, HeartbeatRecords, ModernHeartbeat
from kafkalite.groups.modern.member import JOIN_EPOCH, UNCHANGED_MS
from kafkalite.groups.modern.topics import partitions_by_topic, topic_ids
from kafkalite.protocol._generated.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatResponse,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafkalite.groups.consumer.admission import AdmittedMember, Identity
    from kafkalite.groups.consumer.member import OwnedPartitions
    from kafkalite.groups.consumer.settings import ConsumerSettings
    from kafkalite.groups.group import MemberId, Record
    from kafkalite.groups.modern.member import Client, MayDescribe
    from kafkalite.protocol._generated.messages.consumer_group_heartbeat import (
        ConsumerGroupHeartbeatRequest,
    )


class ConsumerHeartbeat(
    ModernHeartbeat[ConsumerContext, ConsumerGroup, MemberMetadata, CurrentAssignment, Assignment]
):
    """One heartbeat of one member of a consumer group."""

    __slots__ = (
        "_may_describe",
        "_reported",
        "_subscription_changed",
        "resolved_regexes",
    )  # fmt: skip

    RECORDS = HeartbeatRecords(
        records.TYPES, records.target_assignment_record, records.current_assignment_record
    )

    def __init__(
        self,
        context: ConsumerContext,
        group: ConsumerGroup,
        identity: Identity,
        admitted: AdmittedMember,
        *,
        initial_records: Sequence[Record],
        now_ms: int,
    ) -> None:
        super().__init__(
            context,
            group,
            identity.member_id,
            is_join=identity.member_epoch == JOIN_EPOCH,
            member=admitted.stored,
            current=admitted.current,
            target=group.target.get(admitted.replaces or identity.member_id, {}),
            replaces=admitted.replaces,
            records=(*initial_records, *admitted.records),
            now_ms=now_ms,
        )
        self._reported = identity.reported
        self._subscription_changed = False
        self._may_describe: MayDescribe | None = None
        self.resolved_regexes: Mapping[str, ResolvedRegex] = group.resolved_regexes

    @property
    def _is_new_instance(self) -> bool:
        """Whether the member has an instance id that is not in the group yet."""
        instance_id = self.member.instance_id
        return instance_id is not None and instance_id not in self.group.static_members

    # Step 1: update of the member.

    def update_member(self, request: ConsumerGroupHeartbeatRequest, client: Client) -> None:
        """Update the member's metadata from the request; omitted fields keep their values.

        Raises KafkaError(INVALID_REGULAR_EXPRESSION) for an invalid new expression.
        """
        self.apply_member(updated_member(self._stored, request, client), client.may_describe)

    def apply_member(self, member: MemberMetadata, may_describe: MayDescribe | None) -> None:
        """Set the member's metadata, which may be unchanged."""
        self._may_describe = may_describe
        stored = self._stored
        self.member = member
        if member is not stored:
            self.records.append(
                records.member_metadata_record(self.group.group_id, self.member_id, member)
            )
        if self.is_join:
            self.events.append(
                events.member_joined_event(self.group, self.member_id, member, self._replaces)
            )
        if member.topic_names != stored.topic_names:
            self._subscription_changed = True
            self._add_reason("subscribes to other topics")
        if member.server_assignor != stored.server_assignor:
            self._update_assignor()
        if member.topic_regex != stored.topic_regex:
            self._update_regex(stored.topic_regex, member.topic_regex)
        elif self.group.regex_subscribers:
            self._resolve_if_due(self.group.regex_subscribers, is_new=False)

    def _update_assignor(self) -> None:
        """Request a new group epoch if the members now prefer another assignor."""
        if not self._context.directory.rules.raises_epoch_for_assignor:
            return
        before = self._preferred_assignor(self.group.members)
        if self._preferred_assignor(self._updated_members()) != before:
            self._add_reason("prefers another assignor")

    def _preferred_assignor(self, members: Mapping[MemberId, MemberMetadata]) -> str:
        """Return the assignor that most members request, or else the default one."""
        config = self._context.directory.config
        default = assignor_names(config.list("group.consumer.assignors"))[0]
        return preferred_assignor(members.values(), default)

    def _update_regex(self, old: str | None, new: str | None) -> None:
        self._subscription_changed = True
        group = self.group
        is_new = bool(new) and group.regex_subscribers[new or ""] == 0
        if is_new:
            check_regex(new or "")
        # An unresolved expression matches nothing: the epoch is raised when it is resolved.
        elif new in group.resolved_regexes or (old and not new):
            self._add_reason("subscribes by another regular expression")
        subscribers = Counter(group.regex_subscribers)
        subscribers[new or ""] += 1
        subscribers[old or ""] -= 1
        del subscribers[""]
        if old and subscribers[old] == 0:
            self.records.append(records.regex_tombstone(group.group_id, old))
            resolved = dict(group.resolved_regexes)
            resolved.pop(old, None)
            self.resolved_regexes = resolved
        self._resolve_if_due(+subscribers, is_new=is_new)

    def _add_reason(self, change: str) -> None:
        """Request a new group epoch because of this member's change."""
        is_new = self.member_id not in self.group.members and self._replaces is None
        self._reasons.append(f"member {self.member_id} {'joined' if is_new else change}")

    def _resolve_if_due(self, subscribers: Counter[str], *, is_new: bool) -> None:
        """Schedule the resolution of the group's expressions, if it is due.

        It is separate from the heartbeat, as in Kafka: a member with a new expression gets its
        topics by a later heartbeat.
        """
        group, context = self.group, self._context
        resolved = group.resolved_regexes.values()
        last_ms = max((regex.timestamp_ms for regex in resolved), default=NEVER_RESOLVED_MS)
        if not subscribers or self.now_ms <= last_ms + MIN_REFRESH_INTERVAL_MS:
            return
        if (
            is_new
            or len(subscribers) != len(group.resolved_regexes)
            or max(regex.version for regex in resolved) < context.min_regex_version
            or self.now_ms > last_ms + context.settings.of(group).regex_refresh_interval_ms
        ):
            key = ("consumer-regex", group.group_id)
            refresh = RegexRefresh(group.group_id, self.member_id, self._may_describe)
            self.timers.append(SetTimer(key, self.now_ms, refresh))

    # Step 2: the group epoch.

    def update_group_epoch(self) -> None:
        """Raise the group epoch if subscriptions or topics changed."""
        group, context = self.group, self._context
        if not self._reasons and context.is_metadata_hash_current(group.soft):
            return
        names = subscribed_topics(self._updated_members().values(), self.resolved_regexes)
        topics_hash = context.directory.metadata_hash(names)
        if self._reasons or topics_hash != group.metadata_hash:
            reasons = list(dict.fromkeys(self._reasons)) or [
                f"topic {name} has changed"
                for name in context.recently_changed_topics(group, names)
            ]
            reasons = reasons or ["subscribed topics have changed"]
            self._raise_group_epoch(
                records.group_epoch_record(group.group_id, self.epoch + 1, topics_hash), reasons
            )
        else:
            # Only if no record is written, because the append of a record may fail.
            context.mark_metadata_hash_current(group.soft)
        if group.has_partition_metadata:
            self.records.append(records.partition_metadata_tombstone(group.group_id))

    # Step 3: the target assignment.

    def _assign(self) -> AssignorRun:
        """Run the assignor that most members request."""
        members = self._updated_members()
        previous = dict(self.group.target)
        if self._replaces is not None:
            previous[self.member_id] = self.group.target.get(self._replaces, {})
        assignor = self._preferred_assignor(members)
        targets = compute_target(
            assignor, members, previous, self.resolved_regexes, self._context.directory.image
        )
        return AssignorRun(assignor, targets, previous)

    # Step 4: reconciliation.

    def reconcile(self) -> None:
        """Revoke and assign as many partitions as possible now."""
        if not self._subscription_changed and self.current.is_reconciled_to(self.target_epoch):
            return
        if self._is_new_instance and self.target_epoch == self.group.target_epoch:
            # Kafka looks up targets by instance id. A new one has none until the next target.
            self.target = {}
        names = topics_of(self.member, self.resolved_regexes)
        next_step = reconcile(
            self.current,
            ReconcileInput(
                target_epoch=self.target_epoch,
                target=self.target,
                topic_ids=topic_ids(names, self._context.directory.image),
                subscription_changed=self._subscription_changed,
                reported=self._reported,
                is_held_by_another=self._is_held_by_another,
            ),
        )
        if next_step is self.current:
            return
        self.group.ownership().record_step(self.member_id, self.current, next_step, self.now_ms)
        self._set_current(next_step)
        if self.member.classic is not None:
            # Classic members have join and sync timers instead.
            return
        must_revoke = next_step.state is MemberState.UNREVOKED_PARTITIONS
        self._set_revocation_timer(
            ConsumerRebalanceExpiry(self.group.group_id, self.member_id, next_step.member_epoch),
            self.member.rebalance_timeout_ms if must_revoke else None,
        )

    def record_join_confirmation(self) -> None:
        """Write the confirmation of the member's join, unless this step's record contains it."""
        group = self.group
        stored = group.current_of(self.member_id)
        if (
            self.current is self._initial_current
            and self.current.is_join_confirmed != stored.is_join_confirmed
        ):
            self.records.append(
                records.current_assignment_record(group.group_id, self.member_id, self.current)
            )

    def _is_held_by_another(self, topic_id: bytes, partition: int) -> bool:
        owner = self.group.owner_of(topic_id, partition)
        return owner not in (None, self.member_id, self._replaces)

    # Step 5: the response.

    def answer(self, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse:
        """Return the response; it has the assignment only if the member needs it."""
        response = ConsumerGroupHeartbeatResponse(
            member_id=self.member_id,
            member_epoch=self.current.member_epoch,
            heartbeat_interval_ms=self._context.settings.of(self.group).heartbeat_interval_ms,
        )
        if (
            self.is_join
            or self.current.assigned != self._initial_current.assigned
            or is_full_request(request)
        ):
            response.assignment = _assignment(self.current.assigned)
        return response


def is_steady(  # noqa: PLR0917 - called by SteadyHeartbeats for each group type
    context: ConsumerContext,
    group: ConsumerGroup,
    member: MemberMetadata,
    current: CurrentAssignment,
    request: ConsumerGroupHeartbeatRequest,
    client: Client,
    settings: ConsumerSettings,
) -> bool:
    """Whether no step of the heartbeat would change anything."""
    return (
        request.instance_id == member.instance_id
        and group.epoch == group.target_epoch
        and current.is_reconciled_to(group.target_epoch)
        and updated_member(member, request, client) is member
        and not is_full_request(request)
        and not group.regex_subscribers
        and group.soft.topics_version == context.topics_version
        and (
            not settings.compares_incarnations
            or current.is_join_confirmed
            # Otherwise a record of the confirmation must be written.
            or member.instance_id is not None
        )
    )


def is_full_request(request: ConsumerGroupHeartbeatRequest) -> bool:
    """Whether the request has all fields, as after a lost response."""
    return (
        request.rebalance_timeout_ms != UNCHANGED_MS
        and request.topic_partitions is not None
        and (
            request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
        )
    )


def updated_member(
    stored: MemberMetadata, request: ConsumerGroupHeartbeatRequest, client: Client
) -> MemberMetadata:
    """Return the member's metadata after a heartbeat: `stored` itself if nothing changed."""
    if (
        request.subscribed_topic_names is None
        and request.subscribed_topic_regex is None
        and request.rebalance_timeout_ms == UNCHANGED_MS
        and request.rack_id is None
        and request.server_assignor is None
        and request.instance_id in (None, stored.instance_id)
        and client.client_id == stored.client_id
        and client.host == stored.client_host
        and stored.classic is None
    ):
        # The usual case.
        return stored
    names = request.subscribed_topic_names
    timeout_ms = request.rebalance_timeout_ms
    member = MemberMetadata(
        instance_id=_new_or_stored(request.instance_id, stored.instance_id),
        rack_id=_new_or_stored(request.rack_id, stored.rack_id),
        client_id=client.client_id,
        client_host=client.host,
        rebalance_timeout_ms=(
            stored.rebalance_timeout_ms if timeout_ms == UNCHANGED_MS else timeout_ms
        ),
        topic_names=stored.topic_names if names is None else frozenset(names),
        topic_regex=_new_or_stored(request.subscribed_topic_regex, stored.topic_regex),
        server_assignor=_new_or_stored(request.server_assignor, stored.server_assignor),
    )
    return stored if member == stored else member


def _new_or_stored(new: str | None, stored: str | None) -> str | None:
    return stored if new is None else new


def _assignment(assigned: OwnedPartitions) -> ConsumerGroupHeartbeatResponse.Assignment:
    return ConsumerGroupHeartbeatResponse.Assignment(
        topic_partitions=partitions_by_topic(
            ConsumerGroupHeartbeatResponse.TopicPartitions, assigned
        )
    )
