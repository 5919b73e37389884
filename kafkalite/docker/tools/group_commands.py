"""Parts that the tools for groups of each type have in common: options, and what they print."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kafkalite.client.errors import UnknownNameError
from kafkalite.client.groups import describe_group, list_groups
from kafkalite.docker.tools.arguments import add_bootstrap_options, file_text
from kafkalite.docker.tools.exceptions import exception_text, with_cause
from kafkalite.docker.tools.running import run_with_client, write_error, write_line
from kafkalite.docker.tools.tables import write_table
from kafkalite.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterable, Mapping, Sequence

    from kafkalite.client.client import KafkaClient
    from kafkalite.client.epochs import TopicPartition
    from kafkalite.client.groups import GroupDescription, GroupListing
    from kafkalite.docker.tools.arguments import ToolParser
    from kafkalite.docker.tools.running import Command


@dataclass(frozen=True, slots=True)
class GroupKind:
    """The groups of a tool."""

    name: str
    """The word for such a group in the texts of the tool."""
    types: tuple[str, ...]
    """Types of groups that the tool shows; a reset creates a group of the first one."""
    failed_status: int = 0
    """The exit status if a group or a topic does not exist."""


CONSUMER: Final = GroupKind("consumer", ("classic", "consumer"))
SHARE: Final = GroupKind("share", ("share",))
STREAMS: Final = GroupKind("streams", ("streams",), failed_status=1)


def run_with_plan(parsed: Namespace, environment: Mapping[str, str], command: Command) -> int:
    """Run a command that may reset offsets to those of `--from-file`; return its status."""
    if parsed.from_file is not None:
        parsed.plan = file_text(parsed.from_file, environment)
    return run_with_client(parsed, environment, command)


def add_group_options(parser: ToolParser) -> None:
    """Add the options that the tools for groups of each type have."""
    add_bootstrap_options(parser)
    parser.add_switches("list", "describe", "delete", "delete-offsets", "all-groups")
    parser.add_switches("members", "offsets", "verbose")
    parser.add_values("group", many=True)
    parser.add_values("timeout", type=int)
    parser.add_argument("--state", nargs="?", const="")


def check_parts(parser: ToolParser, parsed: Namespace) -> None:
    """Raise UsageError if more than one part of a description is requested."""
    if sum((parsed.members, parsed.offsets, parsed.state is not None)) > 1:
        parser.error(
            "Option [describe] takes at most one of these options: [members], [offsets], [state]"
        )


async def groups_of(client: KafkaClient, kind: GroupKind) -> list[GroupListing]:
    """Return the groups of a tool on all brokers, by id."""
    return [each for each in await list_groups(client) if each.type in kind.types]


async def chosen_groups(client: KafkaClient, parsed: Namespace, kind: GroupKind) -> list[str]:
    """Return the ids of the groups that options name."""
    if parsed.all_groups:
        return [each.group_id for each in await groups_of(client, kind)]
    return sorted(set(parsed.group))


def words_of(text: str | None) -> set[str]:
    """Return the words of a list in lower case."""
    return {each.strip().lower() for each in (text or "").split(",") if each.strip()}


def check_words(parser: ToolParser, name: str, text: str | None, valid: Sequence[str]) -> None:
    """Raise UsageError for a list with a word that is not valid; `name` says what it lists."""
    if words_of(text) - {each.lower() for each in valid}:
        plural = name if name.endswith("s") else f"{name}s"
        parser.error(f"Invalid {name} list '{text}'. Valid {plural} are: {', '.join(valid)}")


def write_groups(
    groups: Iterable[GroupListing], states: str | None, *, has_types: bool = False
) -> None:
    """Print ids, or a table with types and with states; `states` are those that are shown."""
    shown = words_of(states)
    rows = [each for each in groups if not shown or each.state.lower() in shown]
    if states is None and not has_types:
        for each in rows:
            write_line(each.group_id)
        return
    columns = [("GROUP", 25, [each.group_id for each in rows])]
    if has_types:
        columns.append(("TYPE", 20, [each.type.capitalize() for each in rows]))
    if states is not None:
        columns.append(("STATE", 20, [each.state for each in rows]))
    header, widths, cells = zip(*columns, strict=True)
    write_table(header, list(zip(*cells, strict=True)), widths)


async def describe_of_kind(client: KafkaClient, group_id: str, kind: GroupKind) -> GroupDescription:
    """Return a group; raises UnknownNameError, also for one of another type."""
    group = await describe_group(client, group_id)
    if group.type not in kind.types:
        raise UnknownNameError("group", group_id)
    return group


def write_unknown_group(group_id: str, kind: GroupKind) -> int:
    """Print that a group does not exist, to the standard output; return the exit status."""
    reason = exception_text(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
    write_line(f"\nError: Executing {kind.name} group command failed due to {reason}")
    write_error(with_cause(reason))
    return kind.failed_status


def write_deletions(results: Mapping[str, str | None], kind: GroupKind) -> None:
    """Print the exception of each group that was not deleted; None for one that was."""
    deleted = ", ".join(f"'{group}'" for group, reason in results.items() if reason is None)
    failed = {group: reason for group, reason in results.items() if reason is not None}
    if not failed:
        write_line(f"Deletion of requested {kind.name} groups ({deleted}) was successful.")
        return
    write_line(f"\nError: Deletion of some {kind.name} groups failed:")
    for group, reason in failed.items():
        write_line(f"* Group '{group}' could not be deleted due to: {reason}")
    if deleted:
        write_line(f"\nThese {kind.name} groups were deleted successfully: {deleted}")


async def coordinator_text(client: KafkaClient, node_id: int) -> str:
    """Return the address and the id of the coordinator of a group."""
    brokers = {each.node_id: each for each in (await client.metadata()).brokers}
    node = brokers[node_id]
    return f"{node.host}:{node.port}  ({node.node_id})"


def assignment_text(partitions: Sequence[TopicPartition]) -> str | None:
    """Return partitions as `topic:0,1;other:2`."""
    indexes: dict[str, list[int]] = {}
    for topic, index in partitions:
        indexes.setdefault(topic, []).append(index)
    return (
        ";".join(f"{topic}:{','.join(map(str, each))}" for topic, each in indexes.items()) or None
    )
