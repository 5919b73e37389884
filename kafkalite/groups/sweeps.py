"""Sweeps: offsets go when they are too old (KIP-211) or their topic is gone, and groups after them.

Both go on in small steps, see `coordinator.sweeping`. Kafka does all in one, and cuts the records
into batches afterwards.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kafkalite.coordinator.contract import CoordinatorResult, Event, SetTimer
from kafkalite.coordinator.sweeping import PAUSE_MS, Pass, Stride
from kafkalite.groups.group import GroupType
from kafkalite.groups.records import offset_commit_tombstone
from kafkalite.protocol.uuids import ZERO_UUID

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kafkalite.groups.directory import GroupDirectory
    from kafkalite.groups.group import Group, GroupId, Record
    from kafkalite.groups.offset import OffsetAndMetadata
    from kafkalite.groups.offsets import Offsets
    from kafkalite.protocol.errors import KafkaError

_LOOKS_AT_ONCE = 2_000
"""Groups and offsets that one decision looks at; the shards of a broker begin at the same time."""

_PARTITIONS_TOLD = 10
"""How many partitions an event names."""

_NEVER_SWEPT = frozenset((GroupType.SHARE,))
"""Groups without committed offsets, which last until somebody deletes them."""


@dataclass(frozen=True, slots=True)
class ExpireOffsets:
    """Timer event: look for offsets that have outlived their retention.

    A round is over the groups there were when it began; none in an event that begins one.
    """

    groups: tuple[GroupId, ...] = ()
    position: int = 0


@dataclass(frozen=True, slots=True)
class ForgetTopics:
    """Timer event: drop the offsets of deleted topics, given as (name, id)."""

    deleted: tuple[tuple[str, bytes], ...]
    groups: tuple[GroupId, ...] = ()
    position: int = 0


class _Pass(Pass):
    """What one decision of a sweep has come to."""

    def drop(self, group_id: GroupId, topic: str, partition: int) -> None:
        """Write off one offset."""
        self.records.append(offset_commit_tombstone(group_id, topic, partition))
        self.names += len(group_id) + len(topic)


class OffsetSweeps:
    """The two ways in which offsets of a shard go without anybody asking for it."""

    def __init__(self, directory: GroupDirectory, offsets: Offsets) -> None:
        self._directory = directory
        self._offsets = offsets
        self._stride = Stride()
        self.replayers: Mapping[type, Callable[..., None]] = {}
        self.timers: Mapping[type, Callable[..., CoordinatorResult[None]]] = {
            ExpireOffsets: self.expire,
            ForgetTopics: self.forget_topics,
        }

    def on_loaded(self, now_ms: int) -> CoordinatorResult[None]:
        """Begin to look for expired offsets, first after one interval."""
        return CoordinatorResult(response=None, timers=[self._next_round(now_ms)])

    def expire(self, event: ExpireOffsets, now_ms: int) -> CoordinatorResult[None]:
        """Drop what has outlived its retention, then groups left with nothing at all (KIP-211)."""
        groups = event.groups or tuple(self._directory.groups)
        done = self._begin()
        position = event.position
        while position < len(groups) and not done.is_full():
            group = self._directory.groups.get(groups[position])
            if group is not None and not self._expire_group(group, now_ms, done):
                break
            position += 1
        if position < len(groups):
            later = ExpireOffsets(groups, position)
            timer = SetTimer("expire-offsets", now_ms + PAUSE_MS, later)
        else:
            timer = self._next_round(now_ms)
        return CoordinatorResult(None, done.records, timers=[timer], events=done.events)

    def on_append_failed(self, records: Sequence[Record], error: KafkaError) -> None:
        """Take smaller steps from now on if the log found the last one too large.

        Its topic may have been given a `max.message.bytes` that is smaller than most.
        """
        self._stride.on_append_failed(records, error)

    def _begin(self) -> _Pass:
        return self._stride.begin(_Pass(most_looks=_LOOKS_AT_ONCE))

    def _next_round(self, now_ms: int) -> SetTimer:
        interval_ms = self._directory.config.int("offsets.retention.check.interval.ms")
        # Where there are no groups nothing is missed when time jumps over some rounds.
        is_idle = not self._directory.groups
        return SetTimer("expire-offsets", now_ms + interval_ms, ExpireOffsets(), is_tick=is_idle)

    def _expire_group(self, group: Group, now_ms: int, done: _Pass) -> bool:
        """Expire what is due of one group; False when this pass has no room for the rest."""
        done.looks += 1
        if group.group_type in _NEVER_SWEPT:
            return True
        stored = self._offsets.of_group(group.group_id)
        pending = self._offsets.pending.of_group(group.group_id)
        rule = group.offset_expiry()
        if rule is None and stored:
            return True
        retention_ms = self._directory.config.int("offsets.retention.minutes") * 60_000
        # A transaction that is open may yet commit an offset of this group.
        is_all_expired = not pending
        expired: dict[str, list[str]] = defaultdict(list)
        for topic, partitions in stored.items():
            if group.is_subscribed_to(topic):
                is_all_expired = False
                continue
            for partition, committed in partitions.items():
                if len(expired) and done.is_full():
                    done.tell(lambda: _offsets_expired(group, expired, retention_ms))
                    return False
                done.looks += 1
                assert rule is not None, "a group with offsets and without a rule was left above"
                is_expired = rule.is_expired(committed, now_ms, retention_ms)
                if is_expired and partition not in pending.get(topic, ()):
                    done.drop(group.group_id, topic, partition)
                    expired[rule.name_for(committed)].append(f"{topic}-{partition}")
                else:
                    is_all_expired = False
        if expired:
            done.tell(lambda: _offsets_expired(group, expired, retention_ms))
        if is_all_expired and group.is_empty():
            done.records.extend(group.tombstones())
            done.names += len(group.group_id)
            done.tell(lambda: _group_expired(group, has_offsets=bool(stored)))
        return True

    def forget_topics(self, event: ForgetTopics, now_ms: int) -> CoordinatorResult[None]:
        """Drop every group's offsets of topics that are no more, pending ones included.

        An offset committed under another id belongs to a topic created since; it stays.
        """
        groups = event.groups or tuple(self._offsets.group_ids())
        done = self._begin()
        position = event.position
        while position < len(groups) and not done.is_full():
            if not self._forget_in(groups[position], event.deleted, done):
                break
            position += 1
        if position == len(groups):
            return CoordinatorResult(None, done.records, events=done.events)
        later = replace(event, groups=groups, position=position)
        timer = self.forget_later(later, now_ms + PAUSE_MS)
        return CoordinatorResult(None, done.records, timers=[timer], events=done.events)

    def forget_later(self, event: ForgetTopics, at_ms: int) -> SetTimer:
        """Return the timer by which forgetting is taken up again."""
        return SetTimer(("forget-topics", event.deleted), at_ms, event)

    def _forget_in(
        self, group_id: GroupId, deleted: tuple[tuple[str, bytes], ...], done: _Pass
    ) -> bool:
        for topic, topic_id in deleted:
            done.looks += 1
            before = len(done.records)
            is_complete = True
            for partition, stored in self._stored(group_id, topic).items():
                if len(done.records) > before and done.is_full():
                    is_complete = False
                    break
                done.looks += 1
                if any(offset.topic_id in (ZERO_UUID, topic_id) for offset in stored):
                    done.drop(group_id, topic, partition)
            if len(done.records) > before:
                _tell_deleted(done, group_id, topic, len(done.records) - before)
            if not is_complete:
                return False
        return True

    def _stored(self, group_id: GroupId, topic: str) -> Mapping[int, list[OffsetAndMetadata]]:
        """Return what is committed and what is pending for each partition of a topic."""
        committed = self._offsets.of_group(group_id).get(topic, {})
        stored = {partition: [offset] for partition, offset in committed.items()}
        for partition, waiting in self._offsets.pending.of_group(group_id).get(topic, {}).items():
            stored.setdefault(partition, []).extend(each.offset for each in waiting.values())
        return stored


def _offsets_expired(group: Group, expired: Mapping[str, list[str]], retention_ms: int) -> Event:
    count = sum(map(len, expired.values()))
    rules = ", ".join(f"{len(partitions)} by {rule}" for rule, partitions in expired.items())
    partitions = [each for named in expired.values() for each in named]
    return Event(
        group.group_id,
        "expired",
        f"{count} offset(s) of group {group.group_id}, {group.state_name()}, expired ({rules}; "
        f"retention {retention_ms} ms): {_some(partitions)}",
        {
            "rules": {rule: len(named) for rule, named in expired.items()},
            "retention_ms": retention_ms,
            "state": group.state_name(),
            "offsets": count,
            "partitions": partitions[:_PARTITIONS_TOLD],
        },
    )


def _group_expired(group: Group, *, has_offsets: bool) -> Event:
    why = "its last offsets have expired" if has_offsets else "it holds no offsets"
    return Event(
        group.group_id,
        "deleted",
        f"group {group.group_id} deleted: it is Empty and {why}",
        {"rule": "expiry", "group_type": group.group_type.value},
    )


def _tell_deleted(done: _Pass, group_id: GroupId, topic: str, count: int) -> None:
    text = f"{count} offset(s) of group {group_id} deleted with topic {topic}"
    facts = {"rule": "topic-deletion", "topic": topic, "offsets": count}
    done.tell(lambda: Event(group_id, "deleted", text, facts))


def _some(partitions: list[str]) -> str:
    told = ", ".join(partitions[:_PARTITIONS_TOLD])
    return told if len(partitions) <= _PARTITIONS_TOLD else f"{told}, …"
