"""Events of the verifiable tools, which are lines of JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from kafkalite.docker.tools.running import write_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kafkalite.client.epochs import TopicPartition
    from kafkalite.client.records import ConsumerRecord
    from kafkalite.docker.tools.pacing import Pace


def write_event(name: str, pace: Pace, **fields: object) -> None:
    """Print an event as a line of JSON."""
    event = {"timestamp": pace.now_ms(), "name": name, **fields}
    write_line(json.dumps(event, separators=(",", ":"), ensure_ascii=False))


def write_record(record: ConsumerRecord, pace: Pace) -> None:
    """Print the event of a consumed record."""
    write_event(
        "record_data",
        pace,
        key=_text(record.key),
        value=_text(record.value),
        **partition_row(record.partition),
        offset=record.offset,
    )


def partition_row(partition: TopicPartition, **fields: object) -> dict[str, Any]:
    """Return a partition as a row of an event, with more fields."""
    return {"topic": partition.topic, "partition": partition.partition, **fields}


def by_partition(
    records: Iterable[ConsumerRecord],
) -> Mapping[TopicPartition, list[ConsumerRecord]]:
    """Return records by their partitions."""
    found: dict[TopicPartition, list[ConsumerRecord]] = {}
    for each in records:
        found.setdefault(each.partition, []).append(each)
    return found


def _text(content: bytes | None) -> str | None:
    return None if content is None else content.decode(errors="replace")
