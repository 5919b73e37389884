"""Reading for share groups: reads logs and acquires records for a member (KIP-932)."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING

from kafkalite.gateway.refusals import report_refused_topics
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.ports.waiting import chain
from kafkalite.protocol._generated.messages.share_fetch import ShareFetchResponse
from kafkalite.protocol.acl_operations import Operation, Resource
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.shares.acquisition import AcquiredRecords, AcquireRequest, FetchedBatches
from kafkalite.shares.state import ShareKey
from kafkalite.storage.batch import ControlKind, split_batches

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from kafkalite.cluster.node import Node
    from kafkalite.gateway.call import Call
    from kafkalite.partitions.partition import Partition
    from kafkalite.ports.waiting import Waiting
    from kafkalite.shares.partition import SharePartition
    from kafkalite.shares.sessions import TopicPartition
    from kafkalite.storage.batch import BatchView


LATEST = "latest"
EARLIEST = "earliest"
_BY_DURATION = "by_duration"
_ISO_DURATION = re.compile(
    r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)(?:\.(\d{1,9}))?S)?)?", re.IGNORECASE
)


class OffsetReset(NamedTuple):
    """The offset at which a group begins: an end of the log, or a duration before now."""

    kind: str
    duration_ms: int = 0


def parse_offset_reset(text: str) -> OffsetReset:
    """Parse `share.auto.offset.reset`, which was validated when it was set."""
    kind, _, duration = text.partition(":")
    if kind != _BY_DURATION:
        return OffsetReset(kind)
    found = _ISO_DURATION.fullmatch(duration)
    if found is None:
        raise ValueError(f"not a duration: {duration}")
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups()[:4])
    fraction_ms = int((found[5] or "").ljust(9, "0")) // 1_000_000
    total_s = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    return OffsetReset(kind, total_s * 1000 + fraction_ms)


PartitionData = ShareFetchResponse.PartitionData

_MAX_UNREAD_BYTES = 256 * 1024 * 1024
"""The maximum size of the unread answers of all clients; new answers must fit into the rest."""
_MIN_ANSWER_BYTES = 1024 * 1024
_FIRST_READ_BYTES = 256 * 1024


class RequestedSharePartition(NamedTuple):
    """A partition that a member requests, and its log."""

    partition: TopicPartition
    log: Partition

    def begin(
        self, call: Call, group_id: str
    ) -> LocatedSharePartition | Waiting[LocatedSharePartition]:
        """Return the share partition; raises KafkaError if this node cannot serve it."""
        log, node = self.log, call.node
        if log.leader != node.id or log.seen_by(node.id).leader != node.id:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        share = node.share_partitions.get_or_load(
            ShareKey(group_id, *self.partition),
            name=log.name,
            leader=node.id,
            leader_epoch=log.leader_epoch,
            store=node.share_persister,
            dead_letter_queues=node.dead_letter_queues,
            choose_start_offset=lambda: _initial_offset(node, group_id, log),
        )
        return chain(share, lambda found: LocatedSharePartition(self.partition, log, found))


class LocatedSharePartition(NamedTuple):
    """A share partition and its log."""

    partition: TopicPartition
    log: Partition
    share: SharePartition


def _initial_offset(node: Node, group_id: str, log: Partition) -> int:
    """Return a group's initial offset; raises KafkaError OFFSET_NOT_AVAILABLE if it has none."""
    reset = parse_offset_reset(str(node.config.group_get(group_id, "share.auto.offset.reset")))
    if reset.kind == LATEST:
        return log.high_watermark
    if reset.kind == EARLIEST:
        return log.log_start_offset
    since_ms = node.clock.now_ms() - reset.duration_ms
    found = log.offset_for_timestamp(since_ms, log.high_watermark)
    if found.offset < 0:
        raise KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE)
    return found.offset


def locate(
    call: Call, names: Mapping[TopicPartition, str | None]
) -> tuple[list[RequestedSharePartition], dict[TopicPartition, ErrorCode]]:
    """Return the logs of partitions, and the errors of unknown and forbidden ones.

    Before Kafka 4.4, raises KafkaError UNKNOWN_SERVER_ERROR if the topic of a partition was never
    known.
    """
    table = call.node.partitions
    permissions, row_fault = call.permissions, call.row_fault
    located: list[RequestedSharePartition] = []
    refused: dict[TopicPartition, ErrorCode] = {}
    forbidden: dict[str, None] = {}
    for partition, name in names.items():
        if name is None and call.node.config.release.rules.answers_unknown_share_topics:
            refused[partition] = ErrorCode.UNKNOWN_TOPIC_ID
            continue
        if name is None:
            # If a topic id was unknown when the session began, Kafka before 4.4 fails with an
            # internal exception in every fetch of the session.
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
        if permissions is not None and not permissions.allows(Operation.READ, Resource.TOPIC, name):
            refused[partition] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            forbidden[name] = None
            continue
        if row_fault is not None and (code := row_fault(name, partition.index)) is not None:
            refused[partition] = code
            continue
        try:
            log = table.get(partition.topic_id, partition.index)
        except KafkaError as error:
            refused[partition] = error.code
            continue
        if log is None:
            refused[partition] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        else:
            located.append(RequestedSharePartition(partition, log))
    if forbidden:
        report_refused_topics(call, "ShareFetch", Operation.READ, forbidden)
    return located, refused


def rotate(partitions: list[LocatedSharePartition], epoch: int) -> list[LocatedSharePartition]:
    """Return partitions in an order that rotates with each request, so that none is starved."""
    if len(partitions) < 2 or epoch < 1:  # noqa: PLR2004 - rotation needs two
        return partitions
    start = epoch % len(partitions)
    return partitions[start:] + partitions[:start]


def response_limit_bytes(node: Node, max_bytes: int) -> int:
    """Return the maximum size of an answer, which depends on the size of unread answers."""
    return min(max_bytes, max(_MIN_ANSWER_BYTES, _MAX_UNREAD_BYTES - node.unread_answers.bytes))


class _Read(NamedTuple):
    """The result of reading one partition."""

    located: LocatedSharePartition
    offset: int
    records: bytes
    error: ErrorCode = ErrorCode.NONE


class ShareReader:
    """The reads of one share fetch; each attempt reads again."""

    __slots__ = ("_committed", "_max_bytes", "_min_bytes", "_node", "_request", "partitions")

    def __init__(
        self,
        node: Node,
        partitions: Sequence[LocatedSharePartition],
        request: AcquireRequest,
        *,
        max_bytes: int,
        min_bytes: int,
        committed: bool,
    ) -> None:
        self._node = node
        self.partitions = partitions
        self._request = request
        self._max_bytes = max_bytes
        self._min_bytes = min_bytes
        self._committed = committed

    def read_if_enough(self) -> dict[TopicPartition, PartitionData] | None:
        """Return the rows for the member, or None if there are too few records to answer yet."""
        reads = self._read()
        if not reads:
            return None
        found_bytes = 0
        for read in reads:
            if read.error or read.offset > self._limit_offset(read) or self._is_behind(read):
                return self._acquire(reads)
            found_bytes += len(read.records)
        return self._acquire(reads) if found_bytes >= self._min_bytes else None

    def read_available(self) -> dict[TopicPartition, PartitionData]:
        """Return the rows for the member, even if they contain few records or none."""
        return self._acquire(self._read())

    def _limit_offset(self, read: _Read) -> int:
        return read.located.log.limit_offset(committed=self._committed)

    def _is_behind(self, read: _Read) -> bool:
        """Return whether there are more records in a later segment."""
        return bool(read.records) and read.located.log.is_before_active_segment(read.offset)

    def _read(self) -> list[_Read]:
        """Read the partitions with records that the member may acquire."""
        ready = [each for each in self.partitions if each.share.can_acquire()]
        if not ready:
            return []
        share_bytes, rest = divmod(self._max_bytes, len(ready))
        reads = []
        found = False
        for located in ready:
            read = self._read_partition(located, share_bytes + rest, at_least_one=not found)
            rest = 0
            found = found or bool(read.records)
            reads.append(read)
        return reads

    def _read_partition(
        self, located: LocatedSharePartition, max_bytes: int, *, at_least_one: bool
    ) -> _Read:
        offset = located.share.window.next_fetch_offset()
        try:
            records = self._read_batches(located, offset, max_bytes, at_least_one=at_least_one)
        except KafkaError as error:
            return _Read(located, offset, b"", error.code)
        except OSError as error:
            read = partial(
                self._read_batches, located, offset, max_bytes, at_least_one=at_least_one
            )
            return _Read(located, offset, b"", located.log.report_read_failure(error, read))
        return _Read(located, offset, records)

    def _read_batches(
        self, located: LocatedSharePartition, offset: int, max_bytes: int, *, at_least_one: bool
    ) -> bytes:
        """Return batches from `offset` on, not many more than can be acquired.

        A member requests many bytes but few records. If it gets fewer records because others have
        acquired some in between, it requests more.
        """
        limit_offset = located.log.limit_offset(committed=self._committed)
        target_offset = offset + self._request.max_records
        batch = located.share.window.in_flight.floor(target_offset)
        if batch is not None:
            target_offset = max(target_offset, batch.last + 1)
        size = _FIRST_READ_BYTES
        while True:
            records = located.log.read(
                offset,
                max_bytes=min(size, max_bytes),
                limit_offset=limit_offset,
                at_least_one=at_least_one,
            )
            if size >= max_bytes or offset >= limit_offset:
                return records
            if records:
                end_offset = split_batches(records)[-1].last_offset + 1
                has_enough = end_offset > target_offset and len(records) >= self._min_bytes
                if (
                    has_enough
                    or end_offset >= limit_offset
                    or located.log.is_before_active_segment(offset)
                ):
                    return records
            size *= 4

    def _acquire(self, reads: Iterable[_Read]) -> dict[TopicPartition, PartitionData]:
        rows = {}
        remaining = self._request.max_records
        for read in reads:
            row = PartitionData(partition_index=read.located.partition.index)
            if read.error is ErrorCode.OFFSET_OUT_OF_RANGE:
                read.located.share.advance_log_start(read.located.log.log_start_offset)
            elif read.error:
                row.error_code = read.error
            else:
                remaining -= self._acquire_partition(read, row, remaining)
            rows[read.located.partition] = row
        return rows

    def _acquire_partition(self, read: _Read, row: PartitionData, max_records: int) -> int:
        """Acquire records of one partition for the member; return their number."""
        batches = split_batches(read.records)
        fetched = FetchedBatches(
            [(batch.base_offset, batch.last_offset) for batch in batches], read.offset
        )
        share = read.located.share
        acquired, count = share.acquire(fetched, self._request._replace(max_records=max_records))
        if self._committed and acquired:
            aborted = list(_aborted_batches(read, batches))
            for batch in aborted:
                share.archive(batch.base_offset, batch.last_offset)
            acquired = subtract_ranges(
                acquired, [(batch.base_offset, batch.last_offset) for batch in aborted]
            )
            count = sum(acquired_range.size for acquired_range in acquired)
        if acquired:
            row.records = _batches_between(
                read.records, batches, acquired[0].first, acquired[-1].last
            )
            row.acquired_records = [
                ShareFetchResponse.AcquiredRecords(
                    first_offset=acquired_range.first,
                    last_offset=acquired_range.last,
                    delivery_count=acquired_range.delivery_count,
                )
                for acquired_range in acquired
            ]
        return count


def _batches_between(
    records: bytes, batches: Sequence[BatchView], first: int, last: int
) -> bytes | memoryview:
    """Return the batches with records between two offsets."""
    begin = end = position = 0
    for batch in batches:
        if batch.base_offset <= first:
            begin = position
        position += batch.size
        if batch.base_offset <= max(first, last):
            end = position
    return records if begin == 0 and end == len(records) else memoryview(records)[begin:end]


def _aborted_batches(read: _Read, batches: Sequence[BatchView]) -> Iterator[BatchView]:
    """Yield the batches of aborted transactions."""
    if not batches:
        return
    end_offset = batches[-1].last_offset + 1
    aborted_transactions = sorted(
        (transaction.first_offset, transaction.producer_id)
        for transaction in read.located.log.log.aborted_transactions(read.offset, end_offset)
    )
    aborted_producer_ids: set[int] = set()
    for batch in batches:
        if not batch.has_producer_id:
            continue
        while aborted_transactions and aborted_transactions[0][0] <= batch.last_offset:
            aborted_producer_ids.add(aborted_transactions.pop(0)[1])
        if batch.is_control:
            marker = batch.control_marker()
            if marker is not None and marker.kind is ControlKind.ABORT:
                aborted_producer_ids.discard(batch.producer_id)
        elif batch.is_transactional and batch.producer_id in aborted_producer_ids:
            yield batch


def subtract_ranges(
    acquired: Sequence[AcquiredRecords], removed: Sequence[tuple[int, int]]
) -> Sequence[AcquiredRecords]:
    """Return the acquired ranges without the removed ranges."""
    for removed_first, removed_last in removed:
        remaining: list[AcquiredRecords] = []
        for acquired_range in acquired:
            if acquired_range.last < removed_first or acquired_range.first > removed_last:
                remaining.append(acquired_range)
                continue
            if acquired_range.first < removed_first:
                remaining.append(acquired_range._replace(last=removed_first - 1))
            if acquired_range.last > removed_last:
                remaining.append(acquired_range._replace(first=removed_last + 1))
        acquired = remaining
    return acquired
