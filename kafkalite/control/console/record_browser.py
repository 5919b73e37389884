"""Windows of the records of a partition, with open and aborted transactions and their markers."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from kafkalite.control.command_table import CommandError, running_cluster
from kafkalite.control.console.source import BrowsedRecord, RecordWindow
from kafkalite.control.topic_records import is_aborted, no_partition_text, topic_of
from kafkalite.protocol.errors import KafkaError
from kafkalite.storage.batch import ControlKind, split_batches
from kafkalite.storage.record_format import MalformedRecordsError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from kafkalite.control.console.source import RecordSearch
    from kafkalite.partitions.partition import Partition
    from kafkalite.server.broker import Broker
    from kafkalite.storage.batch import BatchView
    from kafkalite.storage.record_format import Record

MAX_EXAMINED: Final = 20_000
"""The maximum number of records that are read for one window."""
MAX_EXAMINED_BYTES: Final = 16 * 1024 * 1024
"""The same in bytes of batches; one batch may exceed it."""
_READ_BYTES: Final = 256 * 1024

_MARKERS: Final = {ControlKind.COMMIT: "commit", ControlKind.ABORT: "abort"}


async def read_window(broker: Broker, search: RecordSearch) -> RecordWindow:
    """Return the records that a search selects, up to the limits; raises CommandError."""
    return await window_of(partition_of(broker, search.topic, search.partition), search)


async def window_of(partition: Partition, search: RecordSearch) -> RecordWindow:
    """Return the records of a partition that a search selects; raises CommandError."""
    try:
        start = _start(partition, search)
        scan = _Scan(partition, search, start)
        await scan.run()
    except (KafkaError, OSError) as error:
        name = f"{search.topic}-{search.partition}"
        raise CommandError(f"{name} cannot be read: {error}") from error
    return RecordWindow(
        scan.found,
        first_offset=partition.log_start_offset,
        end_offset=partition.limit_offset(committed=False),
        start=start,
        next_offset=scan.offset,
        examined=scan.examined,
    )


def partition_of(broker: Broker, topic: str, index: int) -> Partition:
    """Return a partition; raises CommandError if there is none."""
    cluster = running_cluster(broker)
    count = len(topic_of(cluster, topic).partitions)
    if not 0 <= index < count:
        raise CommandError(no_partition_text(topic, index, count))
    hosted = cluster.partitions.topic(topic)
    found = None if hosted is None else hosted.partition(index)
    if found is None:
        raise CommandError(f"{topic}-{index} is not available")
    return found


def _start(partition: Partition, search: RecordSearch) -> int:
    """Return the offset at which a window begins: by default, so that it has the last records."""
    end = partition.limit_offset(committed=False)
    start = search.start
    if search.from_ms is not None:
        found = partition.offset_for_timestamp(search.from_ms, end).offset
        start = end if found < 0 else found
    elif start is None:
        start = 0 if search.is_filtered else end - search.limit
    return min(max(start, partition.log_start_offset), end)


class _Scan:
    """The reading of a window from its start to its last record."""

    def __init__(self, partition: Partition, search: RecordSearch, start: int) -> None:
        self._partition = partition
        self._search = search
        self._bytes = 0
        self.offset = start
        self.examined = 0
        self.found: list[BrowsedRecord] = []

    async def run(self) -> None:
        """Read batches until the window is full, or a limit is reached."""
        partition, limit = self._partition, self._partition.limit_offset(committed=False)
        while self.offset < limit and not self._is_full:
            offset = self.offset
            data = partition.read(
                offset, max_bytes=_READ_BYTES, limit_offset=limit, at_least_one=True
            )
            aborted = partition.aborted_in_read(offset, len(data))
            batches = split_batches(data)
            if not batches:
                return
            for batch in batches:
                state = self._state(batch, aborts=is_aborted(batch, aborted))
                await self._add(batch, state)
                if self._is_full:
                    return

    @property
    def _is_full(self) -> bool:
        return (
            len(self.found) >= self._search.limit
            or self.examined >= MAX_EXAMINED
            or self._bytes >= MAX_EXAMINED_BYTES
        )

    def _state(self, batch: BatchView, *, aborts: bool) -> str:
        """Return the state of the transaction of a batch; empty without one."""
        if batch.is_control:
            return "control"
        if not batch.is_transactional:
            return ""
        if aborts:
            return "aborted"
        begin = self._partition.log.producers.transaction_start(batch.producer_id)
        return "open" if begin is not None and begin <= batch.base_offset else "committed"

    async def _add(self, batch: BatchView, state: str) -> None:
        """Add the records of a batch that are selected."""
        start, room = self.offset, self._search.limit - len(self.found)
        records, examined, next_offset = await asyncio.to_thread(
            _selected, batch, start, self._search, room
        )
        self.found += [_browsed(batch, each, state) for each in records]
        self.examined += examined
        self._bytes += batch.size
        self.offset = max(self.offset, next_offset)


def _selected(
    batch: BatchView, start: int, search: RecordSearch, room: int
) -> tuple[Sequence[Record | None], int, int]:
    """Return records of a batch that are selected, how many were examined, and the next offset.

    None stands for a batch that cannot be decoded.
    """
    try:
        records = batch.records()
    except MalformedRecordsError:
        return [None], 1, batch.last_offset + 1
    found: list[Record | None] = []
    is_selected = _selection(search)
    for number, record in enumerate(each for each in records if each.offset >= start):
        if is_selected(record):
            found.append(record)
            if len(found) == room:
                return found, number + 1, record.offset + 1
    examined = sum(each.offset >= start for each in records)
    return found, max(1, examined), batch.last_offset + 1


def _selection(search: RecordSearch) -> Callable[[Record], bool]:
    """Return whether records have the key and the text of a search."""
    key, text = search.key, search.text.encode().lower()

    def parts(record: Record) -> Iterable[bytes | None]:
        yield record.key
        yield record.value
        for name, value in record.headers:
            yield name.encode(errors="surrogatepass")
            yield value

    def is_selected(record: Record) -> bool:
        if key is not None and record.key != key:
            return False
        return not text or any(part and text in part.lower() for part in parts(record))

    return is_selected


def _browsed(batch: BatchView, record: Record | None, state: str) -> BrowsedRecord:
    if record is None:
        return BrowsedRecord(
            batch.base_offset, batch.base_timestamp, None, None, (), batch.producer_id,
            batch.producer_epoch, batch.leader_epoch, "unreadable", batch.size,
        )  # fmt: skip
    marker = batch.control_marker() if batch.is_control else None
    if marker is not None:
        state = f"{_MARKERS[marker.kind]} marker"
    return BrowsedRecord(
        record.offset,
        record.timestamp,
        record.key,
        record.value,
        record.headers,
        batch.producer_id,
        batch.producer_epoch,
        batch.leader_epoch,
        state,
        len(record.key or b"")
        + len(record.value or b"")
        + sum(len(name) + len(value or b"") for name, value in record.headers),
    )
