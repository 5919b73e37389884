"""The end of a coordinator's log, read in small steps, for pages that are made again and again."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from kafkalite.control.time_travel.points import TimeTravelError
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.protocol.errors import KafkaError
from kafkalite.storage.batch import COMPRESSION_MASK, split_batches
from kafkalite.storage.file_names import partition_directory

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from kafkalite.cluster.cluster import Cluster
    from kafkalite.storage.batch import BatchView
    from kafkalite.storage.log import Log

MAX_RECORDS: Final = 5_000
"""The maximum number of records, the latest, that are read."""
_CHUNK_BYTES: Final = 16 * 1024
"""Bytes that are read before other tasks run."""


class LogTail(NamedTuple):
    """The latest records of a log."""

    log: Log
    name: str
    """Topic, dash and partition."""
    first_offset: int
    end_offset: int
    """The offset after the last record; the log may grow while it is read."""

    @property
    def is_complete(self) -> bool:
        """Whether no record of the log is before them."""
        return self.first_offset == 0

    async def batches(self, needle: bytes) -> AsyncIterator[BatchView]:
        """Yield the batches that may have `needle` in a key, and the control batches.

        Raises TimeTravelError for a log that cannot be read.
        """
        offset = self.first_offset
        while offset < self.end_offset:
            try:
                chunk = self.log.read(
                    offset,
                    max_bytes=_CHUNK_BYTES,
                    limit_offset=self.end_offset,
                    at_least_one=True,
                )
                found = split_batches(chunk)
            except (KafkaError, OSError, LookupError, ValueError) as error:
                raise TimeTravelError(f"{self.name} cannot be read: {error}") from error
            for batch in found:
                if batch.last_offset < offset:
                    raise TimeTravelError(
                        f"{self.name} is damaged: the batch at offset {batch.base_offset} ends "
                        f"before offset {offset}"
                    )
                offset = batch.last_offset + 1
                is_compressed = batch.attributes & COMPRESSION_MASK
                if batch.is_control or is_compressed or needle in bytes(batch.data):
                    yield batch
            if not found:
                return
            await asyncio.sleep(0)


def log_tail(cluster: Cluster, topic: str, partition: int) -> LogTail:
    """Return the end of a log of a running cluster; raises TimeTravelError without the log."""
    name = partition_directory(topic, partition)
    hosted = cluster.partitions.topic(topic)
    try:
        found = None if hosted is None else hosted.partition(partition)
    except KafkaError:  # it is offline
        found = None
    if found is None:
        raise TimeTravelError(f"there is no partition {name}")
    log = found.log
    first = max(log.start_offset, log.end_offset - MAX_RECORDS)
    return LogTail(log, name, first, log.end_offset)
