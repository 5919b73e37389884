"""`kafkalite produce`: write the lines of the standard input as records to any Kafka cluster."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from kafkalite.cli.argument_types import RECORD_FORMATS, whole_number
from kafkalite.cli.cluster_options import (
    add_cluster_options,
    add_json_option,
    print_text,
    run_with_client,
)
from kafkalite.ports.named_tuples import NamedTuple

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


class _Form(NamedTuple):
    """What the arguments say about every line."""

    headers: Headers
    separator: bytes | None
    """The bytes between key and value; None if lines have no key."""
    timestamp_ms: int | None


def add_options(parser: ArgumentParser) -> None:
    """Add the options of `kafkalite produce`."""
    parser.add_argument("topic", metavar="TOPIC", help="name of the topic")
    parser.add_argument(
        "--format",
        choices=RECORD_FORMATS,
        default="text",
        help="the lines: values as text; JSON, as kafkalite consume --format json prints it; or "
        "values in base64 or hexadecimal [text]",
    )
    parser.add_argument(
        "--key-separator",
        metavar="TEXT",
        help="a line has a key before this text, and its value after it [lines have no key]",
    )
    _add_record_options(parser)
    _add_producer_options(parser)
    add_json_option(parser, "print the position of each record as a line of JSON")
    add_cluster_options(parser)


def _add_record_options(parser: ArgumentParser) -> None:
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
        "--timestamp",
        metavar="TIME",
        help="timestamp of every record, such as 2026-03-01T12:00:00Z, for example if the clock of "
        "a broker was moved [that of a JSON line, else the present time]",
    )


def _add_producer_options(parser: ArgumentParser) -> None:
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


def run(arguments: Namespace) -> None:
    """Write the lines of the standard input; raises SystemExit if that fails."""
    run_with_client(arguments, lambda client, cluster: _produce(client, cluster, arguments))


async def _produce(client: KafkaClient, cluster: ClusterAccess, arguments: Namespace) -> None:
    from kafkalite.client.producer import Producer  # noqa: PLC0415 - imported if needed
    from kafkalite.client.record_sender import RecordSender  # noqa: PLC0415 - as above
    from kafkalite.client.topics import find_topic  # noqa: PLC0415 - as above

    form = _form(arguments)
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
            await _send_lines(sender, arguments, form)
        else:
            await _send_in_transaction(producer, sender, arguments, form)


async def _send_in_transaction(
    producer: Producer, sender: RecordSender, arguments: Namespace, form: _Form
) -> None:
    await producer.begin()
    try:
        await _send_lines(sender, arguments, form)
    except BaseException:
        await producer.end(commits=False)
        raise
    await producer.end(commits=True)


async def _send_lines(sender: RecordSender, arguments: Namespace, form: _Form) -> None:
    from kafkalite.cli.standard_input import input_lines  # noqa: PLC0415 - imported if needed

    count = 0
    async for lines in input_lines():
        read, error = _records(lines, count, arguments, form)
        count += len(lines)
        # The lines before an invalid one are written.
        sent = await sender.send(read)
        if arguments.json:
            print_text("".join(_position_line(arguments.topic, each) for each in sent))
        if error is not None:
            raise error


def _records(
    lines: Sequence[bytes], count: int, arguments: Namespace, form: _Form
) -> tuple[list[NumberedRecord], LineError | None]:
    """Return the records of lines up to the first invalid one, and the error of that line."""
    from kafkalite.cli.record_lines import LineError  # noqa: PLC0415 - imported if needed

    records: list[NumberedRecord] = []
    try:
        for number, line in enumerate(lines, count + 1):
            records.append(_record(number, line, arguments, form))
    except LineError as error:
        return records, error
    return records, None


def _record(number: int, line: bytes, arguments: Namespace, form: _Form) -> NumberedRecord:
    from kafkalite.cli.record_lines import record_of_json, record_of_text  # noqa: PLC0415 - as above

    if arguments.format == "json":
        numbered = record_of_json(number, line)
        added = (*numbered.record.headers, *form.headers)
        numbered = numbered._replace(record=numbered.record._replace(headers=added))
    else:
        numbered = record_of_text(number, line, arguments.format, form.separator, form.headers)
    if form.timestamp_ms is not None:
        stamped = numbered.record._replace(timestamp_ms=form.timestamp_ms)
        numbered = numbered._replace(record=stamped)
    if arguments.partition is None:
        return numbered
    return numbered._replace(partition=arguments.partition)


def _position_line(topic: str, sent: SentRecord) -> str:
    shape = {"topic": topic, "partition": sent.partition, "offset": sent.offset}
    return f"{json.dumps(shape)}\n"


def _form(arguments: Namespace) -> _Form:
    """Return what the arguments say about every line; raises ValueError."""
    from kafkalite.ports.times import instant_ms  # noqa: PLC0415 - imported if needed

    headers = []
    for text in arguments.header or ():
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise ValueError(f"--header {text!r}: write KEY=VALUE")
        headers.append((key, value.encode()))
    separator = arguments.key_separator
    if separator == "":
        raise ValueError("--key-separator is empty")
    if arguments.format == "json" and separator is not None:
        raise ValueError("--key-separator has no effect with --format json: use its field key")
    return _Form(
        tuple(headers),
        None if separator is None else separator.encode(),
        None if arguments.timestamp is None else instant_ms(arguments.timestamp),
    )
