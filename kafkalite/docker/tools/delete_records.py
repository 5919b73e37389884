"""`kafka-delete-records`: delete the records of partitions before an offset."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kafkalite.client.epochs import TopicPartition
from kafkalite.client.partition_requests import ask_leaders
from kafkalite.docker.tools.arguments import KafkaToolError, ToolParser, add_bootstrap_options
from kafkalite.docker.tools.exceptions import exception_text
from kafkalite.docker.tools.partition_files import partitions_of
from kafkalite.docker.tools.running import run_tool, run_with_client, write_line
from kafkalite.protocol._generated.messages.delete_records import DeleteRecordsRequest
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.versions import Versions

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping, Sequence

    from kafkalite.client.client import KafkaClient

_VERSIONS: Final = Versions(0, 2)
_TIMEOUT_MS: Final = 30_000


def main(name: str, arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run the tool; return its exit status."""

    def command() -> int:
        parser = ToolParser(name, "Delete the records of partitions before an offset.")
        add_bootstrap_options(parser)
        parser.add_values("offset-json-file", metavar="FILE", required=True)
        parsed = parser.parse(arguments)
        keys = ("topic", "partition", "offset")
        rows = partitions_of(parsed.offset_json_file, environment, keys)
        parsed.offsets = {
            TopicPartition(row["topic"], row["partition"]): row["offset"] for row in rows
        }
        if len(parsed.offsets) < len(rows):
            raise KafkaToolError("Offset json file contains duplicate topic partitions")
        return run_with_client(parsed, environment, _run)

    return run_tool(name, command)


def _request(offsets: Mapping[TopicPartition, int]) -> DeleteRecordsRequest:
    rows: dict[str, list[Any]] = {}
    for (topic, index), offset in offsets.items():
        row = DeleteRecordsRequest.DeleteRecordsPartition(partition_index=index, offset=offset)
        rows.setdefault(topic, []).append(row)
    topics = [
        DeleteRecordsRequest.DeleteRecordsTopic(name=name, partitions=partitions)
        for name, partitions in rows.items()
    ]
    return DeleteRecordsRequest(topics=topics, timeout_ms=_TIMEOUT_MS)


async def _run(client: KafkaClient, parsed: Namespace) -> int:
    write_line("Executing records delete operation")
    responses = await ask_leaders(client, parsed.offsets, _request, _VERSIONS)
    results = {
        TopicPartition(topic.name, row.partition_index): row
        for response in responses
        for topic in response.topics
        for row in topic.partitions
    }
    write_line("Records delete operation completed:")
    for each in parsed.offsets:
        row = results.get(each)
        if row is None or row.error_code:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if row is None else row.error_code
            write_line(f"partition: {each}\terror: {exception_text(code)}")
        else:
            write_line(f"partition: {each}\tlow_watermark: {row.low_watermark}")
    return 0
