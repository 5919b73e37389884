"""`kafka-streams-application-reset`: reset the offsets of an application, and delete its topics."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from kafkalite.client.epochs import TopicPartition
from kafkalite.client.errors import UnknownNameError
from kafkalite.client.groups import (
    GroupListing,
    committed_offsets,
    describe_group,
    remove_members,
    set_offsets,
)
from kafkalite.client.offsets import NO_OFFSET, end_offsets, first_offsets, list_offsets
from kafkalite.client.topics import delete_topics, list_topics
from kafkalite.docker.tools.arguments import (
    FAILED_STATUS,
    KafkaToolError,
    ToolError,
    ToolParser,
)
from kafkalite.docker.tools.exceptions import exception_text
from kafkalite.docker.tools.group_commands import run_with_plan
from kafkalite.docker.tools.offset_resets import SCENARIOS, time_of
from kafkalite.docker.tools.running import run_tool, write_error, write_line

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator, Mapping, Sequence

    from kafkalite.client.client import KafkaClient
    from kafkalite.client.topics import TopicDescription

_DEFAULT_ADDRESS: Final = "localhost:9092"
_INTERNAL: Final = re.compile(
    r".*-(changelog|repartition|subscription-registration-topic|subscription-response-topic"
    r"|KTABLE-FK-JOIN-SUBSCRIPTION-(REGISTRATION|RESPONSE)-\d+-topic)",
    re.ASCII,
)
"""The names of the topics that Kafka Streams creates, after the id of the application."""
_INVALID_INTERNAL: Final = (
    "Invalid topic specified in the --internal-topics option. Ensure that the topics specified are "
    "all internal topics. Do a dry run without the --internal-topics option to see the list of all "
    "internal topics that can be deleted."
)


def main(name: str, arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run the tool; return its exit status."""
    return run_tool(name, lambda: run_with_plan(_parse(name, arguments), environment, _run))


def _parse(name: str, arguments: Sequence[str]) -> Namespace:
    parser = ToolParser(name, "Reset an application of Kafka Streams, to process its data again.")
    # Kafka 3 has the second name.
    parser.add_argument(
        *("--bootstrap-server", "--bootstrap-servers"), default=_DEFAULT_ADDRESS, metavar="LIST"
    )
    parser.add_argument("--config-file", metavar="FILE")
    parser.add_argument("--command-config", dest="client_config", metavar="FILE")
    parser.add_values("application-id", "by-duration", "to-datetime", "from-file")
    parser.add_values("input-topics", "intermediate-topics", "internal-topics", many=True)
    parser.add_values("to-offset", "shift-by", type=int)
    parser.add_switches("to-earliest", "to-latest", "force", "dry-run")
    parsed = parser.parse(arguments)
    if parsed.application_id is None:
        parser.error('Missing required argument "[application-id]"')
    given = [each.replace("_", "-") for each in SCENARIOS
             if getattr(parsed, each, None) not in (None, False)]  # fmt: skip
    if len(given) > 1:
        parser.error(f'Option "[{given[0]}]" can\'t be used with option "[{given[1]}]"')
    if parsed.config_file is not None:
        if parsed.client_config is not None:
            parser.error('Option "[config-file]" can\'t be used with option "[command-config]"')
        write_line(
            "Option --config-file has been deprecated and will be removed in a future version. Use "
            "--command-config instead."
        )
        parsed.client_config = parsed.config_file
    if parsed.intermediate_topics:
        write_line(
            "WARN: `--intermediate-topics` is deprecated and will be removed in a future release"
        )
    for each in ("input_topics", "intermediate_topics", "internal_topics"):
        setattr(parsed, each, [topic for text in getattr(parsed, each)
                               for topic in text.split(",") if topic])  # fmt: skip
    return parsed


async def _run(client: KafkaClient, parsed: Namespace) -> int:
    await _remove_members(client, parsed)
    topics = {each.name: each for each in await list_topics(client) if not each.is_internal}
    if parsed.dry_run:
        write_line(
            "----Dry run displays the actions which will be performed when running Streams Reset "
            "Tool----"
        )
    status = await _reset(client, topics, parsed)
    await _delete_internal_topics(client, topics, parsed)
    return status


async def _remove_members(client: KafkaClient, parsed: Namespace) -> None:
    """Remove the members of the group with `--force`; raises KafkaToolError if there are some."""
    group_id = parsed.application_id
    try:
        group = await describe_group(client, group_id)
    except UnknownNameError:
        return
    if not group.members:
        return
    if not parsed.force:
        members = ", ".join(f"(memberId={each.member_id}, clientId={each.client_id}, "
                            f"host={each.host})" for each in group.members)  # fmt: skip
        raise KafkaToolError(
            f"ERROR: java.lang.IllegalStateException: Consumer group '{group_id}' is still active "
            f"and has following members: [{members}]. Make sure to stop all running application "
            "instances before running the reset tool. You can use option '--force' to remove "
            "active members from the group."
        )
    write_line(f"Force deleting all active members in the group: {group_id}")
    await remove_members(client, group_id, [each.member_id for each in group.members])


async def _reset(
    client: KafkaClient, topics: Mapping[str, TopicDescription], parsed: Namespace
) -> int:
    """Reset the offsets of input topics, and move behind the records of intermediate topics."""
    inputs, intermediates = parsed.input_topics, parsed.intermediate_topics
    if not (inputs or intermediates):
        write_line("No input or intermediate topics specified. Skipping seek.")
        return 0
    if inputs:
        write_line(f"Reset-offsets for input topics {_list_text(inputs)}")
    if intermediates:
        write_line(f"Seek-to-end for intermediate topics {_list_text(intermediates)}")
    status = _write_unknown("input", [each for each in inputs if each not in topics])
    status |= _write_unknown("intermediate", [each for each in intermediates if each not in topics])
    input_partitions = _partitions(topics, inputs)
    intermediate_partitions = _partitions(topics, intermediates)
    if not (input_partitions or intermediate_partitions):
        return status
    group_id = parsed.application_id
    offsets = await _input_offsets(client, input_partitions, parsed)
    if intermediate_partitions:
        write_line(
            "Following intermediate topics offsets will be reset to end (for consumer group "
            f"{group_id})"
        )
        for topic, _ in intermediate_partitions:
            write_line(f"Topic: {topic}")
        offsets |= await end_offsets(client, intermediate_partitions)
    if not parsed.dry_run:
        await set_offsets(client, GroupListing(group_id, "classic", "", "", NO_OFFSET), offsets)
    write_line("Done.")
    return status


def _write_unknown(kind: str, names: Sequence[str]) -> int:
    """Print the topics that do not exist; return the exit status."""
    if not names:
        return 0
    write_line(f"Following {kind} topics are not found, skipping them")
    for each in names:
        write_line(f"Topic: {each}" if kind == "input" else f"Topic:{each}")
    return FAILED_STATUS


def _list_text(names: Sequence[str]) -> str:
    return f"[{', '.join(names)}]"


def _partitions(
    topics: Mapping[str, TopicDescription], names: Sequence[str]
) -> list[TopicPartition]:
    return [
        TopicPartition(name, each.partition)
        for name in dict.fromkeys(names)
        if name in topics
        for each in topics[name].partitions
    ]


async def _input_offsets(
    client: KafkaClient, partitions: Sequence[TopicPartition], parsed: Namespace
) -> dict[TopicPartition, int]:
    """Return the new offsets of input topics, and print them."""
    if not partitions:
        return {}
    write_line(
        "Following input topics offsets will be reset to (for consumer group "
        f"{parsed.application_id})"
    )
    offsets = await _new_offsets(client, partitions, parsed)
    for (topic, index), offset in offsets.items():
        write_line(f"Topic: {topic} Partition: {index} Offset: {offset}")
    return offsets


async def _new_offsets(
    client: KafkaClient, partitions: Sequence[TopicPartition], parsed: Namespace
) -> dict[TopicPartition, int]:
    starts, ends = await first_offsets(client, partitions), await end_offsets(client, partitions)
    time_ms = time_of(parsed)
    if time_ms is not None:
        found = await list_offsets(client, dict.fromkeys(partitions, time_ms))
        for (topic, index), row in found.items():
            if row.offset == NO_OFFSET:
                write_line(
                    f"Partition {index} from topic {topic} is empty, without a committed record. "
                    "Falling back to latest known offset."
                )
        return {
            each: ends[each] if row.offset == NO_OFFSET else row.offset
            for each, row in found.items()
        }
    if parsed.to_latest:
        return ends
    if parsed.to_offset is not None:
        requested = dict.fromkeys(partitions, int(parsed.to_offset))
    elif parsed.shift_by is not None:
        committed = await committed_offsets(client, parsed.application_id)
        requested = {each: committed.get(each, ends[each]) + parsed.shift_by for each in partitions}
    elif parsed.from_file is not None:
        requested = dict(_planned_offsets(parsed.plan))
        if missing := [each for each in partitions if each not in requested]:
            raise ToolError(f"--from-file has no line of {missing[0].topic},{missing[0].partition}")
    else:
        return starts
    return {each: _limited(requested[each], starts[each], ends[each]) for each in partitions}


def _limited(offset: int, start: int, end: int) -> int:
    """Return an offset of a partition, and print the limit if it is beyond one."""
    if start < offset < end:
        return offset
    word, limit = ("higher than latest", end) if offset >= end else ("lower than earliest", start)
    write_line(f"New offset ({offset}) is {word} offset. Value will be set to {limit}")
    return limit


def _planned_offsets(text: str) -> Iterator[tuple[TopicPartition, int]]:
    """Yield the offsets in the lines `TOPIC,PARTITION,OFFSET`; raises ToolError."""
    for line in filter(None, map(str.strip, text.splitlines())):
        topic, *numbers = line.split(",")
        try:
            partition, offset = map(int, numbers)
        except ValueError:
            raise ToolError(
                f"--from-file: {line!r} is not of the format `TOPIC,PARTITION,OFFSET`"
            ) from None
        yield TopicPartition(topic, partition), offset


async def _delete_internal_topics(
    client: KafkaClient, topics: Mapping[str, TopicDescription], parsed: Namespace
) -> None:
    """Delete the topics that Kafka Streams has created, or some of them; raises KafkaToolError."""
    prefix = f"{parsed.application_id}-"
    given = {*parsed.input_topics, *parsed.intermediate_topics}
    inferred = [
        each
        for each in topics
        if each not in given and each.startswith(prefix) and _INTERNAL.fullmatch(each)
    ]
    specified = parsed.internal_topics
    if not set(specified) <= set(inferred):
        raise KafkaToolError(f"ERROR: java.lang.IllegalArgumentException: {_INVALID_INTERNAL}")
    word = "specified" if specified else "inferred"
    deleted = specified or inferred
    write_line(f"Deleting {word} internal topics {_list_text(deleted)}")
    if not parsed.dry_run:
        errors = await delete_topics(client, deleted)
        failed = {topic: error for topic, error in errors.items() if error is not None}
        for topic, error in failed.items():
            write_error(
                f"ERROR: deleting topic {topic}\n{exception_text(error.code, error.reason)}"
            )
        if failed:
            raise KafkaToolError(
                "ERROR: java.lang.RuntimeException: Encountered an error deleting one or more "
                "topics"
            )
    write_line("Done.")
