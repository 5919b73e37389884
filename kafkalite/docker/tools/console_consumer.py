"""`kafka-console-consumer`: print the records of a topic."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Final

from kafkalite.client.client import KafkaClient
from kafkalite.client.consumer import PartitionConsumer
from kafkalite.client.epochs import TopicPartition
from kafkalite.client.topics import created_partition_count
from kafkalite.docker.tools.arguments import (
    ToolError,
    ToolParser,
    access_from,
    add_bootstrap_options,
    addresses_of,
    key_values,
)
from kafkalite.docker.tools.running import run_tool

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping, Sequence

    from kafkalite.client.records import ConsumerRecord

_PROPERTIES: Final = ("key.separator", "line.separator", "print.key", "print.value")
_POLL_MS: Final = 500
_NOTHING: Final = b"null"


def main(name: str, arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run the tool; return its exit status."""

    def command() -> int:
        parsed = _parse(name, arguments)
        output = _Output(dict(key_values(parsed.property, "--property")))
        try:
            asyncio.run(_consume(parsed, environment, output))
        finally:
            _report(output.count)
        return 0

    return run_tool(name, command)


def _report(count: int) -> None:
    text = f"Processed a total of {count} messages"
    print(text, file=sys.stderr)  # noqa: T201 - the output of a program


def _parse(name: str, arguments: Sequence[str]) -> Namespace:
    parser = ToolParser(name, "Print the records of a topic.")
    add_bootstrap_options(parser, config="--consumer.config")
    parser.add_argument("--command-config", dest="client_config", metavar="FILE")
    parser.add_argument("--topic")
    parser.add_argument("--from-beginning", action="store_true")
    parser.add_argument("--partition", type=int)
    parser.add_argument("--offset", default="latest")
    parser.add_argument("--max-messages", type=int)
    parser.add_argument("--timeout-ms", type=int)
    parser.add_argument("--property", "--formatter-property", action="append", metavar="NAME=VALUE")
    parsed = parser.parse(arguments)
    if not parsed.topic:
        parser.error("--topic is missing")
    if parsed.offset not in ("earliest", "latest"):
        if not parsed.offset.isascii() or not parsed.offset.isdigit():
            parser.error(f"--offset is earliest, latest or a number, not {parsed.offset!r}")
        if parsed.partition is None:
            parser.error("--offset needs --partition")
    return parsed


class _Output:
    """Writes records to the standard output, in the form that properties select."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        if unknown := properties.keys() - set(_PROPERTIES):
            raise ToolError(
                f"--property {', '.join(sorted(unknown))} is not supported here; supported are "
                f"{', '.join(_PROPERTIES)}"
            )
        self._prints_key = properties.get("print.key", "false").lower() == "true"
        self._prints_value = properties.get("print.value", "true").lower() == "true"
        self._key_separator = (properties.get("key.separator") or "\t").encode()
        self._line_separator = (properties.get("line.separator") or "\n").encode()
        self.count = 0
        """The number of records that were written."""

    def write(self, record: ConsumerRecord) -> None:
        """Write a record."""
        parts = [record.key] if self._prints_key else []
        parts += [record.value] if self._prints_value else []
        line = self._key_separator.join(_NOTHING if part is None else part for part in parts)
        sys.stdout.buffer.write(line + self._line_separator)
        sys.stdout.buffer.flush()
        self.count += 1


async def _consume(parsed: Namespace, environment: Mapping[str, str], output: _Output) -> None:
    """Write records until the requested number is reached, or none arrives in time."""
    addresses = addresses_of(parsed.bootstrap_server)
    access = access_from(parsed.client_config, environment)
    async with KafkaClient(addresses, access) as client:
        count = await created_partition_count(client, parsed.topic)
    indexes = range(count) if parsed.partition is None else (parsed.partition,)
    partitions = [TopicPartition(parsed.topic, index) for index in indexes]
    is_from_start = parsed.from_beginning or parsed.offset == "earliest"
    async with PartitionConsumer(
        ",".join(map(str, addresses)),
        auto_offset_reset="earliest" if is_from_start else "latest",
        access=access,
    ) as consumer:
        consumer.assign(partitions)
        if parsed.offset.isdigit():
            consumer.seek(partitions[0], int(parsed.offset))
        while parsed.max_messages is None or output.count < parsed.max_messages:
            records = await consumer.poll(parsed.timeout_ms or _POLL_MS)
            if not records and parsed.timeout_ms is not None:
                return
            for record in records[: _remaining(parsed.max_messages, output.count)]:
                output.write(record)


def _remaining(limit: int | None, count: int) -> int | None:
    return None if limit is None else limit - count
