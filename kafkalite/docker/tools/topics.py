"""`kafka-topics`: create, list, describe, extend and delete topics."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from kafkalite.client.errors import BrokerError
from kafkalite.client.topics import (
    BROKER_DEFAULT,
    create_topic,
    delete_topics,
    extend_topic,
    list_topics,
    topic_configs,
)
from kafkalite.docker.tools.arguments import (
    FAILED_STATUS,
    ToolError,
    ToolParser,
    add_bootstrap_options,
    key_values,
)
from kafkalite.docker.tools.running import run_tool, run_with_client, write_line
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.uuids import uuid_to_text

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping, Sequence

    from kafkalite.client.client import KafkaClient
    from kafkalite.client.topics import PartitionDescription, TopicDescription

_ACTIONS: Final = ("create", "list", "describe", "alter", "delete")
_FILTERS: Final = (
    "--topics-with-overrides",
    "--unavailable-partitions",
    "--under-replicated-partitions",
)
"""Options of `--describe` that select topics or partitions."""

_MAX_REPLICAS: Final = 32_767


def main(name: str, arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run the tool; return its exit status."""
    return run_tool(name, lambda: run_with_client(_parse(name, arguments), environment, _run))


def _parse(name: str, arguments: Sequence[str]) -> Namespace:
    parser = ToolParser(name, "Create, list, describe, extend and delete topics.")
    add_bootstrap_options(parser)
    for action in _ACTIONS:
        parser.add_argument(f"--{action}", action="store_true")
    parser.add_argument("--topic")
    parser.add_argument("--partitions", type=int)
    parser.add_argument("--replication-factor", type=int)
    parser.add_argument("--config", action="append", metavar="NAME=VALUE")
    for switch in ("--if-not-exists", "--if-exists", "--exclude-internal", *_FILTERS):
        parser.add_argument(switch, action="store_true")
    parsed = parser.parse(arguments)
    selected = [action for action in _ACTIONS if getattr(parsed, action)]
    if len(selected) != 1:
        parser.error("exactly one of --create, --list, --describe, --alter and --delete is needed")
    given = [option for option in _FILTERS if getattr(parsed, option[2:].replace("-", "_"))]
    if given and not parsed.describe:
        parser.error(f"{given[0]} needs --describe")
    if selected[0] not in ("list", "describe") and not parsed.topic:
        parser.error(f"--{selected[0]} needs --topic")
    _check_numbers(parsed)
    return parsed


def _check_numbers(parsed: Namespace) -> None:
    """Raise ToolError for numbers that Kafka's tool refuses, with its texts."""
    if parsed.partitions is not None and parsed.partitions < 1:
        raise ToolError("The partitions must be greater than 0")
    factor = parsed.replication_factor
    if factor is not None and not 1 <= factor <= _MAX_REPLICAS:
        raise ToolError(f"The replication factor must be between 1 and {_MAX_REPLICAS} inclusive")


async def _run(client: KafkaClient, parsed: Namespace) -> int:
    command = next(
        run
        for action, run in zip(_ACTIONS, (_create, _list, _describe, _alter, _delete), strict=True)
        if getattr(parsed, action)
    )
    try:
        await command(client, parsed)
    except _TopicError as error:
        reason = str(error)
    except BrokerError as error:
        reason = error.reason
    else:
        return 0
    # Kafka's tool prints this to standard output.
    write_line(f"Error while executing topic command : {reason}")
    return FAILED_STATUS


async def _topics(client: KafkaClient, parsed: Namespace) -> list[TopicDescription]:
    """Return the topics that the options select, in the order of names."""
    pattern = _pattern(parsed.topic)
    return [
        topic
        for topic in await list_topics(client)
        if (pattern is None or pattern.fullmatch(topic.name))
        and not (parsed.exclude_internal and topic.is_internal)
    ]


def _pattern(text: str | None) -> re.Pattern[str] | None:
    """Return the pattern of `--topic`, whose commas divide alternatives; raises ToolError."""
    try:
        return None if text is None else re.compile(text.replace(",", "|"))
    except re.error:
        raise ToolError(f"{text} is an invalid regex.") from None


class _TopicError(Exception):
    """The command failed."""


async def _create(client: KafkaClient, parsed: Namespace) -> None:
    try:
        await create_topic(
            client,
            parsed.topic,
            partitions=parsed.partitions or BROKER_DEFAULT,
            replication_factor=parsed.replication_factor or BROKER_DEFAULT,
            configs=dict(key_values(parsed.config, "--config")),
        )
    except BrokerError as error:
        if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS or not parsed.if_not_exists:
            raise
    else:
        write_line(f"Created topic {parsed.topic}.")


async def _list(client: KafkaClient, parsed: Namespace) -> None:
    for topic in await _topics(client, parsed):
        write_line(topic.name)


async def _describe(client: KafkaClient, parsed: Namespace) -> None:
    topics = await _topics(client, parsed)
    if not topics and parsed.topic is not None and not parsed.if_exists:
        raise _TopicError(f"Topic '{parsed.topic}' does not exist as expected")
    only_partitions = parsed.unavailable_partitions or parsed.under_replicated_partitions
    for topic in topics:
        configs = ",".join(
            f"{each.name}={each.value}"
            for each in await topic_configs(client, topic.name)
            if not each.is_default
        )
        if parsed.topics_with_overrides and not configs:
            continue
        topic_id = uuid_to_text(topic.topic_id)
        if not only_partitions:
            write_line(
                f"Topic: {topic.name}\tTopicId: {topic_id}\t"
                f"PartitionCount: {len(topic.partitions)}\t"
                f"ReplicationFactor: {topic.replication_factor}\tConfigs: {configs}"
            )
        for partition in topic.partitions:
            if parsed.topics_with_overrides or not _is_selected(partition, parsed):
                continue
            leader = partition.leader if partition.leader >= 0 else "none"
            write_line(
                f"\tTopic: {topic.name}\tPartition: {partition.partition}\tLeader: {leader}\t"
                f"Replicas: {','.join(map(str, partition.replicas))}\t"
                f"Isr: {','.join(map(str, partition.isr))}\tElr: N/A\tLastKnownElr: N/A"
            )


def _is_selected(partition: PartitionDescription, parsed: Namespace) -> bool:
    if parsed.unavailable_partitions and partition.leader >= 0:
        return False
    is_replicated = len(partition.isr) >= len(partition.replicas)
    return not (parsed.under_replicated_partitions and is_replicated)


async def _alter(client: KafkaClient, parsed: Namespace) -> None:
    if parsed.partitions is None:
        raise ToolError("--alter needs --partitions; kafka-configs alters configurations")
    try:
        await extend_topic(client, parsed.topic, parsed.partitions)
    except BrokerError as error:
        if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION or not parsed.if_exists:
            raise


async def _delete(client: KafkaClient, parsed: Namespace) -> None:
    topics = await _topics(client, parsed)
    if not topics and not parsed.if_exists:
        raise _TopicError(f"Topic '{parsed.topic}' does not exist as expected")
    results = await delete_topics(client, [topic.name for topic in topics])
    for error in results.values():
        if error is not None:
            raise error
