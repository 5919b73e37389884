"""Commands about records of topics: read and produce."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final, cast

from kafkalite.config.typed_json import About, JsonError, json_text
from kafkalite.control.command_table import Family, Row
from kafkalite.control.topic_records import UnknownTopicError, produce, read
from kafkalite.control.turns import drain
from kafkalite.control.waiting import MAX_WAIT_MS
from kafkalite.ports.times import iso_of
from kafkalite.storage.record_format import NewRecord
from kafkalite.storage.record_text import bytes_of, text_and_base64

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from kafkalite.control.topic_records import Isolation, TopicRecord
    from kafkalite.server.broker import Broker

MAX_READ: Final = 1_000_000
DEFAULT_READ: Final = 100


_MAX_OFFSET: Final = 2**63 - 1
_MAX_PARTITION: Final = 2**31 - 1
_POLL_INTERVAL_S: Final = 0.01
_ISOLATIONS: Final = ("read_committed", "read_uncommitted")


@dataclass(frozen=True, slots=True)
class Header:
    """A header of a record."""

    key: Annotated[str, About("Key of the header.")]
    value: Annotated[str | None, About("Value as text, if it is UTF-8.")] = None
    value_base64: Annotated[str | None, About("Value in base64, if it is not UTF-8.")] = None


@dataclass(frozen=True, slots=True)
class RecordAnswer:
    """A record of a topic."""

    topic: Annotated[str, About("Name of the topic.")]
    partition: Annotated[int, About("Index of the partition.")]
    offset: Annotated[int, About("Offset of the record.")]
    timestamp_ms: Annotated[int, About("Timestamp in milliseconds since the Unix epoch.")]
    timestamp_iso: Annotated[str, About("The same time in ISO 8601, UTC.")]
    key: Annotated[str | None, About("Key as text, if it is UTF-8; null without a key.")]
    key_base64: Annotated[str | None, About("Key in base64, if it is not UTF-8.")]
    value: Annotated[str | None, About("Value as text, if it is UTF-8; null for a tombstone.")]
    value_base64: Annotated[str | None, About("Value in base64, if it is not UTF-8.")]
    headers: Annotated[tuple[Header, ...], About("Headers in their order.")]
    producer_id: Annotated[int, About("Id of the producer; -1 for one without idempotence.")]
    producer_epoch: Annotated[int, About("Epoch of the producer.")]
    transactional: Annotated[bool, About("Whether the record belongs to a transaction.")]
    aborted: Annotated[bool, About("Whether the transaction was aborted.")]


@dataclass(frozen=True, slots=True)
class RecordList:
    """Records by partition and offset."""

    records: Annotated[tuple[RecordAnswer, ...], About("Records by partition and offset.")]


@dataclass(frozen=True, slots=True)
class ReadRecords:
    """Return records of a topic by partition and offset, without control records."""

    topic: Annotated[str, About("name of the topic", metavar="NAME")]
    partition: Annotated[
        int | None,
        About("only this partition [all]", minimum=0, maximum=_MAX_PARTITION),
    ] = None
    start: Annotated[
        int, About("first offset in each partition [0]", minimum=0, maximum=_MAX_OFFSET)
    ] = 0
    isolation: Annotated[
        str,
        About(
            "read_committed, or read_uncommitted for records of open and aborted transactions, too",
            choices=_ISOLATIONS,
        ),
    ] = _ISOLATIONS[0]
    limit: Annotated[
        int, About("only the first records, this many [100]", minimum=1, maximum=MAX_READ)
    ] = DEFAULT_READ
    count: Annotated[int, About("wait for this many records [0]", minimum=0, maximum=MAX_READ)] = 0
    wait_ms: Annotated[
        int,
        About(
            "time limit of the wait in milliseconds, in real time", minimum=0, maximum=MAX_WAIT_MS
        ),
    ] = 0

    async def found(self, broker: Broker) -> list[TopicRecord]:
        """Return the records; raises UnknownTopicError and CommandError."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self.wait_ms / 1000
        while True:
            found: list[TopicRecord] = []
            records = read(
                broker,
                self.topic,
                partition=self.partition,
                start=self.start,
                isolation=cast("Isolation", self.isolation),
            )
            async for record in records:
                found.append(record)
                if len(found) == self.limit:
                    break
            if len(found) >= min(self.count, self.limit) or loop.time() >= deadline:
                return found
            await asyncio.sleep(_POLL_INTERVAL_S)

    async def perform(self, broker: Broker) -> RecordList:
        """Return the records; raises UnknownTopicError and CommandError."""
        return RecordList(tuple(map(_answer, await self.found(broker))))

    async def json_pieces(self, broker: Broker) -> AsyncIterator[str]:
        """Yield the JSON text of the answer, one record at a time."""
        found = await self.found(broker)
        yield '{"records":['
        for number, record in enumerate(drain(found)):
            text = json_text(_answer(record))
            yield f",{text}" if number else text
        yield "]}"


@dataclass(frozen=True, slots=True)
class NewRecordFields:
    """A record to write."""

    value: Annotated[str | None, About("Value as text.")] = None
    value_base64: Annotated[str | None, About("Value in base64, in place of value.")] = None
    key: Annotated[str | None, About("Key as text.")] = None
    key_base64: Annotated[str | None, About("Key in base64, in place of key.")] = None
    headers: Annotated[tuple[Header, ...], About("Headers.")] = ()
    timestamp_ms: Annotated[
        int | None,
        About(
            "Timestamp in milliseconds since the Unix epoch; by default the broker's time.",
            minimum=0,
            maximum=_MAX_OFFSET,
        ),
    ] = None

    def __post_init__(self) -> None:
        for name in ("value", "key"):
            if getattr(self, name) is not None and getattr(self, f"{name}_base64") is not None:
                raise JsonError(f"a record takes one of {name} and {name}_base64")
        _bytes_of("key", self.key, self.key_base64)
        _bytes_of("value", self.value, self.value_base64)

    def record(self, now_ms: int) -> NewRecord:
        """Return the record."""
        return NewRecord(
            _bytes_of("key", self.key, self.key_base64),
            _bytes_of("value", self.value, self.value_base64),
            now_ms if self.timestamp_ms is None else self.timestamp_ms,
            tuple(
                (each.key, _bytes_of("header", each.value, each.value_base64))
                for each in self.headers
            ),
        )


@dataclass(frozen=True, slots=True)
class Position:
    """The position of a record that was written."""

    partition: Annotated[int, About("Index of the partition.")]
    offset: Annotated[int, About("Offset of the record.")]


@dataclass(frozen=True, slots=True)
class Positions:
    """The positions of the records that were written."""

    positions: Annotated[tuple[Position, ...], About("Positions in the order of the records.")]


@dataclass(frozen=True, slots=True)
class ProduceRecords:
    """Write records to a topic.

    Without `partition`, a record has the partition that Java's producer selects for its key, and
    partition 0 without a key.
    """

    topic: Annotated[str, About("name of the topic", metavar="NAME")]
    records: Annotated[tuple[NewRecordFields, ...], About("Records in their order.")]
    partition: Annotated[
        int | None,
        About("Partition of all records.", minimum=0, maximum=_MAX_PARTITION),
    ] = None

    async def perform(self, broker: Broker) -> Positions:
        """Write the records; raises UnknownTopicError and CommandError."""
        now_ms = broker.clock.now_ms()
        records = [each.record(now_ms) for each in self.records]
        written = await produce(broker, self.topic, records, self.partition)
        return Positions(tuple(Position(*each) for each in written))


def _answer(record: TopicRecord) -> RecordAnswer:
    key, key_base64 = text_and_base64(record.key)
    value, value_base64 = text_and_base64(record.value)
    return RecordAnswer(
        topic=record.topic,
        partition=record.partition,
        offset=record.offset,
        timestamp_ms=record.timestamp_ms,
        timestamp_iso=iso_of(record.timestamp_ms),
        key=key,
        key_base64=key_base64,
        value=value,
        value_base64=value_base64,
        headers=tuple(Header(name, *text_and_base64(content)) for name, content in record.headers),
        producer_id=record.producer_id,
        producer_epoch=record.producer_epoch,
        transactional=record.is_transactional,
        aborted=record.is_aborted,
    )


def _bytes_of(name: str, text: str | None, base64: str | None) -> bytes | None:
    try:
        return bytes_of(text, base64)
    except ValueError as error:
        raise JsonError(f"{name}_base64 is not base64: {error}") from error


_PATH: Final = "/v1/topics/{topic}/records"

COMMANDS = Family(
    (
        Row(
            ReadRecords,
            RecordList,
            "GET",
            _PATH,
            not_found=UnknownTopicError,
            pieces=lambda command, broker: command.json_pieces(broker),
        ),
        Row(
            ProduceRecords,
            Positions,
            "POST",
            _PATH,
            example={"records": [{"key": "k", "value": "v"}]},
            status=201,
            not_found=UnknownTopicError,
        ),
    )
)
