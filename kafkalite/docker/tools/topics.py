"""`kafka-topics`: create, list, describe, extend and delete topics."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from kafkalite.docker.tools.arguments import (
    FAILED_STATUS,
    ToolError,
    ToolParser,
    add_bootstrap_options,
    error_message,
    key_values,
)
from kafkalite.docker.tools.running import run_tool, run_with_client, write_line
from kafkalite.protocol._generated.messages.create_partitions import CreatePartitionsRequest
from kafkalite.protocol._generated.messages.create_topics import CreateTopicsRequest
from kafkalite.protocol._generated.messages.delete_topics import DeleteTopicsRequest
from kafkalite.protocol._generated.messages.describe_configs import DescribeConfigsRequest
from kafkalite.protocol._generated.messages.metadata import MetadataRequest
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.uuids import uuid_to_text
from kafkalite.protocol.versions import Versions

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping, Sequence

    from kafkalite.client.client import KafkaClient

_ACTIONS: Final = ("create", "list", "describe", "alter", "delete")
_FILTERS: Final = (
    "--topics-with-overrides",
    "--unavailable-partitions",
    "--under-replicated-partitions",
)
"""Options of `--describe` that select topics or partitions."""

_BROKER_DEFAULT: Final = -1
_TIMEOUT_MS: Final = 30_000
_TOPIC_RESOURCE: Final = 2
_TOPIC_SOURCE: Final = 1
_MAX_REPLICAS: Final = 32_767
_METADATA_VERSIONS: Final = Versions(4, 12)
_CREATE_VERSIONS: Final = Versions(4, 7)
_DELETE_VERSIONS: Final = Versions(1, 5)
_PARTITIONS_VERSIONS: Final = Versions(0, 3)
_CONFIGS_VERSIONS: Final = Versions(1, 4)


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
        # Kafka's tool prints this to standard output.
        write_line(f"Error while executing topic command : {error}")
        return FAILED_STATUS
    return 0


async def _topics(client: KafkaClient, parsed: Namespace) -> list[Any]:
    """Return the metadata of the topics that the options select, in the order of names."""
    pattern = _pattern(parsed.topic)
    request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
    response = await client.ask_any(request, _METADATA_VERSIONS)
    return sorted(
        (
            topic
            for topic in response.topics
            if (pattern is None or pattern.fullmatch(topic.name))
            and not (parsed.exclude_internal and topic.is_internal)
        ),
        key=lambda topic: str(topic.name),
    )


def _pattern(text: str | None) -> re.Pattern[str] | None:
    """Return the pattern of `--topic`, whose commas divide alternatives; raises ToolError."""
    try:
        return None if text is None else re.compile(text.replace(",", "|"))
    except re.error:
        raise ToolError(f"{text} is an invalid regex.") from None


class _TopicError(Exception):
    """The command failed."""


async def _create(client: KafkaClient, parsed: Namespace) -> None:
    row = CreateTopicsRequest.CreatableTopic(
        name=parsed.topic,
        num_partitions=parsed.partitions or _BROKER_DEFAULT,
        replication_factor=parsed.replication_factor or _BROKER_DEFAULT,
        configs=[
            CreateTopicsRequest.CreatableTopicConfig(name=key, value=value)
            for key, value in key_values(parsed.config, "--config")
        ],
    )
    request = CreateTopicsRequest(topics=[row], timeout_ms=_TIMEOUT_MS)
    response = await client.ask_any(request, _CREATE_VERSIONS)
    result = response.topics[0]
    if result.error_code == ErrorCode.TOPIC_ALREADY_EXISTS and parsed.if_not_exists:
        return
    if result.error_code:
        raise _TopicError(error_message(result))
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
        partitions = sorted(topic.partitions, key=lambda each: int(each.partition_index))
        configs = await _configs(client, topic.name)
        if parsed.topics_with_overrides and not configs:
            continue
        topic_id = uuid_to_text(topic.topic_id)
        if not only_partitions:
            write_line(
                f"Topic: {topic.name}\tTopicId: {topic_id}\tPartitionCount: {len(partitions)}\t"
                f"ReplicationFactor: {len(partitions[0].replica_nodes)}\tConfigs: {configs}"
            )
        for partition in partitions:
            if parsed.topics_with_overrides or not _is_selected(partition, parsed):
                continue
            leader = partition.leader_id if partition.leader_id >= 0 else "none"
            write_line(
                f"\tTopic: {topic.name}\tPartition: {partition.partition_index}\tLeader: {leader}\t"
                f"Replicas: {','.join(map(str, partition.replica_nodes))}\t"
                f"Isr: {','.join(map(str, partition.isr_nodes))}\tElr: N/A\tLastKnownElr: N/A"
            )


def _is_selected(partition: Any, parsed: Namespace) -> bool:  # noqa: ANN401 - of many versions
    if parsed.unavailable_partitions and partition.leader_id >= 0:
        return False
    is_replicated = len(partition.isr_nodes) >= len(partition.replica_nodes)
    return not (parsed.under_replicated_partitions and is_replicated)


async def _configs(client: KafkaClient, topic: str) -> str:
    """Return the configurations that a topic sets itself."""
    resource = DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=_TOPIC_RESOURCE, resource_name=topic, configuration_keys=None
    )
    response = await client.ask_any(DescribeConfigsRequest(resources=[resource]), _CONFIGS_VERSIONS)
    return ",".join(
        f"{config.name}={config.value}"
        for config in response.results[0].configs
        if config.config_source == _TOPIC_SOURCE
    )


async def _alter(client: KafkaClient, parsed: Namespace) -> None:
    if parsed.partitions is None:
        raise ToolError("--alter needs --partitions; kafka-configs alters configurations")
    row = CreatePartitionsRequest.CreatePartitionsTopic(
        name=parsed.topic, count=parsed.partitions, assignments=None
    )
    request = CreatePartitionsRequest(topics=[row], timeout_ms=_TIMEOUT_MS)
    response = await client.ask_any(request, _PARTITIONS_VERSIONS)
    result = response.results[0]
    if result.error_code and not (
        parsed.if_exists and result.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    ):
        raise _TopicError(error_message(result))


async def _delete(client: KafkaClient, parsed: Namespace) -> None:
    topics = await _topics(client, parsed)
    if not topics and not parsed.if_exists:
        raise _TopicError(f"Topic '{parsed.topic}' does not exist as expected")
    if not topics:
        return
    request = DeleteTopicsRequest(
        topic_names=[topic.name for topic in topics], timeout_ms=_TIMEOUT_MS
    )
    response = await client.ask_any(request, _DELETE_VERSIONS)
    for result in response.responses:
        if result.error_code:
            raise _TopicError(error_message(result))
