"""`kafka-consumer-groups --delete-offsets`: which offsets are deleted, and the output."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalite.client.epochs import TopicPartition
from kafkalite.client.errors import BrokerError
from kafkalite.client.groups import delete_offsets
from kafkalite.client.topics import list_topics
from kafkalite.docker.tools.exceptions import exception_text
from kafkalite.docker.tools.offset_resets import topics_of
from kafkalite.docker.tools.running import write_line
from kafkalite.docker.tools.tables import write_table
from kafkalite.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from argparse import Namespace

    from kafkalite.client.client import KafkaClient

_HEADER: Final = ("TOPIC", "PARTITION", "STATUS")
_WIDTHS: Final = (15, 10, 15)


async def delete_offsets_of(client: KafkaClient, group_id: str, parsed: Namespace) -> None:
    """Delete the offsets of the topics that options name, and print the result of each."""
    counts = {each.name: len(each.partitions) for each in await list_topics(client)}
    results: dict[tuple[str, int | None], ErrorCode] = {}
    partitions: list[TopicPartition] = []
    for topic, indexes in topics_of(parsed).items():
        if topic in counts or indexes is not None:
            chosen = range(counts[topic]) if indexes is None else indexes
            partitions += [TopicPartition(topic, index) for index in chosen]
        else:
            results[topic, None] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    failure = None
    try:
        found = await delete_offsets(client, group_id, partitions) if partitions else {}
    except BrokerError as error:
        failure = error
        found = dict.fromkeys(partitions, error.code)
    if failure is not None:
        write_line(f"\nError: {failure.reason}")
    elif any(found.values()):
        write_line("\nError: Encountered some partition-level error, see the follow-up details.")
    else:
        write_line(f"Request succeeded for deleting offsets from group {group_id}.")
    write_line("")
    rows = [
        (topic, index, f"Error: {exception_text(code)}" if code else "Successful")
        for (topic, index), code in [*found.items(), *results.items()]
    ]
    write_table(_HEADER, rows, _WIDTHS)
