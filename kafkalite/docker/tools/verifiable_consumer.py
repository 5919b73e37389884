"""`kafka-verifiable-consumer`: read a topic in a group, and print what happens as JSON."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from kafkalite.client.client import KafkaClient
from kafkalite.client.consumer_group_member import ConsumerGroupMember
from kafkalite.client.group_member import GroupMember
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
from kafkalite.docker.tools.events import by_partition, partition_row, write_event, write_record
from kafkalite.docker.tools.pacing import Pace
from kafkalite.docker.tools.running import run_tool
from kafkalite.docker.tools.termination import ends_by_sigterm

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import AsyncIterator, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager

_CLOSE_TIMEOUT_MS: Final = 30_000
_PROTOCOLS: Final[Mapping[str, type[GroupMember | ConsumerGroupMember]]] = {
    "classic": GroupMember,
    "consumer": ConsumerGroupMember,
}


def main(name: str, arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run the tool; return its exit status."""

    def command() -> int:
        parsed = _parse(name, arguments)
        asyncio.run(_run(parsed, environment))
        return 0

    return run_tool(name, command)


def _parse(name: str, arguments: Sequence[str]) -> Namespace:
    parser = ToolParser(name, "Read a topic in a group, and print what happens.")
    # Kafka 3 has the second name.
    add_bootstrap_options(parser, "--broker-list", config="--consumer.config")
    parser.add_values("topic", "group-id", required=True)
    parser.add_values("group-protocol", default="classic", choices=tuple(_PROTOCOLS))
    parser.add_values("group-instance-id", "assignment-strategy", "group-remote-assignor")
    parser.add_values("max-messages", "session-timeout", type=int, default=-1)
    parser.add_values("reset-policy", default="earliest", choices=("earliest", "latest"))
    parser.add_switches("verbose", "enable-autocommit")
    parser.add_values("close-timeout", type=int, default=_CLOSE_TIMEOUT_MS)
    return parser.parse(arguments)


async def _run(parsed: Namespace, environment: Mapping[str, str]) -> None:
    properties = client_properties(parsed.client_config, environment)
    access = access_in(properties, parsed.client_config)
    pace = Pace(0)
    write_event("startup_complete", pace)
    async with KafkaClient(addresses_of(parsed.bootstrap_server), access) as client:
        await created_partition_count(client, parsed.topic)
        opened = TopicReader.open(
            client,
            [parsed.topic],
            group_id=parsed.group_id,
            start=OffsetTarget.parse(parsed.reset_policy),
            isolation="read_uncommitted",
            follows=True,
            access=access,
            member_class=partial(
                _PROTOCOLS[parsed.group_protocol], instance_id=parsed.group_instance_id
            ),
        )
        async with _closing_in_time(opened, parsed.close_timeout) as reader:
            await reader.join()
            _write_assignment("partitions_assigned", reader, pace)
            await ends_by_sigterm(_read(reader, parsed, pace))
            _write_assignment("partitions_revoked", reader, pace)
    write_event("shutdown_complete", pace)
    write_event("shutdown_requested", pace)


@asynccontextmanager
async def _closing_in_time(
    opened: AbstractAsyncContextManager[TopicReader], timeout_ms: int
) -> AsyncIterator[TopicReader]:
    """Enter a reader; a member that cannot leave its group in time is closed without leaving."""
    async with AsyncExitStack() as stack:
        yield await stack.enter_async_context(opened)
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_ms / 1_000):
                await stack.aclose()


def _write_assignment(event: str, reader: TopicReader, pace: Pace) -> None:
    write_event(event, pace, partitions=[partition_row(each) for each in sorted(reader.assignment)])


async def _read(reader: TopicReader, parsed: Namespace, pace: Pace) -> None:
    count = 0
    while parsed.max_messages < 0 or count < parsed.max_messages:
        records = await reader.poll() or []
        if parsed.max_messages >= 0:
            records = records[: parsed.max_messages - count]
        if not records:
            continue
        count += len(records)
        if parsed.verbose:
            for each in records:
                write_record(each, pace)
        found = by_partition(records)
        rows = [
            partition_row(
                partition, count=len(each), minOffset=each[0].offset, maxOffset=each[-1].offset
            )
            for partition, each in found.items()
        ]
        write_event("records_consumed", pace, count=len(records), partitions=rows)
        reader.set_read(records)
        await reader.commit()
        offsets = [
            partition_row(partition, offset=each[-1].offset + 1)
            for partition, each in found.items()
        ]
        write_event("offsets_committed", pace, offsets=offsets, success=True)
