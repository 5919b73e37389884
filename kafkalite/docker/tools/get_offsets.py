"""`kafka-get-offsets`: the offsets of partitions at a time."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from kafkalite.client.epochs import TopicPartition
from kafkalite.client.offsets import NO_OFFSET, list_offsets
from kafkalite.client.topics import list_topics
from kafkalite.docker.tools.arguments import (
    KafkaToolError,
    ToolParser,
    add_bootstrap_options,
)
from kafkalite.docker.tools.running import run_tool, run_with_client, write_error, write_line
from kafkalite.ports.named_tuples import NamedTuple

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping, Sequence

    from kafkalite.client.client import KafkaClient

_TIMES: Final = {
    "latest": -1,
    "earliest": -2,
    "max-timestamp": -3,
    "earliest-local": -4,
    "latest-tiered": -5,
    "earliest-pending-upload": -6,
}
"""Words of `--time` → timestamps of ListOffsets."""
_FAILURE: Final = "Error occurred: "
_FILTER: Final = re.compile(r"([^:,]*)(?::([0-9]*)(?:-([0-9]*))?)?")


class _PartitionFilter(NamedTuple):
    """Topics by an expression, and the first and the last of their partitions."""

    topic: re.Pattern[str]
    first: int = 0
    last: int | None = None

    def matches(self, partition: TopicPartition) -> bool:
        """Return whether a partition is selected."""
        is_after = partition.partition >= self.first
        is_before = self.last is None or partition.partition < self.last
        return is_after and is_before and self.topic.fullmatch(partition.topic) is not None


def main(name: str, arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run the tool; return its exit status."""
    return run_tool(name, lambda: run_with_client(_parse(name, arguments), environment, _run))


def _parse(name: str, arguments: Sequence[str]) -> Namespace:
    parser = ToolParser(name, "Show the offsets of partitions at a time.")
    # Kafka 3 has the second name.
    add_bootstrap_options(parser, "--broker-list")
    parser.add_values("topic-partitions", "topic", "partitions")
    parser.add_values("time", default="latest")
    parser.add_switches("exclude-internal-topics")
    parsed = parser.parse(arguments)
    if parsed.topic_partitions and (parsed.topic or parsed.partitions):
        raise KafkaToolError(
            f"{_FAILURE}--topic-partitions cannot be used with --topic or --partitions"
        )
    parsed.timestamp = _timestamp(parsed.time)
    parsed.filters = (
        [_filter(text) for text in parsed.topic_partitions.split(",")]
        if parsed.topic_partitions
        else _topic_filters(parsed.topic, parsed.partitions)
    )
    return parsed


def _timestamp(text: str) -> int:
    """Return the timestamp of `--time`; raises KafkaToolError."""
    if text in _TIMES:
        return _TIMES[text]
    try:
        return int(text)
    except ValueError:
        raise KafkaToolError(
            f"{_FAILURE}Malformed time argument {text}. Please use -1 or latest / -2 or earliest / "
            "-3 or max-timestamp / -4 or earliest-local / -5 or latest-tiered / -6 or "
            "earliest-pending-upload, or a specified long format timestamp"
        ) from None


def _filter(text: str) -> _PartitionFilter:
    """Return the filter of `TOPIC:FIRST-LAST`; raises KafkaToolError."""
    found = _FILTER.fullmatch(text)
    if found is None:
        raise KafkaToolError(f"{_FAILURE}Invalid rule specification: {text}")
    topic, first, last = found.groups()
    start = int(first) if first else 0
    end = int(last) if last else None if last is not None or not first else start + 1
    return _PartitionFilter(_expression(topic or ".*"), start, end)


def _topic_filters(topic: str | None, partitions: str | None) -> list[_PartitionFilter]:
    expression = _expression(topic or ".*")
    if not partitions:
        return [_PartitionFilter(expression)]
    if not all(part.isascii() and part.isdigit() for part in partitions.split(",")):
        raise KafkaToolError(
            f"{_FAILURE}--partitions expects a comma separated list of numeric partition ids, but "
            f"received: {partitions}"
        )
    indexes = map(int, partitions.split(","))
    return [_PartitionFilter(expression, index, index + 1) for index in indexes]


def _expression(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise KafkaToolError(f"{_FAILURE}{text} is an invalid regex: {error}") from None


async def _run(client: KafkaClient, parsed: Namespace) -> int:
    partitions = [
        partition
        for topic in await list_topics(client)
        if not (parsed.exclude_internal_topics and topic.is_internal)
        for row in topic.partitions
        for partition in [TopicPartition(topic.name, row.partition)]
        if any(each.matches(partition) for each in parsed.filters)
    ]
    if not partitions:
        raise KafkaToolError(
            f"{_FAILURE}Could not match any topic-partitions with the specified filters"
        )
    found = await list_offsets(client, dict.fromkeys(partitions, parsed.timestamp))
    for each in sorted(partitions):
        listed = found.get(each)
        if listed is None or listed.error:
            reason = "there is no leader" if listed is None else listed.error.message
            write_error(f"Skip getting offsets for topic-partition {each} due to error: {reason}")
        elif listed.offset != NO_OFFSET:
            write_line(f"{each.topic}:{each.partition}:{listed.offset}")
    return 0
