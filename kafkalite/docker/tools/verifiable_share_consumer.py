"""`kafka-verifiable-share-consumer`: read a topic in a share group, and print events as JSON."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from kafkalite.client.client import KafkaClient
from kafkalite.client.share_reader import ACCEPT, REJECT, RELEASE, RENEW, ShareReader
from kafkalite.client.topics import created_partition_count
from kafkalite.docker.tools.arguments import (
    ToolParser,
    access_in,
    add_bootstrap_options,
    addresses_of,
    client_properties,
)
from kafkalite.docker.tools.config_entities import GROUPS, Entity
from kafkalite.docker.tools.events import by_partition, partition_row, write_event, write_record
from kafkalite.docker.tools.pacing import Pace
from kafkalite.docker.tools.resource_configs import alter_resource
from kafkalite.docker.tools.running import run_tool, write_log
from kafkalite.docker.tools.termination import ends_by_sigterm
from kafkalite.ports.clock import AdjustableClock

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping, Sequence

    from kafkalite.client.epochs import TopicPartition
    from kafkalite.protocol.error_codes import ErrorCode

_POLL_MS: Final = 500
_MODES: Final = ("auto", "async", "sync")
_KINDS: Final[Mapping[str, int]] = {
    "accept": ACCEPT,
    "release": RELEASE,
    "reject": REJECT,
    "renew": RENEW,
}
"""Word of `--ack-pattern` → the type of the acknowledgement."""


def main(name: str, arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run the tool; return its exit status."""

    def command() -> int:
        parsed = _parse(name, arguments)
        asyncio.run(_run(parsed, environment))
        return 0

    return run_tool(name, command)


def _parse(name: str, arguments: Sequence[str]) -> Namespace:
    parser = ToolParser(name, "Read a topic in a share group, and print what happens.")
    add_bootstrap_options(parser, config="--consumer.config")
    parser.add_values("topic", "group-id", required=True)
    parser.add_values("max-messages", type=int, default=-1)
    parser.add_values("acknowledgement-mode", type=str.lower, default="auto", choices=_MODES)
    parser.add_values(
        "offset-reset-strategy", type=str.lower, default="", choices=("earliest", "latest")
    )
    parser.add_values("ack-pattern", default="")
    parser.add_switches("verbose")
    parsed = parser.parse(arguments)
    words = [each.strip().lower() for each in parsed.ack_pattern.split(",") if each.strip()]
    if unknown := [each for each in words if each not in _KINDS]:
        parser.error(f"--ack-pattern: {unknown[0]} is not one of {', '.join(_KINDS)}")
    if words and parsed.acknowledgement_mode == "auto":
        parser.error(
            "--ack-pattern requires --acknowledgement-mode to be 'sync' or 'async', not 'auto'"
        )
    if set(words) == {"renew"}:
        parser.error(
            "--ack-pattern must contain at least one non-RENEW type; a pattern of only 'renew' "
            "would re-deliver every record indefinitely without ever resolving it"
        )
    parsed.kinds = [_KINDS[each] for each in words or ["accept"]]
    return parsed


async def _run(parsed: Namespace, environment: Mapping[str, str]) -> None:
    properties = client_properties(parsed.client_config, environment)
    access = access_in(properties, parsed.client_config)
    pace = Pace(0)
    write_event("startup_complete", pace)
    async with KafkaClient(addresses_of(parsed.bootstrap_server), access) as client:
        await _set_strategy(client, parsed, pace)
        await created_partition_count(client, parsed.topic)
        reader = ShareReader(client, parsed.group_id, [parsed.topic], AdjustableClock())
        try:
            await reader.join()
            await ends_by_sigterm(_read(reader, parsed, pace))
        finally:
            await reader.close()
    write_event("shutdown_complete", pace)
    write_event("shutdown_requested", pace)


async def _set_strategy(client: KafkaClient, parsed: Namespace, pace: Pace) -> None:
    """Set where the group begins; raises ToolError."""
    strategy = parsed.offset_reset_strategy
    if strategy:
        group = Entity(GROUPS, parsed.group_id)
        await alter_resource(client, group, {"share.auto.offset.reset": strategy}, ())
        write_event("offset_reset_strategy_set", pace, offsetResetStrategy=strategy)


async def _read(reader: ShareReader, parsed: Namespace, pace: Pace) -> None:
    """Read and acknowledge records until enough of them are acknowledged.

    The modes differ only in whether Kafka's tool waits for the acknowledgements.
    """
    count = 0
    while parsed.max_messages < 0 or count < parsed.max_messages:
        records = [each.record for each in await reader.poll(_POLL_MS)]
        if not records:
            continue
        offsets: dict[TopicPartition, list[int]] = {}
        for partition, rows in by_partition(records).items():
            offsets[partition] = sorted(each.offset for each in rows)
            for each in rows:
                reader.acknowledge(each, parsed.kinds[each.offset % len(parsed.kinds)])
                if parsed.verbose:
                    write_record(each, pace)
        partitions = [_row(*each) for each in offsets.items()]
        write_event("records_consumed", pace, count=len(records), partitions=partitions)
        for partition, error in (await reader.commit()).items():
            _write_acknowledgement(partition, offsets.get(partition, []), error, pace)
            count += 0 if error else len(offsets.get(partition, ()))


def _row(partition: TopicPartition, offsets: list[int]) -> dict[str, object]:
    return partition_row(partition, count=len(offsets), offsets=offsets)


def _write_acknowledgement(
    partition: TopicPartition, offsets: list[int], error: ErrorCode, pace: Pace
) -> None:
    reason = {"error": error.message} if error else {}
    if error:
        write_log("ERROR", f"Failed to acknowledge records of {partition}: {error.message}")
    write_event(
        "offsets_acknowledged",
        pace,
        count=len(offsets),
        partitions=[_row(partition, offsets)],
        **reason,
        success=not error,
    )
