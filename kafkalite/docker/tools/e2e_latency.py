"""`kafka-e2e-latency`: measure the time from sending a record to receiving it."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, Final, Literal

from kafkalite.client.client import KafkaClient
from kafkalite.client.consumer import PartitionConsumer
from kafkalite.client.epochs import TopicPartition
from kafkalite.client.offsets import end_offsets
from kafkalite.client.producer import Producer
from kafkalite.client.record_sender import NumberedRecord, RecordSender
from kafkalite.client.records import ProducerRecord
from kafkalite.client.topics import create_topic, list_topics
from kafkalite.docker.tools.arguments import (
    KafkaToolError,
    ToolParser,
    access_in,
    addresses_of,
    client_properties,
    is_idempotent,
)
from kafkalite.docker.tools.pacing import percentile
from kafkalite.docker.tools.running import run_tool, write_line

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping, Sequence

    from kafkalite.client.access import Access
    from kafkalite.client.records import ConsumerRecord

_REQUIRED: Final = ("bootstrap-server", "topic", "num-records", "producer-acks", "record-size")
_POSITIONAL: Final = (*_REQUIRED, "command-config")
_ACKS: Final[Mapping[str, Literal["all", 1]]] = {"1": 1, "all": "all"}
_POLL_TIMEOUT_MS: Final = 60_000
_MAX_WAIT_MS: Final = 100
_REPORTED: Final = 1_000
"""The latency of one record among so many is printed."""
_NULL_SIZE: Final = -1


def main(name: str, arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run the tool; return its exit status."""

    def command() -> int:
        parsed = _parse(name, _named(arguments))
        asyncio.run(_measure(parsed, environment))
        return 0

    return run_tool(name, command)


def _named(arguments: Sequence[str]) -> list[str]:
    """Return the arguments with their names, which they do not have in earlier releases."""
    if not arguments or any(each.startswith("--") for each in arguments):
        return list(arguments)
    if len(arguments) not in (len(_REQUIRED), len(_POSITIONAL)):
        raise KafkaToolError(
            "Invalid number of arguments. Expected 5 or 6 positional arguments, but got "
            f"{len(arguments)}. Usage: bootstrap-server topic num-records producer-acks "
            "record-size [optional] command-config"
        )
    write_line(
        "WARNING: Positional argument usage is deprecated and will be removed in Apache Kafka 5.0. "
        f"Please use named arguments instead: {', '.join(f'--{each}' for each in _POSITIONAL)}"
    )
    pairs = zip(_POSITIONAL, arguments, strict=False)
    return [word for name, value in pairs if value.strip() for word in (f"--{name}", value)]


def _parse(name: str, arguments: Sequence[str]) -> Namespace:
    parser = ToolParser(name, "Measure the time from sending a record to receiving it.")
    parser.add_values("bootstrap-server", "topic", "producer-acks")
    parser.add_values("num-records", "record-size", type=int)
    parser.add_values("record-key-size", "record-header-key-size", type=int, default=0)
    parser.add_values("record-header-size", "num-headers", type=int, default=0)
    parser.add_values("command-config", metavar="FILE")
    parsed = parser.parse(arguments)
    for option in _REQUIRED:
        if getattr(parsed, option.replace("-", "_")) is None:
            parser.error(f'Missing required argument "[{option}]"')
    if parsed.producer_acks not in _ACKS:
        parser.error(
            "Invalid value for --producer-acks. Latency testing requires synchronous "
            "acknowledgement. Please use '1' or 'all'."
        )
    if parsed.num_records <= 0:
        parser.error("Value for --num-records must be a positive integer.")
    for option in ("record-size", "record-key-size", "record-header-key-size", "num-headers"):
        if getattr(parsed, option.replace("-", "_")) < 0:
            parser.error(f"Value for --{option} must be a non-negative integer.")
    if parsed.record_header_size < _NULL_SIZE:
        parser.error(
            "Value for --record-header-size must be a non-negative integer or -1 for null header "
            "value."
        )
    return parsed


async def _measure(parsed: Namespace, environment: Mapping[str, str]) -> None:
    properties = client_properties(parsed.command_config, environment)
    access = access_in(properties, parsed.command_config)
    addresses = addresses_of(parsed.bootstrap_server)
    async with KafkaClient(addresses, access) as client:
        partitions = await _partitions(client, parsed.topic)
        ends = await end_offsets(client, partitions)
    latencies_ms = await _latencies(
        parsed, access, ends, idempotent=is_idempotent(properties, parsed.producer_acks)
    )
    write_line(f"Avg latency: {sum(latencies_ms) / len(latencies_ms):.4f} ms")
    whole = sorted(map(int, latencies_ms))
    shares = ((0.5, "50th"), (0.99, "99th"), (0.999, "99.9th"))
    texts = [f"{title} = {percentile(whole, share):.0f}" for share, title in shares]
    write_line(f"Percentiles: {', '.join(texts)}")


async def _partitions(client: KafkaClient, topic: str) -> list[TopicPartition]:
    """Return the partitions of a topic, which is created if it does not exist."""
    topics = {each.name: each for each in await list_topics(client)}
    if topic not in topics:
        write_line(
            f'Topic "{topic}" does not exist. Will create topic with 1 partition(s) and '
            "replication factor = 1"
        )
        await create_topic(client, topic, partitions=1, replication_factor=1)
        return [TopicPartition(topic, 0)]
    return [TopicPartition(topic, each.partition) for each in topics[topic].partitions]


async def _latencies(
    parsed: Namespace, access: Access, starts: Mapping[TopicPartition, int], *, idempotent: bool
) -> list[float]:
    """Send and receive records one by one; return the milliseconds of each."""
    servers, loop = parsed.bootstrap_server, asyncio.get_running_loop()
    letters = random.Random(0)  # noqa: S311 - the content of records, the same in each run
    found: list[float] = []
    async with (
        Producer(
            servers, acks=_ACKS[parsed.producer_acks], is_idempotent=idempotent, access=access
        ) as producer,
        PartitionConsumer(servers, access=access) as consumer,
    ):
        consumer.assign(starts)
        for partition, offset in starts.items():
            consumer.seek(partition, offset)
        sender = RecordSender(producer, parsed.topic, len(starts))
        for number in range(parsed.num_records):
            record = _record(parsed, letters)
            start_s = loop.time()
            await sender.send([NumberedRecord(number, record)])
            records = await _received(consumer)
            found.append((loop.time() - start_s) * 1_000)
            _check(records, record)
            if number % _REPORTED == 0:
                write_line(f"{number}\t{found[-1]:.6f}")
    return found


def _record(parsed: Namespace, letters: random.Random) -> ProducerRecord:
    def content(size: int) -> bytes:
        return bytes([letters.randrange(ord("A"), ord("Z") + 1)]) * size

    headers = tuple(
        (
            content(parsed.record_header_key_size).decode(),
            None if parsed.record_header_size == _NULL_SIZE else content(parsed.record_header_size),
        )
        for _ in range(parsed.num_headers)
    )
    key = content(parsed.record_key_size) if parsed.record_key_size else None
    return ProducerRecord(content(parsed.record_size), key, headers)


async def _received(consumer: PartitionConsumer) -> Sequence[ConsumerRecord]:
    """Return the records of the next answer with some; raises KafkaToolError without one."""
    for _ in range(_POLL_TIMEOUT_MS // _MAX_WAIT_MS):
        if records := await consumer.poll(_MAX_WAIT_MS):
            return records
    raise KafkaToolError(
        f"poll() timed out before finding a result (timeout:[{_POLL_TIMEOUT_MS}ms])"
    )


def _check(records: Sequence[ConsumerRecord], sent: ProducerRecord) -> None:
    """Raise KafkaToolError unless the sent record is the only received one."""
    read = records[0]
    for part in ("value", "key", "headers"):
        if getattr(read, part) != getattr(sent, part):
            raise KafkaToolError(
                f"The message {part} read [{getattr(read, part)!r}] did not match the message "
                f"{part} sent [{getattr(sent, part)!r}]"
            )
    if len(records) != 1:
        raise KafkaToolError(
            f"Only one result was expected during this test. We found [{len(records)}]"
        )
