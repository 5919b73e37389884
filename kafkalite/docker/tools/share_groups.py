"""`kafka-share-groups`: list, describe, reset and delete share groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalite.client.errors import BrokerError, UnknownNameError
from kafkalite.client.groups import delete_groups, delete_share_offsets, group_partitions
from kafkalite.docker.tools.arguments import ToolParser
from kafkalite.docker.tools.exceptions import exception_text
from kafkalite.docker.tools.group_commands import (
    SHARE,
    add_group_options,
    assignment_text,
    check_parts,
    check_words,
    chosen_groups,
    coordinator_text,
    describe_of_kind,
    groups_of,
    run_with_plan,
    write_deletions,
    write_groups,
    write_unknown_group,
)
from kafkalite.docker.tools.offset_resets import (
    add_reset_options,
    check_reset_options,
    reset_offsets,
)
from kafkalite.docker.tools.running import run_tool, write_error, write_line
from kafkalite.docker.tools.tables import write_columns, write_table
from kafkalite.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Mapping, Sequence

    from kafkalite.client.client import KafkaClient
    from kafkalite.client.groups import GroupDescription
    from kafkalite.docker.tools.tables import Column

_ACTIONS: Final = ("list", "describe", "delete", "reset-offsets", "delete-offsets")
_NOT_ACTIONS: Final = (
    f"Command must include exactly one action: {', '.join(f'--{each}' for each in _ACTIONS)}."
)
_NOT_SHARED: Final = ("by_duration", "shift_by")
"""Options of a reset that only other tools have."""

_REFUSALS: Final[Sequence[tuple[str, Callable[[Namespace], object], str]]] = (
    (
        "describe",
        lambda parsed: not (parsed.group or parsed.all_groups),
        "takes one of these options: [all-groups], [group]",
    ),
    ("describe", lambda parsed: parsed.state, "does not take a value for [state]"),
    (
        "delete",
        lambda parsed: not (parsed.group or parsed.all_groups),
        "takes the options [group] or [all-groups].",
    ),
    (
        "delete",
        lambda parsed: parsed.group and parsed.all_groups,
        "takes either [group] or [all-groups], not both.",
    ),
    (
        "delete",
        lambda parsed: parsed.topic or parsed.all_topics,
        "does not take the options [topic] or [all-topics].",
    ),
    (
        "delete-offsets",
        lambda parsed: not (parsed.group and parsed.topic),
        "takes the following options: [topic], [group]",
    ),
    ("reset-offsets", lambda parsed: not parsed.group, "takes the option [group]."),
)
"""Action, which options are refused with it, and the end of the message."""

_STATES: Final = ("Stable", "Empty", "Dead")
"""Words of `--state`."""


def main(name: str, arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run the tool; return its exit status."""
    return run_tool(name, lambda: run_with_plan(_parse(name, arguments), environment, _run))


def _parse(name: str, arguments: Sequence[str]) -> Namespace:
    parser = ToolParser(name, "List, describe, reset and delete share groups.")
    add_group_options(parser)
    add_reset_options(parser)
    parsed = parser.parse(arguments)
    for option in _NOT_SHARED:
        if getattr(parsed, option) is not None:
            parser.error(f"{option.replace('_', '-')} is not a recognized option")
    action = parser.single(parsed, _ACTIONS, _NOT_ACTIONS)
    for for_action, is_refused, message in _REFUSALS:
        if action == for_action and is_refused(parsed):
            parser.error(f"Option [{action}] {message}")
    if parsed.list:
        check_words(parser, "state", parsed.state, _STATES)
    check_parts(parser, parsed)
    if action == "reset-offsets":
        check_reset_options(parser, parsed)
    return parsed


async def _run(client: KafkaClient, parsed: Namespace) -> int:
    if parsed.list:
        write_groups(await groups_of(client, SHARE), parsed.state)
        return 0
    chosen = await chosen_groups(client, parsed, SHARE)
    if parsed.reset_offsets:
        return await reset_offsets(client, chosen, parsed, SHARE)
    if parsed.describe:
        return await _describe(client, chosen, parsed)
    if parsed.delete:
        await _delete(client, chosen)
    for group in chosen if parsed.delete_offsets else ():
        await _delete_offsets(client, group, parsed.topic)
    return 0


async def _describe(client: KafkaClient, group_ids: Sequence[str], parsed: Namespace) -> int:
    try:
        groups = [await describe_of_kind(client, each, SHARE) for each in group_ids]
    except UnknownNameError as error:
        return write_unknown_group(error.name, SHARE)
    for group in groups:
        if parsed.members or parsed.state is not None:
            if group.state == "Empty":
                write_error(f"\nShare group '{group.group_id}' has no active members.")
            if parsed.members:
                _write_members(group, is_verbose=parsed.verbose)
            else:
                await _write_state(client, group, is_verbose=parsed.verbose)
        else:
            await _write_offsets(client, group, is_verbose=parsed.verbose)
    return 0


async def _write_state(client: KafkaClient, group: GroupDescription, *, is_verbose: bool) -> None:
    columns: list[Column] = [
        ("GROUP", 15, group.group_id),
        ("COORDINATOR (ID)", 25, await coordinator_text(client, group.coordinator)),
        ("STATE", 15, group.state),
        ("#MEMBERS", 0, len(group.members)),
    ]
    if is_verbose:
        columns[-1:-1] = [
            ("GROUP-EPOCH", 12, group.epoch),
            ("ASSIGNMENT-EPOCH", 17, group.assignment_epoch),
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
            ("#PARTITIONS", 12, len(each.assignment)),
            ("ASSIGNMENT", 0, assignment_text(each.assignment)),
        ]
        if is_verbose:
            row.insert(-1, ("MEMBER-EPOCH", 13, each.epoch))
        rows.append(row)
    if rows:
        write_line("")
        write_columns(rows)


async def _write_offsets(client: KafkaClient, group: GroupDescription, *, is_verbose: bool) -> None:
    rows: list[list[Column]] = []
    for each in await group_partitions(client, group):
        topic, index = each.partition
        row: list[Column] = [
            ("GROUP", 15, group.group_id),
            ("TOPIC", 15, topic),
            ("PARTITION", 10, index),
            ("START-OFFSET", 13, each.offset),
            ("LAG", 0, each.lag),
        ]
        if is_verbose:
            row.insert(3, ("LEADER-EPOCH", 13, each.leader_epoch))
        rows.append(row)
    if not rows:
        write_line(f"\nShare group '{group.group_id}' has no offset information.")
        return
    write_line("")
    write_columns(rows)


async def _delete(client: KafkaClient, group_ids: Sequence[str]) -> None:
    states = {each.group_id: each.state for each in await groups_of(client, SHARE)}
    reasons: dict[str, str | None] = {}
    for group_id in group_ids:
        if group_id not in states:
            text = f"Group '{group_id}' is not a share group."
            reasons[group_id] = exception_text(ErrorCode.GROUP_ID_NOT_FOUND, text)
        elif states[group_id] != "Empty":
            text = f"Share group '{group_id}' is not EMPTY."
            reasons[group_id] = exception_text(ErrorCode.NON_EMPTY_GROUP, text)
    deletable = [each for each in group_ids if each not in reasons]
    for group_id, error in (await delete_groups(client, deletable)).items():
        reasons[group_id] = None if error is None else exception_text(error.code, error.reason)
    write_deletions(reasons, SHARE)


async def _delete_offsets(client: KafkaClient, group_id: str, topics: Sequence[str]) -> None:
    try:
        found = await delete_share_offsets(client, group_id, topics)
    except BrokerError as error:
        write_line(f"\nError: {error.reason}")
        found = dict.fromkeys(topics, error.code)
    write_line("")
    rows = [
        (topic, f"Error: {code.message}" if code else "Successful") for topic, code in found.items()
    ]
    write_table(("TOPIC", "STATUS"), sorted(rows), (15, 15))
