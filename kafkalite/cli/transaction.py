"""`kafkalite transaction`: list, describe and abort the transactions of any Kafka cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kafkalite.cli.argument_types import whole_number
from kafkalite.cli.cluster_options import Action, add_actions, print_json, print_lines, run_action
from kafkalite.cli.output import FAILED_STATUS, print_to_stderr
from kafkalite.cli.streams import printable
from kafkalite.cli.tables import Coloured, table_lines

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from kafkalite.client.client import KafkaClient
    from kafkalite.client.transactions import TransactionDescription

_FENCE_TIMEOUT_MS: Final = 30_000


def add_options(parser: ArgumentParser) -> None:
    """Add the actions of `kafkalite transaction`."""
    add_actions(
        parser,
        (
            Action("list", "List transactional ids and their transactions.", _add_list, _list),
            Action(
                "describe",
                "Show producers, times and partitions of transactions.",
                _add_describe,
                _describe,
            ),
            Action(
                "abort",
                "Abort open transactions: of transactional ids, whose producers are fenced, or one "
                "that hangs in a partition.",
                _add_abort,
                _abort,
            ),
        ),
    )


def run(arguments: Namespace) -> None:
    """Run the chosen action; raises SystemExit if it fails."""
    run_action(arguments)


def _add_list(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--open", action="store_true", help="list transactions that are open or ending only"
    )


def _add_describe(parser: ArgumentParser) -> None:
    parser.add_argument("ids", nargs="+", metavar="ID", help="transactional id")


def _add_abort(parser: ArgumentParser) -> None:
    parser.add_argument("ids", nargs="*", metavar="ID", help="transactional id")
    parser.add_argument(
        "--topic",
        metavar="TOPIC",
        help="abort a transaction that its coordinator does not know any more, in this topic",
    )
    parser.add_argument(
        "--partition", type=whole_number, metavar="NUMBER", help="partition, with --topic"
    )
    parser.add_argument(
        "--start-offset",
        type=whole_number,
        metavar="OFFSET",
        help="offset of the first record of the transaction, with --topic",
    )


async def _list(client: KafkaClient, arguments: Namespace) -> None:
    from kafkalite.client.transactions import OPEN_STATES, list_transactions  # noqa: PLC0415

    found = [
        each
        for each in await list_transactions(client)
        if not arguments.open or each.state in OPEN_STATES
    ]
    if arguments.json:
        print_json([each._asdict() for each in found])
        return
    rows = [
        (each.transactional_id, _state(each.state), each.producer_id, each.coordinator)
        for each in found
    ]
    print_lines(table_lines(("TRANSACTIONAL-ID", "STATE", "PRODUCER-ID", "COORDINATOR"), rows))


def _state(state: str) -> str | Coloured:
    from kafkalite.client.transactions import OPEN_STATES  # noqa: PLC0415 - imported if needed

    return Coloured(state, "yellow") if state in OPEN_STATES else state


async def _describe(client: KafkaClient, arguments: Namespace) -> None:
    from kafkalite.client.transactions import describe_transaction  # noqa: PLC0415 - as needed

    ids = dict.fromkeys(arguments.ids)
    found = [await describe_transaction(client, each) for each in ids]
    if arguments.json:
        print_json(list(map(_shape, found)))
        return
    header = (
        *("TRANSACTIONAL-ID", "STATE", "PRODUCER-ID", "EPOCH", "TIMEOUT", "START"),
        "PARTITIONS",
    )
    print_lines(table_lines(header, list(map(_row, found))))


def _shape(transaction: TransactionDescription) -> dict[str, Any]:
    return {
        **transaction._asdict(),
        "partitions": [each._asdict() for each in transaction.partitions],
    }


def _row(transaction: TransactionDescription) -> tuple[str | int | Coloured | None, ...]:
    from kafkalite.ports.times import iso_of  # noqa: PLC0415 - imported if needed

    start_ms = transaction.start_ms
    return (
        transaction.transactional_id,
        _state(transaction.state),
        transaction.producer_id,
        transaction.producer_epoch,
        f"{transaction.timeout_ms} ms",
        None if start_ms is None else iso_of(start_ms),
        " ".join(map(str, transaction.partitions)) or None,
    )


async def _abort(client: KafkaClient, arguments: Namespace) -> None:
    of_partition = (arguments.topic, arguments.partition, arguments.start_offset)
    if bool(arguments.ids) is any(each is not None for each in of_partition):
        raise ValueError(
            "transaction abort needs either an ID or --topic, --partition and --start-offset"
        )
    if arguments.ids:
        await _abort_ids(client, arguments)
    elif None in of_partition:
        raise ValueError("--topic, --partition and --start-offset are needed together")
    else:
        await _abort_in_partition(client, arguments)


async def _abort_ids(client: KafkaClient, arguments: Namespace) -> None:
    """Fence the producers of ids; raises SystemExit if one is not fenced."""
    from kafkalite.client.fencing import fence_with  # noqa: PLC0415 - imported if needed
    from kafkalite.client.transactions import describe_transaction  # noqa: PLC0415 - as above

    ids = list(dict.fromkeys(arguments.ids))
    for transactional_id in ids:  # a fenced id would be created
        await describe_transaction(client, transactional_id)
    results = await fence_with(client, ids, _FENCE_TIMEOUT_MS)
    aborted = [each.transactional_id for each in results if each.error is None]
    if arguments.json:
        print_json({"aborted": aborted})
    else:
        print_lines(f"aborted and fenced {printable(each)}" for each in aborted)
    for each in results:
        if each.error is not None:
            print_to_stderr(f"transactional id {each.transactional_id!r}: {each.error}")
    if len(aborted) < len(ids):
        raise SystemExit(FAILED_STATUS)


async def _abort_in_partition(client: KafkaClient, arguments: Namespace) -> None:
    from kafkalite.client.epochs import TopicPartition  # noqa: PLC0415 - imported if needed
    from kafkalite.client.transactions import abort_in_partition  # noqa: PLC0415 - as above

    partition = TopicPartition(arguments.topic, arguments.partition)
    producer_id = await abort_in_partition(client, partition, arguments.start_offset)
    if arguments.json:
        print_json({"aborted": [], "partition": str(partition), "producer_id": producer_id})
    else:
        print_lines([f"aborted the transaction of producer {producer_id} in {partition}"])
