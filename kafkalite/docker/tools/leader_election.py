"""`kafka-leader-election`: elect leaders of partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kafkalite.client.brokers import ask_controller
from kafkalite.client.epochs import TopicPartition
from kafkalite.docker.tools.arguments import (
    KafkaToolError,
    ToolParser,
    add_bootstrap_options,
    is_given,
)
from kafkalite.docker.tools.exceptions import row_exception, terse_failure
from kafkalite.docker.tools.partition_files import partitions_of
from kafkalite.docker.tools.running import run_tool, run_with_client, write_line
from kafkalite.protocol._generated.messages.elect_leaders import ElectLeadersRequest
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.versions import Versions

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterable, Mapping, Sequence

    from kafkalite.client.client import KafkaClient

_TYPES: Final = ("preferred", "unclean")
"""Types of elections, in the order of their numbers."""
_SCOPES: Final = ("topic", "all-topic-partitions", "path-to-json-file")
_VERSIONS: Final = Versions(1, 2)
_TIMEOUT_MS: Final = 30_000


def main(name: str, arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run the tool; return its exit status."""

    def command() -> int:
        parser = ToolParser(name, "Elect leaders of partitions.")
        add_bootstrap_options(parser, config="--admin.config")
        parser.add_values("election-type", type=str.lower)
        parser.add_values("topic", "path-to-json-file")
        parser.add_values("partition", type=int)
        parser.add_switches("all-topic-partitions")
        parsed = parser.parse(arguments)
        _check(parser, parsed)
        parsed.partitions = None
        if parsed.topic is not None:
            parsed.partitions = [TopicPartition(parsed.topic, parsed.partition)]
        elif parsed.path_to_json_file is not None:
            rows = partitions_of(parsed.path_to_json_file, environment)
            parsed.partitions = [TopicPartition(row["topic"], row["partition"]) for row in rows]
        return run_with_client(parsed, environment, _run)

    return run_tool(name, command)


def _check(parser: ToolParser, parsed: Namespace) -> None:
    """Raise UsageError for options that Kafka's tool refuses."""
    if parsed.election_type not in _TYPES:
        parser.error(
            "Missing required option(s): election-type"
            if parsed.election_type is None
            else f"--election-type is one of {', '.join(_TYPES)}"
        )
    parser.single(
        parsed,
        _SCOPES,
        "One and only one of the following options is required: topic, all-topic-partitions, "
        "path-to-json-file",
    )
    if is_given(parsed, "topic") != (parsed.partition is not None):
        parser.error(
            "Missing required option(s): partition"
            if parsed.topic
            else "Option partition is only allowed if topic is used"
        )


async def _run(client: KafkaClient, parsed: Namespace) -> int:
    request = ElectLeadersRequest(
        election_type=_TYPES.index(parsed.election_type),
        topic_partitions=None if parsed.partitions is None else _rows(parsed.partitions),
        timeout_ms=_TIMEOUT_MS,
    )
    response = await ask_controller(client, request, _VERSIONS)
    if response.error_code:
        raise terse_failure(response)
    succeeded, needless = [], []
    failed: dict[str, Any] = {}
    for topic in response.replica_election_results:
        for row in topic.partition_result:
            partition = f"{topic.topic}-{row.partition_id}"
            if not row.error_code:
                succeeded.append(partition)
            elif row.error_code == ErrorCode.ELECTION_NOT_NEEDED:
                needless.append(partition)
            else:
                failed[partition] = row
    kind = parsed.election_type.upper()
    if succeeded:
        write_line(
            f"Successfully completed leader election ({kind}) for partitions {', '.join(succeeded)}"
        )
    if needless:
        write_line(f"Valid replica already elected for partitions {', '.join(needless)}")
    for partition, row in failed.items():
        write_line(
            f"Error completing leader election ({kind}) for partition: {partition}: "
            f"{row_exception(row)}"
        )
    if failed:
        reason = f"{len(failed)} replica(s) could not be elected"
        suppressed = [f"\n\tSuppressed: {row_exception(row)}" for row in failed.values()]
        raise KafkaToolError(
            f"{reason}\norg.apache.kafka.tools.AdminCommandFailedException: {reason}"
            + "".join(suppressed)
        )
    return 0


def _rows(partitions: Iterable[TopicPartition]) -> list[Any]:
    indexes: dict[str, list[int]] = {}
    for topic, index in partitions:
        indexes.setdefault(topic, []).append(index)
    row = ElectLeadersRequest.TopicPartitions
    return [row(topic=topic, partitions=each) for topic, each in indexes.items()]
