"""`kafka-console-consumer`: print the records of a topic."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Final, cast

from kafkalite.client.client import KafkaClient
from kafkalite.client.consumer import ISOLATION_LEVELS
from kafkalite.client.epochs import TopicPartition
from kafkalite.client.offsets import OffsetTarget
from kafkalite.client.topic_reader import TopicReader
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

    from kafkalite.client.consumer import Isolation
    from kafkalite.client.records import ConsumerRecord

_PRINTS: Final = (
    *("print.timestamp", "print.partition", "print.offset", "print.headers"),
    *("print.key", "print.value"),
)
"""Properties that print a part of a record, in the order of the parts."""
_SEPARATORS: Final = {"key.separator": "\t", "line.separator": "\n", "headers.separator": ","}
_NULL: Final = "null.literal"
_PROPERTIES: Final = (*_PRINTS, *_SEPARATORS, _NULL)
_CONSUMER_PROPERTIES: Final = ("group.id", "auto.offset.reset", "isolation.level")
"""Properties of a consumer that have an effect; others, such as client.id, are ignored."""
_RESETS: Final = ("earliest", "latest")
_NO_HEADERS: Final = b"NO_HEADERS"
_POLL_MS: Final = 500


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
    parser.add_argument("--group")
    parser.add_argument("--from-beginning", action="store_true")
    parser.add_argument("--partition", type=int)
    parser.add_argument("--offset")
    parser.add_argument("--max-messages", type=int)
    parser.add_argument("--timeout-ms", type=int)
    parser.add_argument("--isolation-level")
    parser.add_argument("--property", "--formatter-property", action="append", metavar="NAME=VALUE")
    parser.add_argument(
        "--consumer-property", "--command-property", action="append", metavar="NAME=VALUE"
    )
    parsed = parser.parse(arguments)
    if not parsed.topic:
        parser.error("--topic is missing")
    _apply_consumer_properties(parsed)
    if parsed.isolation_level not in ISOLATION_LEVELS:
        parser.error(f"--isolation-level is one of {', '.join(ISOLATION_LEVELS)}")
    if parsed.offset not in (None, *_RESETS):
        if not parsed.offset.isascii() or not parsed.offset.isdigit():
            parser.error(f"--offset is earliest, latest or a number, not {parsed.offset!r}")
        if parsed.partition is None:
            parser.error("--offset needs --partition")
    if parsed.group is not None and parsed.partition is not None:
        parser.error("--group and --partition cannot be combined")
    return parsed


def _apply_consumer_properties(parsed: Namespace) -> None:
    """Let the properties of the consumer be options, unless these are given; raises ToolError."""
    properties = dict(key_values(parsed.consumer_property, "--consumer-property"))
    group_id, reset, isolation = map(properties.get, _CONSUMER_PROPERTIES)
    parsed.group = parsed.group or group_id
    parsed.isolation_level = parsed.isolation_level or isolation or "read_uncommitted"
    if reset not in (None, *_RESETS):
        raise ToolError(f"auto.offset.reset is one of {', '.join(_RESETS)}, not {reset!r}")
    if parsed.offset is None:
        parsed.offset = "earliest" if parsed.from_beginning else reset or "latest"


class _Output:
    """Writes records to the standard output, in the form that properties select."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        if unknown := properties.keys() - set(_PROPERTIES):
            raise ToolError(
                f"--property {', '.join(sorted(unknown))} is not supported here; supported are "
                f"{', '.join(_PROPERTIES)}"
            )
        defaults = {"print.value": "true"}
        self._prints = {
            name
            for name in _PRINTS
            if properties.get(name, defaults.get(name, "false")).lower() == "true"
        }
        self._key_separator, self._line_separator, self._headers_separator = (
            (properties.get(name) or default).encode() for name, default in _SEPARATORS.items()
        )
        self._null = properties.get(_NULL, "null").encode()
        self.count = 0
        """The number of records that were written."""

    def write(self, record: ConsumerRecord) -> None:
        """Write a record."""
        parts = {
            "print.timestamp": f"CreateTime:{record.timestamp_ms}".encode(),
            "print.partition": f"Partition:{record.partition.partition}".encode(),
            "print.offset": f"Offset:{record.offset}".encode(),
            "print.headers": self._headers(record),
            "print.key": self._content(record.key),
            "print.value": self._content(record.value),
        }
        line = self._key_separator.join(parts[name] for name in _PRINTS if name in self._prints)
        sys.stdout.buffer.write(line + self._line_separator)
        sys.stdout.buffer.flush()
        self.count += 1

    def _headers(self, record: ConsumerRecord) -> bytes:
        headers = [key.encode() + b":" + self._content(value) for key, value in record.headers]
        return self._headers_separator.join(headers) or _NO_HEADERS

    def _content(self, content: bytes | None) -> bytes:
        return self._null if content is None else content


async def _consume(parsed: Namespace, environment: Mapping[str, str], output: _Output) -> None:
    """Write records until the requested number is reached, or none arrives in time."""
    access = access_from(parsed.client_config, environment)
    async with KafkaClient(addresses_of(parsed.bootstrap_server), access) as client:
        count = await created_partition_count(client, parsed.topic)
        async with TopicReader.open(
            client,
            parsed.topic,
            group_id=parsed.group,
            start=OffsetTarget.parse(parsed.offset),
            isolation=cast("Isolation", parsed.isolation_level),
            follows=True,
            access=access,
        ) as reader:
            if parsed.group is not None:
                await reader.join()
            else:
                indexes = range(count) if parsed.partition is None else (parsed.partition,)
                await reader.assign([TopicPartition(parsed.topic, index) for index in indexes])
            await _write_records(reader, parsed, output)


async def _write_records(reader: TopicReader, parsed: Namespace, output: _Output) -> None:
    loop = asyncio.get_running_loop()
    timeout_ms = parsed.timeout_ms
    latest_s = loop.time()
    while parsed.max_messages is None or output.count < parsed.max_messages:
        poll_ms = _POLL_MS if timeout_ms is None else min(_POLL_MS, timeout_ms)
        records = await reader.poll(poll_ms) or []
        remaining = None if parsed.max_messages is None else parsed.max_messages - output.count
        written = records[:remaining]
        for record in written:
            output.write(record)
        reader.set_read(written)
        if written:
            latest_s = loop.time()
        elif timeout_ms is not None and (loop.time() - latest_s) * 1000 >= timeout_ms:
            return
