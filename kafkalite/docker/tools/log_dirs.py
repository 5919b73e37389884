"""`kafka-log-dirs`: the log directories of brokers, with the sizes of partitions."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from kafkalite.client.brokers import ask_each_broker
from kafkalite.docker.tools.arguments import (
    KafkaToolError,
    ToolParser,
    add_bootstrap_options,
    integers,
)
from kafkalite.docker.tools.exceptions import exception_name
from kafkalite.docker.tools.running import run_tool, run_with_client, write_line
from kafkalite.protocol._generated.messages.describe_log_dirs import DescribeLogDirsRequest
from kafkalite.protocol.versions import Versions

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping, Sequence

    from kafkalite.client.client import KafkaClient

_VERSIONS: Final = Versions(1, 5)


def main(name: str, arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run the tool; return its exit status."""

    def command() -> int:
        parser = ToolParser(name, "Show the log directories of brokers.")
        add_bootstrap_options(parser)
        parser.add_switches("describe")
        parser.add_values("topic-list", "broker-list", default="")
        parsed = parser.parse(arguments)
        if not parsed.describe:
            parser.error('Missing required argument "[describe]"')
        parsed.brokers = integers(parsed.broker_list, "--broker-list")
        parsed.topics = {each for each in parsed.topic_list.split(",") if each}
        return run_with_client(parsed, environment, _run)

    return run_tool(name, command)


async def _run(client: KafkaClient, parsed: Namespace) -> int:
    known = sorted(each.node_id for each in (await client.metadata()).brokers)
    if unknown := [each for each in parsed.brokers if each not in known]:
        raise KafkaToolError(
            f"ERROR: The given brokers do not exist from --broker-list: {_joined(unknown)}. "
            f"Current existent brokers: {_joined(known)}"
        )
    chosen = parsed.brokers or known
    write_line("Querying brokers for log directories information")
    responses = await ask_each_broker(client, DescribeLogDirsRequest(topics=None), _VERSIONS)
    write_line(f"Received log directory information from brokers {_joined(chosen)}")
    brokers = [
        {
            "broker": node_id,
            "logDirs": [_directory(row, parsed.topics) for row in responses[node_id].results],
        }
        for node_id in chosen
    ]
    write_line(json.dumps({"brokers": brokers, "version": 1}, separators=(",", ":")))
    return 0


def _joined(ids: Sequence[int]) -> str:
    return ",".join(map(str, ids))


def _directory(row: Any, topics: set[str]) -> dict[str, object]:  # noqa: ANN401 - a part of a response
    partitions = [
        {
            "partition": f"{topic.name}-{each.partition_index}",
            "size": each.partition_size,
            "offsetLag": each.offset_lag,
            "isFuture": each.is_future_key,
        }
        for topic in row.topics
        if not topics or topic.name in topics
        for each in topic.partitions
    ]
    return {
        "partitions": partitions,
        "error": exception_name(row.error_code) if row.error_code else None,
        "logDir": row.log_dir,
    }
