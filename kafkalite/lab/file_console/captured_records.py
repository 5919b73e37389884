"""The records in a captured request or answer: those of Produce, Fetch and ShareFetch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kafkalite.control.console.record_texts import show_line
from kafkalite.lab.checker.fetched_batches import UnreadableBatchesError, batches_of, topic_of
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.uuids import uuid_to_text
from kafkalite.storage.record_format import MalformedRecordsError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kafkalite.control.console.record_texts import ShownBytes
    from kafkalite.lab.checker.collecting import Observation
    from kafkalite.storage.batch import BatchView

MAX_RECORDS: Final = 50
_MAX_KEY: Final = 48
_NO_OFFSET: Final = -1
_PRODUCE: Final = int(ApiKey.PRODUCE)
_FETCHES: Final = frozenset((int(ApiKey.FETCH), int(ApiKey.SHARE_FETCH)))


class CapturedRecord(NamedTuple):
    """A record that was written or read."""

    topic: str
    partition: int
    offset: int | None
    """None for a record that was not written, or whose offset the answer does not have."""
    timestamp_ms: int
    """Milliseconds since the Unix epoch."""
    key: ShownBytes
    value: ShownBytes


class _PartitionRecords(NamedTuple):
    topic: str
    partition: int
    base_offset: int | None
    """The offset that the first record got; None if the batches have offsets themselves."""
    records: Any


def records_in(seen: Observation, names: Mapping[bytes, str]) -> tuple[list[CapturedRecord], bool]:
    """Return the first records of an exchange, and whether there are more.

    Batches that cannot be decoded are left out.
    """
    found: list[CapturedRecord] = []
    for each in _records(seen, names):
        if len(found) == MAX_RECORDS:
            return found, True
        found.append(each)
    return found, False


def _records(seen: Observation, names: Mapping[bytes, str]) -> Iterator[CapturedRecord]:
    for each in _partitions(seen, names):
        try:
            batches = batches_of(each.records)
        except UnreadableBatchesError:
            continue
        count = 0
        for batch in batches:
            if not batch.is_control:
                yield from _of_batch(each, batch, count)
                count += batch.record_count


def _of_batch(place: _PartitionRecords, batch: BatchView, count: int) -> Iterator[CapturedRecord]:
    try:
        records = batch.records()
    except MalformedRecordsError:
        return
    for number, record in enumerate(records, count):
        offset: int | None = record.offset
        if place.base_offset is not None:
            offset = None if place.base_offset == _NO_OFFSET else place.base_offset + number
        yield CapturedRecord(
            place.topic,
            place.partition,
            offset,
            record.timestamp,
            show_line(record.key, limit=_MAX_KEY),
            show_line(record.value),
        )


def _partitions(seen: Observation, names: Mapping[bytes, str]) -> Iterator[_PartitionRecords]:
    if seen.api_key == _PRODUCE and seen.request is not None:
        offsets = {
            (topic_of(topic), row.index): row.base_offset
            for topic in (() if seen.response is None else seen.response.responses)
            for row in topic.partition_responses
        }
        for topic in seen.request.topic_data:
            for row in topic.partition_data:
                base = offsets.get((topic_of(topic), row.index), _NO_OFFSET)
                yield _PartitionRecords(_name(topic, names), row.index, base, row.records)
    elif seen.api_key in _FETCHES and seen.response is not None:
        for topic in seen.response.responses:
            for row in topic.partitions:
                yield _PartitionRecords(_name(topic, names), row.partition_index, None, row.records)


def _name(row: Any, names: Mapping[bytes, str]) -> str:  # noqa: ANN401 - of any version
    topic = topic_of(row)
    return names.get(topic) or uuid_to_text(topic) if isinstance(topic, bytes) else topic
