"""`kafka-consumer-groups`: list groups, and describe their committed offsets and members."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalite.cli.tables import table_lines
from kafkalite.client.errors import UnknownNameError
from kafkalite.client.groups import describe_group, group_partitions, list_groups
from kafkalite.docker.tools.arguments import ToolParser, add_bootstrap_options
from kafkalite.docker.tools.running import run_tool, run_with_client, write_error, write_line

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping, Sequence

    from kafkalite.client.client import KafkaClient
    from kafkalite.client.groups import GroupPartition

_CONSUMER_TYPES: Final = ("classic", "consumer")
"""Types of groups that the tool shows."""
_SETTLED: Final = ("Stable", "Empty")
_HEADER: Final = (
    *("GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG"),
    *("CONSUMER-ID", "HOST", "CLIENT-ID"),
)
_WIDTHS: Final = (15, 15, 10, 15, 15, 15, 15, 15, 0)
"""The least widths of the columns, as those of Kafka's tool."""


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
    except UnknownNameError as error:
        # Kafka's tool prints this to standard output, with status 0.
        write_line(
            "\nError: Executing consumer group command failed due to "
            "org.apache.kafka.common.errors.GroupIdNotFoundException: "
            f"Group {error.name} not found."
        )
    return 0


async def _groups(client: KafkaClient) -> list[str]:
    """Return the names of the classic groups and consumer groups of all brokers."""
    return [each.group_id for each in await list_groups(client) if each.type in _CONSUMER_TYPES]


async def _describe(client: KafkaClient, group_id: str) -> None:
    group = await describe_group(client, group_id)
    if group.type not in _CONSUMER_TYPES:
        raise UnknownNameError("group", group_id)
    if group.state == "Empty":
        write_error(f"\nConsumer group '{group_id}' has no active members.")
    elif group.state not in _SETTLED:
        write_error(f"\nWarning: Consumer group '{group_id}' is rebalancing.")
    rows = await group_partitions(client, group)
    # Kafka's tool shows the partitions of each member, and then those without a member.
    order = {each: number for number, each in enumerate(group.members)}
    rows.sort(key=lambda row: len(order) if row.member is None else order[row.member])
    if rows:
        write_line("")
        for line in table_lines(
            _HEADER,
            [_row(group_id, row) for row in rows],
            minimum_widths=_WIDTHS,
            gap=" ",
            uses_colours=False,
        ):
            write_line(line)


def _row(group_id: str, row: GroupPartition) -> tuple[str | None, ...]:
    """Return the cells of a partition, all of them at the left as in Kafka's tool."""
    topic, index = row.partition
    numbers = [None if each is None else str(each)
               for each in (row.offset, row.end_offset, row.lag)]  # fmt: skip
    member = row.member
    owner = ("-", "-", "-") if member is None else (member.member_id, member.host, member.client_id)
    return (group_id, topic, str(index), *numbers, *owner)
