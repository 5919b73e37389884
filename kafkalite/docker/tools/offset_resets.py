"""`kafka-consumer-groups --reset-offsets`: which offsets groups get, and their output."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from kafkalite.cli.tables import table_lines
from kafkalite.client.errors import BrokerError, UnknownNameError
from kafkalite.client.groups import INACTIVE_STATES, set_offsets
from kafkalite.client.offset_reset import plan_reset
from kafkalite.client.offsets import EARLIEST, LATEST, OffsetTarget
from kafkalite.docker.tools.arguments import ToolError
from kafkalite.docker.tools.running import write_error, write_line
from kafkalite.ports.clock import AdjustableClock
from kafkalite.ports.times import instant_ms

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence

    from kafkalite.client.client import KafkaClient
    from kafkalite.client.offset_reset import ResetPlan
    from kafkalite.docker.tools.arguments import ToolParser

_SCENARIOS: Final = (
    *("by_duration", "to_latest", "to_current", "to_earliest"),
    *("to_offset", "shift_by", "to_datetime"),
)
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


def add_reset_options(parser: ToolParser) -> None:
    """Add the options of a reset."""
    parser.add_argument("--reset-offsets", action="store_true")
    parser.add_argument("--topic", action="append")
    for switch in ("all-topics", "to-latest", "to-current", "to-earliest"):
        parser.add_argument(f"--{switch}", action="store_true")
    parser.add_argument("--by-duration")
    parser.add_argument("--to-offset", type=int)
    parser.add_argument("--shift-by", type=int)
    parser.add_argument("--to-datetime")
    for switch in ("execute", "dry-run", "export"):
        parser.add_argument(f"--{switch}", action="store_true")


def check_reset_options(parser: ToolParser, parsed: Namespace) -> None:
    """Raise ToolError for options that Kafka's tool refuses, with its texts."""
    given = [name for name in _SCENARIOS if getattr(parsed, name) not in (None, False)]
    if not given:
        scenarios = ", ".join(f"[{name.replace('_', '-')}]" for name in _SCENARIOS)
        parser.error(
            f"Option '[reset-offsets]' requires one of the following scenarios: [{scenarios}]"
        )
    if len(given) > 1:
        first, second = (name.replace("_", "-") for name in given[:2])
        parser.error(f'Option "[{first}]" can\'t be used with option "[{second}]"')
    if not (parsed.all_topics or parsed.topic):
        parser.error("One of the reset scopes should be defined: --all-topics, --topic.")
    _target(parsed)
    _topics(parsed)


def _target(parsed: Namespace) -> OffsetTarget | None:
    """Return the target of a reset; None if it depends on the committed offset. ToolError."""
    if parsed.to_offset is not None:
        return OffsetTarget(offset=parsed.to_offset)
    if parsed.to_earliest or parsed.to_latest:
        return OffsetTarget(timestamp_ms=EARLIEST if parsed.to_earliest else LATEST)
    try:
        if parsed.to_datetime is not None:
            return OffsetTarget(timestamp_ms=instant_ms(parsed.to_datetime))
        if parsed.by_duration is not None:
            now_ms = AdjustableClock().now_ms()
            return OffsetTarget(timestamp_ms=max(0, now_ms - _duration_ms(parsed.by_duration)))
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


def _topics(parsed: Namespace) -> dict[str, tuple[int, ...] | None]:
    """Return the partitions of each `--topic`, None for all of them; ToolError."""
    topics: dict[str, tuple[int, ...] | None] = {}
    for text in parsed.topic or ():
        name, colon, indexes = text.partition(":")
        parts = indexes.split(",")
        if colon and not all(part.isascii() and part.isdigit() for part in parts):
            raise ToolError(f"Invalid topic arg '{text}', expected format is topic:0,1")
        topics[name] = tuple(map(int, parts)) if colon else None
    return topics


async def reset_offsets(client: KafkaClient, groups: Sequence[str], parsed: Namespace) -> None:
    """Print the offsets of groups after a reset, and set them with `--execute`."""
    if not parsed.execute and not parsed.dry_run:
        write_error(_NO_ACTION)
    rows: list[tuple[str, ...]] = []
    try:
        for group_id in groups:
            plan = await _plan(client, group_id, parsed)
            if plan is None:
                continue
            if parsed.execute:
                await set_offsets(client, plan.group, plan.offsets)
            rows += [
                (group_id, topic, str(index), str(offset))
                for (topic, index), offset in plan.offsets.items()
            ]
    except UnknownNameError:
        # An unknown topic; Kafka's tool prints this to standard output, with status 0.
        reason = "This server does not host this topic-partition."
        write_line(f"\nError: Executing consumer group command failed due to {reason}")
        return
    except BrokerError as error:
        write_line(f"\nError: Executing consumer group command failed due to {error.reason}")
        return
    if parsed.export:
        first = 1 if len(groups) == 1 else 0
        write_line("".join(f"{','.join(row[first:])}\n" for row in rows))
        return
    write_line("")
    for line in table_lines(_HEADER, rows, minimum_widths=_WIDTHS, gap=" ", uses_colours=False):
        write_line(line)


async def _plan(client: KafkaClient, group_id: str, parsed: Namespace) -> ResetPlan | None:
    """Return the offsets of a group after the reset; None if it has members or is unknown."""
    topics = _topics(parsed)
    shift = 0 if parsed.to_current else parsed.shift_by
    try:
        plan = await plan_reset(client, group_id, topics, _target(parsed), shift)
    except UnknownNameError as error:
        if error.name != group_id or topics:
            raise
        return None
    if plan.group.state in INACTIVE_STATES:
        return plan
    write_line(
        f"\nError: Assignments can only be reset if the group '{group_id}' is inactive, but the "
        f"current state is {plan.group.state}."
    )
    return None
