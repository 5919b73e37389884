"""`kafka-console-share-consumer`: print the records that a share group delivers."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from kafkalite.client.client import KafkaClient
from kafkalite.client.share_reader import ACCEPT, REJECT, RELEASE, ShareReader
from kafkalite.client.topics import created_partition_count
from kafkalite.docker.tools.arguments import (
    ToolParser,
    access_in,
    add_bootstrap_options,
    addresses_of,
    client_properties,
)
from kafkalite.docker.tools.console_consumer import (
    Printed,
    add_printing_options,
    formatter_properties,
)
from kafkalite.docker.tools.formatters import formatter_of
from kafkalite.docker.tools.running import run_tool, write_line
from kafkalite.docker.tools.termination import ends_by_sigterm
from kafkalite.ports.clock import AdjustableClock

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping, Sequence

_NAME: Final = "console-share-consumer"
"""The default of the client id and of the group."""
_POLL_MS: Final = 500


def main(name: str, arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run the tool; return its exit status."""
    return run_tool(name, lambda: _run(name, arguments, environment))


def _run(name: str, arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    parsed = _parse(name, arguments)
    properties = {
        "client.id": _NAME,
        **client_properties(parsed.client_config, environment, parsed.consumer_property),
    }
    printed = Printed(formatter_of(parsed.formatter, formatter_properties(parsed, environment)))
    try:
        asyncio.run(ends_by_sigterm(_consume(parsed, properties, printed)))
    finally:
        if parsed.enable_systest_events:
            write_line("shutdown_complete")
        printed.report()
    return 0


def _parse(name: str, arguments: Sequence[str]) -> Namespace:
    parser = ToolParser(name, "Print the records that a share group delivers.")
    add_bootstrap_options(parser, config="--consumer-config")
    add_printing_options(parser)
    parser.add_switches("release", "reject", "reject-message-on-error")
    parsed = parser.parse(arguments)
    if parsed.topic is None:
        parser.error("--topic is a required argument")
    if parsed.release and parsed.reject:
        parser.error("At most one of --reject and --release may be specified.")
    return parsed


async def _consume(parsed: Namespace, properties: Mapping[str, str], printed: Printed) -> None:
    """Write records until the requested number is reached, or none arrives in time."""
    access = access_in(properties, parsed.client_config)
    async with KafkaClient(addresses_of(parsed.bootstrap_server), access) as client:
        await created_partition_count(client, parsed.topic)
        group_id = parsed.group or properties.get("group.id") or _NAME
        reader = ShareReader(client, group_id, [parsed.topic], AdjustableClock())
        try:
            await reader.join()
            await _write_records(reader, parsed, printed)
        finally:
            await reader.close()


async def _write_records(reader: ShareReader, parsed: Namespace, printed: Printed) -> None:
    kind = RELEASE if parsed.release else REJECT if parsed.reject else ACCEPT
    loop = asyncio.get_running_loop()
    timeout_ms = parsed.timeout_ms
    poll_ms = _POLL_MS if timeout_ms is None else min(_POLL_MS, timeout_ms)
    latest_s = loop.time()
    while True:
        for record, delivery_count in await reader.poll(poll_ms):
            if parsed.max_messages is not None and printed.count >= parsed.max_messages:
                return
            printed.write(record, delivery_count)
            reader.acknowledge(record, kind)
            latest_s = loop.time()
        if parsed.max_messages is not None and printed.count >= parsed.max_messages:
            return
        if timeout_ms is not None and (loop.time() - latest_s) * 1000 >= timeout_ms:
            return
