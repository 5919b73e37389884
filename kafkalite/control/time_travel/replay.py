"""Replay of one log into the state machine of its topic, only for the keys that matter."""

from __future__ import annotations

import struct
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

from kafkalite.control.time_travel.points import TimeTravelError
from kafkalite.coordinator.runtime import partition_of
from kafkalite.coordinator.serde import CoordinatorSerde
from kafkalite.groups import offsets_topic_records
from kafkalite.groups.shard import GroupShard
from kafkalite.metadata.controller import MetadataSerde
from kafkalite.metadata.internal_topics import (
    OFFSETS_TOPIC,
    SHARE_STATE_TOPIC,
    TRANSACTION_STATE_TOPIC,
)
from kafkalite.metadata.shard import MetadataShard
from kafkalite.metadata.topic_names import METADATA_TOPIC
from kafkalite.ports.entropy import SystemEntropy
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.protocol import codec
from kafkalite.protocol._generated.records.offset_commit import OffsetCommitKey
from kafkalite.protocol.codec import PARSE_ERRORS
from kafkalite.shares import share_state_records
from kafkalite.shares.shard import ShareShard
from kafkalite.storage.batch import ControlKind
from kafkalite.storage.file_names import partition_directory
from kafkalite.storage.record_format import MalformedRecordsError, ScannedRecord, scan_records
from kafkalite.transactions.shard import TransactionShard
from kafkalite.transactions.transaction_records import TransactionSerde

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from kafkalite.config.broker import BrokerConfig
    from kafkalite.control.time_travel.logs import LogSource
    from kafkalite.coordinator.contract import CoordinatorRecord, RecordSerde
    from kafkalite.metadata.image import MetadataImage
    from kafkalite.storage.batch import BatchView

_VERSION_BYTES: Final = 2
_NAME_LENGTH: Final = struct.Struct(">h")


Needles: TypeAlias = "Collection[bytes] | None"


class Applied(NamedTuple):
    """A record that was applied to a machine."""

    offset: int
    timestamp_ms: int
    content: CoordinatorRecord[object, object] | ScannedRecord | str
    """The record, maybe not decoded; text for one that has no content for the machine."""


class Replay(Protocol):
    """Applies the batches of a log."""

    needles: Needles
    """Bytes of which one is in each batch that matters; None if all matter."""
    machine: Any

    def apply(self, batch: BatchView, end_offset: int | None = None) -> Iterator[Applied]:
        """Apply the records of a batch before an offset, and yield each after it was applied."""

    def decoded(self, applied: Applied) -> CoordinatorRecord[object, object] | str:
        """Return the content of a record that was applied."""


class MachineReplay:
    """Applies the records of a log whose keys contain a name to a machine."""

    def __init__(self, log: str, needles: Needles, machine: Any, serde: RecordSerde) -> None:  # noqa: ANN401 - any machine
        self.needles = needles
        self.machine = machine
        self._log = log
        self._serde = serde

    def apply(self, batch: BatchView, end_offset: int | None = None) -> Iterator[Applied]:
        """Apply the records of a batch before an offset, and yield each after it was applied.

        Raises TimeTravelError for a record that is none of the topic.
        """
        if batch.is_control:
            marker = batch.control_marker()
            if marker is not None and self._end(batch.producer_id, marker.kind):
                text = f"{marker.kind.name} of producer {batch.producer_id}"
                yield Applied(batch.base_offset, batch.max_timestamp, text)
            return
        yield from self._apply_data(batch, end_offset)

    def _apply_data(self, batch: BatchView, end_offset: int | None) -> Iterator[Applied]:
        replay, needles = self._replay_of(batch), self.needles
        for record in self._records(batch):
            offset = batch.base_offset + record.offset_delta
            if end_offset is not None and offset >= end_offset:
                return
            key = record.key or b""
            if needles is not None and not any(each in key for each in needles):
                continue
            decoded = self._decode(offset, record)
            if decoded is not None:
                try:
                    replay(decoded)
                except (LookupError, ValueError) as error:
                    raise TimeTravelError(
                        f"the record at offset {offset} of {self._log} refers to something that "
                        "no record before it has made"
                    ) from error
                yield Applied(offset, batch.base_timestamp + record.timestamp_delta, decoded)

    def decoded(self, applied: Applied) -> CoordinatorRecord[object, object] | str:
        """Return the content of a record that was applied."""
        content = applied.content
        if not isinstance(content, ScannedRecord):
            return content
        return self._decode(applied.offset, content) or ""

    def _decode(
        self, offset: int, record: ScannedRecord
    ) -> CoordinatorRecord[object, object] | None:
        try:
            return self._serde.decode(record.key, record.value)
        except PARSE_ERRORS as error:
            raise self._undecodable(offset) from error

    def _undecodable(self, offset: int) -> TimeTravelError:
        return TimeTravelError(f"the record at offset {offset} of {self._log} cannot be decoded")

    def _records(self, batch: BatchView) -> list[ScannedRecord]:
        try:
            return list(scan_records(batch.body(), batch.record_count))
        except MalformedRecordsError as error:
            raise TimeTravelError(
                f"{self._log} is damaged: the batch at offset {batch.base_offset}: {error}"
            ) from error

    def _replay_of(self, batch: BatchView) -> Callable[..., None]:
        del batch
        replay: Callable[..., None] = self.machine.replay
        return replay

    def _end(self, producer_id: int, kind: ControlKind) -> bool:
        """End a transaction; return whether the state has changed."""
        del producer_id, kind
        return False


class GroupReplay(MachineReplay):
    """Applies records of `__consumer_offsets`; those of transactions when these end."""

    machine: Any

    def __init__(self, log: str, needles: Needles, machine: Any) -> None:  # noqa: ANN401 - of groups or of commits
        super().__init__(
            log, needles, machine, CoordinatorSerde(offsets_topic_records.written_version)
        )
        self._open: set[int] = set()

    def apply(self, batch: BatchView, end_offset: int | None = None) -> Iterator[Applied]:
        """Apply the records of a batch, and note its transaction; see `MachineReplay.apply`."""
        for applied in super().apply(batch, end_offset):
            if batch.is_transactional and not batch.is_control:
                self._open.add(batch.producer_id)
            yield applied

    def _replay_of(self, batch: BatchView) -> Callable[..., None]:
        if batch.is_transactional:
            return partial(self.machine.replay_transactional, batch.producer_id)
        return super()._replay_of(batch)

    def _end(self, producer_id: int, kind: ControlKind) -> bool:
        self.machine.end_transaction(producer_id, is_commit=kind is ControlKind.COMMIT)
        is_open = producer_id in self._open
        self._open.discard(producer_id)
        return is_open


class EndOffset:
    """The end of a log, as the machine of a partition with clients' records."""

    def __init__(self) -> None:
        self.end_offset = 0


class PartitionReplay:
    """Follows the end of a partition with clients' records."""

    needles: Needles = None

    def __init__(self) -> None:
        self.machine = EndOffset()

    def apply(self, batch: BatchView, end_offset: int | None = None) -> Iterator[Applied]:
        """Move the end, and yield one entry for the batch."""
        del end_offset
        self.machine.end_offset = batch.last_offset + 1
        count = batch.record_count
        text = "a marker of a transaction" if batch.is_control else f"a batch of {count} records"
        yield Applied(batch.last_offset, batch.max_timestamp, text)

    def decoded(self, applied: Applied) -> CoordinatorRecord[object, object] | str:
        """Return the text of an entry."""
        assert isinstance(applied.content, str)
        return applied.content


def _new_groups(log: str, needles: Needles, config: BrokerConfig, image: MetadataImage) -> Replay:
    return GroupReplay(
        log, needles, GroupShard(config=config, entropy=SystemEntropy(), image=image)
    )


def _new_transactions(
    log: str, needles: Needles, config: BrokerConfig, image: MetadataImage
) -> Replay:
    machine = TransactionShard(config=config, image=image, generate_producer_id=lambda: 0)
    return MachineReplay(log, needles, machine, TransactionSerde(lambda: 0))


def _new_shares(log: str, needles: Needles, config: BrokerConfig, image: MetadataImage) -> Replay:
    machine = ShareShard(config=config, image=image)
    serde = CoordinatorSerde(share_state_records.written_version, "share")
    return MachineReplay(log, needles, machine, serde)


def _new_metadata(log: str, needles: Needles, config: BrokerConfig, image: MetadataImage) -> Replay:
    del needles, image
    return MachineReplay(log, None, MetadataShard(config, SystemEntropy()), MetadataSerde())


_NEW_REPLAYS: Final[Mapping[str, Callable[[str, Needles, BrokerConfig, MetadataImage], Replay]]] = {
    OFFSETS_TOPIC: _new_groups,
    TRANSACTION_STATE_TOPIC: _new_transactions,
    SHARE_STATE_TOPIC: _new_shares,
    METADATA_TOPIC: _new_metadata,
}


def new_replay(
    source: LogSource, topic: str, partition: int, needles: Needles, image: MetadataImage
) -> Replay:
    """Return the replay of a log; `needles` are bytes in the keys that matter, None for all."""
    create = _NEW_REPLAYS.get(topic)
    if create is None:
        return PartitionReplay()
    return create(f"{topic}-{partition}", needles, source.config, image)


def needle_of(name: str) -> bytes:
    """Return a name as it is in the keys of coordinators' records."""
    encoded = name.encode()
    return _NAME_LENGTH.pack(len(encoded) & 0x7FFF) + encoded


def commit_needle(group_id: str, topic: str, partition: int) -> bytes:
    """Return the bytes of the key of a committed offset that follow its version."""
    key = OffsetCommitKey(group=group_id, topic=topic, partition=partition)
    return codec.encode_key(key)[_VERSION_BYTES:]


_USES: Final[Mapping[str, str]] = {
    OFFSETS_TOPIC: "group",
    TRANSACTION_STATE_TOPIC: "transactional id",
    SHARE_STATE_TOPIC: "share partition",
}
"""What coordinators store in the topics that are created with the first of it."""


def partition_of_key(image: MetadataImage, topic: str, key: str) -> int:
    """Return the partition of an internal topic that has a key; raises TimeTravelError."""
    found = image.topics.get(topic)
    if found is None:
        kind = _USES[topic]
        raise TimeTravelError(
            f"there is no {kind} {key[:249]!r}: no {kind} had been used, so {topic} did not exist"
        )
    return partition_of(key, len(found.partitions))


def log_of_key(image: MetadataImage, topic: str, key: str) -> str:
    """Return the log of an internal topic that has a key; raises TimeTravelError."""
    return partition_directory(topic, partition_of_key(image, topic, key))
