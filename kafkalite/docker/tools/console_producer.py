"""`kafka-console-producer`: send the lines of the standard input as records."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Literal

from kafkalite.cli.standard_input import input_lines
from kafkalite.client.client import KafkaClient
from kafkalite.client.producer import Producer
from kafkalite.client.record_sender import NumberedRecord, RecordSender
from kafkalite.client.records import ProducerRecord
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
    from collections.abc import Iterable, Iterator, Mapping, Sequence

_PROPERTIES: Final = ("parse.key", "key.separator")
_ACKS: Final[Mapping[str, Literal["all", 1, 0]]] = {"all": "all", "-1": "all", "1": 1, "0": 0}


def main(name: str, arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run the tool; return its exit status."""

    def command() -> int:
        parsed = _parse(name, arguments)
        separator = _key_separator(parsed)
        asyncio.run(_send(parsed, environment, separator))
        return 0

    return run_tool(name, command)


def _parse(name: str, arguments: Sequence[str]) -> Namespace:
    parser = ToolParser(name, "Send the lines of the standard input as records.")
    add_bootstrap_options(parser, "--broker-list", config="--producer.config")
    parser.add_argument("--command-config", dest="client_config", metavar="FILE")
    parser.add_argument("--topic")
    parser.add_argument("--property", "--reader-property", action="append", metavar="NAME=VALUE")
    parser.add_argument("--request-required-acks", default="all", choices=tuple(_ACKS))
    parser.add_argument("--sync", action="store_true")
    parsed = parser.parse(arguments)
    if not parsed.topic:
        parser.error("--topic is missing")
    return parsed


def _key_separator(parsed: Namespace) -> bytes | None:
    """Return the bytes between a key and its value; None if lines have no keys."""
    values = dict(key_values(parsed.property, "--property"))
    if unknown := values.keys() - set(_PROPERTIES):
        raise ToolError(
            f"--property {', '.join(sorted(unknown))} is not supported here; supported are "
            f"{', '.join(_PROPERTIES)}"
        )
    if values.get("parse.key", "false").lower() != "true":
        return None
    return (values.get("key.separator") or "\t").encode()


def _records(
    lines: Iterable[bytes], separator: bytes | None, position: int
) -> Iterator[NumberedRecord]:
    """Yield a record for each line; raises ToolError for a line without a key.

    `position` is the number of lines before these.
    """
    for number, line in enumerate(lines, position + 1):
        key: bytes | None = None
        value = line
        if separator is not None:
            key, found, value = line.partition(separator)
            if not found:
                raise ToolError(f"No key separator found on line number {number}")
        yield NumberedRecord(number, ProducerRecord(value, key))


async def _send(parsed: Namespace, environment: Mapping[str, str], separator: bytes | None) -> None:
    """Send the lines as they arrive; raises ToolError."""
    addresses = addresses_of(parsed.bootstrap_server)
    access = access_from(parsed.client_config, environment)
    async with KafkaClient(addresses, access) as client:
        count = await created_partition_count(client, parsed.topic)
    async with Producer(
        ",".join(map(str, addresses)), acks=_ACKS[parsed.request_required_acks], access=access
    ) as producer:
        sender = RecordSender(producer, parsed.topic, count)
        position = 0
        async for lines in input_lines():
            await sender.send(list(_records(lines, separator, position)))
            position += len(lines)
