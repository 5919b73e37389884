"""`kafka-streams-groups`: list, describe, reset and delete groups of Kafka Streams."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalite.client.errors import UnknownNameError
from kafkalite.client.groups import committed_positions, delete_groups
from kafkalite.client.offsets import end_offsets, first_offsets
from kafkalite.client.streams_groups import NOT_STORED, describe_streams_group
from kafkalite.client.topics import delete_topics
from kafkalite.docker.tools.arguments import (
    KafkaToolError,
    ToolParser,
)
from kafkalite.docker.tools.exceptions import exception_text
from kafkalite.docker.tools.group_commands import (
    STREAMS,
    add_group_options,
    check_parts,
    check_words,
    chosen_groups,
    coordinator_text,
    groups_of,
    run_with_plan,
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
from kafkalite.docker.tools.running import run_tool, write_line
from kafkalite.docker.tools.tables import write_columns
from kafkalite.docker.tools.topology_texts import topology_text
from kafkalite.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping, Sequence

    from kafkalite.client.client import KafkaClient
    from kafkalite.client.streams_groups import StreamsGroup, Tasks
    from kafkalite.docker.tools.tables import Column

_ACTIONS: Final = ("list", "describe", "delete", "reset-offsets", "delete-offsets")
_NOT_ACTIONS: Final = (
    f"Command must include exactly one action: {', '.join(f'--{each}' for each in _ACTIONS)}."
)
_NO_GROUP: Final = "java.lang.IllegalArgumentException: "
INPUT: Final = "input-"
"""What the options for topics begin with."""

_STATES: Final = ("NotReady", "Assigning", "Reconciling", "Stable", "Empty", "Dead")
"""Words of `--state`."""


def main(name: str, arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run the tool; return its exit status."""
    return run_tool(name, lambda: run_with_plan(_parse(name, arguments), environment, _run))


def _parse(name: str, arguments: Sequence[str]) -> Namespace:
    parser = ToolParser(name, "List, describe, reset and delete groups of Kafka Streams.")
    add_group_options(parser)
    parser.add_switches("topology", "delete-all-internal-topics")
    parser.add_values("delete-internal-topic", many=True)
    add_reset_options(parser, INPUT)
    parsed = parser.parse(arguments)
    action = parser.single(parsed, _ACTIONS, _NOT_ACTIONS)
    if action != "list" and not (parsed.group or parsed.all_groups):
        parser.error(f"Option [{action}] takes one of these options: [all-groups], [group]")
    if parsed.describe and parsed.topology and not parsed.group:
        parser.error("Option [topology] takes the option: [group]")
    if parsed.list:
        check_words(parser, "state", parsed.state, _STATES)
    check_parts(parser, parsed)
    if parsed.delete_offsets and not (parsed.topic or parsed.all_topics):
        parser.error(
            "Option [delete-offsets] takes one of these options: [all-input-topics], [input-topic]"
        )
    if parsed.reset_offsets:
        check_reset_options(parser, parsed, INPUT)
    return parsed


async def _run(client: KafkaClient, parsed: Namespace) -> int:
    if parsed.list:
        write_groups(await groups_of(client, STREAMS), parsed.state)
        return 0
    chosen = await chosen_groups(client, parsed, STREAMS)
    if parsed.describe:
        return await _describe(client, chosen, parsed)
    if parsed.delete:
        await _delete(client, chosen, parsed)
        return 0
    status = 0
    for group_id in chosen:
        if parsed.all_topics:
            parsed.topic = await _input_topics(client, group_id)
        if parsed.delete_offsets:
            await delete_offsets_of(client, group_id, parsed)
        else:
            status |= await reset_offsets(client, [group_id], parsed, STREAMS)
            if parsed.execute and not status:
                await _delete_topics_of_reset(client, group_id, parsed)
    return status


async def _input_topics(client: KafkaClient, group_id: str) -> list[str]:
    try:
        return list((await describe_streams_group(client, group_id)).input_topics)
    except UnknownNameError:
        return []


async def _describe(client: KafkaClient, group_ids: Sequence[str], parsed: Namespace) -> int:
    for group_id in group_ids:
        try:
            group = await describe_streams_group(client, group_id, with_topology=parsed.topology)
        except UnknownNameError as error:
            return write_unknown_group(error.name, STREAMS)
        if parsed.topology:
            return _write_topology(group)
        if parsed.state is not None:
            await _write_state(client, group, is_verbose=parsed.verbose)
        elif not group.members:
            continue
        elif parsed.members:
            write_columns(_member_rows(group, is_verbose=parsed.verbose))
        else:
            await _write_offsets(client, group, is_verbose=parsed.verbose)
    return 0


def _write_topology(group: StreamsGroup) -> int:
    if group.topology_status == NOT_STORED:
        write_line(
            f"\nError: No topology description is stored for streams group '{group.group_id}'."
        )
        return STREAMS.failed_status
    if group.description is None:
        write_line(
            "\nError: The broker failed to fetch the topology description for streams group "
            f"'{group.group_id}'. See the broker logs for details."
        )
        return STREAMS.failed_status
    write_line(topology_text(group.description))
    return 0


async def _write_state(client: KafkaClient, group: StreamsGroup, *, is_verbose: bool) -> None:
    if group.state == "Empty":
        write_line(f"\nError: Streams group '{group.group_id}' has no active members.")
    columns: list[Column] = [
        ("GROUP", 15, group.group_id),
        ("COORDINATOR (ID)", 25, await coordinator_text(client, group.coordinator)),
        ("ASSIGNOR", 15, group.assignor),
        ("STATE", 15, group.state),
        ("#MEMBERS", 0, len(group.members)),
    ]
    if is_verbose:
        columns[-1:-1] = [
            ("GROUP-EPOCH", 15, group.epoch),
            ("TARGET-ASSIGNMENT-EPOCH", 25, group.assignment_epoch),
        ]
    write_columns([columns])


def _member_rows(group: StreamsGroup, *, is_verbose: bool) -> list[list[Column]]:
    rows: list[list[Column]] = []
    for each in group.members:
        tasks = _tasks_text(each.tasks)
        row: list[Column] = [
            ("GROUP", 15, group.group_id),
            ("MEMBER", 15, each.member_id),
            ("PROCESS", 15, each.process_id),
            ("CLIENT-ID", 15, each.client_id),
            ("ASSIGNMENTS", 0, tasks),
        ]
        if is_verbose:
            row[4] = ("ASSIGNMENTS", 0, tasks + _tasks_text(each.target, "TARGET-"))
            row[2:2] = [
                ("MEMBER-PROTOCOL", 15, "classic" if each.is_classic else "streams"),
                ("MEMBER-EPOCH", 15, each.epoch),
            ]
            row[1:1] = [
                ("TARGET-ASSIGNMENT-EPOCH", 25, group.assignment_epoch),
                ("TOPOLOGY-EPOCH", 15, group.topology_epoch),
            ]
        rows.append(row)
    return rows


def _tasks_text(tasks: Tasks, prefix: str = "") -> str:
    """Return tasks as `ACTIVE: 0:[0,1]; `."""
    return "".join(
        f"{prefix}{name}: "
        + "".join(f"{subtopology}:[{','.join(map(str, each))}]; " for subtopology, each in ids)
        for name, ids in zip(("ACTIVE", "STANDBY", "WARMUP"), tasks, strict=True)
        if ids
    )


async def _write_offsets(client: KafkaClient, group: StreamsGroup, *, is_verbose: bool) -> None:
    partitions = group.read_partitions
    committed = await committed_positions(client, group.group_id)
    starts = await first_offsets(client, partitions)
    ends = await end_offsets(client, partitions)
    rows: list[list[Column]] = []
    for each in partitions:
        if each not in ends:
            continue
        at = committed.get(each)
        lag = ends[each] - (starts[each] if at is None else at.offset)
        row: list[Column] = [
            ("GROUP", 15, group.group_id),
            ("TOPIC", 15, each.topic),
            ("PARTITION", 10, each.partition),
            ("OFFSET-LAG", 0, lag),
        ]
        if is_verbose:
            epoch = None if at is None or at.leader_epoch < 0 else at.leader_epoch
            row[3:3] = [
                ("CURRENT-OFFSET", 15, None if at is None else at.offset),
                ("LEADER-EPOCH", 15, epoch),
                ("LOG-END-OFFSET", 15, ends[each]),
            ]
        rows.append(row)
    if rows:
        write_columns(rows)


async def _delete(client: KafkaClient, group_ids: Sequence[str], parsed: Namespace) -> None:
    states = {each.group_id: each.state for each in await groups_of(client, STREAMS)}
    reasons: dict[str, str | None] = {}
    internal: dict[str, tuple[str, ...]] = {}
    for group_id in group_ids:
        if group_id not in states:
            text = f"Group '{group_id}' does not exist or is not a streams group."
            reasons[group_id] = _NO_GROUP + text
        elif states[group_id] != "Empty":
            text = f"Streams group '{group_id}' is not EMPTY."
            reasons[group_id] = exception_text(ErrorCode.NON_EMPTY_GROUP, text)
        elif parsed.delete_all_internal_topics:
            internal[group_id] = (await describe_streams_group(client, group_id)).internal_topics
    deletable = [each for each in group_ids if each not in reasons]
    failures: dict[str, str] = {}
    deleted: list[str] = []
    for group_id, error in (await delete_groups(client, deletable)).items():
        reasons[group_id] = None if error is None else exception_text(error.code, error.reason)
        if error is None and internal.get(group_id):
            reason = await _delete_topics(client, internal[group_id])
            if reason is None:
                deleted.append(group_id)
            else:
                failures[group_id] = reason
    write_deletions(reasons, STREAMS)
    _write_topic_deletions(deleted, failures)


async def _delete_topics(client: KafkaClient, topics: Sequence[str]) -> str | None:
    """Delete internal topics, and return the exception of the last failure."""
    reason = None
    for topic, error in (await delete_topics(client, topics)).items():
        if error is not None:
            write_line(f"Failed to delete internal topic: {topic}")
            reason = exception_text(error.code, error.reason)
    return reason


def _write_topic_deletions(deleted: Sequence[str], failures: Mapping[str, str]) -> None:
    if deleted and not failures:
        names = "', '".join(deleted)
        write_line(
            f"Deletion of associated internal topics of the streams groups ('{names}') was "
            "successful."
        )
    if failures:
        write_line("Deletion of some associated internal topics failed:")
    for group_id, reason in failures.items():
        write_line(
            f"* Internal topics of the streams group '{group_id}' could not be deleted due to: "
            f"{reason}"
        )


async def _delete_topics_of_reset(client: KafkaClient, group_id: str, parsed: Namespace) -> None:
    """Delete the internal topics that options of a reset name; raises KafkaToolError."""
    if not (parsed.delete_all_internal_topics or parsed.delete_internal_topic):
        return
    internal = (await describe_streams_group(client, group_id)).internal_topics
    chosen = parsed.delete_internal_topic or internal
    for topic in chosen:
        if topic not in internal:
            raise KafkaToolError(
                f"The internal topic '{topic}' is not inferred as internal and thus will not be "
                f"deleted with the group '{group_id}'."
            )
    reason = await _delete_topics(client, chosen)
    if reason is not None:
        raise KafkaToolError(
            f"Deleting internal topics for group '{group_id}' failed due to {reason}"
        )
