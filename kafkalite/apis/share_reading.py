"""Reading for a share group: from logs to records that a member has acquired (KIP-932)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.messages.share_fetch import ShareFetchResponse
from kafkalite.shares.acquiring import Acquired, Fetched, Wish
from kafkalite.shares.reset import EARLIEST, LATEST, parse_reset
from kafkalite.shares.state import ShareKey
from kafkalite.storage.batch import ControlKind, split_batches

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from kafkalite.apis.context import RequestContext, Services
    from kafkalite.partitions.partition import Partition
    from kafkalite.shares.partition import SharePartition
    from kafkalite.shares.sessions import TopicPartition
    from kafkalite.storage.batch import BatchView

PartitionData = ShareFetchResponse.PartitionData

_MOST_UNSENT_BYTES = 256 * 1024 * 1024
"""What clients may leave unread, all together, before answers become smaller than asked for."""
_LEAST_ANSWER_BYTES = 1024 * 1024
_FIRST_READ_BYTES = 256 * 1024


class Place(NamedTuple):
    """A partition that a member wants to read, and where its log is."""

    partition: TopicPartition
    log: Partition

    def begin(self, context: RequestContext, group_id: str) -> SharePartitionAt:
        """Return it as the group reads it; KafkaError when this node cannot let the group read."""
        log, services = self.log, context.services
        if log.leader != context.node_id:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        share = services.share_partitions.begin(
            ShareKey(group_id, *self.partition),
            name=log.name,
            leader_epoch=log.leader_epoch,
            choose_start=lambda: _first_start(services, group_id, log),
        )
        return SharePartitionAt(self.partition, log, share)


class SharePartitionAt(NamedTuple):
    """A share partition, and where its log is."""

    partition: TopicPartition
    log: Partition
    share: SharePartition


def _first_start(services: Services, group_id: str, log: Partition) -> int:
    """Return where a group begins to read; KafkaError OFFSET_NOT_AVAILABLE for a time to come."""
    reset = parse_reset(str(services.config.group_get(group_id, "share.auto.offset.reset")))
    if reset.kind == LATEST:
        return log.high_watermark
    if reset.kind == EARLIEST:
        return log.log_start_offset
    since_ms = services.clock.now_ms() - reset.duration_ms
    found = log.offset_for_timestamp(since_ms, log.high_watermark)
    if found.offset < 0:
        raise KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE)
    return found.offset


def locate(
    context: RequestContext, names: Mapping[TopicPartition, str | None]
) -> tuple[list[Place], dict[TopicPartition, ErrorCode]]:
    """Return where partitions are, and the errors of those that are nowhere.

    KafkaError UNKNOWN_SERVER_ERROR where one is of a topic that was never known.
    """
    table = context.services.partitions
    places: list[Place] = []
    refused: dict[TopicPartition, ErrorCode] = {}
    for partition, name in names.items():
        if name is None:
            # Kafka stumbles over an id that was unknown when the session was told of it, and does
            # so again with every fetch of the session.
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
        try:
            log = table.get(partition.topic_id, partition.index)
        except KafkaError as error:
            refused[partition] = error.code
            continue
        if log is None:
            refused[partition] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        else:
            places.append(Place(partition, log))
    return places, refused


def rotated(partitions: list[SharePartitionAt], epoch: int) -> list[SharePartitionAt]:
    """Return partitions in an order that changes with each request, so that all get their turn."""
    if len(partitions) < 2 or epoch < 1:  # noqa: PLR2004 - one alone is in every order
        return partitions
    turn = epoch % len(partitions)
    return partitions[turn:] + partitions[:turn]


def affordable_bytes(services: Services, max_bytes: int) -> int:
    """Return how large an answer may be, for a client that may turn out not to read it."""
    return min(max_bytes, max(_LEAST_ANSWER_BYTES, _MOST_UNSENT_BYTES - services.unsent.bytes))


class _Read(NamedTuple):
    """What was read of one partition."""

    at: SharePartitionAt
    offset: int
    records: bytes
    error: ErrorCode = ErrorCode.NONE


class Reading:
    """What one share fetch reads, each time it looks."""

    __slots__ = ("_committed", "_max_bytes", "_min_bytes", "_services", "_wish", "partitions")

    def __init__(
        self,
        services: Services,
        partitions: Sequence[SharePartitionAt],
        wish: Wish,
        *,
        max_bytes: int,
        min_bytes: int,
        committed: bool,
    ) -> None:
        self._services = services
        self.partitions = partitions
        self._wish = wish
        self._max_bytes = max_bytes
        self._min_bytes = min_bytes
        self._committed = committed

    def attempt(self) -> dict[TopicPartition, PartitionData] | None:
        """Return what the member gets, or None when there is too little to answer yet."""
        reads = self._read()
        if not reads:
            return None
        found_bytes = 0
        for read in reads:
            if read.error or read.offset > self._limit(read) or self._is_behind(read):
                return self._acquire(reads)
            found_bytes += len(read.records)
        return self._acquire(reads) if found_bytes >= self._min_bytes else None

    def conclude(self) -> dict[TopicPartition, PartitionData]:
        """Return what the member gets, however little."""
        return self._acquire(self._read())

    def _limit(self, read: _Read) -> int:
        return read.at.log.limit_offset(committed=self._committed)

    def _is_behind(self, read: _Read) -> bool:
        """Whether there is more than was read, in a later segment."""
        return bool(read.records) and read.at.log.is_behind(read.offset)

    def _read(self) -> list[_Read]:
        """Read the partitions of which the member could be given something."""
        ready = [each for each in self.partitions if each.share.can_acquire()]
        if not ready:
            return []
        share_bytes, rest = divmod(self._max_bytes, len(ready))
        reads = []
        found = False
        for at in ready:
            read = self._read_one(at, share_bytes + rest, at_least_one=not found)
            rest = 0
            found = found or bool(read.records)
            reads.append(read)
        return reads

    def _read_one(self, at: SharePartitionAt, max_bytes: int, *, at_least_one: bool) -> _Read:
        offset = at.share.window.next_fetch_offset()
        try:
            records = self._enough(at, offset, max_bytes, at_least_one=at_least_one)
        except KafkaError as error:
            return _Read(at, offset, b"", error.code)
        except OSError:
            return _Read(at, offset, b"", ErrorCode.KAFKA_STORAGE_ERROR)
        return _Read(at, offset, records)

    def _enough(
        self, at: SharePartitionAt, offset: int, max_bytes: int, *, at_least_one: bool
    ) -> bytes:
        """Return batches from `offset` on, no more by far than may be handed out.

        A member asks for many bytes and few records. Where it gets fewer of those because others
        have the ones between, it asks again.
        """
        limit_offset = at.log.limit_offset(committed=self._committed)
        wanted_offset = offset + self._wish.max_records
        batch = at.share.window.in_flight.floor(wanted_offset)
        if batch is not None:
            wanted_offset = max(wanted_offset, batch.last + 1)
        size = _FIRST_READ_BYTES
        while True:
            records = at.log.read(
                offset,
                max_bytes=min(size, max_bytes),
                limit_offset=limit_offset,
                at_least_one=at_least_one,
            )
            if size >= max_bytes or offset >= limit_offset:
                return records
            if records:
                end_offset = split_batches(records)[-1].last_offset + 1
                has_enough = end_offset > wanted_offset and len(records) >= self._min_bytes
                if has_enough or end_offset >= limit_offset or at.log.is_behind(offset):
                    return records
            size *= 4

    def _acquire(self, reads: Iterable[_Read]) -> dict[TopicPartition, PartitionData]:
        rows = {}
        left = self._wish.max_records
        for read in reads:
            row = PartitionData(partition_index=read.at.partition.index)
            if read.error is ErrorCode.OFFSET_OUT_OF_RANGE:
                read.at.share.follow_log_start(read.at.log.log_start_offset)
            elif read.error:
                row.error_code = read.error
            else:
                left -= self._give(read, row, left)
            rows[read.at.partition] = row
        return rows

    def _give(self, read: _Read, row: PartitionData, max_records: int) -> int:
        """Let the member acquire what it may of what was read; returns how many records."""
        batches = split_batches(read.records)
        fetched = Fetched(
            [(batch.base_offset, batch.last_offset) for batch in batches], read.offset
        )
        share = read.at.share
        acquired, count = share.acquire(fetched, self._wish._replace(max_records=max_records))
        if self._committed and acquired:
            aborted = list(_aborted(read, batches))
            for batch in aborted:
                share.give_up(batch.base_offset, batch.last_offset)
            acquired = without(acquired, [(one.base_offset, one.last_offset) for one in aborted])
            count = sum(one.size for one in acquired)
        if acquired:
            row.records = _slice(read.records, batches, acquired[0].first, acquired[-1].last)
            row.acquired_records = [
                ShareFetchResponse.AcquiredRecords(
                    first_offset=one.first,
                    last_offset=one.last,
                    delivery_count=one.delivery_count,
                )
                for one in acquired
            ]
        return count


def _slice(
    records: bytes, batches: Sequence[BatchView], first: int, last: int
) -> bytes | memoryview:
    """Return the batches of what was read that have records between two offsets."""
    begin = end = position = 0
    for batch in batches:
        if batch.base_offset <= first:
            begin = position
        position += batch.size
        if batch.base_offset <= max(first, last):
            end = position
    return records if begin == 0 and end == len(records) else memoryview(records)[begin:end]


def _aborted(read: _Read, batches: Sequence[BatchView]) -> Iterator[BatchView]:
    """Yield the batches of transactions that were aborted."""
    if not batches:
        return
    end_offset = batches[-1].last_offset + 1
    open_until = sorted(
        (one.first_offset, one.producer_id)
        for one in read.at.log.log.aborted_transactions(read.offset, end_offset)
    )
    producer_ids: set[int] = set()
    for batch in batches:
        if not batch.has_producer_id:
            continue
        while open_until and open_until[0][0] <= batch.last_offset:
            producer_ids.add(open_until.pop(0)[1])
        if batch.is_control:
            marker = batch.control_marker()
            if marker is not None and marker.kind is ControlKind.ABORT:
                producer_ids.discard(batch.producer_id)
        elif batch.is_transactional and batch.producer_id in producer_ids:
            yield batch


def without(acquired: Sequence[Acquired], hidden: Sequence[tuple[int, int]]) -> Sequence[Acquired]:
    """Return what was acquired, less the records between each of these pairs of offsets."""
    for hidden_first, hidden_last in hidden:
        left: list[Acquired] = []
        for one in acquired:
            if one.last < hidden_first or one.first > hidden_last:
                left.append(one)
                continue
            if one.first < hidden_first:
                left.append(one._replace(last=hidden_first - 1))
            if one.last > hidden_last:
                left.append(one._replace(first=hidden_last + 1))
        acquired = left
    return acquired
