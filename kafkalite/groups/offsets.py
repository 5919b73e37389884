"""Committed offsets: what a group has promised it has read.

Deciders read state and return records; a refused request leaves no trace. Replayers take one
record that is already in the log and make it true.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkalite.coordinator.contract import CoordinatorResult, Event
from kafkalite.groups.classic.group import ClassicGroup
from kafkalite.groups.offset import OffsetAndMetadata
from kafkalite.groups.pending import PendingOffsets, Place
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


def _is_longer(text: str, longest: int) -> bool:
    """Whether Java counts more than `longest` characters, which are the units of UTF-16."""
    # Nothing counts for more than two, so that hardly any text is worth a closer look.
    return 2 * len(text) > longest and len(text.encode("utf-16-le")) > 2 * longest


_NO_TIMESTAMP = -1

# Looked up once, for every commit asks for it.
_NONE = ErrorCode.NONE
_TOO_LONG = ErrorCode.OFFSET_METADATA_TOO_LARGE
_IN_USE = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC

_NAMED = 5
"""So many partitions are named in a sentence."""


def _java_sum(first: int, second: int) -> int:
    """Add as Java adds longs: who asks for the longest of retentions gets the shortest."""
    return (first + second + (1 << 63)) % (1 << 64) - (1 << 63)


def _no_such_group(group_id: GroupId, claim: CommitClaim, code: ErrorCode) -> KafkaError:
    who, epoch = claim.member_id, claim.generation_id_or_member_epoch
    return KafkaError(
        code,
        f"offset commit of {who or 'nobody'} at generation or epoch {epoch} refused: there is no "
        f"group {group_id}, and only who claims no generation begins one",
        {"rule": "group-exists", "member_id": who, "epoch": epoch},
    )


def _deleted(group_id: GroupId, api: str, what: str, count: int) -> Event:
    return Event(group_id, "deleted", f"{what} deleted by {api}", {"rule": api, "offsets": count})


def _refused(
    group_id: GroupId, api: str, code: ErrorCode, partitions: Sequence[str], why: str
) -> Event:
    """Tell which partitions of a request were refused that was served otherwise."""
    text = f"{api} of {', '.join(partitions[:_NAMED])} refused: {why}"
    facts = {"api": api, "error": code.name, "partitions": partitions, "count": len(partitions)}
    return Event(group_id, "refused", text, facts)


class Offsets:
    """The offsets of every group in a shard."""

    def __init__(self, directory: GroupDirectory) -> None:
        self._directory = directory
        self._committed: dict[GroupId, GroupOffsets] = {}
        self.pending = PendingOffsets()
        self.replayers: Mapping[type, Callable[..., None]] = {
            OffsetCommitKey: self.replay_offset_commit
        }
        self.timers: Mapping[type, Callable[..., CoordinatorResult[None]]] = {}

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
        What a transaction commits is stored without the id of its topic, as Kafka does.
        """
        group = self._directory.groups.get(group_id)
        check = None
        if group is not None:
            check = group.validate_offset_commit(claim)
        elif claim.generation_id_or_member_epoch >= 0:
            raise _no_such_group(group_id, claim, unknown_group)
        expire_timestamp_ms = None if retention_ms is None else _java_sum(now_ms, retention_ms)
        codes: list[ErrorCode] = []
        records: list[Record] = []
        too_long: list[str] = []
        for wish in wishes:
            metadata = wish.metadata or ""
            if metadata and _is_longer(metadata, self._longest_metadata()):
                codes.append(_TOO_LONG)
                too_long.append(f"{wish.topic}-{wish.partition}")
                continue
            if check is not None:
                check(wish.topic, wish.topic_id, wish.partition)
            timestamp_ms = wish.commit_timestamp_ms
            committed = OffsetAndMetadata(
                wish.offset,
                now_ms if timestamp_ms is None else timestamp_ms,
                wish.leader_epoch,
                metadata,
                expire_timestamp_ms,
                ZERO_UUID if claim.is_transactional else wish.topic_id,
            )
            records.append(offset_commit_record(group_id, wish.topic, wish.partition, committed))
            codes.append(_NONE)
        if group is not None:
            group.touch(claim, now_ms)
        events = [self._told_too_long(group_id, claim, too_long)] if too_long else ()
        return CoordinatorResult(codes, records, events=events)

    def _told_too_long(
        self, group_id: GroupId, claim: CommitClaim, partitions: Sequence[str]
    ) -> Event:
        api = "TxnOffsetCommit" if claim.is_transactional else "OffsetCommit"
        why = f"metadata is longer than offset.metadata.max.bytes={self._longest_metadata()}"
        return _refused(group_id, api, _TOO_LONG, partitions, why)

    def _longest_metadata(self) -> int:
        return self._directory.config.int("offset.metadata.max.bytes")

    def delete(
        self, group_id: GroupId, wanted: Sequence[tuple[str, int]]
    ) -> CoordinatorResult[Sequence[ErrorCode]]:
        """Delete offsets of partitions no member reads, pending ones too; one error code for each.

        KafkaError GROUP_ID_NOT_FOUND or NON_EMPTY_GROUP when the group refuses as a whole.
        """
        group = self.group(group_id)
        group.validate_offset_delete()
        stored, pending = self.of_group(group_id), self.pending.of_group(group_id)
        codes: list[ErrorCode] = []
        records: list[Record] = []
        in_use: list[str] = []
        for topic, partition in wanted:
            if group.is_subscribed_to(topic):
                codes.append(_IN_USE)
                in_use.append(f"{topic}-{partition}")
                continue
            codes.append(ErrorCode.NONE)
            if partition in stored.get(topic, ()) or partition in pending.get(topic, ()):
                records.append(offset_commit_tombstone(group_id, topic, partition))
        what = f"{len(records)} offset(s) of group {group_id}"
        events = [_deleted(group_id, "OffsetDelete", what, len(records))] if records else []
        if in_use:
            why = "a member of the group subscribes to the topic"
            events.append(_refused(group_id, "OffsetDelete", _IN_USE, in_use, why))
        return CoordinatorResult(response=codes, records=records, events=events)

    def delete_group(self, group_id: GroupId) -> CoordinatorResult[None]:
        """Delete a group that has no members, and all its offsets, those pending included.

        KafkaError GROUP_ID_NOT_FOUND or NON_EMPTY_GROUP otherwise.
        """
        group = self.group(group_id)
        group.validate_delete()
        records = [*self._tombstones_of(group_id)]
        what = f"group {group_id} and {len(records)} offset(s) of it"
        event = _deleted(group_id, "DeleteGroups", what, len(records))
        records.extend(group.tombstones())
        return CoordinatorResult(response=None, records=records, events=[event])

    def on_loaded(self, now_ms: int) -> CoordinatorResult[None]:
        """Have nothing to take up: offsets are what the log says."""
        del now_ms
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

    def group_ids(self) -> Iterable[GroupId]:
        """Return the groups that have offsets, pending ones included."""
        return dict.fromkeys((*self._committed, *self.pending.by_group))

    def of_group(self, group_id: GroupId) -> Mapping[str, Mapping[int, OffsetAndMetadata]]:
        """Return a group's offsets as they are stored, whatever the group says to that."""
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
        if self.pending.by_group:
            self._outrun(key, is_deleted=value is None)
        if value is None:
            self._remove(key)
            return
        offset = self._offset(key, value)
        self._committed.setdefault(key.group, {}).setdefault(key.topic, {})[key.partition] = offset

    def replay_pending(
        self, producer_id: int, key: OffsetCommitKey, value: OffsetCommitValue | None
    ) -> None:
        """Make one OffsetCommit record of a transaction true, as far as it can be for now.

        A tombstone counts at once, in a transaction or not, as in Kafka.
        """
        if value is None:
            self.replay_offset_commit(key, value)
        else:
            offset = self._offset(key, value)
            self.pending.add(producer_id, Place(key.group, key.topic, key.partition), offset)

    def replay_transaction_end(self, producer_id: int, *, is_commit: bool) -> None:
        """Let what a producer has pending count, or forget it."""
        for place, offset in self.pending.end(producer_id, is_commit=is_commit):
            offsets = self._committed.setdefault(place.group_id, {})
            offsets.setdefault(place.topic, {})[place.partition] = offset

    def _outrun(self, key: OffsetCommitKey, *, is_deleted: bool) -> None:
        place = Place(key.group, key.topic, key.partition)
        if is_deleted:
            self.pending.drop(place)
        else:
            self.pending.outrun(place)

    def _offset(self, key: OffsetCommitKey, value: OffsetCommitValue) -> OffsetAndMetadata:
        """Return what a record says; the group it names exists from now on."""
        groups = self._directory.groups
        if key.group not in groups:
            # Whoever commits without being a member is a simple group, which no record announces.
            groups[key.group] = ClassicGroup(key.group)
        topic_id = value.topic_id
        topic = self._directory.image.topics.get(key.topic)
        if topic is not None and topic.topic_id == topic_id:
            # Many groups read a topic: its name and its id are kept once.
            key.topic, topic_id = topic.name, topic.topic_id
        expire_timestamp_ms = value.expire_timestamp
        return OffsetAndMetadata(
            value.offset,
            value.commit_timestamp,
            value.leader_epoch,
            value.metadata,
            None if expire_timestamp_ms == _NO_TIMESTAMP else expire_timestamp_ms,
            topic_id,
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
