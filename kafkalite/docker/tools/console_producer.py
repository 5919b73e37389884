"""`kafka-console-producer`: send the lines of the standard input as records."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Final, Literal

from kafkalite.cli.standard_input import input_lines
from kafkalite.client.client import KafkaClient
from kafkalite.client.errors import BrokerError
from kafkalite.client.producer import Producer
from kafkalite.client.record_sender import RecordRefusedError, RecordSender
from kafkalite.client.topics import created_partition_count
from kafkalite.docker.tools.arguments import (
    ToolError,
    ToolParser,
    access_in,
    add_bootstrap_options,
    addresses_of,
    client_properties,
    file_text,
    is_idempotent,
    key_values,
    parsed_properties,
)
from kafkalite.docker.tools.line_reader import PROPERTIES, LineReader
from kafkalite.docker.tools.running import run_tool, write_log
from kafkalite.storage.compression import CODEC_NUMBERS

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator, Mapping, Sequence

    from kafkalite.client.record_sender import NumberedRecord

_ACKS: Final[Mapping[str, Literal["all", 1, 0]]] = {"all": "all", "-1": "all", "1": 1, "0": 0}
_READER: Final = "LineMessageReader"
_DEFAULT_COMPRESSION: Final = "gzip"
"""The codec of `--compression-codec` without a value."""
_WITHOUT_EFFECT: Final = (
    *("batch-size", "message-send-max-retries", "retry-backoff-ms", "timeout"),
    *("request-timeout-ms", "metadata-expiry-ms", "max-block-ms", "max-memory-bytes"),
    *("max-partition-memory-bytes", "socket-buffer-size"),
)
"""Options for buffers and times of Java's producer."""


def main(name: str, arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run the tool; return its exit status."""

    def command() -> int:
        parsed = _parse(name, arguments)
        reader = LineReader(_reader_properties(parsed, environment))
        asyncio.run(_send(parsed, environment, reader))
        return 0

    return run_tool(name, command)


def _parse(name: str, arguments: Sequence[str]) -> Namespace:
    parser = ToolParser(name, "Send the lines of the standard input as records.")
    add_bootstrap_options(parser, "--broker-list", config="--producer.config")
    parser.add_values("topic", "reader-config")
    parser.add_values("line-reader", default=_READER)
    parser.add_argument(
        *("--property", "--reader-property"), action="append", metavar="NAME=VALUE", default=[]
    )
    parser.add_argument(
        *("--producer-property", "--command-property"),
        action="append",
        metavar="NAME=VALUE",
        default=[],
    )
    parser.add_argument("--request-required-acks", choices=tuple(_ACKS))
    parser.add_argument("--compression-codec", nargs="?", const=_DEFAULT_COMPRESSION)
    parser.add_switches("sync")
    parser.add_values(*_WITHOUT_EFFECT, type=int)
    parsed = parser.parse(arguments)
    if not parsed.topic:
        parser.error('Missing required argument "[topic]"')
    if parsed.line_reader.rpartition(".")[2] != _READER:
        parser.error(f"--line-reader: only {_READER} is supported here, not {parsed.line_reader}")
    return parsed


def _reader_properties(parsed: Namespace, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the properties of the reader, those of its file first; raises ToolError."""
    values: dict[str, str] = {}
    if parsed.reader_config is not None:
        path = parsed.reader_config
        values |= parsed_properties(file_text(path, environment), path)
    values |= dict(key_values(parsed.property, "--property", strips=False))
    if unknown := values.keys() - {*PROPERTIES, "topic"}:
        raise ToolError(
            f"--property {', '.join(sorted(unknown))} is not supported here; supported are "
            f"{', '.join(PROPERTIES)}"
        )
    return values


async def _send(parsed: Namespace, environment: Mapping[str, str], reader: LineReader) -> None:
    """Send the lines as they arrive; raises ToolError."""
    addresses = addresses_of(parsed.bootstrap_server)
    properties = client_properties(parsed.client_config, environment, parsed.producer_property)
    access = access_in(properties, parsed.client_config)
    acks = parsed.request_required_acks or properties.get("acks", "all")
    compression = parsed.compression_codec or properties.get("compression.type", "none")
    for name, value, valid in (("acks", acks, _ACKS), ("compression", compression, CODEC_NUMBERS)):
        if value not in valid:
            raise ToolError(f"{name} is one of {', '.join(valid)}, not {value}")
    async with KafkaClient(addresses, access) as client:
        try:
            count = await created_partition_count(client, parsed.topic)
        except BrokerError as error:
            _report(parsed.topic, error.reason)
            return
    async with Producer(
        ",".join(map(str, addresses)),
        acks=_ACKS[acks],
        compression=compression,
        is_idempotent=is_idempotent(properties, acks),
        access=access,
    ) as producer:
        sender = RecordSender(
            producer, parsed.topic, count, on_refusal=partial(_report, parsed.topic)
        )
        position = 0
        async for lines in input_lines():
            records, invalid = _valid_records(reader.records(lines, position))
            try:
                await sender.send(records)
            except RecordRefusedError as error:
                _report(parsed.topic, str(error))
            if invalid is not None:
                raise invalid
            position += len(lines)


def _valid_records(
    records: Iterator[NumberedRecord],
) -> tuple[list[NumberedRecord], ToolError | None]:
    """Return the records before an invalid line, and the error of that line."""
    valid: list[NumberedRecord] = []
    try:
        for each in records:
            valid.append(each)  # noqa: PERF402 - the records before an error are used
    except ToolError as error:
        return valid, error
    return valid, None


def _report(topic: str, reason: str) -> None:
    """Report a record that the broker refuses; as Java's producer, the tool continues."""
    write_log("ERROR", f"Error when sending message to topic {topic} with error: {reason}")
