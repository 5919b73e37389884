"""`kafka-consumer-groups`: list, describe, reset and delete groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalite.client.errors import UnknownNameError
from kafkalite.client.groups import (
    delete_groups,
    group_partitions,
    list_groups,
)
from kafkalite.docker.tools.arguments import ToolParser
from kafkalite.docker.tools.exceptions import exception_text
from kafkalite.docker.tools.group_commands import (
    CONSUMER,
    add_group_options,
    assignment_text,
    check_parts,
    check_words,
    chosen_groups,
    coordinator_text,
    describe_of_kind,
    run_with_plan,
    words_of,
    write_deletions,
    write_groups,
    write_unknown_group,
)
from kafkalite.docker.tools.offset_deletions import delete_offsets_of
from kafkalite.docker.tools.offset_resets import (
    add_reset_options,
    check_reset_options,
    reset_offsets,
)
from kafkalite.docker.tools.running import run_tool, write_error, write_line
from kafkalite.docker.tools.tables import write_columns, write_table

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping, Sequence

    from kafkalite.client.client import KafkaClient
    from kafkalite.client.groups import GroupDescription, GroupPartition
    from kafkalite.docker.tools.tables import Column

_ACTIONS: Final = (
    *("list", "describe", "delete", "reset-offsets", "delete-offsets", "validate-regex"),
)
_SETTLED: Final = ("Stable", "Empty")
_OWNER: Final = ("CONSUMER-ID", "HOST", "CLIENT-ID")
_NOT_ACTIONS: Final = (
    "Command must include exactly one action: --list, --describe, --delete, --reset-offsets, "
    "--delete-offsets, --validate-regex."
)

_STATES: Final = (
    *("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling", "Stable"),
    *("Empty", "Dead"),
)
_TYPES: Final = ("Consumer", "Classic")
"""Words of `--state` and `--type`."""


def main(name: str, arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run the tool; return its exit status."""

    def command() -> int:
        parsed = _parse(name, arguments)
        if parsed.validate_regex is not None:
            _validate(parsed.validate_regex)
            return 0
        return run_with_plan(parsed, environment, _run)

    return run_tool(name, command)


def _parse(name: str, arguments: Sequence[str]) -> Namespace:
    parser = ToolParser(name, "List, describe, reset and delete groups.")
    add_group_options(parser)
    parser.add_values("validate-regex")
    parser.add_argument("--type", nargs="?", const="")
    add_reset_options(parser)
    parsed = parser.parse(arguments)
    action = parser.single(parsed, _ACTIONS, _NOT_ACTIONS)
    if action not in ("list", "validate-regex") and not (parsed.group or parsed.all_groups):
        parser.error(f"Option [{action}] takes one of these options: [all-groups], [group]")
    if parsed.list:
        check_words(parser, "state", parsed.state, _STATES)
        check_words(parser, "types", parsed.type, _TYPES)
    check_parts(parser, parsed)
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
        types = words_of(parsed.type) or CONSUMER.types
        groups = [each for each in await list_groups(client) if each.type in types]
        write_groups(groups, parsed.state, has_types=parsed.type is not None)
        return 0
    chosen = await chosen_groups(client, parsed, CONSUMER)
    if parsed.reset_offsets:
        return await reset_offsets(client, chosen, parsed, CONSUMER)
    if parsed.describe:
        return await _describe_all(client, chosen, parsed)
    if parsed.delete:
        await _delete(client, chosen)
    for group in chosen if parsed.delete_offsets else ():
        await delete_offsets_of(client, group, parsed)
    return 0


async def _describe_all(client: KafkaClient, groups: Sequence[str], parsed: Namespace) -> int:
    try:
        for group in groups:
            await _describe(client, group, parsed)
    except UnknownNameError as error:
        return write_unknown_group(error.name, CONSUMER)
    return 0


async def _delete(client: KafkaClient, groups: Sequence[str]) -> None:
    results = await delete_groups(client, groups)
    write_deletions(
        {
            group: None if error is None else exception_text(error.code, error.reason)
            for group, error in results.items()
        },
        CONSUMER,
    )


async def _describe(client: KafkaClient, group_id: str, parsed: Namespace) -> None:
    group = await describe_of_kind(client, group_id, CONSUMER)
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
    columns: list[Column] = [
        ("GROUP", 15, group.group_id),
        ("COORDINATOR (ID)", 25, await coordinator_text(client, group.coordinator)),
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
                ("CURRENT-ASSIGNMENT", 20, assignment_text(each.assignment)),
                ("TARGET-EPOCH", 15, group.assignment_epoch),
                (
                    "TARGET-ASSIGNMENT",
                    20,
                    None if each.target is None else assignment_text(each.target),
                ),
            ]
        rows.append(row)
    write_line("")
    if rows:
        write_columns(rows)
    else:
        write_table(("GROUP", "CONSUMER-ID", "HOST", "CLIENT-ID", "#PARTITIONS"), [])


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
