"""`kafka-consumer-groups`: list, describe, reset and delete groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalite.client.errors import UnknownNameError
from kafkalite.client.groups import (
    delete_groups,
    describe_group,
    group_partitions,
    list_groups,
)
from kafkalite.docker.tools.arguments import ToolParser, add_bootstrap_options, file_text
from kafkalite.docker.tools.exceptions import exception_text, with_cause
from kafkalite.docker.tools.offset_deletions import delete_offsets_of
from kafkalite.docker.tools.offset_resets import (
    add_reset_options,
    check_reset_options,
    reset_offsets,
)
from kafkalite.docker.tools.running import run_tool, run_with_client, write_error, write_line
from kafkalite.docker.tools.tables import write_columns, write_table
from kafkalite.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping, Sequence

    from kafkalite.client.client import KafkaClient
    from kafkalite.client.epochs import TopicPartition
    from kafkalite.client.groups import GroupDescription, GroupPartition
    from kafkalite.docker.tools.tables import Column

_CONSUMER_TYPES: Final = ("classic", "consumer")
"""Types of groups that the tool shows."""
_ACTIONS: Final = (
    *("list", "describe", "delete", "reset-offsets", "delete-offsets", "validate-regex"),
)
_SETTLED: Final = ("Stable", "Empty")
_OWNER: Final = ("CONSUMER-ID", "HOST", "CLIENT-ID")
_NOT_ACTIONS: Final = (
    "Command must include exactly one action: --list, --describe, --delete, --reset-offsets, "
    "--delete-offsets, --validate-regex."
)


def main(name: str, arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run the tool; return its exit status."""

    def command() -> int:
        parsed = _parse(name, arguments)
        if parsed.validate_regex is not None:
            _validate(parsed.validate_regex)
            return 0
        if parsed.from_file is not None:
            parsed.plan = file_text(parsed.from_file, environment)
        return run_with_client(parsed, environment, _run)

    return run_tool(name, command)


def _parse(name: str, arguments: Sequence[str]) -> Namespace:
    parser = ToolParser(name, "List, describe, reset and delete groups.")
    add_bootstrap_options(parser)
    parser.add_switches("list", "describe", "delete", "delete-offsets", "all-groups")
    parser.add_switches("members", "offsets", "verbose")
    parser.add_values("group", many=True)
    parser.add_values("validate-regex")
    parser.add_values("timeout", type=int)
    parser.add_argument("--state", nargs="?", const="")
    parser.add_argument("--type", nargs="?", const="")
    add_reset_options(parser)
    parsed = parser.parse(arguments)
    action = parser.single(parsed, _ACTIONS, _NOT_ACTIONS)
    if action not in ("list", "validate-regex") and not (parsed.group or parsed.all_groups):
        parser.error(f"Option [{action}] takes one of these options: [all-groups], [group]")
    if sum((parsed.members, parsed.offsets, parsed.state is not None)) > 1:
        parser.error(
            "Option [describe] takes at most one of these options: [members], [offsets], [state]"
        )
    if parsed.delete_offsets and not parsed.topic:
        parser.error("Option [delete-offsets] takes the option: [topic]")
    if parsed.reset_offsets:
        check_reset_options(parser, parsed)
    return parsed


def _validate(text: str) -> None:
    """Print whether a regular expression is valid; raises KafkaToolError."""
    import re2  # noqa: PLC0415 - rarely used

    try:
        re2.compile(text)
    except re2.error as error:
        reason = error.args[0] if error.args else ""
        reason = reason.decode() if isinstance(reason, bytes) else reason
        write_line(f"The regular expression `{text}` is invalid: {reason}")
    else:
        write_line(f"The regular expression `{text}` is valid.")


async def _run(client: KafkaClient, parsed: Namespace) -> int:
    if parsed.list:
        await _list(client, parsed)
        return 0
    groups = await _groups(client) if parsed.all_groups else sorted(set(parsed.group))
    if parsed.reset_offsets:
        await reset_offsets(client, groups, parsed)
    elif parsed.delete_offsets:
        for group in groups:
            await delete_offsets_of(client, group, parsed)
    elif parsed.delete:
        await _delete(client, groups)
    else:
        await _describe_all(client, groups, parsed)
    return 0


async def _describe_all(client: KafkaClient, groups: Sequence[str], parsed: Namespace) -> None:
    try:
        for group in groups:
            await _describe(client, group, parsed)
    except UnknownNameError as error:
        # Kafka's tool prints this to standard output, with status 0.
        reason = exception_text(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {error.name} not found.")
        write_line(f"\nError: Executing consumer group command failed due to {reason}")
        write_error(with_cause(reason))


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
    write_table(header, list(zip(*cells, strict=True)), widths)


async def _delete(client: KafkaClient, groups: Sequence[str]) -> None:
    results = await delete_groups(client, groups)
    deleted = ", ".join(f"'{group}'" for group, error in results.items() if error is None)
    failed = {group: error for group, error in results.items() if error is not None}
    if not failed:
        write_line(f"Deletion of requested consumer groups ({deleted}) was successful.")
        return
    write_line("\nError: Deletion of some consumer groups failed:")
    for group, error in failed.items():
        reason = exception_text(error.code, error.reason)
        write_line(f"* Group '{group}' could not be deleted due to: {reason}")
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
        await _write_state(client, group, is_verbose=parsed.verbose)
    elif parsed.members:
        _write_members(group, is_verbose=parsed.verbose)
    else:
        await _write_offsets(client, group, is_verbose=parsed.verbose)


async def _write_state(client: KafkaClient, group: GroupDescription, *, is_verbose: bool) -> None:
    brokers = {each.node_id: each for each in (await client.metadata()).brokers}
    node = brokers[group.coordinator]
    columns: list[Column] = [
        ("GROUP", 15, group.group_id),
        ("COORDINATOR (ID)", 25, f"{node.host}:{node.port}  ({node.node_id})"),
        ("ASSIGNMENT-STRATEGY", 20, group.protocol or None),
        ("STATE", 20, group.state),
        ("#MEMBERS", 0, len(group.members)),
    ]
    if is_verbose:
        columns[-1:-1] = [
            ("GROUP-EPOCH", 15, group.epoch),
            ("TARGET-ASSIGNMENT-EPOCH", 25, group.assignment_epoch),
        ]
    write_line("")
    write_columns([columns])


def _write_members(group: GroupDescription, *, is_verbose: bool) -> None:
    rows: list[list[Column]] = []
    for each in group.members:
        row: list[Column] = [
            ("GROUP", 15, group.group_id),
            ("CONSUMER-ID", 15, each.member_id),
            ("HOST", 15, each.host),
            ("CLIENT-ID", 15, each.client_id),
            ("#PARTITIONS", 15, len(each.assignment)),
        ]
        if is_verbose:
            row += [
                ("CURRENT-EPOCH", 15, each.epoch),
                ("CURRENT-ASSIGNMENT", 20, _assignment(each.assignment)),
                ("TARGET-EPOCH", 15, group.assignment_epoch),
                (
                    "TARGET-ASSIGNMENT",
                    20,
                    None if each.target is None else _assignment(each.target),
                ),
            ]
        rows.append(row)
    write_line("")
    if rows:
        write_columns(rows)
    else:
        write_table(("GROUP", "CONSUMER-ID", "HOST", "CLIENT-ID", "#PARTITIONS"), [])


def _assignment(partitions: Sequence[TopicPartition]) -> str | None:
    """Return partitions as `topic:0,1;other:2`."""
    indexes: dict[str, list[int]] = {}
    for topic, index in partitions:
        indexes.setdefault(topic, []).append(index)
    return (
        ";".join(f"{topic}:{','.join(map(str, each))}" for topic, each in indexes.items()) or None
    )


async def _write_offsets(client: KafkaClient, group: GroupDescription, *, is_verbose: bool) -> None:
    rows = await group_partitions(client, group)
    # Kafka's tool shows the partitions of each member, and then those without a member.
    order = {each.member_id: number for number, each in enumerate(group.members)}
    rows.sort(key=lambda row: len(order) if row.member is None else order[row.member.member_id])
    if rows:
        write_line("")
        write_columns([_row(group.group_id, row, is_verbose=is_verbose) for row in rows])


def _row(group_id: str, row: GroupPartition, *, is_verbose: bool) -> list[Column]:
    """Return the columns of a partition."""
    topic, index = row.partition
    member = row.member
    owner = (None,) * 3 if member is None else (member.member_id, member.host, member.client_id)
    columns: list[Column] = [
        ("GROUP", 15, group_id),
        ("TOPIC", 15, topic),
        ("PARTITION", 10, index),
        ("CURRENT-OFFSET", 15, row.offset),
        ("LOG-END-OFFSET", 15, row.end_offset),
        ("LAG", 15, row.lag),
        *((name, 15, value) for name, value in zip(_OWNER, owner, strict=True)),
    ]
    if is_verbose:
        columns.insert(3, ("LEADER-EPOCH", 15, row.leader_epoch))
    return columns
