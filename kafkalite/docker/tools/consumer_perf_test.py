"""`kafka-consumer-perf-test`: read many records, and measure the throughput."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Final

from kafkalite.client.client import KafkaClient
from kafkalite.client.offsets import OffsetTarget
from kafkalite.client.topic_reader import TopicReader
from kafkalite.client.topics import created_partition_count, list_topics
from kafkalite.docker.tools.arguments import (
    ToolParser,
    access_in,
    addresses_of,
    client_properties,
)
from kafkalite.docker.tools.consumer_figures import (
    Interval,
    ReadFigures,
    add_measuring_options,
    check_measuring_options,
    warn_of_missing_records,
)
from kafkalite.docker.tools.pacing import Pace, date_text
from kafkalite.docker.tools.running import run_tool, write_line
from kafkalite.ports.entropy import SystemEntropy

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping, Sequence

_COLUMNS: Final = (
    "data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, rebalance.time.ms, "
    "fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec"
)
_POLL_MS: Final = 100
_MAX_GROUP_NUMBER: Final = 100_000


def main(name: str, arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run the tool; return its exit status."""

    def command() -> int:
        parsed = _parse(name, arguments)
        asyncio.run(_measure(parsed, environment))
        return 0

    return run_tool(name, command)


def _parse(name: str, arguments: Sequence[str]) -> Namespace:
    parser = ToolParser(name, "Read many records, and measure the throughput.")
    add_measuring_options(parser)
    parser.add_values("include", metavar="REGEX")
    parser.add_switches("from-latest")
    parsed = parser.parse(arguments)
    parser.single(parsed, ("include", "topic"), "Exactly one of --include/--topic is required.")
    check_measuring_options(parser, parsed)
    if parsed.include is not None:
        try:
            parsed.include = re.compile(parsed.include)
        except re.error as error:
            parser.error(f"--include {parsed.include!r} is not a regular expression: {error}")
    return parsed


async def _measure(parsed: Namespace, environment: Mapping[str, str]) -> None:
    given = client_properties(parsed.command_config, environment, parsed.command_property)
    access = access_in({"client.id": "perf-consumer-client", **given}, parsed.command_config)
    number = int.from_bytes(SystemEntropy().uuid()[:4]) % _MAX_GROUP_NUMBER
    if not parsed.hide_header:
        first = "time, threadId" if parsed.show_detailed_stats else "start.time, end.time"
        write_line(f"{first}, {_COLUMNS}")
    pace = Pace(0)
    async with (
        KafkaClient(addresses_of(parsed.bootstrap_server), access) as client,
        TopicReader.open(
            client,
            await _topics(client, parsed),
            group_id=parsed.group or given.get("group.id") or f"perf-consumer-{number}",
            start=OffsetTarget.parse("latest" if parsed.from_latest else "earliest"),
            isolation="read_uncommitted",
            follows=True,
            access=access,
        ) as reader,
    ):
        await reader.join()
        join_ms = pace.now_ms() - pace.start_ms
        figures = await _read(reader, parsed, pace, join_ms)
    warn_of_missing_records(parsed, figures.records)
    if not parsed.show_detailed_stats:
        total = figures.total()
        write_line(
            f"{date_text(total.start_ms, parsed.date_format)}, "
            f"{date_text(total.end_ms, parsed.date_format)}, "
            f"{_columns(total, total, join_ms)}"
        )


async def _topics(client: KafkaClient, parsed: Namespace) -> list[str]:
    """Return the topics that are read; a single one may be created by the broker."""
    if parsed.include is None:
        await created_partition_count(client, parsed.topic)
        return [parsed.topic]
    return [each.name for each in await list_topics(client) if parsed.include.fullmatch(each.name)]


async def _read(reader: TopicReader, parsed: Namespace, pace: Pace, join_ms: int) -> ReadFigures:
    """Read until there are enough records, or none arrives in time."""
    figures = ReadFigures(pace, parsed.reporting_interval)
    latest_ms = pace.now_ms()
    while figures.records < parsed.num_records and pace.now_ms() - latest_ms <= parsed.timeout:
        records = await reader.poll(_POLL_MS) or []
        reader.set_read(records)
        for each in records:
            latest_ms = pace.now_ms()
            interval = figures.add(each)
            if interval is not None and parsed.show_detailed_stats:
                time = date_text(interval.end_ms, parsed.date_format)
                write_line(f"{time}, 0, {_columns(figures.total(), interval, join_ms)}")
                join_ms = 0
    return figures


def _columns(total: Interval, interval: Interval, join_ms: int) -> str:
    """Return the figures of all records, and the rates of an interval in which a join happened."""
    fetch = interval._replace(start_ms=interval.start_ms + join_ms)
    megabytes = interval.megabytes
    return (
        f"{total.megabytes:.4f}, {interval.per_second(megabytes):.4f}, {total.records}, "
        f"{interval.per_second(interval.records):.4f}, {join_ms}, {fetch.elapsed_ms}, "
        f"{fetch.per_second(megabytes):.4f}, {fetch.per_second(interval.records):.4f}"
    )
