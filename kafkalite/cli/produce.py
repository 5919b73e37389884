"""`kafkalite produce`: write the lines of the standard input as records to any Kafka cluster."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from kafkalite.cli.argument_types import whole_number
from kafkalite.cli.cluster_options import (
    add_cluster_options,
    add_json_option,
    print_text,
    run_with_client,
)

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Sequence

    from kafkalite.cli.cluster_options import ClusterAccess
    from kafkalite.cli.record_lines import LineError
    from kafkalite.client.client import KafkaClient
    from kafkalite.client.producer import Acks, Producer
    from kafkalite.client.record_sender import NumberedRecord, RecordSender, SentRecord
    from kafkalite.storage.record_format import Headers

_ACKS: Final[dict[str, Acks]] = {"all": "all", "1": 1, "0": 0}
_COMPRESSIONS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
_FORMATS: Final = ("text", "json", "base64", "hex")


def add_produce(parser: ArgumentParser) -> None:
    """Add the options of `kafkalite produce`."""
    parser.add_argument("topic", metavar="TOPIC", help="name of the topic")
    parser.add_argument(
        "--format",
        choices=_FORMATS,
        default="text",
        help="the lines: values as text; JSON, as kafkalite consume --format json prints it; or "
        "values in base64 or hexadecimal [text]",
    )
    parser.add_argument(
        "--key-separator",
        metavar="TEXT",
        help="a line has a key before this text, and its value after it [lines have no key]",
    )
    parser.add_argument(
        "--header",
        action="append",
        metavar="KEY=VALUE",
        help="header of every record; repeatable",
    )
    parser.add_argument(
        "--partition",
        type=whole_number,
        metavar="NUMBER",
        help="partition of every record [that of a JSON line, else by the key as in Java; without "
        "a key, the partitions in turn]",
    )
    parser.add_argument(
        "--acks",
        choices=tuple(_ACKS),
        default="all",
        help="acknowledgements: of all in-sync replicas, of the leader (1), or none (0) [all]",
    )
    parser.add_argument(
        "--compression", choices=_COMPRESSIONS, default="none", help="codec of batches [none]"
    )
    parser.add_argument(
        "--transactional-id",
        metavar="ID",
        help="write all lines in one transaction, which is aborted after an error",
    )
    add_json_option(parser, "print the position of each record as a line of JSON")
    add_cluster_options(parser)


def produce(arguments: Namespace) -> None:
    """Write the lines of the standard input; raises SystemExit if that fails."""
    run_with_client(arguments, lambda client, cluster: _produce(client, cluster, arguments))


async def _produce(client: KafkaClient, cluster: ClusterAccess, arguments: Namespace) -> None:
    from kafkalite.client.producer import Producer  # noqa: PLC0415 - imported if needed
    from kafkalite.client.record_sender import RecordSender  # noqa: PLC0415 - as above
    from kafkalite.client.topics import find_topic  # noqa: PLC0415 - as above

    headers = _headers(arguments)
    if arguments.transactional_id is not None and arguments.acks != "all":
        raise ValueError("--transactional-id needs --acks all")
    topic = await find_topic(client, arguments.topic)
    async with Producer(
        cluster.servers,
        acks=_ACKS[arguments.acks],
        compression=arguments.compression,
        transactional_id=arguments.transactional_id,
        access=cluster.access,
    ) as producer:
        sender = RecordSender(producer, topic.name, len(topic.partitions))
        if arguments.transactional_id is None:
            await _send_lines(sender, arguments, headers)
        else:
            await _send_in_transaction(producer, sender, arguments, headers)


async def _send_in_transaction(
    producer: Producer, sender: RecordSender, arguments: Namespace, headers: Headers
) -> None:
    await producer.begin()
    try:
        await _send_lines(sender, arguments, headers)
    except BaseException:
        await producer.end(commits=False)
        raise
    await producer.end(commits=True)


async def _send_lines(sender: RecordSender, arguments: Namespace, headers: Headers) -> None:
    from kafkalite.cli.standard_input import input_lines  # noqa: PLC0415 - imported if needed

    count = 0
    async for lines in input_lines():
        read, error = _records(lines, count, arguments, headers)
        count += len(lines)
        # The lines before an invalid one are written.
        sent = await sender.send(read)
        if arguments.json:
            print_text("".join(_position_line(arguments.topic, each) for each in sent))
        if error is not None:
            raise error


def _records(
    lines: Sequence[bytes], count: int, arguments: Namespace, headers: Headers
) -> tuple[list[NumberedRecord], LineError | None]:
    """Return the records of lines up to the first invalid one, and the error of that line."""
    from kafkalite.cli.record_lines import LineError  # noqa: PLC0415 - imported if needed

    records: list[NumberedRecord] = []
    try:
        for number, line in enumerate(lines, count + 1):
            records.append(_record(number, line, arguments, headers))
    except LineError as error:
        return records, error
    return records, None


def _record(number: int, line: bytes, arguments: Namespace, headers: Headers) -> NumberedRecord:
    from kafkalite.cli.record_lines import record_of_json, record_of_text  # noqa: PLC0415 - as above

    if arguments.format == "json":
        numbered = record_of_json(number, line)
        added = (*numbered.record.headers, *headers)
        numbered = numbered._replace(record=numbered.record._replace(headers=added))
    else:
        separator = None if arguments.key_separator is None else arguments.key_separator.encode()
        numbered = record_of_text(number, line, arguments.format, separator, headers)
    if arguments.partition is None:
        return numbered
    return numbered._replace(partition=arguments.partition)


def _position_line(topic: str, sent: SentRecord) -> str:
    shape = {"topic": topic, "partition": sent.partition, "offset": sent.offset}
    return f"{json.dumps(shape)}\n"


def _headers(arguments: Namespace) -> Headers:
    """Return the headers of the arguments; raises ValueError."""
    headers = []
    for text in arguments.header or ():
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise ValueError(f"--header {text!r}: write KEY=VALUE")
        headers.append((key, value.encode()))
    if arguments.key_separator == "":
        raise ValueError("--key-separator is empty")
    if arguments.format == "json" and arguments.key_separator is not None:
        raise ValueError("--key-separator has no effect with --format json: use its field key")
    return tuple(headers)
