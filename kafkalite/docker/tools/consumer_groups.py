"""`kafka-consumer-groups`: list groups, and describe their committed offsets and members."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from kafkalite.docker.tools.arguments import (
    ToolError,
    ToolParser,
    add_bootstrap_options,
    error_reason,
)
from kafkalite.docker.tools.running import run_tool, run_with_client, write_error, write_line
from kafkalite.groups.migration.consumer_protocol import parse_assignment
from kafkalite.protocol._generated.messages.api_versions import ApiVersionsRequest
from kafkalite.protocol._generated.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
)
from kafkalite.protocol._generated.messages.describe_groups import DescribeGroupsRequest
from kafkalite.protocol._generated.messages.list_groups import ListGroupsRequest
from kafkalite.protocol._generated.messages.list_offsets import ListOffsetsRequest
from kafkalite.protocol._generated.messages.offset_fetch import OffsetFetchRequest
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.versions import Versions
from kafkalite.server.addresses import Address

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping, Sequence

    from kafkalite.client.client import KafkaClient
    from kafkalite.protocol._generated.messages.describe_groups import DescribeGroupsResponse

    _Partition = tuple[str, int]

_GROUP_KEY_TYPE: Final = 0
_LATEST: Final = -1
_LIST_VERSIONS: Final = Versions(3, 5)
_FETCH_VERSIONS: Final = Versions(8, 9)
_OFFSETS_VERSIONS: Final = Versions(4, 7)
_CLIENT_REPLICA: Final = -1
_CLASSIC_VERSIONS: Final = Versions(0, 6)
_CONSUMER_VERSIONS: Final = Versions(0, 1)
_API_VERSIONS: Final = Versions(0, 2)
_CONSUMER_TYPES: Final = ("", "classic", "consumer")
"""Types of groups that have members with partitions; brokers before 3.8 report none."""
_SETTLED: Final = ("Stable", "Empty")
_HEADER: Final = (
    *("GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG"),
    *("CONSUMER-ID", "HOST", "CLIENT-ID"),
)
_WIDTHS: Final = (15, 15, 10, 15, 15, 15, 15, 15, 0)
"""The least widths of the columns, as those of Kafka's tool."""


class _Member(NamedTuple):
    """A member of a group, with its assignment."""

    member_id: str
    host: str
    client_id: str
    partitions: Sequence[_Partition]


class _Group(NamedTuple):
    """The state of a group, and its members."""

    state: str
    members: Sequence[_Member]


_NO_MEMBER: Final = _Member("-", "-", "-", ())


class _MissingGroupError(Exception):
    """The group does not exist."""


def main(name: str, arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run the tool; return its exit status."""

    def command() -> int:
        parser = ToolParser(name, "List groups, and describe their committed offsets and members.")
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
    try:
        for group in groups:
            await _describe(client, group)
    except _MissingGroupError as error:
        # Kafka's tool prints this to standard output, with status 0.
        write_line(
            "\nError: Executing consumer group command failed due to "
            f"org.apache.kafka.common.errors.GroupIdNotFoundException: {error}"
        )
    return 0


async def _groups(client: KafkaClient) -> list[str]:
    """Return the names of the classic groups and consumer groups of all brokers."""
    names: set[str] = set()
    for broker in (await client.metadata()).brokers:
        address = Address(broker.host, broker.port)
        response = await client.ask(address, ListGroupsRequest(), _LIST_VERSIONS)
        if response.error_code:
            raise ToolError(error_reason(response))
        names |= {
            group.group_id
            for group in response.groups
            if group.group_type.lower() in _CONSUMER_TYPES
        }
    return sorted(names)


async def _describe(client: KafkaClient, group: str) -> None:
    coordinator = await client.find_coordinator(group, _GROUP_KEY_TYPE)
    if coordinator.error:
        raise ToolError(f"group {group}: {coordinator.error.message}")
    described = await _described(client, coordinator.address, group)
    offsets = await _committed_offsets(client, coordinator.address, group)
    if described.state == "Empty":
        write_error(f"\nConsumer group '{group}' has no active members.")
    elif described.state not in _SETTLED:
        write_error(f"\nWarning: Consumer group '{group}' is rebalancing.")
    rows = [
        (partition, member)
        for member in described.members
        for partition in sorted(member.partitions)
    ]
    assigned = {partition for partition, _ in rows}
    rows += [(partition, _NO_MEMBER) for partition in sorted(offsets.keys() - assigned)]
    if not rows:
        return
    ends = await _end_offsets(client, sorted({topic for (topic, _), _ in rows}))
    table: list[tuple[str, ...]] = [_HEADER]
    for partition, member in rows:
        offset, end = offsets.get(partition), ends.get(partition)
        lag = None if offset is None or end is None else end - offset
        numbers = ["-" if number is None else str(number) for number in (offset, end, lag)]
        topic, index = partition
        table.append((group, topic, str(index), *numbers, *member[:3]))
    _write_table(table)


def _write_table(table: Sequence[Sequence[str]]) -> None:
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    widths = [max(pair) for pair in zip(widths, _WIDTHS, strict=True)]
    write_line("")
    for row in table:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        write_line(" ".join(cells).rstrip())


async def _described(client: KafkaClient, coordinator: Address, group: str) -> _Group:
    """Return the state and the members of a group; raises _MissingGroupError."""
    request = DescribeGroupsRequest(groups=[group])
    response = await client.ask(coordinator, request, _CLASSIC_VERSIONS)
    found = response.groups[0]
    if not found.error_code and found.group_state != "Dead":
        return _Group(
            found.group_state,
            [
                _Member(row.member_id, row.client_host, row.client_id, _assigned(row))
                for row in found.members
            ],
        )
    if found.error_code not in (ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND):
        raise ToolError(f"group {group}: {error_reason(found)}")
    apis = (await client.ask(coordinator, ApiVersionsRequest(), _API_VERSIONS)).api_keys
    if all(row.api_key != ApiKey.CONSUMER_GROUP_DESCRIBE for row in apis):
        raise _MissingGroupError(f"Group {group} not found.")
    return await _described_consumer_group(client, coordinator, group)


async def _described_consumer_group(
    client: KafkaClient, coordinator: Address, group: str
) -> _Group:
    request = ConsumerGroupDescribeRequest(group_ids=[group])
    response = await client.ask(coordinator, request, _CONSUMER_VERSIONS)
    found = response.groups[0]
    if found.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
        raise _MissingGroupError(found.error_message or f"Group {group} not found.")
    if found.error_code:
        raise ToolError(f"group {group}: {error_reason(found)}")
    return _Group(
        found.group_state,
        [
            _Member(
                row.member_id,
                row.client_host,
                row.client_id,
                [
                    (topic.topic_name, index)
                    for topic in row.assignment.topic_partitions
                    for index in topic.partitions
                ],
            )
            for row in found.members
        ],
    )


def _assigned(row: DescribeGroupsResponse.DescribedGroupMember) -> list[_Partition]:
    """Return the assignment of a member; none if it is not that of a consumer."""
    if not row.member_assignment:
        return []
    try:
        partitions = parse_assignment(row.member_assignment).partitions
    except ValueError:
        return []
    return [(topic, index) for topic, indexes in partitions.items() for index in indexes]


async def _committed_offsets(
    client: KafkaClient, coordinator: Address, group: str
) -> dict[_Partition, int]:
    row = OffsetFetchRequest.OffsetFetchRequestGroup(group_id=group, topics=None)
    response = await client.ask(coordinator, OffsetFetchRequest(groups=[row]), _FETCH_VERSIONS)
    found = response.groups[0]
    if found.error_code:
        raise ToolError(f"group {group}: {error_reason(found)}")
    return {
        (topic.name, partition.partition_index): partition.committed_offset
        for topic in found.topics
        for partition in topic.partitions
    }


async def _end_offsets(client: KafkaClient, topics: Sequence[str]) -> dict[_Partition, int]:
    """Return the end offset of each partition that has a leader."""
    metadata = await client.metadata(topics)
    addresses = {each.node_id: Address(each.host, each.port) for each in metadata.brokers}
    leaders: dict[Address, dict[str, list[int]]] = {}
    for topic in metadata.topics:
        for partition in topic.partitions:
            if partition.leader_id in addresses:
                of_leader = leaders.setdefault(addresses[partition.leader_id], {})
                of_leader.setdefault(topic.name, []).append(partition.partition_index)
    ends: dict[_Partition, int] = {}
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
