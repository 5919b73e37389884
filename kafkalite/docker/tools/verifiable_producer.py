"""`kafka-verifiable-producer`: send numbers, and print the position of each as JSON."""

from __future__ import annotations

import asyncio
from itertools import count
from typing import TYPE_CHECKING, Final, Literal

from kafkalite.client.client import KafkaClient
from kafkalite.client.errors import BrokerError
from kafkalite.client.producer import Producer
from kafkalite.client.record_sender import NumberedRecord, RecordSender
from kafkalite.client.records import ProducerRecord
from kafkalite.client.topics import created_partition_count
from kafkalite.docker.tools.arguments import (
    ToolParser,
    access_in,
    add_bootstrap_options,
    addresses_of,
    client_properties,
    is_idempotent,
)
from kafkalite.docker.tools.events import write_event
from kafkalite.docker.tools.exceptions import exception_name
from kafkalite.docker.tools.pacing import Pace
from kafkalite.docker.tools.running import run_tool
from kafkalite.docker.tools.termination import ends_by_sigterm

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping, Sequence

_ACKS: Final[Mapping[str, Literal["all", 1, 0]]] = {"-1": "all", "1": 1, "0": 0}


def main(name: str, arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run the tool; return its exit status."""

    def command() -> int:
        parsed = _parse(name, arguments)
        asyncio.run(_run(parsed, environment))
        return 0

    return run_tool(name, command)


def _parse(name: str, arguments: Sequence[str]) -> Namespace:
    parser = ToolParser(name, "Send numbers, and print the position of each.")
    # Kafka 3 has the second name.
    add_bootstrap_options(parser, "--broker-list", config="--producer.config")
    parser.add_values("topic", required=True)
    parser.add_values("max-messages", "throughput", type=int, default=-1)
    parser.add_values("acks", default="-1", choices=tuple(_ACKS))
    parser.add_values("message-create-time", "value-prefix", "repeating-keys", type=int)
    return parser.parse(arguments)


async def _run(parsed: Namespace, environment: Mapping[str, str]) -> None:
    properties = client_properties(parsed.client_config, environment)
    access = access_in(properties, parsed.client_config)
    addresses = addresses_of(parsed.bootstrap_server)
    pace = Pace(parsed.throughput)
    write_event("startup_complete", pace)
    async with KafkaClient(addresses, access) as client:
        partitions = await created_partition_count(client, parsed.topic)
    results = _Results(pace)
    servers = ",".join(map(str, addresses))
    async with Producer(
        servers,
        acks=_ACKS[parsed.acks],
        is_idempotent=is_idempotent(properties, parsed.acks),
        access=access,
    ) as producer:
        sender = RecordSender(producer, parsed.topic, partitions)
        await ends_by_sigterm(_send(parsed, sender, results))
    write_event("shutdown_complete", pace)
    write_event(
        "tool_data",
        pace,
        sent=results.sent,
        acked=results.acknowledged,
        target_throughput=parsed.throughput,
        avg_throughput=results.acknowledged / pace.elapsed_s,
    )


class _Results:
    """The numbers of records that were sent and acknowledged."""

    def __init__(self, pace: Pace) -> None:
        self.pace = pace
        self.sent = self.acknowledged = 0


async def _send(parsed: Namespace, sender: RecordSender, results: _Results) -> None:
    for number in count() if parsed.max_messages < 0 else range(parsed.max_messages):
        await results.pace.wait(number)
        prefix = "" if parsed.value_prefix is None else f"{parsed.value_prefix}."
        value = f"{prefix}{number}"
        key = None if parsed.repeating_keys is None else str(number % parsed.repeating_keys)
        record = ProducerRecord(
            value.encode(),
            None if key is None else key.encode(),
            timestamp_ms=parsed.message_create_time,
        )
        fields = {"key": key, "value": value}
        results.sent += 1
        try:
            (sent,) = await sender.send([NumberedRecord(number, record)])
        except BrokerError as error:
            write_event(
                "producer_send_error",
                results.pace,
                exception=f"class {exception_name(error.code)}",
                message=error.reason,
                topic=parsed.topic,
                **fields,
            )
            continue
        results.acknowledged += 1
        write_event(
            "producer_send_success",
            results.pace,
            **fields,
            offset=sent.offset,
            partition=sent.partition,
            topic=parsed.topic,
        )
