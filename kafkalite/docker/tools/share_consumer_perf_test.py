"""`kafka-share-consumer-perf-test`: read many records in a share group, and measure."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from kafkalite.client.client import KafkaClient
from kafkalite.client.share_reader import ACCEPT, ShareReader
from kafkalite.client.topics import created_partition_count
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
from kafkalite.ports.clock import AdjustableClock

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping, Sequence

    from kafkalite.client.access import Access

_HEADER: Final = (
    "start.time, end.time, data.consumed.in.MB, MB.sec, nMsg.sec, data.consumed.in.nMsg, "
    "fetch.time.ms"
)
_POLL_MS: Final = 100
_GROUP: Final = "perf-share-consumer"
"""The default of the group."""


def main(name: str, arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run the tool; return its exit status."""

    def command() -> int:
        parsed = _parse(name, arguments)
        asyncio.run(_measure(parsed, environment))
        return 0

    return run_tool(name, command)


def _parse(name: str, arguments: Sequence[str]) -> Namespace:
    parser = ToolParser(name, "Read many records in a share group, and measure the throughput.")
    add_measuring_options(parser)
    parser.add_switches("show-consumer-stats")
    parsed = parser.parse(arguments)
    if parsed.topic is None:
        parser.error('Missing required argument "[topic]"')
    check_measuring_options(parser, parsed)
    return parsed


async def _measure(parsed: Namespace, environment: Mapping[str, str]) -> None:
    given = client_properties(parsed.command_config, environment, parsed.command_property)
    access = access_in({"client.id": "perf-share-consumer-client", **given}, parsed.command_config)
    if not parsed.hide_header:
        write_line(_HEADER)
    pace = Pace(0)
    figures = [ReadFigures(pace, parsed.reporting_interval) for _ in range(parsed.threads)]
    await asyncio.gather(
        *(_read(parsed, access, pace, figures, index) for index in range(parsed.threads))
    )
    totals = [each.total() for each in figures]
    if parsed.show_consumer_stats:
        for number, each in enumerate(totals, 1):
            write_line(
                f"Share consumer {number} consumption metrics- {_columns(each, each, parsed)}"
            )
    records = sum(each.records for each in totals)
    warn_of_missing_records(parsed, records)
    total = totals[-1]._replace(records=records, size=sum(each.size for each in totals))
    write_line(_columns(total, total, parsed))


async def _read(
    parsed: Namespace, access: Access, pace: Pace, figures: Sequence[ReadFigures], index: int
) -> None:
    """Read as one consumer until all of them have enough records, or none arrives in time."""
    async with KafkaClient(addresses_of(parsed.bootstrap_server), access) as client:
        await created_partition_count(client, parsed.topic)
        reader = ShareReader(client, parsed.group or _GROUP, [parsed.topic], AdjustableClock())
        try:
            await reader.join()
            latest_ms = pace.now_ms()
            while (
                sum(each.records for each in figures) < parsed.num_records
                and pace.now_ms() - latest_ms <= parsed.timeout
            ):
                for record, _ in await reader.poll(_POLL_MS):
                    latest_ms = pace.now_ms()
                    reader.acknowledge(record, ACCEPT)
                    interval = figures[index].add(record)
                    if interval is not None and parsed.show_detailed_stats:
                        columns = _columns(figures[index].total(), interval, parsed)
                        write_line(f"{columns} for share consumer {index + 1}")
        finally:
            await reader.close()


def _columns(total: Interval, interval: Interval, parsed: Namespace) -> str:
    """Return the figures of all records, with the times and the rates of an interval."""
    return (
        f"{date_text(interval.start_ms, parsed.date_format)}, "
        f"{date_text(interval.end_ms, parsed.date_format)}, {total.megabytes:.4f}, "
        f"{interval.per_second(interval.megabytes):.4f}, "
        f"{interval.per_second(interval.records):.4f}, {total.records}, {interval.elapsed_ms}"
    )
