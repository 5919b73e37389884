"""Committed offsets: what a group has promised it has read.

Deciders read state and return records; a refused request leaves no trace. Replayers take one
record that is already in the log and make it true.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING

from kafkalite.coordinator.contract import CoordinatorResult, SetTimer
from kafkalite.groups.classic.group import ClassicGroup
from kafkalite.groups.offset import OffsetAndMetadata
from kafkalite.groups.records import offset_commit_record, offset_commit_tombstone
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.records.offset_commit import OffsetCommitKey
from kafkalite.protocol.uuids import ZERO_UUID

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from kafkalite.groups.directory import GroupDirectory
    from kafkalite.groups.group import CommitClaim, Group, GroupId, MemberId, Record
    from kafkalite.protocol.records.offset_commit import OffsetCommitValue

GroupOffsets = dict[str, dict[int, OffsetAndMetadata]]
"""topic → partition → what was committed."""


@dataclass(slots=True, kw_only=True)
class OffsetToCommit:
    """One partition's wish in a commit request, its topic known by name and by id."""

    topic: str
    topic_id: bytes
    partition: int
    offset: int
    leader_epoch: int = -1
    metadata: str | None = None
    commit_timestamp_ms: int | None = None
    """Only OffsetCommit v1 says itself when it happened."""


@dataclass(frozen=True, slots=True)
class ExpireOffsets:
    """Timer event: look for offsets that have outlived their retention."""


@dataclass(frozen=True, slots=True)
class ForgetTopics:
    """Timer event: drop what is left of the offsets of deleted topics, as (name, id)."""

    deleted: tuple[tuple[str, bytes], ...]


def _is_longer(text: str, longest: int) -> bool:
    """Whether Java counts more than `longest` characters, which are the units of UTF-16."""
    # Nothing counts for more than two, so that hardly any text is worth a closer look.
    return 2 * len(text) > longest and len(text.encode("utf-16-le")) > 2 * longest


_TOMBSTONES_AT_ONCE = 2_000
"""One decision is one batch, which has a limit of size; whatever is more takes another one."""


class Offsets:
    """The offsets of every group in a shard."""

    def __init__(self, directory: GroupDirectory) -> None:
        self._directory = directory
        self._committed: dict[GroupId, GroupOffsets] = {}
        self.replayers: Mapping[type, Callable[..., None]] = {
            OffsetCommitKey: self.replay_offset_commit
        }
        self.timers: Mapping[type, Callable[..., CoordinatorResult[None]]] = {
            ExpireOffsets: self.expire,
            ForgetTopics: self.forget_topics,
        }

    # Deciders

    def commit(
        self,
        group_id: GroupId,
        claim: CommitClaim,
        wishes: Sequence[OffsetToCommit],
        now_ms: int,
        *,
        unknown_group: ErrorCode,
        retention_ms: int | None,
    ) -> CoordinatorResult[Sequence[ErrorCode]]:
        """Commit what the claim may commit; the answer holds one error code per wish.

        KafkaError when the whole request is refused. `unknown_group` is what this client is told
        of a group that is not there, unless it claims no membership: then a simple group begins.
        """
        group = self._directory.groups.get(group_id)
        check = None
        if group is not None:
            check = group.validate_offset_commit(claim)
        elif claim.generation_id_or_member_epoch >= 0:
            raise KafkaError(unknown_group)
        longest = self._directory.config.int("offset.metadata.max.bytes")
        expire_timestamp_ms = None if retention_ms is None else now_ms + retention_ms
        codes: list[ErrorCode] = []
        records: list[Record] = []
        for wish in wishes:
            metadata = wish.metadata or ""
            if _is_longer(metadata, longest):
                codes.append(ErrorCode.OFFSET_METADATA_TOO_LARGE)
                continue
            if check is not None:
                check(wish.topic_id, wish.partition)
            committed = OffsetAndMetadata(
                offset=wish.offset,
                leader_epoch=wish.leader_epoch,
                metadata=metadata,
                commit_timestamp_ms=(
                    now_ms if wish.commit_timestamp_ms is None else wish.commit_timestamp_ms
                ),
                expire_timestamp_ms=expire_timestamp_ms,
                topic_id=wish.topic_id,
            )
            records.append(offset_commit_record(group_id, wish.topic, wish.partition, committed))
            codes.append(ErrorCode.NONE)
        if group is not None:
            group.touch(claim, now_ms)
        return CoordinatorResult(response=codes, records=records)

    def delete(
        self, group_id: GroupId, wanted: Sequence[tuple[str, int]]
    ) -> CoordinatorResult[Sequence[ErrorCode]]:
        """Delete offsets of partitions no member reads; one error code per partition wanted.

        KafkaError GROUP_ID_NOT_FOUND or NON_EMPTY_GROUP when the group refuses as a whole.
        """
        group = self.group(group_id)
        group.validate_offset_delete()
        stored = self._committed.get(group_id, {})
        codes: list[ErrorCode] = []
        records: list[Record] = []
        for topic, partition in wanted:
            if group.is_subscribed_to(topic):
                codes.append(ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC)
                continue
            codes.append(ErrorCode.NONE)
            if partition in stored.get(topic, {}):
                records.append(offset_commit_tombstone(group_id, topic, partition))
        return CoordinatorResult(response=codes, records=records)

    def delete_group(self, group_id: GroupId) -> CoordinatorResult[None]:
        """Delete a group that has no members, and all its offsets.

        KafkaError GROUP_ID_NOT_FOUND or NON_EMPTY_GROUP otherwise.
        """
        group = self.group(group_id)
        group.validate_delete()
        records = [*self._tombstones_of(group_id), *group.tombstones()]
        return CoordinatorResult(response=None, records=records)

    def forget_topics(self, event: ForgetTopics, now_ms: int) -> CoordinatorResult[None]:
        """Drop every group's offsets of topics that are no more.

        An offset committed under another id belongs to a topic created since; it stays.
        """
        forgotten = (
            offset_commit_tombstone(group_id, topic, partition)
            for group_id, stored in self._committed.items()
            for topic, topic_id in event.deleted
            for partition, committed in stored.get(topic, {}).items()
            if committed.topic_id in (ZERO_UUID, topic_id)
        )
        records = list(islice(forgotten, _TOMBSTONES_AT_ONCE))
        if len(records) < _TOMBSTONES_AT_ONCE:
            return CoordinatorResult(response=None, records=records)
        return CoordinatorResult(
            response=None, records=records, timers=[self.forget_later(event, now_ms)]
        )

    def forget_later(self, event: ForgetTopics, now_ms: int) -> SetTimer:
        """Return the timer by which forgetting is taken up again."""
        return SetTimer(event, now_ms, event)

    def expire(self, event: ExpireOffsets, now_ms: int) -> CoordinatorResult[None]:
        """Drop what has outlived its retention, then groups left with nothing at all (KIP-211)."""
        expired = chain.from_iterable(
            self._expired(group, now_ms) for group in self._directory.groups.values()
        )
        records = list(islice(expired, _TOMBSTONES_AT_ONCE))
        pause_ms = 0 if len(records) == _TOMBSTONES_AT_ONCE else self._check_interval_ms()
        return CoordinatorResult(
            response=None,
            records=records,
            timers=[SetTimer("expire-offsets", now_ms + pause_ms, event)],
        )

    def on_loaded(self, now_ms: int) -> CoordinatorResult[None]:
        """Begin to look for expired offsets."""
        first = SetTimer("expire-offsets", now_ms + self._check_interval_ms(), ExpireOffsets())
        return CoordinatorResult(response=None, timers=[first])

    def _check_interval_ms(self) -> int:
        return self._directory.config.int("offsets.retention.check.interval.ms")

    def _expired(self, group: Group, now_ms: int) -> Iterator[Record]:
        group_id = group.group_id
        stored = self._committed.get(group_id, {})
        rule = group.offset_expiry()
        if rule is None and stored:
            return
        retention_ms = self._directory.config.int("offsets.retention.minutes") * 60_000
        all_expired = True
        for topic, partitions in stored.items():
            subscribed = group.is_subscribed_to(topic)
            for partition, committed in partitions.items():
                assert rule is not None, "a group with offsets and without a rule was left above"
                if not subscribed and rule.is_expired(committed, now_ms, retention_ms):
                    yield offset_commit_tombstone(group_id, topic, partition)
                else:
                    all_expired = False
        if all_expired and group.is_empty():
            yield from group.tombstones()

    def _tombstones_of(self, group_id: GroupId) -> Iterator[Record]:
        for topic, partitions in self._committed.get(group_id, {}).items():
            for partition in partitions:
                yield offset_commit_tombstone(group_id, topic, partition)

    # Queries

    def group(self, group_id: GroupId) -> Group:
        """Return a group; KafkaError GROUP_ID_NOT_FOUND when there is none."""
        group = self._directory.groups.get(group_id)
        if group is None:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
        return group

    def readable(
        self, group_id: GroupId, member_id: MemberId | None, member_epoch: int
    ) -> Mapping[str, Mapping[int, OffsetAndMetadata]]:
        """Return a group's offsets, none for an unknown group.

        KafkaError when the group does not let this member fetch; (None, -1) is an observer.
        """
        group = self._directory.groups.get(group_id)
        if group is None:
            return {}
        group.validate_offset_fetch(member_id, member_epoch)
        return self._committed.get(group_id, {})

    def committed(self) -> Iterable[tuple[GroupId, str, int, OffsetAndMetadata]]:
        """Yield every committed offset of the shard."""
        for group_id, stored in self._committed.items():
            for topic, partitions in stored.items():
                for partition, committed in partitions.items():
                    yield group_id, topic, partition, committed

    # Replayers

    def replay_offset_commit(self, key: OffsetCommitKey, value: OffsetCommitValue | None) -> None:
        """Make one OffsetCommit record true; a null value is a tombstone."""
        if value is None:
            self._remove(key)
            return
        groups = self._directory.groups
        if key.group not in groups:
            # Whoever commits without being a member is a simple group, which no record announces.
            groups[key.group] = ClassicGroup(key.group)
        expire_timestamp_ms = value.expire_timestamp
        offsets = self._committed.setdefault(key.group, {})
        offsets.setdefault(key.topic, {})[key.partition] = OffsetAndMetadata(
            offset=value.offset,
            leader_epoch=value.leader_epoch,
            metadata=value.metadata,
            commit_timestamp_ms=value.commit_timestamp,
            expire_timestamp_ms=None if expire_timestamp_ms < 0 else expire_timestamp_ms,
            topic_id=value.topic_id,
        )

    def _remove(self, key: OffsetCommitKey) -> None:
        # Compaction may keep a tombstone whose commit it has already dropped.
        partitions = self._committed.get(key.group, {}).get(key.topic)
        if partitions is None:
            return
        partitions.pop(key.partition, None)
        if not partitions:
            del self._committed[key.group][key.topic]
            if not self._committed[key.group]:
                del self._committed[key.group]
