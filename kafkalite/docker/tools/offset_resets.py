"""`kafka-consumer-groups --reset-offsets`: which offsets groups get, and their output."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from kafkalite.client.epochs import TopicPartition
from kafkalite.client.errors import BrokerError, UnknownNameError
from kafkalite.client.groups import INACTIVE_STATES, GroupListing, find_group, set_offsets
from kafkalite.client.offset_reset import plan_reset
from kafkalite.client.offsets import (
    EARLIEST,
    LATEST,
    NO_OFFSET,
    OffsetTarget,
    end_offsets,
    list_offsets,
    target_offsets,
)
from kafkalite.docker.tools.arguments import KafkaToolError, ToolError
from kafkalite.docker.tools.exceptions import exception_text
from kafkalite.docker.tools.group_commands import SHARE
from kafkalite.docker.tools.running import write_error, write_line
from kafkalite.docker.tools.tables import write_table
from kafkalite.ports.clock import AdjustableClock
from kafkalite.ports.times import instant_ms
from kafkalite.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator, Mapping, Sequence

    from kafkalite.client.client import KafkaClient
    from kafkalite.docker.tools.arguments import ToolParser
    from kafkalite.docker.tools.group_commands import GroupKind

SCENARIOS: Final = (
    *("by_duration", "to_latest", "to_current", "to_earliest"),
    *("to_offset", "shift_by", "from_file", "to_datetime"),
)
"""The options that say which offsets groups get, one of which is given."""
_HEADER: Final = ("GROUP", "TOPIC", "PARTITION", "NEW-OFFSET")
_WIDTHS: Final = (15, 15, 10, 0)
_NO_ACTION: Final = (
    "WARN: No action will be performed as the --execute option is missing. In version 5.0, this "
    "command will require either --dry-run or --execute to be specified. You should add the "
    "--dry-run option explicitly if you are scripting this command and want to keep the current "
    "default behavior without prompting."
)
_DURATION: Final = re.compile(
    r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)(?:\.(\d{1,3}))?S)?)?", re.ASCII
)
_UNITS_MS: Final = (86_400_000, 3_600_000, 60_000, 1_000)


def add_reset_options(parser: ToolParser, prefix: str = "") -> None:
    """Add the options of a reset; those for topics begin with the prefix."""
    parser.add_argument("--reset-offsets", action="store_true")
    parser.add_argument(f"--{prefix}topic", dest="topic", action="append")
    parser.add_argument(f"--all-{prefix}topics", dest="all_topics", action="store_true")
    for switch in ("to-latest", "to-current", "to-earliest"):
        parser.add_argument(f"--{switch}", action="store_true")
    parser.add_argument("--by-duration")
    parser.add_argument("--to-offset", type=int)
    parser.add_argument("--shift-by", type=int)
    parser.add_argument("--to-datetime")
    parser.add_argument("--from-file")
    for switch in ("execute", "dry-run", "export"):
        parser.add_argument(f"--{switch}", action="store_true")


def check_reset_options(parser: ToolParser, parsed: Namespace, prefix: str = "") -> None:
    """Raise ToolError for options that Kafka's tool refuses, with its texts."""
    given = [name for name in SCENARIOS if getattr(parsed, name) not in (None, False)]
    if not given:
        scenarios = ", ".join(f"[{name.replace('_', '-')}]" for name in SCENARIOS)
        parser.error(
            f"Option '[reset-offsets]' requires one of the following scenarios: [{scenarios}]"
        )
    if len(given) > 1:
        first, second = (name.replace("_", "-") for name in given[:2])
        parser.error(f'Option "[{first}]" can\'t be used with option "[{second}]"')
    if not (parsed.all_topics or parsed.topic or parsed.from_file):
        parser.error(
            f"One of the reset scopes should be defined: --all-{prefix}topics, --{prefix}topic."
        )
    _target(parsed)
    topics_of(parsed)


def _target(parsed: Namespace) -> OffsetTarget | None:
    """Return the target of a reset; None if it depends on the committed offset. ToolError."""
    if parsed.to_offset is not None:
        return OffsetTarget(offset=parsed.to_offset)
    if parsed.to_earliest or parsed.to_latest:
        return OffsetTarget(timestamp_ms=EARLIEST if parsed.to_earliest else LATEST)
    time_ms = time_of(parsed)
    return None if time_ms is None else OffsetTarget(timestamp_ms=time_ms)


def time_of(parsed: Namespace) -> int | None:
    """Return the time of `--to-datetime` or `--by-duration`, None without one; ToolError."""
    try:
        if parsed.to_datetime is not None:
            return instant_ms(parsed.to_datetime)
        if parsed.by_duration is not None:
            return max(0, AdjustableClock().now_ms() - _duration_ms(parsed.by_duration))
    except ValueError as error:
        raise ToolError(str(error)) from None
    return None


def _duration_ms(text: str) -> int:
    """Return the milliseconds of a duration in ISO 8601, such as P7D; raises ValueError."""
    found = _DURATION.fullmatch(text)
    if found is None or not any(found.groups()):
        raise ValueError(f"--by-duration {text!r} is not a duration such as P7D or PT1H30M")
    *numbers, fraction = found.groups()
    milliseconds = int((fraction or "").ljust(3, "0"))
    pairs = zip(numbers, _UNITS_MS, strict=True)
    return milliseconds + sum(int(number or 0) * unit_ms for number, unit_ms in pairs)


def topics_of(parsed: Namespace) -> dict[str, tuple[int, ...] | None]:
    """Return the partitions of each `--topic`, None for all of them; ToolError."""
    topics: dict[str, tuple[int, ...] | None] = {}
    for text in parsed.topic or ():
        name, colon, indexes = text.partition(":")
        parts = indexes.split(",")
        if colon and not all(part.isascii() and part.isdigit() for part in parts):
            raise ToolError(f"Invalid topic arg '{text}', expected format is topic:0,1")
        topics[name] = tuple(map(int, parts)) if colon else None
    return topics


async def reset_offsets(
    client: KafkaClient, groups: Sequence[str], parsed: Namespace, kind: GroupKind
) -> int:
    """Print the offsets of groups after a reset, set them with `--execute`; return the status."""
    if not parsed.execute and not parsed.dry_run:
        write_error(_NO_ACTION)
    rows: list[tuple[str, ...]] = []
    try:
        for group_id in groups:
            group = await _inactive_group(client, group_id, kind)
            if group is None:
                continue
            offsets = await _new_offsets(client, group, len(groups), parsed)
            if parsed.execute:
                await set_offsets(client, group, offsets)
            rows += [
                (group_id, topic, str(index), str(offset))
                for (topic, index), offset in offsets.items()
            ]
    except UnknownNameError:
        # An unknown topic; Kafka's tool prints this to standard output, with status 0.
        reason = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.message
        write_line(f"\nError: Executing {kind.name} group command failed due to {reason}")
        write_error(exception_text(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
        return kind.failed_status
    except BrokerError as error:
        write_line(f"\nError: Executing {kind.name} group command failed due to {error.reason}")
        write_error(exception_text(error.code, error.reason))
        return kind.failed_status
    if parsed.export:
        first = 1 if len(groups) == 1 else 0
        write_line("".join(f"{','.join(row[first:])}\n" for row in rows))
        return 0
    write_line("")
    write_table(_HEADER, rows, _WIDTHS)
    return 0


async def _inactive_group(
    client: KafkaClient, group_id: str, kind: GroupKind
) -> GroupListing | None:
    """Return a group without members, also one that does not exist; None if it has members.

    Raises KafkaToolError if the tool of its kind ends then.
    """
    try:
        group = await find_group(client, group_id)
    except UnknownNameError:
        return GroupListing(group_id, kind.types[0], "", "", -1)
    if group.state in INACTIVE_STATES:
        return group
    if kind is SHARE:
        raise KafkaToolError(f"Share group '{group_id}' is not empty.")
    write_line(
        f"\nError: Assignments can only be reset if the group '{group_id}' is inactive, but the "
        f"current state is {group.state}."
    )
    return None


async def _new_offsets(
    client: KafkaClient, group: GroupListing, group_count: int, parsed: Namespace
) -> Mapping[TopicPartition, int]:
    """Return the offsets of a group after the reset."""
    if parsed.from_file is not None:
        planned = {
            TopicPartition(topic, index): offset
            for group_id, topic, index, offset in _rows_of_file(parsed.plan, group_count)
            if group_id in (group.group_id, None)
        }
        ends = await end_offsets(client, planned)
        found: dict[TopicPartition, int] = {}
        for each, offset in planned.items():
            limits = await target_offsets(client, [each], OffsetTarget(offset=offset))
            found |= {each: limits[each] if each in ends else offset}
        return found
    topics = topics_of(parsed)
    shift = 0 if parsed.to_current else parsed.shift_by
    target = _target(parsed)
    try:
        plan = await plan_reset(client, group.group_id, topics, target, shift)
    except UnknownNameError as error:
        if error.name != group.group_id or topics:
            raise
        return {}
    if target is not None and target.offset is None and target.timestamp_ms >= 0:
        await _warn_of_later_times(client, plan.offsets, target.timestamp_ms)
    return plan.offsets


async def _warn_of_later_times(
    client: KafkaClient, offsets: Mapping[TopicPartition, int], timestamp_ms: int
) -> None:
    """Print the partitions without a record at a time or later, with Kafka's text."""
    found = await list_offsets(client, dict.fromkeys(offsets, timestamp_ms))
    for (topic, index), listed in found.items():
        if listed.offset == NO_OFFSET:
            write_line(
                f"\nWarn: Partition {index} from topic {topic} is empty. Falling back to latest "
                "known offset."
            )


def _rows_of_file(text: str, group_count: int) -> Iterator[tuple[str | None, str, int, int]]:
    """Yield group, topic, partition and offset of the lines of an export; raises ToolError.

    A line of the export of one group has no group.
    """
    for line in filter(None, map(str.strip, text.splitlines())):
        *group, topic, index, offset = [None, None, *(part.strip('" ') for part in line.split(","))]
        if len(group) != 2 + (group_count > 1) or not (topic and index and offset):
            raise ToolError(f"--from-file: {line!r} is not a line of an export")
        if not (index.isdigit() and offset.isdigit()):
            raise ToolError(f"--from-file: {line!r} has no partition or no offset")
        yield group[-1] if group_count > 1 else None, topic, int(index), int(offset)
