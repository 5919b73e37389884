"""`kafka-consumer-groups`: list, describe, reset and delete groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalite.cli.tables import table_lines
from kafkalite.client.errors import UnknownNameError
from kafkalite.client.groups import (
    delete_groups,
    describe_group,
    group_partitions,
    list_groups,
)
from kafkalite.docker.tools.arguments import ToolParser, add_bootstrap_options
from kafkalite.docker.tools.offset_resets import (
    add_reset_options,
    check_reset_options,
    reset_offsets,
)
from kafkalite.docker.tools.running import run_tool, run_with_client, write_error, write_line
from kafkalite.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping, Sequence

    from kafkalite.client.client import KafkaClient
    from kafkalite.client.groups import GroupDescription, GroupPartition

_CONSUMER_TYPES: Final = ("classic", "consumer")
"""Types of groups that the tool shows."""
_ACTIONS: Final = ("list", "describe", "delete", "reset-offsets")
_EXCEPTIONS: Final = {
    ErrorCode.GROUP_ID_NOT_FOUND: "org.apache.kafka.common.errors.GroupIdNotFoundException",
    ErrorCode.NON_EMPTY_GROUP: "org.apache.kafka.common.errors.GroupNotEmptyException",
}
"""Error of a deletion → the name of the exception that Kafka's tool prints."""
_STATE_HEADER: Final = ("GROUP", "COORDINATOR (ID)", "ASSIGNMENT-STRATEGY", "STATE", "#MEMBERS")
_STATE_WIDTHS: Final = (15, 25, 20, 20, 0)
_MEMBERS_HEADER: Final = ("GROUP", "CONSUMER-ID", "HOST", "CLIENT-ID", "#PARTITIONS")
_SETTLED: Final = ("Stable", "Empty")
_HEADER: Final = (
    *("GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG"),
    *("CONSUMER-ID", "HOST", "CLIENT-ID"),
)
_WIDTHS: Final = (15, 15, 10, 15, 15, 15, 15, 15, 0)
"""The least widths of the columns, as those of Kafka's tool."""


def main(name: str, arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run the tool; return its exit status."""
    return run_tool(name, lambda: run_with_client(_parse(name, arguments), environment, _run))


def _parse(name: str, arguments: Sequence[str]) -> Namespace:
    parser = ToolParser(name, "List, describe, reset and delete groups.")
    add_bootstrap_options(parser)
    for switch in ("list", "describe", "delete", "all-groups", "members", "offsets"):
        parser.add_argument(f"--{switch}", action="store_true")
    parser.add_argument("--group", action="append")
    parser.add_argument("--state", nargs="?", const="")
    parser.add_argument("--type", nargs="?", const="")
    add_reset_options(parser)
    parsed = parser.parse(arguments)
    actions = [each for each in _ACTIONS if getattr(parsed, each.replace("-", "_"))]
    if len(actions) != 1:
        parser.error(f"exactly one of --{', --'.join(_ACTIONS)} is needed")
    if actions != ["list"] and not (parsed.group or parsed.all_groups):
        parser.error(f"Option [{actions[0]}] takes one of these options: [group], [all-groups]")
    if sum((parsed.members, parsed.offsets, parsed.state is not None)) > 1:
        parser.error("at most one of --members, --offsets and --state is possible")
    if parsed.reset_offsets:
        check_reset_options(parser, parsed)
    return parsed


async def _run(client: KafkaClient, parsed: Namespace) -> int:
    if parsed.list:
        await _list(client, parsed)
        return 0
    groups = await _groups(client) if parsed.all_groups else sorted(set(parsed.group))
    if parsed.reset_offsets:
        await reset_offsets(client, groups, parsed)
        return 0
    if parsed.delete:
        await _delete(client, groups)
        return 0
    try:
        for group in groups:
            await _describe(client, group, parsed)
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


async def _list(client: KafkaClient, parsed: Namespace) -> None:
    """Print the groups, with the columns that options add."""
    states, types = (
        {each.strip().lower() for each in (text or "").split(",") if each.strip()}
        for text in (parsed.state, parsed.type)
    )
    groups = [
        each
        for each in await list_groups(client)
        if each.type in (types or _CONSUMER_TYPES) and (not states or each.state.lower() in states)
    ]
    if parsed.state is None and parsed.type is None:
        for each in groups:
            write_line(each.group_id)
        return
    columns = [("GROUP", 25, [each.group_id for each in groups])]
    if parsed.type is not None:
        columns.append(("TYPE", 20, [each.type.capitalize() for each in groups]))
    if parsed.state is not None:
        columns.append(("STATE", 20, [each.state for each in groups]))
    header, widths, cells = zip(*columns, strict=True)
    _write_table(header, list(zip(*cells, strict=True)), widths)


async def _delete(client: KafkaClient, groups: Sequence[str]) -> None:
    results = await delete_groups(client, groups)
    deleted = ", ".join(f"'{group}'" for group, error in results.items() if error is None)
    failed = {group: error for group, error in results.items() if error is not None}
    if not failed:
        write_line(f"Deletion of requested consumer groups ({deleted}) was successful.")
        return
    write_line("\nError: Deletion of some consumer groups failed:")
    for group, error in failed.items():
        exception = _EXCEPTIONS.get(error.code, error.code.name)
        write_line(f"* Group '{group}' could not be deleted due to: {exception}: {error.reason}")
    if deleted:
        write_line(f"\nThese consumer groups were deleted successfully: {deleted}")


async def _describe(client: KafkaClient, group_id: str, parsed: Namespace) -> None:
    group = await describe_group(client, group_id)
    if group.type not in _CONSUMER_TYPES:
        raise UnknownNameError("group", group_id)
    if group.state == "Empty":
        write_error(f"\nConsumer group '{group_id}' has no active members.")
    elif group.state not in _SETTLED:
        write_error(f"\nWarning: Consumer group '{group_id}' is rebalancing.")
    if parsed.state is not None:
        await _write_state(client, group)
    elif parsed.members:
        write_line("")
        rows = [
            (group_id, each.member_id, each.host, each.client_id, str(len(each.assignment)))
            for each in group.members
        ]
        _write_table(_MEMBERS_HEADER, rows, (15,) * len(_MEMBERS_HEADER))
    else:
        await _write_offsets(client, group)


async def _write_state(client: KafkaClient, group: GroupDescription) -> None:
    brokers = {each.node_id: each for each in (await client.metadata()).brokers}
    node = brokers[group.coordinator]
    row = (
        group.group_id,
        f"{node.host}:{node.port}  ({node.node_id})",
        group.protocol or "-",
        group.state,
        str(len(group.members)),
    )
    write_line("")
    _write_table(_STATE_HEADER, [row], _STATE_WIDTHS)


async def _write_offsets(client: KafkaClient, group: GroupDescription) -> None:
    rows = await group_partitions(client, group)
    # Kafka's tool shows the partitions of each member, and then those without a member.
    order = {each: number for number, each in enumerate(group.members)}
    rows.sort(key=lambda row: len(order) if row.member is None else order[row.member])
    if rows:
        write_line("")
        _write_table(_HEADER, [_row(group.group_id, row) for row in rows], _WIDTHS)


def _write_table(
    header: Sequence[str], rows: Sequence[Sequence[str | None]], widths: Sequence[int]
) -> None:
    for line in table_lines(header, rows, minimum_widths=widths, gap=" ", uses_colours=False):
        write_line(line)


def _row(group_id: str, row: GroupPartition) -> tuple[str | None, ...]:
    """Return the cells of a partition, all of them at the left as in Kafka's tool."""
    topic, index = row.partition
    numbers = [None if each is None else str(each)
               for each in (row.offset, row.end_offset, row.lag)]  # fmt: skip
    member = row.member
    owner = ("-", "-", "-") if member is None else (member.member_id, member.host, member.client_id)
    return (group_id, topic, str(index), *numbers, *owner)
