"""Offsets: the committed offsets of all groups of a shard.

Deciders read state and return records. Replayers apply records of the log.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkalite.coordinator.contract import CoordinatorResult, Event
from kafkalite.groups.classic.group import ClassicGroup
from kafkalite.groups.commit_epochs import CommitEpochs
from kafkalite.groups.group import OffsetAndMetadata
from kafkalite.groups.offset_loading import OffsetLoader
from kafkalite.groups.offsets_topic_records import offset_commit_record, offset_commit_tombstone
from kafkalite.groups.pending_offsets import OffsetKey, PendingOffsets
from kafkalite.ports.texts import count_text
from kafkalite.protocol._generated.records.offset_commit import OffsetCommitKey
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.error_texts import ErrorText
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.uuids import ZERO_UUID

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from kafkalite.groups.directory import GroupDirectory
    from kafkalite.groups.group import (
        CommitClaim,
        Group,
        GroupId,
        MemberId,
        PartitionCheck,
        Record,
    )
    from kafkalite.protocol._generated.records.offset_commit import OffsetCommitValue

GroupOffsets = dict[str, dict[int, OffsetAndMetadata]]
"""topic → partition → committed offset."""


@dataclass(slots=True, kw_only=True)
class OffsetToCommit:
    """One partition's offset in a commit request, with the topic's name and id."""

    topic: str
    topic_id: bytes
    partition: int
    offset: int
    leader_epoch: int = -1
    metadata: str | None = None
    commit_timestamp_ms: int | None = None
    """The client's timestamp; only OffsetCommit v1 has one."""
    incarnation_epoch: int = -1
    """The partition epoch of KIP-232 in the request; -1 requests no check of epochs."""


def _is_longer_in_java(text: str, max_length: int) -> bool:
    """Whether a Java string of this text has more than `max_length` characters (UTF-16 units)."""
    # A character has at most two UTF-16 units, so most texts need not be encoded.
    return 2 * len(text) > max_length and len(text.encode("utf-16-le")) > 2 * max_length


_NO_TIMESTAMP = -1

# Bound once: enum attribute access is slow in a per-partition loop.
_NONE = ErrorCode.NONE
_TOO_LONG = ErrorCode.OFFSET_METADATA_TOO_LARGE
_IN_USE = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC

_MAX_NAMED_PARTITIONS = 5
"""The maximum number of partitions that a message names."""


def _java_long_sum(first: int, second: int) -> int:
    """Add as Java adds longs: the largest retention overflows to a time in the past."""
    return (first + second + (1 << 63)) % (1 << 64) - (1 << 63)


def _validate_claim(
    group: Group | None, group_id: GroupId, claim: CommitClaim, unknown_group: ErrorCode
) -> PartitionCheck | None:
    """Return the group's check of each partition, if it has one; raises KafkaError."""
    if group is not None:
        return group.validate_offset_commit(claim)
    if claim.generation_id_or_member_epoch >= 0:
        raise _unknown_group_error(group_id, claim, unknown_group)
    return None


def _unknown_group_error(group_id: GroupId, claim: CommitClaim, code: ErrorCode) -> KafkaError:
    member_id, epoch = claim.member_id, claim.generation_id_or_member_epoch
    return KafkaError(
        code,
        f"offset commit of {member_id or 'an unnamed member'} at generation or epoch {epoch} "
        f"refused: group {group_id} does not exist, and a commit creates it only without a "
        "generation or epoch",
        {"rule": "group-exists", "member_id": member_id, "received_epoch": epoch},
    )


def _deleted_event(group_id: GroupId, cause: str, description: str, count: int) -> Event:
    facts = {"rule": cause, "offsets": count}
    return Event(group_id, "deleted", f"{description} deleted by {cause}", facts)


def _refused_event(
    group_id: GroupId, api: str, code: ErrorCode, partitions: Sequence[str], reason: str
) -> Event:
    """Return the event for the refused partitions of a request that was otherwise accepted."""
    text = f"{api} of {', '.join(partitions[:_MAX_NAMED_PARTITIONS])} refused: {reason}"
    facts = {"api": api, "error": code.name, "partitions": partitions, "count": len(partitions)}
    return Event(group_id, "refused", text, facts)


class Offsets:
    """The offsets of every group in a shard."""

    def __init__(self, directory: GroupDirectory) -> None:
        self._directory = directory
        self._omits_topic_ids = not directory.rules.stores_topic_ids_in_transactions
        """Whether the offsets of transactions are stored without topic ids."""
        self._committed: dict[GroupId, GroupOffsets] = {}
        self.pending = PendingOffsets()
        self.loader = OffsetLoader(self.pending, self._partitions_of, self._decode_offset)
        """Applies records while the log is loaded."""
        self.replayers: Mapping[type, Callable[..., None]] = {
            OffsetCommitKey: self.replay_offset_commit
        }
        self.timers: Mapping[type, Callable[..., CoordinatorResult[None]]] = {}

    # Deciders

    def commit(
        self,
        group_id: GroupId,
        claim: CommitClaim,
        offsets: Sequence[OffsetToCommit],
        now_ms: int,
        *,
        unknown_group: ErrorCode,
        retention_ms: int | None,
    ) -> CoordinatorResult[Sequence[ErrorCode]]:
        """Commit offsets; the response has one error code per offset.

        Raises KafkaError if the whole request is refused, with `unknown_group` for a missing group.
        A claim without generation or epoch creates it.
        """
        group = self._directory.groups.get(group_id)
        check = _validate_claim(group, group_id, claim, unknown_group)
        expire_timestamp_ms = None if retention_ms is None else _java_long_sum(now_ms, retention_ms)
        codes: list[ErrorCode] = []
        records: list[Record] = []
        too_long: list[str] = []
        epochs: CommitEpochs | None = None
        for entry in offsets:
            metadata = entry.metadata or ""
            if metadata and _is_longer_in_java(metadata, self._max_metadata_length()):
                codes.append(_TOO_LONG)
                too_long.append(f"{entry.topic}-{entry.partition}")
                continue
            if check is not None:
                check(entry.topic, entry.topic_id, entry.partition)
            if entry.incarnation_epoch >= 0:
                epochs = epochs or CommitEpochs(self.of_group(group_id))
                if (code := epochs.check(entry)) is not _NONE:
                    codes.append(code)
                    continue
            committed = OffsetAndMetadata(
                entry.offset,
                now_ms if entry.commit_timestamp_ms is None else entry.commit_timestamp_ms,
                entry.leader_epoch,
                metadata,
                expire_timestamp_ms,
                ZERO_UUID if claim.is_transactional and self._omits_topic_ids else entry.topic_id,
                entry.incarnation_epoch,
            )
            records.append(offset_commit_record(group_id, entry.topic, entry.partition, committed))
            codes.append(_NONE)
        if group is not None:
            group.extend_session(claim, now_ms)
        events = self._refused_events(group_id, claim, too_long, epochs)
        return CoordinatorResult(codes, records, events=events)

    def _refused_events(
        self,
        group_id: GroupId,
        claim: CommitClaim,
        too_long: Sequence[str],
        epochs: CommitEpochs | None,
    ) -> Sequence[Event]:
        """Return the events for partitions whose metadata is too long, or whose epochs are old."""
        if epochs is None and not too_long:
            return ()
        api = "TxnOffsetCommit" if claim.is_transactional else "OffsetCommit"
        events = [] if epochs is None else [*epochs.refused_events(group_id, api)]
        if too_long:
            limit = self._max_metadata_length()
            reason = f"metadata is longer than offset.metadata.max.bytes={limit}"
            events.append(_refused_event(group_id, api, _TOO_LONG, too_long, reason))
        return events

    def _max_metadata_length(self) -> int:
        return self._directory.config.int("offset.metadata.max.bytes")

    def delete(
        self, group_id: GroupId, requested: Sequence[tuple[str, int]]
    ) -> CoordinatorResult[Sequence[ErrorCode]]:
        """Delete committed and pending offsets of topics that no member subscribes to.

        The response has one error code per partition. Raises KafkaError(GROUP_ID_NOT_FOUND) or
        KafkaError(NON_EMPTY_GROUP) if the whole request is refused.
        """
        group = self.group(group_id)
        group.validate_offset_delete()
        stored, pending = self.of_group(group_id), self.pending.of_group(group_id)
        codes: list[ErrorCode] = []
        records: list[Record] = []
        in_use: list[str] = []
        for topic, partition in requested:
            if group.is_subscribed_to(topic):
                codes.append(_IN_USE)
                in_use.append(f"{topic}-{partition}")
                continue
            codes.append(ErrorCode.NONE)
            if partition in stored.get(topic, ()) or partition in pending.get(topic, ()):
                records.append(offset_commit_tombstone(group_id, topic, partition))
        description = f"{count_text(len(records), 'offset')} of group {group_id}"
        events = (
            [_deleted_event(group_id, "OffsetDelete", description, len(records))] if records else []
        )
        if in_use:
            reason = "a member of the group subscribes to the topic"
            events.append(_refused_event(group_id, "OffsetDelete", _IN_USE, in_use, reason))
        return CoordinatorResult(response=codes, records=records, events=events)

    def delete_group(
        self, group_id: GroupId, cause: str = "DeleteGroups"
    ) -> CoordinatorResult[None]:
        """Delete a group without members, with its committed and pending offsets.

        `cause` is the request, or something else that deletes it, for the event. Raises
        KafkaError(GROUP_ID_NOT_FOUND) or KafkaError(NON_EMPTY_GROUP).
        """
        group = self.group(group_id)
        group.validate_delete()
        records = [*self._tombstones_of(group_id)]
        description = f"group {group_id} with {count_text(len(records), 'offset')}"
        event = _deleted_event(group_id, cause, description, len(records))
        records.extend(group.tombstones())
        return CoordinatorResult(response=None, records=records, events=[event])

    def on_loaded(self, now_ms: int) -> CoordinatorResult[None]:
        """Free the memory that loading needed; offsets need no timers."""
        del now_ms
        self.loader.forget()
        return CoordinatorResult(response=None)

    def _tombstones_of(self, group_id: GroupId) -> Iterator[Record]:
        stored = self.of_group(group_id)
        for topic, partitions in stored.items():
            for partition in partitions:
                yield offset_commit_tombstone(group_id, topic, partition)
        for topic, pending in self.pending.of_group(group_id).items():
            for partition in pending:
                if partition not in stored.get(topic, ()):
                    yield offset_commit_tombstone(group_id, topic, partition)

    # Queries

    def group(self, group_id: GroupId) -> Group:
        """Return a group; raises KafkaError(GROUP_ID_NOT_FOUND) if it does not exist."""
        group = self._directory.groups.get(group_id)
        if group is None:
            raise KafkaError(
                ErrorCode.GROUP_ID_NOT_FOUND, ErrorText.GROUP_NOT_FOUND.format(group_id=group_id)
            )
        return group

    def offsets_to_fetch(
        self, group_id: GroupId, member_id: MemberId | None, member_epoch: int
    ) -> Mapping[str, Mapping[int, OffsetAndMetadata]]:
        """Return a group's committed offsets for OffsetFetch; an unknown group has none.

        Raises KafkaError if this member must not fetch them; (None, -1) names no member.
        """
        group = self._directory.groups.get(group_id)
        if group is None:
            return {}
        group.validate_offset_fetch(member_id, member_epoch)
        return self._committed.get(group_id, {})

    def group_ids(self) -> Iterable[GroupId]:
        """Return the groups with committed or pending offsets."""
        return dict.fromkeys((*self._committed, *self.pending.by_group))

    def of_group(self, group_id: GroupId) -> Mapping[str, Mapping[int, OffsetAndMetadata]]:
        """Return a group's committed offsets without any validation."""
        return self._committed.get(group_id, {})

    def all_committed(self) -> Iterable[tuple[GroupId, str, int, OffsetAndMetadata]]:
        """Yield every committed offset of the shard."""
        for group_id, stored in self._committed.items():
            for topic, partitions in stored.items():
                for partition, committed in partitions.items():
                    yield group_id, topic, partition, committed

    # Replayers

    def replay_offset_commit(self, key: OffsetCommitKey, value: OffsetCommitValue | None) -> None:
        """Apply an OffsetCommit record; a null value is a tombstone."""
        if self.pending.by_group:
            self._update_pending(key, is_deleted=value is None)
        if value is None:
            self._remove(key)
            return
        offset = self._decode_offset(key, value)
        self._partitions_of(key.group, key.topic)[key.partition] = offset

    def replay_pending(
        self, producer_id: int, key: OffsetCommitKey, value: OffsetCommitValue | None
    ) -> None:
        """Apply an OffsetCommit record of an open transaction: its offset becomes pending.

        A tombstone takes effect at once, as in Kafka.
        """
        if value is None:
            self.replay_offset_commit(key, value)
        else:
            if key.group not in self._directory.groups:
                self._create_group(key.group)
            offset = self._decode_offset(key, value)
            self.pending.add(producer_id, OffsetKey(key.group, key.topic, key.partition), offset)

    def replay_transaction_end(self, producer_id: int, *, is_commit: bool) -> None:
        """Commit or drop a producer's pending offsets."""
        for key, offset in self.pending.end_transaction(producer_id, is_commit=is_commit):
            offsets = self._committed.setdefault(key.group_id, {})
            offsets.setdefault(key.topic, {})[key.partition] = offset

    def _update_pending(self, key: OffsetCommitKey, *, is_deleted: bool) -> None:
        offset_key = OffsetKey(key.group, key.topic, key.partition)
        if is_deleted:
            self.pending.drop(offset_key)
        else:
            self.pending.supersede(offset_key)

    def _partitions_of(self, group_id: GroupId, topic: str) -> dict[int, OffsetAndMetadata]:
        if group_id not in self._directory.groups:
            self._create_group(group_id)
        return self._committed.setdefault(group_id, {}).setdefault(topic, {})

    def _create_group(self, group_id: GroupId) -> None:
        # Offsets committed without membership form a simple group, which has no record.
        self._directory.groups[group_id] = ClassicGroup(group_id)

    def _decode_offset(self, key: OffsetCommitKey, value: OffsetCommitValue) -> OffsetAndMetadata:
        """Return the offset in a record; the topic name in `key` is replaced by a shared object."""
        topic_id = value.topic_id
        topic = self._directory.image.topics.get(key.topic)
        if topic is not None and topic.topic_id == topic_id:
            # Many groups read a topic: they share one name object and one id object.
            key.topic, topic_id = topic.name, topic.topic_id
        expire_timestamp_ms = value.expire_timestamp
        return OffsetAndMetadata(
            value.offset,
            value.commit_timestamp,
            value.leader_epoch,
            value.metadata,
            None if expire_timestamp_ms == _NO_TIMESTAMP else expire_timestamp_ms,
            topic_id,
            value.incarnation_epoch,
        )

    def _remove(self, key: OffsetCommitKey) -> None:
        # Compaction may retain a tombstone and remove the commit that it deletes.
        partitions = self._committed.get(key.group, {}).get(key.topic)
        if partitions is None:
            return
        partitions.pop(key.partition, None)
        if not partitions:
            del self._committed[key.group][key.topic]
            if not self._committed[key.group]:
                del self._committed[key.group]
