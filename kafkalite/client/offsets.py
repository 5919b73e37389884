"""Offsets of partitions: the first, the last, and those of a time."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from kafkalite.client.epochs import TopicPartition
from kafkalite.client.fetches import READ_UNCOMMITTED
from kafkalite.client.partition_requests import by_leader
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.ports.times import instant_ms
from kafkalite.protocol._generated.messages.list_offsets import ListOffsetsRequest
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.versions import Versions

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kafkalite.client.client import KafkaClient
    from kafkalite.server.addresses import Address

EARLIEST: Final = -2
LATEST: Final = -1
"""Timestamps that stand for the first offset of a partition and for the end of it."""
NO_OFFSET: Final = -1

_WORDS: Final = {"earliest": EARLIEST, "latest": LATEST}
_MAX_DIGITS: Final = 18
_VERSIONS: Final = Versions(1, 11)
_CLIENT_REPLICA: Final = -1


class ListedOffset(NamedTuple):
    """An offset and the timestamp of its record, both -1 without such a record."""

    offset: int
    timestamp_ms: int
    leader_epoch: int
    error: ErrorCode


async def end_offsets(
    client: KafkaClient,
    partitions: Iterable[TopicPartition],
    isolation_level: int = READ_UNCOMMITTED,
) -> dict[TopicPartition, int]:
    """Return the high watermarks of partitions, or with READ_COMMITTED the last stable offsets.

    Partitions without a leader are omitted.
    """
    found = await list_offsets(client, dict.fromkeys(partitions, LATEST), isolation_level)
    return {partition: each.offset for partition, each in found.items() if not each.error}


async def first_offsets(
    client: KafkaClient, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, int]:
    """Return the first offsets of partitions; those without a leader are omitted."""
    found = await list_offsets(client, dict.fromkeys(partitions, EARLIEST))
    return {partition: each.offset for partition, each in found.items() if not each.error}


async def list_offsets(
    client: KafkaClient,
    timestamps: Mapping[TopicPartition, int],
    isolation_level: int = READ_UNCOMMITTED,
) -> dict[TopicPartition, ListedOffset]:
    """Return the first offset of each partition whose record is not older than the timestamp.

    `EARLIEST` and `LATEST` are timestamps, too. Partitions without a leader are omitted. Raises
    UnreachableError if a leader does not answer.
    """
    if not timestamps:
        return {}
    leaders = await by_leader(client, timestamps)
    answers = await asyncio.gather(
        *(_ask(client, address, rows, isolation_level) for address, rows in leaders.items())
    )
    return {partition: found for answer in answers for partition, found in answer.items()}


async def _ask(
    client: KafkaClient,
    leader: Address,
    timestamps: Mapping[TopicPartition, int],
    isolation_level: int,
) -> dict[TopicPartition, ListedOffset]:
    rows: dict[str, list[ListOffsetsRequest.ListOffsetsPartition]] = {}
    for (topic, index), timestamp in timestamps.items():
        row = ListOffsetsRequest.ListOffsetsPartition(partition_index=index, timestamp=timestamp)
        rows.setdefault(topic, []).append(row)
    topics = [
        ListOffsetsRequest.ListOffsetsTopic(name=topic, partitions=partitions)
        for topic, partitions in rows.items()
    ]
    request = ListOffsetsRequest(
        replica_id=_CLIENT_REPLICA, isolation_level=isolation_level, topics=topics
    )
    response = await client.ask(leader, request, _VERSIONS)
    return {
        TopicPartition(topic.name, row.partition_index): ListedOffset(
            row.offset, row.timestamp, row.leader_epoch, ErrorCode(row.error_code)
        )
        for topic in response.topics
        for row in topic.partitions
    }


class OffsetTarget(NamedTuple):
    """The offset that is looked for in each partition: a number, or that of a time."""

    offset: int | None = None
    timestamp_ms: int = EARLIEST
    """`EARLIEST`, `LATEST`, or milliseconds since the Unix epoch."""

    @classmethod
    def parse(cls, text: str) -> OffsetTarget:
        """Return the target that `earliest`, `latest`, a number or an ISO 8601 time stands for.

        Raises ValueError.
        """
        if text in _WORDS:
            return cls(timestamp_ms=_WORDS[text])
        if text.isascii() and text.isdigit():
            if len(text) > _MAX_DIGITS:
                raise ValueError(f"{text[:40]!r} is too large for an offset")
            return cls(offset=int(text))
        try:
            return cls(timestamp_ms=instant_ms(text))
        except ValueError:
            raise ValueError(
                f"{text[:40]!r} is not earliest, latest, an offset or a time: write it as "
                "2026-03-01T12:00:00Z"
            ) from None


async def target_offsets(
    client: KafkaClient,
    partitions: Iterable[TopicPartition],
    target: OffsetTarget,
    isolation_level: int = READ_UNCOMMITTED,
) -> dict[TopicPartition, int]:
    """Return the offset of a target in each partition; those without a leader are omitted.

    A number is limited to the offsets of the partition. A time after all records is its end.
    """
    listed = list(partitions)
    ends = await end_offsets(client, listed, isolation_level)
    if target.offset is not None:
        starts = await first_offsets(client, listed)
        return {each: limited(target.offset, starts[each], ends[each]) for each in starts}
    found = await list_offsets(client, dict.fromkeys(listed, target.timestamp_ms), isolation_level)
    return {
        each: ends[each] if row.offset == NO_OFFSET else row.offset
        for each, row in found.items()
        if not row.error and each in ends
    }


def limited(offset: int, start: int, end: int) -> int:
    """Return the offset, or the nearest one from `start` to `end`."""
    return min(max(offset, start), end)
