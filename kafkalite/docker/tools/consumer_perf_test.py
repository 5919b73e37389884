"""`kafka-consumer-perf-test`: read many records, and measure the throughput."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from kafkalite.client.client import KafkaClient
from kafkalite.client.offsets import OffsetTarget
from kafkalite.client.topic_reader import TopicReader
from kafkalite.client.topics import created_partition_count
from kafkalite.docker.tools.arguments import (
    ToolParser,
    access_in,
    add_bootstrap_options,
    addresses_of,
    client_properties,
)
from kafkalite.docker.tools.pacing import BYTES_PER_MB, Pace
from kafkalite.docker.tools.running import run_tool, write_line
from kafkalite.ports.entropy import SystemEntropy

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping, Sequence

_HEADER: Final = (
    "start.time, end.time, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, "
    "rebalance.time.ms, fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec"
)
_POLL_MS: Final = 100
_MAX_GROUP_NUMBER: Final = 100_000
_WITHOUT_EFFECT: Final = ("fetch-size", "reporting-interval", "socket-buffer-size", "threads")


def main(name: str, arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run the tool; return its exit status."""

    def command() -> int:
        parsed = _parse(name, arguments)
        asyncio.run(_measure(parsed, environment))
        return 0

    return run_tool(name, command)


def _parse(name: str, arguments: Sequence[str]) -> Namespace:
    parser = ToolParser(name, "Read many records, and measure the throughput.")
    add_bootstrap_options(parser, "--broker-list", config="--consumer.config")
    parser.add_values("topic", "group", "date-format")
    parser.add_argument("--num-records", "--messages", type=int)
    parser.add_values("timeout", type=int, default=10_000)
    parser.add_values(*_WITHOUT_EFFECT, type=int)
    parser.add_values("command-property", many=True, metavar="NAME=VALUE")
    parser.add_switches("from-latest", "show-detailed-stats", "hide-header", "print-metrics")
    parsed = parser.parse(arguments)
    if parsed.topic is None:
        parser.error("Exactly one of --include/--topic is required.")
    if parsed.num_records is None:
        parser.error('Missing required argument "[num-records]"')
    return parsed


async def _measure(parsed: Namespace, environment: Mapping[str, str]) -> None:
    given = client_properties(parsed.client_config, environment, parsed.command_property)
    access = access_in({"client.id": "perf-consumer-client", **given}, parsed.client_config)
    number = int.from_bytes(SystemEntropy().uuid()[:4]) % _MAX_GROUP_NUMBER
    if not parsed.hide_header:
        write_line(_HEADER)
    pace = Pace(0)
    async with KafkaClient(addresses_of(parsed.bootstrap_server), access) as client:
        await created_partition_count(client, parsed.topic)
        async with TopicReader.open(
            client,
            [parsed.topic],
            group_id=parsed.group or given.get("group.id") or f"perf-consumer-{number}",
            start=OffsetTarget.parse("latest" if parsed.from_latest else "earliest"),
            isolation="read_uncommitted",
            follows=True,
            access=access,
        ) as reader:
            await reader.join()
            joined_ms = pace.now_ms()
            count, size = await _read(reader, parsed, pace)
    _report(pace, joined_ms, count, size)
    if count < parsed.num_records:
        write_line(
            "WARNING: Exiting before consuming the expected number of records: timeout "
            f"({parsed.timeout} ms) exceeded. You can use the --timeout option to increase the "
            "timeout."
        )


async def _read(reader: TopicReader, parsed: Namespace, pace: Pace) -> tuple[int, int]:
    """Return the number of records, and the bytes of their keys and values."""
    count = size = 0
    latest_ms = pace.now_ms()
    while count < parsed.num_records and pace.now_ms() - latest_ms <= parsed.timeout:
        records = await reader.poll(_POLL_MS) or []
        reader.set_read(records)
        if records:
            latest_ms = pace.now_ms()
        count += len(records)
        size += sum(len(each.key or b"") + len(each.value or b"") for each in records)
    return count, size


def _report(pace: Pace, joined_ms: int, count: int, size: int) -> None:
    end_ms = pace.now_ms()
    elapsed_s = max(1, end_ms - pace.start_ms) / 1_000
    fetch_ms = max(1, end_ms - joined_ms)
    megabytes = size / BYTES_PER_MB
    write_line(
        f"{_time(pace.start_ms)}, {_time(end_ms)}, {megabytes:.4f}, {megabytes / elapsed_s:.4f}, "
        f"{count}, {count / elapsed_s:.4f}, {joined_ms - pace.start_ms}, {fetch_ms}, "
        f"{megabytes * 1_000 / fetch_ms:.4f}, {count * 1_000 / fetch_ms:.4f}"
    )


def _time(time_ms: int) -> str:
    moment = datetime.fromtimestamp(time_ms / 1_000, tz=UTC)
    return moment.strftime("%Y-%m-%d %H:%M:%S:%f")[:-3]
