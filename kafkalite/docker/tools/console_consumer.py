"""`kafka-console-consumer`: print the records of topics."""

from __future__ import annotations

import asyncio
import re
import sys
from typing import TYPE_CHECKING, Final, cast

from kafkalite.client.client import KafkaClient
from kafkalite.client.consumer import ISOLATION_LEVELS
from kafkalite.client.epochs import TopicPartition
from kafkalite.client.offsets import OffsetTarget
from kafkalite.client.retries import wait_until
from kafkalite.client.topic_reader import TopicReader
from kafkalite.client.topics import created_partition_count, list_topics
from kafkalite.docker.tools.arguments import (
    ToolError,
    ToolParser,
    access_in,
    add_bootstrap_options,
    addresses_of,
    client_properties,
    file_text,
    key_values,
    parsed_properties,
)
from kafkalite.docker.tools.formatters import formatter_of
from kafkalite.docker.tools.running import run_tool, write_error, write_line, write_log
from kafkalite.docker.tools.termination import ends_by_sigterm
from kafkalite.ports.clock import AdjustableClock
from kafkalite.ports.entropy import SystemEntropy
from kafkalite.ports.named_tuples import NamedTuple

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping, Sequence

    from kafkalite.client.consumer import Isolation
    from kafkalite.client.consumer_group_member import ConsumerGroupMember
    from kafkalite.client.group_member import GroupMember
    from kafkalite.client.records import ConsumerRecord
    from kafkalite.docker.tools.formatters import Formatter

_RESETS: Final = ("earliest", "latest")
_PROTOCOLS: Final = ("classic", "consumer")
_POLL_MS: Final = 500
_MAX_GROUP_NUMBER: Final = 100_000
_NEW_PROTOCOL: Final = (
    "The consumer rebalance protocol (KIP-848) is production-ready! Set group.protocol=consumer to "
    "try it out. See https://kafka.apache.org/documentation/#consumer_rebalance_protocol"
)


def main(name: str, arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run the tool; return its exit status."""
    return run_tool(name, lambda: _run(name, arguments, environment))


def _run(name: str, arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    parsed = _parse(name, arguments)
    settings = _Settings.of(parsed, environment)
    printed = Printed(formatter_of(parsed.formatter, formatter_properties(parsed, environment)))
    if parsed.partition is None and (settings.protocol or "").lower() != "consumer":
        write_error(_NEW_PROTOCOL)
    try:
        asyncio.run(ends_by_sigterm(_consume(parsed, settings, printed)))
    finally:
        if parsed.enable_systest_events:
            write_line("shutdown_complete")
        printed.report()
    return 0


def _parse(name: str, arguments: Sequence[str]) -> Namespace:
    parser = ToolParser(name, "Print the records of topics.")
    add_bootstrap_options(parser, config="--consumer.config")
    parser.add_argument("--include", "--whitelist", metavar="EXPRESSION")
    add_printing_options(parser)
    parser.add_values("offset", "isolation-level")
    parser.add_values("partition", type=int)
    parser.add_switches("from-beginning", "skip-message-on-error")
    parsed = parser.parse(arguments)
    if (parsed.topic is None) is (parsed.include is None):
        parser.error("Exactly one of --include/--topic is required. ")
    if parsed.partition is not None and parsed.topic is None:
        parser.error("The topic is required when partition is specified.")
    if parsed.offset is not None and parsed.partition is None:
        parser.error("The partition is required when offset is specified.")
    if parsed.offset is not None and parsed.from_beginning:
        parser.error("Options from-beginning and offset cannot be specified together.")
    if parsed.group is not None and parsed.partition is not None:
        parser.error("Options group and partition cannot be specified together.")
    if parsed.offset not in (None, *_RESETS) and not (
        parsed.offset.isascii() and parsed.offset.isdigit()
    ):
        parser.error(
            f"The provided offset value '{parsed.offset}' is incorrect. Valid values are "
            "'earliest', 'latest', or a non-negative long."
        )
    return parsed


def add_printing_options(parser: ToolParser) -> None:
    """Add the options that all console consumers have."""
    parser.add_values("topic", "group", "formatter")
    parser.add_values("formatter-config", "key-deserializer", "value-deserializer")
    parser.add_values("max-messages", "timeout-ms", type=int)
    parser.add_switches("enable-systest-events")
    for names in (
        ("--property", "--formatter-property"),
        ("--consumer-property", "--command-property"),
    ):
        parser.add_argument(*names, action="append", default=[], metavar="NAME=VALUE")


def formatter_properties(parsed: Namespace, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the properties of the formatter, those of its file first; raises ToolError."""
    values: dict[str, str] = {}
    if parsed.formatter_config is not None:
        path = parsed.formatter_config
        values |= parsed_properties(file_text(path, environment), path)
    for name in ("key-deserializer", "value-deserializer"):
        if text := getattr(parsed, name.replace("-", "_")):
            values[name.replace("-", ".")] = text
    return {**values, **dict(key_values(parsed.property, "--property", strips=False))}


class _Settings(NamedTuple):
    """The properties of the consumer that have an effect."""

    properties: Mapping[str, str]
    group_id: str | None
    start: str
    isolation: Isolation
    protocol: str | None

    @classmethod
    def of(cls, parsed: Namespace, environment: Mapping[str, str]) -> _Settings:
        """Return the settings of options and of properties; raises ToolError."""
        properties = {
            "client.id": "console-consumer",
            **client_properties(parsed.client_config, environment, parsed.consumer_property),
        }
        reset = properties.get("auto.offset.reset")
        protocol = properties.get("group.protocol")
        isolation = (
            parsed.isolation_level or properties.get("isolation.level") or "read_uncommitted"
        )
        for name, value, valid in (
            ("auto.offset.reset", reset, _RESETS),
            ("group.protocol", protocol and protocol.lower(), _PROTOCOLS),
            ("--isolation-level", isolation, tuple(ISOLATION_LEVELS)),
        ):
            if value not in (None, *valid):
                raise ToolError(f"{name} is one of {', '.join(valid)}, not {value!r}")
        start = parsed.offset or ("earliest" if parsed.from_beginning else reset or "latest")
        group_id = parsed.group or properties.get("group.id")
        return cls(properties, group_id, start, cast("Isolation", isolation), protocol)

    @property
    def member_class(self) -> type[GroupMember | ConsumerGroupMember]:
        """The class of members of the group."""
        if (self.protocol or "").lower() == "consumer":
            from kafkalite.client.consumer_group_member import (  # noqa: PLC0415 - rarely used
                ConsumerGroupMember,
            )

            return ConsumerGroupMember
        from kafkalite.client.group_member import GroupMember  # noqa: PLC0415 - as above

        return GroupMember


class Printed:
    """Prints records to the standard output, and counts them."""

    def __init__(self, formatter: Formatter) -> None:
        self._formatter = formatter
        self.count = 0
        """The number of records that were printed."""

    def write(self, record: ConsumerRecord, delivery_count: int | None = None) -> None:
        """Print a record."""
        self.count += 1
        sys.stdout.buffer.write(self._formatter(record, delivery_count))
        sys.stdout.buffer.flush()

    def report(self) -> None:
        """Print the number of records to the error output."""
        write_error(f"Processed a total of {self.count} messages")


async def _consume(parsed: Namespace, settings: _Settings, printed: Printed) -> None:
    """Write records until the requested number is reached, or none arrives in time."""
    access = access_in(settings.properties, parsed.client_config)
    async with KafkaClient(addresses_of(parsed.bootstrap_server), access) as client:
        topics, count = await _topics(client, parsed)
        if parsed.partition is not None and parsed.partition >= count:
            await _wait_in_vain(f"{parsed.topic}-{parsed.partition}", parsed.timeout_ms)
            return
        # Without a group, Kafka's tool joins one of its own.
        number = int.from_bytes(SystemEntropy().uuid()[:4]) % _MAX_GROUP_NUMBER
        own_group = None if parsed.partition is not None else f"console-consumer-{number}"
        async with TopicReader.open(
            client,
            topics,
            group_id=settings.group_id or own_group,
            start=OffsetTarget.parse(settings.start),
            isolation=settings.isolation,
            follows=True,
            access=access,
            commits=settings.group_id is not None and parsed.partition is None,
            member_class=settings.member_class,
        ) as reader:
            if "auto.commit.interval.ms" in settings.properties:
                reader.commit_interval_ms = int(settings.properties["auto.commit.interval.ms"])
            if parsed.partition is None:
                await reader.join()
            else:
                await reader.assign([TopicPartition(parsed.topic, parsed.partition)])
            await _write_records(reader, parsed, printed)


async def _topics(client: KafkaClient, parsed: Namespace) -> tuple[list[str], int]:
    """Return the topics that options select, and the number of partitions of the only one."""
    if parsed.include is None:
        return [parsed.topic], await created_partition_count(client, parsed.topic)
    try:
        expression = re.compile(parsed.include.replace(",", "|"))
    except re.error as error:
        raise ToolError(f"{parsed.include} is an invalid regex: {error}") from None
    names = [each.name for each in await list_topics(client) if expression.fullmatch(each.name)]
    return names, 0


async def _wait_in_vain(partition: str, timeout_ms: int | None) -> None:
    """Wait for records of a partition that does not exist, as Java's consumer does."""
    write_log("WARN", f"The partition {partition} does not exist")
    if timeout_ms is None:
        await asyncio.Event().wait()
    else:
        clock = AdjustableClock()
        await wait_until(clock, clock.now_ms() + timeout_ms)


async def _write_records(reader: TopicReader, parsed: Namespace, printed: Printed) -> None:
    loop = asyncio.get_running_loop()
    timeout_ms = parsed.timeout_ms
    latest_s = loop.time()
    while parsed.max_messages is None or printed.count < parsed.max_messages:
        poll_ms = _POLL_MS if timeout_ms is None else min(_POLL_MS, timeout_ms)
        records = await reader.poll(poll_ms) or []
        remaining = None if parsed.max_messages is None else parsed.max_messages - printed.count
        written = records[:remaining]
        for record in written:
            printed.write(record)
        # As Java's consumer that seeks back to a record that it has not printed.
        reader.set_read(written, with_epochs=len(written) == len(records))
        if written:
            latest_s = loop.time()
        elif timeout_ms is not None and (loop.time() - latest_s) * 1000 >= timeout_ms:
            return
