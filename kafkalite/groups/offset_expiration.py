"""Offset expiration: deletes offsets that are too old (KIP-211) or whose topic was deleted.

Both deletions work in small steps, see `coordinator.sweep`. Kafka does all in one step and splits
the records into batches afterwards.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kafkalite.coordinator.contract import CoordinatorResult, Event, SetTimer
from kafkalite.coordinator.sweep import PAUSE_MS, SweepDecision, SweepLimit
from kafkalite.groups.group import GroupType
from kafkalite.groups.offsets_topic_records import offset_commit_tombstone
from kafkalite.ports.texts import count_text
from kafkalite.protocol.uuids import ZERO_UUID

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kafkalite.groups.directory import GroupDirectory
    from kafkalite.groups.group import Group, GroupId, OffsetAndMetadata, Record
    from kafkalite.groups.offsets import Offsets
    from kafkalite.protocol.errors import KafkaError

_MAX_EXAMINED = 2_000
"""The maximum number of groups and offsets that one decision examines.

It is small because all shards of a broker start a round at the same time.
"""

_MAX_NAMED_PARTITIONS = 10
"""The maximum number of partitions that an event names."""

_WITHOUT_OFFSETS = frozenset((GroupType.SHARE,))
"""Group types without committed offsets. Such groups exist until they are deleted."""


@dataclass(frozen=True, slots=True)
class OffsetExpirationRound:
    """Timer event: delete expired offsets.

    A round covers the groups that exist when it starts. `groups` is empty in the event that starts
    a round.
    """

    groups: tuple[GroupId, ...] = ()
    position: int = 0


@dataclass(frozen=True, slots=True)
class DeletedTopics:
    """Timer event: delete the offsets of deleted topics, given as (name, id)."""

    deleted: tuple[tuple[str, bytes], ...]
    groups: tuple[GroupId, ...] = ()
    position: int = 0


class _ExpirationStep(SweepDecision):
    """The records and events of one step."""

    def delete_offset(self, group_id: GroupId, topic: str, partition: int) -> None:
        """Delete one offset."""
        self.records.append(offset_commit_tombstone(group_id, topic, partition))
        self.characters += len(group_id) + len(topic)


class OffsetExpiration:
    """Deletes expired offsets and offsets of deleted topics in one shard."""

    def __init__(self, directory: GroupDirectory, offsets: Offsets) -> None:
        self._directory = directory
        self._offsets = offsets
        self._limit = SweepLimit()
        self.replayers: Mapping[type, Callable[..., None]] = {}
        self.timers: Mapping[type, Callable[..., CoordinatorResult[None]]] = {
            OffsetExpirationRound: self.expire,
            DeletedTopics: self.delete_offsets_of_deleted_topics,
        }

    def on_loaded(self, now_ms: int) -> CoordinatorResult[None]:
        """Schedule the first round, one interval from now."""
        return CoordinatorResult(response=None, timers=[self._next_round(now_ms)])

    def expire(self, event: OffsetExpirationRound, now_ms: int) -> CoordinatorResult[None]:
        """Delete expired offsets, and Empty groups without remaining offsets (KIP-211)."""
        groups = event.groups or tuple(self._directory.groups)
        step = self._begin_step()
        position = event.position
        while position < len(groups) and not step.is_full():
            group = self._directory.groups.get(groups[position])
            if group is not None and not self._expire_group(group, now_ms, step):
                break
            position += 1
        if position < len(groups):
            next_event = OffsetExpirationRound(groups, position)
            timer = SetTimer("expire-offsets", now_ms + PAUSE_MS, next_event)
        else:
            timer = self._next_round(now_ms)
        return CoordinatorResult(None, step.records, timers=[timer], events=step.events)

    def on_append_failed(self, records: Sequence[Record], error: KafkaError) -> None:
        """Use smaller steps from now on if the log refused the last one as too large.

        That happens if `max.message.bytes` of the topic is small.
        """
        self._limit.on_append_failed(records, error)

    def _begin_step(self) -> _ExpirationStep:
        return self._limit.apply_to(_ExpirationStep(max_examined=_MAX_EXAMINED))

    def _next_round(self, now_ms: int) -> SetTimer:
        interval_ms = self._directory.config.int("offsets.retention.check.interval.ms")
        # Without groups a round has no effect. A periodic timer skips rounds when the clock jumps.
        is_idle = not self._directory.groups
        return SetTimer(
            "expire-offsets", now_ms + interval_ms, OffsetExpirationRound(), is_periodic=is_idle
        )

    def _expire_group(self, group: Group, now_ms: int, step: _ExpirationStep) -> bool:
        """Expire the offsets of one group; False if this step has no room for all of them."""
        step.examined += 1
        if group.group_type in _WITHOUT_OFFSETS:
            return True
        stored = self._offsets.of_group(group.group_id)
        pending = self._offsets.pending.of_group(group.group_id)
        rule = group.offset_expiry()
        if rule is None and stored:
            return True
        retention_ms = self._directory.config.int("offsets.retention.minutes") * 60_000
        # An open transaction may still commit an offset of this group.
        are_all_expired = not pending
        expired: dict[str, list[str]] = defaultdict(list)
        for topic, partitions in stored.items():
            if group.is_subscribed_to(topic):
                are_all_expired = False
                continue
            for partition, committed in partitions.items():
                if len(expired) and step.is_full():
                    step.add_event(lambda: _offsets_expired(group, expired, retention_ms))
                    return False
                step.examined += 1
                assert rule is not None, "groups with offsets and without a rule returned above"
                is_expired = rule.is_expired(committed, now_ms, retention_ms)
                if is_expired and partition not in pending.get(topic, ()):
                    step.delete_offset(group.group_id, topic, partition)
                    expired[rule.rule_for(committed)].append(f"{topic}-{partition}")
                else:
                    are_all_expired = False
        if expired:
            step.add_event(lambda: _offsets_expired(group, expired, retention_ms))
        if are_all_expired and group.is_empty():
            step.records.extend(group.tombstones())
            step.characters += len(group.group_id)
            step.add_event(lambda: _group_expired(group, has_offsets=bool(stored)))
        return True

    def delete_offsets_of_deleted_topics(
        self, event: DeletedTopics, now_ms: int
    ) -> CoordinatorResult[None]:
        """Delete all groups' offsets of deleted topics, including pending offsets.

        An offset with another topic id belongs to a topic created later and is not deleted.
        """
        groups = event.groups or tuple(self._offsets.group_ids())
        step = self._begin_step()
        position = event.position
        while position < len(groups) and not step.is_full():
            if not self._delete_offsets_of_group(groups[position], event.deleted, step):
                break
            position += 1
        if position == len(groups):
            return CoordinatorResult(None, step.records, events=step.events)
        next_event = replace(event, groups=groups, position=position)
        timer = self.deletion_timer(next_event, now_ms + PAUSE_MS)
        return CoordinatorResult(None, step.records, timers=[timer], events=step.events)

    def deletion_timer(self, event: DeletedTopics, at_ms: int) -> SetTimer:
        """Return the timer that continues the deletion."""
        return SetTimer(("deleted-topics", event.deleted), at_ms, event)

    def _delete_offsets_of_group(
        self, group_id: GroupId, deleted: tuple[tuple[str, bytes], ...], step: _ExpirationStep
    ) -> bool:
        for topic, topic_id in deleted:
            step.examined += 1
            count_before = len(step.records)
            is_complete = True
            for partition, stored in self._stored_offsets(group_id, topic).items():
                if len(step.records) > count_before and step.is_full():
                    is_complete = False
                    break
                step.examined += 1
                if any(offset.topic_id in (ZERO_UUID, topic_id) for offset in stored):
                    step.delete_offset(group_id, topic, partition)
            if len(step.records) > count_before:
                _add_deleted_event(step, group_id, topic, len(step.records) - count_before)
            if not is_complete:
                return False
        return True

    def _stored_offsets(
        self, group_id: GroupId, topic: str
    ) -> Mapping[int, list[OffsetAndMetadata]]:
        """Return the committed and pending offsets of each partition of a topic."""
        committed = self._offsets.of_group(group_id).get(topic, {})
        stored = {partition: [offset] for partition, offset in committed.items()}
        for partition, pending in self._offsets.pending.of_group(group_id).get(topic, {}).items():
            stored.setdefault(partition, []).extend(entry.offset for entry in pending.values())
        return stored


def _offsets_expired(group: Group, expired: Mapping[str, list[str]], retention_ms: int) -> Event:
    count = sum(map(len, expired.values()))
    rules = ", ".join(f"{len(partitions)} by {rule}" for rule, partitions in expired.items())
    partitions = [each for names in expired.values() for each in names]
    return Event(
        group.group_id,
        "expired",
        f"{count_text(count, 'offset')} of group {group.group_id}, {group.state_name()}, expired "
        f"({rules}; retention {retention_ms} ms): {_first_partitions(partitions)}",
        {
            "rules": {rule: len(names) for rule, names in expired.items()},
            "retention_ms": retention_ms,
            "state": group.state_name(),
            "offsets": count,
            "partitions": partitions[:_MAX_NAMED_PARTITIONS],
        },
    )


def _group_expired(group: Group, *, has_offsets: bool) -> Event:
    reason = "its last offsets have expired" if has_offsets else "it has no offsets"
    return Event(
        group.group_id,
        "deleted",
        f"group {group.group_id} deleted: it is Empty and {reason}",
        {"rule": "expiry", "group_type": group.group_type.value},
    )


def _add_deleted_event(step: _ExpirationStep, group_id: GroupId, topic: str, count: int) -> None:
    text = f"{count_text(count, 'offset')} of group {group_id} deleted with topic {topic}"
    facts = {"rule": "topic-deletion", "topic": topic, "offsets": count}
    step.add_event(lambda: Event(group_id, "deleted", text, facts))


def _first_partitions(partitions: list[str]) -> str:
    names = ", ".join(partitions[:_MAX_NAMED_PARTITIONS])
    return names if len(partitions) <= _MAX_NAMED_PARTITIONS else f"{names}, …"
