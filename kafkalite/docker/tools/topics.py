"""`kafka-topics`: create, list, describe, extend and delete topics."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from kafkalite.client.connection import UnreachableError
from kafkalite.client.errors import BrokerError
from kafkalite.client.topics import (
    BROKER_DEFAULT,
    create_topic,
    delete_topics,
    extend_topic,
    list_topics,
    topic_configs,
    with_eligible_leaders,
)
from kafkalite.docker.tools.arguments import (
    FAILED_STATUS,
    ToolError,
    ToolParser,
    UsageError,
    add_bootstrap_options,
    is_given,
    key_values,
)
from kafkalite.docker.tools.running import run_tool, run_with_client, write_line
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.uuids import uuid_to_text

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping, Sequence

    from kafkalite.client.client import KafkaClient
    from kafkalite.client.topics import PartitionDescription, TopicConfig, TopicDescription

_ACTIONS: Final = ("create", "list", "describe", "alter", "delete")
_PARTITION_FILTERS: Final = (
    *("unavailable-partitions", "under-replicated-partitions"),
    *("under-min-isr-partitions", "at-min-isr-partitions"),
)
"""Options of `--describe` that select partitions."""
_FILTERS: Final = ("topics-with-overrides", *_PARTITION_FILTERS)
_LOAD_FACTOR: Final = 0.75
_MASK_32: Final = 0xFFFFFFFF
_MIN_ISR: Final = "min.insync.replicas"
_MAX_REPLICAS: Final = 32_767
_COLLISION: Final = (
    "WARNING: Due to limitations in metric names, topics with a period ('.') or underscore ('_') "
    "could collide. To avoid issues it is best to use either, but not both."
)
_NOT_ACTIONS: Final = (
    "Command must include exactly one action: --list, --describe, --create, --alter or --delete"
)


def main(name: str, arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run the tool; return its exit status."""
    return run_tool(name, lambda: _execute(name, arguments, environment))


def _execute(name: str, arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    parsed = _parse(name, arguments)
    try:
        _check_numbers(parsed)
        return run_with_client(parsed, environment, _run)
    except UsageError:
        raise
    except ToolError as error:
        reason = str(error)
    except BrokerError as error:
        reason = error.reason
    # Kafka's tool prints this to standard output.
    write_line(f"Error while executing topic command : {reason}")
    return FAILED_STATUS


def _parse(name: str, arguments: Sequence[str]) -> Namespace:
    parser = ToolParser(name, "Create, list, describe, extend and delete topics.")
    add_bootstrap_options(parser)
    parser.add_switches(*_ACTIONS, "if-not-exists", "if-exists", "exclude-internal", *_FILTERS)
    parser.add_values("topic", "topic-id", "replica-assignment")
    parser.add_values("partitions", "replication-factor", type=int)
    parser.add_values("partition-size-limit-per-response", type=int)
    parser.add_values("config", many=True, metavar="NAME=VALUE")
    parsed = parser.parse(arguments)
    action = parser.single(parsed, _ACTIONS, _NOT_ACTIONS)
    if not parsed.bootstrap_server:
        parser.error('Missing required argument "[bootstrap-server]"')
    given = [option for option in _FILTERS if is_given(parsed, option)]
    if given and not parsed.describe:
        parser.error(f'Option "[describe]" can\'t be used without option "[{given[0]}]"')
    if action in ("create", "alter") and not parsed.topic:
        parser.error('Missing required argument "[topic]"')
    if action == "delete" and not parsed.topic:
        parser.error('Missing required argument "[topic]"')
    if action == "alter" and parsed.partitions is None:
        parser.error('Missing required argument "[partitions]"')
    if parsed.replica_assignment and action == "create" and parsed.partitions:
        parser.error('Option "[replica-assignment]" can\'t be used with option "[partitions]"')
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
    await command(client, parsed)
    return 0


async def _topics(client: KafkaClient, parsed: Namespace) -> list[TopicDescription]:
    """Return the topics that the options select, in the order of names."""
    pattern = _pattern(parsed.topic)
    return [
        topic
        for topic in await list_topics(client)
        if (pattern is None or pattern.fullmatch(topic.name))
        and parsed.topic_id in (None, uuid_to_text(topic.topic_id))
        and not (parsed.exclude_internal and topic.is_internal)
    ]


async def _existing_topics(client: KafkaClient, parsed: Namespace) -> list[TopicDescription]:
    """Return the selected topics; raises ToolError if none exists, unless that is allowed."""
    topics = await _topics(client, parsed)
    if not topics and not parsed.if_exists:
        if parsed.topic_id is not None:
            raise ToolError(f"TopicId '{parsed.topic_id}' does not exist as expected")
        if parsed.topic is not None:
            raise ToolError(f"Topic '{parsed.topic}' does not exist as expected")
    return topics


def _pattern(text: str | None) -> re.Pattern[str] | None:
    """Return the pattern of `--topic`, whose commas divide alternatives; raises ToolError."""
    try:
        return None if text is None else re.compile(text.replace(",", "|"))
    except re.error:
        raise ToolError(f"{text} is an invalid regex.") from None


def _assignment(text: str | None) -> list[list[int]]:
    """Return the replicas of each partition in `1:2,2:3`; raises ToolError."""
    partitions = text.split(",") if text else []
    try:
        replicas = [[int(part) for part in each.split(":")] for each in partitions]
    except ValueError:
        raise ToolError(f"--replica-assignment {text!r}: write ids, such as 1:2,2:3") from None
    for index, each in enumerate(replicas):
        if len(set(each)) < len(each):
            raise ToolError(f"Partition replica lists may not contain duplicate entries: {each[0]}")
        if len(each) != len(replicas[0]):
            raise ToolError(f"Partition {index} has different replication factor: {each}")
    return replicas


async def _create(client: KafkaClient, parsed: Namespace) -> None:
    if {".", "_"} & set(parsed.topic):
        write_line(_COLLISION)
    replicas = _assignment(parsed.replica_assignment)
    try:
        await create_topic(
            client,
            parsed.topic,
            partitions=parsed.partitions or BROKER_DEFAULT,
            replication_factor=parsed.replication_factor or BROKER_DEFAULT,
            configs=dict(key_values(parsed.config, "--config")),
            replicas=replicas,
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
    shows_all = not any(is_given(parsed, option) for option in _PARTITION_FILTERS)
    for listed in await _existing_topics(client, parsed):
        configs = await topic_configs(client, listed.name)
        text = ",".join(
            f"{each.name}={each.value}" for each in _hash_order(configs) if not each.is_default
        )
        if parsed.topics_with_overrides and not text:
            continue
        if shows_all:
            write_line(
                f"Topic: {listed.name}\tTopicId: {uuid_to_text(listed.topic_id)}\t"
                f"PartitionCount: {len(listed.partitions)}\t"
                f"ReplicationFactor: {listed.replication_factor}\tConfigs: {text}"
            )
        if parsed.topics_with_overrides:
            continue
        topic = await _with_eligible_leaders(client, listed)
        for partition in topic.partitions:
            if _is_selected(partition, configs, parsed):
                write_line(_partition_line(topic.name, partition))


def _hash_order(configs: Sequence[TopicConfig]) -> list[TopicConfig]:
    """Return configurations in the order of Java's `HashMap`, in which Kafka's client has them."""
    size = 1 << max(0, len(configs) - 1).bit_length()
    if len(configs) > size * _LOAD_FACTOR:
        size *= 2

    def bucket(config: TopicConfig) -> int:
        number = 0
        for character in config.name:
            number = (31 * number + ord(character)) & _MASK_32
        return (number ^ number >> 16) & (size - 1)

    return sorted(configs, key=bucket)


async def _with_eligible_leaders(client: KafkaClient, topic: TopicDescription) -> TopicDescription:
    try:
        return await with_eligible_leaders(client, topic)
    except UnreachableError:
        # The API is that of Kafka 3.7 and later.
        return topic


def _partition_line(topic: str, partition: PartitionDescription) -> str:
    return (
        f"\tTopic: {topic}\tPartition: {partition.partition}\t"
        f"Leader: {partition.leader if partition.leader >= 0 else 'none'}\t"
        f"Replicas: {_ids(partition.replicas)}\tIsr: {_ids(partition.isr)}\t"
        f"Elr: {_ids(partition.eligible_leaders)}\t"
        f"LastKnownElr: {_ids(partition.last_eligible_leaders)}"
    )


def _ids(ids: Sequence[int] | None) -> str:
    return "N/A" if ids is None else ",".join(map(str, ids))


def _is_selected(
    partition: PartitionDescription, configs: Sequence[TopicConfig], parsed: Namespace
) -> bool:
    least = next((int(each.value or 1) for each in configs if each.name == _MIN_ISR), 1)
    in_sync = len(partition.isr)
    matches = {
        "unavailable-partitions": partition.leader < 0,
        "under-replicated-partitions": in_sync < len(partition.replicas),
        "under-min-isr-partitions": in_sync < least,
        "at-min-isr-partitions": in_sync == least,
    }
    chosen = [matches[option] for option in _PARTITION_FILTERS if is_given(parsed, option)]
    return not chosen or any(chosen)


async def _alter(client: KafkaClient, parsed: Namespace) -> None:
    replicas = _assignment(parsed.replica_assignment)
    for topic in await _existing_topics(client, parsed):
        added = replicas[len(topic.partitions) :]
        await extend_topic(client, topic.name, parsed.partitions, added)


async def _delete(client: KafkaClient, parsed: Namespace) -> None:
    topics = await _existing_topics(client, parsed)
    results = await delete_topics(client, [topic.name for topic in topics])
    for error in results.values():
        if error is not None:
            raise error
