"""`kafkalite consume`: print the records of a topic of any Kafka cluster."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from kafkalite.cli.argument_types import RECORD_FORMATS, whole_number
from kafkalite.cli.cluster_options import add_cluster_options, run_with_client
from kafkalite.cli.streams import write_stdout_bytes

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Callable, Sequence

    from kafkalite.cli.cluster_options import ClusterAccess
    from kafkalite.cli.record_filter import Condition
    from kafkalite.client.client import KafkaClient
    from kafkalite.client.epochs import TopicPartition
    from kafkalite.client.records import ConsumerRecord
    from kafkalite.client.topic_reader import TopicReader

_ISOLATIONS: Final = ("read_committed", "read_uncommitted")


def add_options(parser: ArgumentParser) -> None:
    """Add the options of `kafkalite consume`."""
    parser.add_argument("topic", metavar="TOPIC", help="name of the topic")
    _add_selection(parser)
    _add_end(parser)
    _add_form(parser)
    add_cluster_options(parser)


def _add_selection(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--from",
        dest="start",
        metavar="POSITION",
        help="earliest, latest, an offset, or a time such as 2026-03-01T12:00:00Z; in a group only "
        "for partitions without a committed offset [earliest; latest with --follow]",
    )
    parser.add_argument(
        "--partition",
        type=whole_number,
        action="append",
        metavar="NUMBER",
        help="read this partition only; repeatable [all]",
    )
    parser.add_argument(
        "--where",
        action="append",
        metavar="FIELD=TEXT",
        help="print a record only if its key, value, partition, offset or header.NAME has this "
        "text, or with FIELD~TEXT contains it; repeatable",
    )
    parser.add_argument(
        "--isolation",
        choices=_ISOLATIONS,
        default=_ISOLATIONS[0],
        help="read_uncommitted prints the records of open and aborted transactions, too "
        "[read_committed]",
    )
    parser.add_argument(
        "--group",
        metavar="ID",
        help="join this group, and commit what was printed [no group]",
    )


def _add_end(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--follow",
        action="store_true",
        help="wait for further records [end at the records that the topic has at the start]",
    )
    parser.add_argument(
        "--count", type=whole_number, metavar="NUMBER", help="end after this many records"
    )
    parser.add_argument(
        "--timeout",
        metavar="DURATION",
        help="with --follow, end with status 1 if no record arrives for this time, such as 10s "
        "[wait without limit]",
    )


def _add_form(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--format",
        choices=RECORD_FORMATS,
        default="text",
        help="a line for each record: the value as text, in base64 or hexadecimal; or JSON with "
        "all fields, which kafkalite produce --format json reads [text]",
    )
    parser.add_argument(
        "--key-separator",
        metavar="TEXT",
        help="print the key and this text before the value [values only]",
    )


def run(arguments: Namespace) -> None:
    """Print the records of a topic; raises SystemExit if that fails."""
    run_with_client(arguments, lambda client, cluster: _consume(client, cluster, arguments))


async def _consume(client: KafkaClient, cluster: ClusterAccess, arguments: Namespace) -> None:
    from kafkalite.cli.record_filter import conditions_of  # noqa: PLC0415 - imported if needed
    from kafkalite.client.offsets import OffsetTarget  # noqa: PLC0415 - as above
    from kafkalite.client.topic_reader import TopicReader  # noqa: PLC0415 - as above

    _check(arguments)
    conditions = conditions_of(arguments.where or ())
    start = OffsetTarget.parse(arguments.start or ("latest" if arguments.follow else "earliest"))
    timeout_s = _timeout_s(arguments)
    partitions = await _partitions(client, arguments)
    async with TopicReader.open(
        client,
        [arguments.topic],
        group_id=arguments.group,
        start=start,
        isolation=arguments.isolation,
        follows=arguments.follow,
        access=cluster.access,
    ) as reader:
        if arguments.group is None:
            await reader.assign(partitions)
        else:
            await reader.join()
        await _print_records(reader, conditions, _line_function(arguments), arguments, timeout_s)


def _check(arguments: Namespace) -> None:
    """Raise ValueError for options that cannot be combined."""
    if arguments.group is not None and arguments.partition:
        raise ValueError("--group and --partition cannot be combined: the group assigns partitions")
    if arguments.timeout is not None and not arguments.follow:
        raise ValueError("--timeout is only valid with --follow")
    if arguments.count is not None and arguments.count < 1:
        raise ValueError(f"--count must be at least 1, not {arguments.count}")
    if arguments.format == "json" and arguments.key_separator is not None:
        raise ValueError("--key-separator has no effect with --format json: it has the key")


def _timeout_s(arguments: Namespace) -> float | None:
    from kafkalite.ports.times import duration_ms  # noqa: PLC0415 - imported if needed

    return None if arguments.timeout is None else duration_ms(arguments.timeout) / 1000


async def _partitions(client: KafkaClient, arguments: Namespace) -> list[TopicPartition]:
    """Return the partitions to read; raises UnknownNameError, or ValueError for an unknown one."""
    from kafkalite.client.epochs import TopicPartition  # noqa: PLC0415 - imported if needed
    from kafkalite.client.errors import no_partition_text  # noqa: PLC0415 - as above
    from kafkalite.client.topics import find_topic  # noqa: PLC0415 - as above

    topic = await find_topic(client, arguments.topic)
    known = [each.partition for each in topic.partitions]
    for index in arguments.partition or ():
        if index not in known:
            raise ValueError(no_partition_text(topic.name, index, len(known)))
    return [TopicPartition(topic.name, index) for index in arguments.partition or known]


def _line_function(arguments: Namespace) -> Callable[[ConsumerRecord], bytes]:
    from kafkalite.cli.record_lines import json_line, text_line  # noqa: PLC0415 - as needed

    if arguments.format == "json":
        return json_line
    separator = None if arguments.key_separator is None else arguments.key_separator.encode()
    return lambda record: text_line(record, arguments.format, separator)


async def _print_records(
    reader: TopicReader,
    conditions: Sequence[Condition],
    line_of: Callable[[ConsumerRecord], bytes],
    arguments: Namespace,
    timeout_s: float | None,
) -> None:
    from kafkalite.client.errors import ClientError  # noqa: PLC0415 - imported if needed

    loop = asyncio.get_running_loop()
    printed, latest_s = 0, loop.time()
    while (records := await reader.poll()) is not None:
        lines: list[bytes] = []
        for position, record in enumerate(records):
            if all(condition(record) for condition in conditions):
                lines.append(line_of(record))
                if printed + len(lines) == arguments.count:
                    _write(lines)
                    reader.set_read(records[: position + 1])
                    return
        if lines:
            _write(lines)
            printed += len(lines)
            latest_s = loop.time()
        elif timeout_s is not None and loop.time() - latest_s >= timeout_s:
            raise ClientError(f"no record has arrived for {arguments.timeout}")
        await reader.set_all_read()


def _write(lines: Sequence[bytes]) -> None:
    """Print lines; raises SystemExit with status 0 if the output has no reader any more."""
    if not write_stdout_bytes(b"".join(lines)):
        raise SystemExit(0)
