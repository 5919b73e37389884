"""`kafka-consumer-groups`: list groups, and describe their committed offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kafkalite.docker.tools.arguments import (
    ToolError,
    ToolParser,
    add_bootstrap_options,
    error_reason,
)
from kafkalite.docker.tools.running import run_tool, run_with_client, write_line
from kafkalite.protocol._generated.messages.list_groups import ListGroupsRequest
from kafkalite.protocol._generated.messages.list_offsets import ListOffsetsRequest
from kafkalite.protocol._generated.messages.offset_fetch import OffsetFetchRequest
from kafkalite.protocol.versions import Versions
from kafkalite.server.addresses import Address

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping, Sequence

    from kafkalite.client.client import KafkaClient

_GROUP_KEY_TYPE: Final = 0
_LATEST: Final = -1
_LIST_VERSIONS: Final = Versions(3, 4)
_FETCH_VERSIONS: Final = Versions(8, 9)
_OFFSETS_VERSIONS: Final = Versions(4, 7)
_CLIENT_REPLICA: Final = -1


def main(name: str, arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run the tool; return its exit status."""

    def command() -> int:
        parser = ToolParser(name, "List groups, and describe their committed offsets.")
        add_bootstrap_options(parser)
        parser.add_argument("--list", action="store_true")
        parser.add_argument("--describe", action="store_true")
        parser.add_argument("--group")
        parser.add_argument("--all-groups", action="store_true")
        parsed = parser.parse(arguments)
        if parsed.list is parsed.describe:
            parser.error("exactly one of --list and --describe is needed")
        if parsed.describe and not (parsed.group or parsed.all_groups):
            parser.error("--describe needs --group or --all-groups")
        return run_with_client(parsed, environment, _run)

    return run_tool(name, command)


async def _run(client: KafkaClient, parsed: Namespace) -> int:
    groups = [parsed.group] if parsed.group else await _groups(client)
    if parsed.list:
        for group in groups:
            write_line(group)
        return 0
    for group in groups:
        await _describe(client, group)
    return 0


async def _groups(client: KafkaClient) -> list[str]:
    """Return the names of all groups of all brokers."""
    names: set[str] = set()
    for broker in (await client.metadata()).brokers:
        address = Address(broker.host, broker.port)
        response = await client.ask(address, ListGroupsRequest(), _LIST_VERSIONS)
        if response.error_code:
            raise ToolError(error_reason(response))
        names |= {group.group_id for group in response.groups}
    return sorted(names)


async def _describe(client: KafkaClient, group: str) -> None:
    coordinator = await client.find_coordinator(group, _GROUP_KEY_TYPE)
    if coordinator.error:
        raise ToolError(f"group {group}: {coordinator.error.message}")
    row = OffsetFetchRequest.OffsetFetchRequestGroup(group_id=group, topics=None)
    request = OffsetFetchRequest(groups=[row])
    response = await client.ask(coordinator.address, request, _FETCH_VERSIONS)
    found = response.groups[0]
    if found.error_code:
        raise ToolError(f"group {group}: {error_reason(found)}")
    if not found.topics:
        raise ToolError(f"Consumer group '{group}' does not exist, or has no committed offsets")
    ends = await _end_offsets(client, found.topics)
    write_line("GROUP\tTOPIC\tPARTITION\tCURRENT-OFFSET\tLOG-END-OFFSET\tLAG")
    for topic in sorted(found.topics, key=lambda each: str(each.name)):
        for partition in sorted(topic.partitions, key=lambda each: int(each.partition_index)):
            index, offset = partition.partition_index, partition.committed_offset
            end = ends.get((topic.name, index))
            rest = "-\t-" if end is None else f"{end}\t{end - offset}"
            write_line(f"{group}\t{topic.name}\t{index}\t{offset}\t{rest}")


async def _end_offsets(client: KafkaClient, topics: Sequence[Any]) -> dict[tuple[str, int], int]:
    """Return the end offset of each partition that has a leader."""
    metadata = await client.metadata([topic.name for topic in topics])
    addresses = {each.node_id: Address(each.host, each.port) for each in metadata.brokers}
    leaders: dict[Address, dict[str, list[int]]] = {}
    for topic in metadata.topics:
        for partition in topic.partitions:
            if partition.leader_id in addresses:
                of_leader = leaders.setdefault(addresses[partition.leader_id], {})
                of_leader.setdefault(topic.name, []).append(partition.partition_index)
    ends: dict[tuple[str, int], int] = {}
    for address, indexes in leaders.items():
        rows = [
            ListOffsetsRequest.ListOffsetsTopic(
                name=name,
                partitions=[
                    ListOffsetsRequest.ListOffsetsPartition(partition_index=each, timestamp=_LATEST)
                    for each in listed
                ],
            )
            for name, listed in indexes.items()
        ]
        request = ListOffsetsRequest(replica_id=_CLIENT_REPLICA, topics=rows)
        response = await client.ask(address, request, _OFFSETS_VERSIONS)
        ends |= {
            (topic.name, row.partition_index): row.offset
            for topic in response.topics
            for row in topic.partitions
            if not row.error_code
        }
    return ends
