"""`kafka-transactions`: list, describe and end transactions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kafkalite.client.brokers import ask_each_broker
from kafkalite.client.coordinator_requests import TRANSACTION, ask_coordinator
from kafkalite.client.epochs import TopicPartition
from kafkalite.client.errors import ClientError, UnknownNameError
from kafkalite.client.partition_requests import ask_leaders
from kafkalite.client.topics import list_topics
from kafkalite.client.transactions import (
    abort_in_partition,
    abort_of_producer,
    describe_transaction,
    list_transactions,
)
from kafkalite.docker.tools.arguments import KafkaToolError, ToolParser, add_bootstrap_options
from kafkalite.docker.tools.exceptions import refused
from kafkalite.docker.tools.running import run_tool, run_with_client
from kafkalite.docker.tools.tables import write_tabbed_table
from kafkalite.ports.clock import AdjustableClock
from kafkalite.protocol._generated.messages.describe_producers import DescribeProducersRequest
from kafkalite.protocol._generated.messages.init_producer_id import InitProducerIdRequest
from kafkalite.protocol._generated.messages.list_transactions import ListTransactionsRequest
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.versions import Versions
from kafkalite.server.addresses import Address

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping, Sequence

    from kafkalite.client.client import KafkaClient

_COMMANDS: Final = (
    *("list", "describe", "describe-producers", "abort", "find-hanging"),
    "forceTerminateTransaction",
)
_LIST_VERSIONS: Final = Versions(0, 2)
_PRODUCERS_VERSIONS: Final = Versions(0, 0)
_INIT_VERSIONS: Final = Versions(0, 5)
_FENCING_TIMEOUT_MS: Final = 30_000
_DEFAULT_MINUTES: Final = 15
_MS_PER_MINUTE: Final = 60_000
_HANGING_HEADER: Final = (
    *("Topic", "Partition", "ProducerId", "ProducerEpoch", "CoordinatorEpoch", "StartOffset"),
    *("LastTimestamp", "Duration(min)"),
)


def main(name: str, arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run the tool; return its exit status."""
    return run_tool(name, lambda: run_with_client(_parse(name, arguments), environment, _run))


def _parse(name: str, arguments: Sequence[str]) -> Namespace:
    parser = ToolParser(name, "List, describe and end transactions.")
    parser.add_argument("command", choices=_COMMANDS)
    add_bootstrap_options(parser)
    parser.add_argument("--transactional-id", "--transactionalId")
    parser.add_values("topic", "transactional-id-pattern")
    parser.add_values("partition", "broker-id", "start-offset", type=int)
    parser.add_values("producer-id", "producer-epoch", "coordinator-epoch", type=int)
    parser.add_values("duration-filter", type=int, default=-1)
    parser.add_values("max-transaction-timeout", type=int, default=_DEFAULT_MINUTES)
    parsed = parser.parse(arguments)
    needed = {
        "describe": ("transactional_id",),
        "forceTerminateTransaction": ("transactional_id",),
        "describe-producers": ("topic", "partition"),
        "abort": ("topic", "partition"),
    }
    for option in needed.get(parsed.command, ()):
        if getattr(parsed, option) is None:
            parser.error(f"argument --{option.replace('_', '-')} is required")
    if parsed.command == "abort":
        _check_abort(parsed)
    if parsed.command == "find-hanging" and parsed.topic is None and parsed.broker_id is None:
        parser.error(
            "The `find-hanging` command requires either --topic or --broker-id to limit "
            "the scope of the search"
        )
    return parsed


def _check_abort(parsed: Namespace) -> None:
    """Raise KafkaToolError for options that do not identify a transaction."""
    if parsed.start_offset is None and parsed.producer_id is None:
        raise KafkaToolError(
            "The transaction to abort must be identified either with --start-offset (for brokers "
            "on 3.0 or above) or with --producer-id, --producer-epoch, and --coordinator-epoch "
            "(for older brokers)"
        )
    for option in ("producer_epoch", "coordinator_epoch"):
        if parsed.producer_id is not None and getattr(parsed, option) is None:
            raise KafkaToolError(f"Missing required argument --{option.replace('_', '-')}")


async def _run(client: KafkaClient, parsed: Namespace) -> int:
    commands = (_list, _describe, _describe_producers, _abort, _find_hanging, _terminate)
    await dict(zip(_COMMANDS, commands, strict=True))[parsed.command](client, parsed)
    return 0


async def _list(client: KafkaClient, parsed: Namespace) -> None:
    request = ListTransactionsRequest(
        duration_filter=parsed.duration_filter,
        transactional_id_pattern=parsed.transactional_id_pattern,
    )
    responses = await ask_each_broker(client, request, _LIST_VERSIONS)
    rows = []
    for node_id, response in responses.items():
        if response.error_code:
            raise refused(response)
        rows += [
            (each.transactional_id, node_id, each.producer_id, each.transaction_state)
            for each in response.transaction_states
        ]
    header = ("TransactionalId", "Coordinator", "ProducerId", "TransactionState")
    write_tabbed_table(header, rows)


async def _describe(client: KafkaClient, parsed: Namespace) -> None:
    name = parsed.transactional_id
    try:
        found = await describe_transaction(client, name)
    except UnknownNameError:
        raise KafkaToolError(
            f"Failed to describe transaction state of transactional-id `{name}`: "
            f"DescribeTransactions request for transactionalId `{name}` failed because the ID "
            "could not be found. Enable debug logging for additional detail."
        ) from None
    coordinator = await client.find_coordinator(name, TRANSACTION)
    start = found.start_ms
    columns = (
        ("CoordinatorId", coordinator.node_id),
        ("TransactionalId", name),
        ("ProducerId", found.producer_id),
        ("ProducerEpoch", found.producer_epoch),
        ("TransactionState", found.state),
        ("TransactionTimeoutMs", found.timeout_ms),
        ("CurrentTransactionStartTimeMs", start),
        ("TransactionDurationMs", None if start is None else AdjustableClock().now_ms() - start),
        ("TopicPartitions", ",".join(map(str, found.partitions))),
    )
    header, row = zip(*columns, strict=True)
    write_tabbed_table(header, [row])


def _producers_request(partitions: Mapping[TopicPartition, None]) -> DescribeProducersRequest:
    indexes: dict[str, list[int]] = {}
    for topic, index in partitions:
        indexes.setdefault(topic, []).append(index)
    row = DescribeProducersRequest.TopicRequest
    topics = [row(name=topic, partition_indexes=each) for topic, each in indexes.items()]
    return DescribeProducersRequest(topics=topics)


async def _producers(
    client: KafkaClient, partitions: Sequence[TopicPartition], broker_id: int | None
) -> dict[TopicPartition, Any]:
    """Return the rows of partitions with their producers; raises ToolError."""
    chosen = dict.fromkeys(partitions)
    if broker_id is None:
        responses = await ask_leaders(client, chosen, _producers_request, _PRODUCERS_VERSIONS)
    else:
        brokers = {each.node_id: each for each in (await client.metadata()).brokers}
        if broker_id not in brokers:
            raise KafkaToolError(f"there is no broker {broker_id}")
        address = Address(brokers[broker_id].host, brokers[broker_id].port)
        request = _producers_request(chosen)
        responses = [await client.ask(address, request, _PRODUCERS_VERSIONS)]
    found = {}
    for response in responses:
        for topic in response.topics:
            for row in topic.partitions:
                if row.error_code:
                    raise refused(row)
                found[TopicPartition(topic.name, row.partition_index)] = row
    return found


async def _describe_producers(client: KafkaClient, parsed: Namespace) -> None:
    partition = TopicPartition(parsed.topic, parsed.partition)
    found = await _producers(client, [partition], parsed.broker_id)
    if partition not in found:
        raise KafkaToolError(f"there is no partition {partition}")
    header = (
        *("ProducerId", "ProducerEpoch", "LatestCoordinatorEpoch", "LastSequence"),
        *("LastTimestamp", "CurrentTransactionStartOffset"),
    )
    rows = [
        (
            each.producer_id,
            each.producer_epoch,
            each.coordinator_epoch,
            each.last_sequence,
            each.last_timestamp,
            None if each.current_txn_start_offset < 0 else each.current_txn_start_offset,
        )
        for each in found[partition].active_producers
    ]
    write_tabbed_table(header, rows)


async def _abort(client: KafkaClient, parsed: Namespace) -> None:
    partition = TopicPartition(parsed.topic, parsed.partition)
    if parsed.producer_id is not None:
        epochs = (parsed.producer_epoch, parsed.coordinator_epoch)
        await abort_of_producer(client, partition, parsed.producer_id, *epochs)
        return
    found = await _producers(client, [partition], None)
    starts = {
        each.current_txn_start_offset for row in found.values() for each in row.active_producers
    }
    if parsed.start_offset not in starts:
        raise KafkaToolError(
            f"Could not find any open transactions starting at offset {parsed.start_offset} on "
            f"partition {partition}"
        )
    await abort_in_partition(client, partition, parsed.start_offset)


async def _terminate(client: KafkaClient, parsed: Namespace) -> None:
    request = InitProducerIdRequest(
        transactional_id=parsed.transactional_id, transaction_timeout_ms=_FENCING_TIMEOUT_MS
    )
    response = await ask_coordinator(
        client,
        parsed.transactional_id,
        TRANSACTION,
        request,
        _INIT_VERSIONS,
        find_error=_retriable_error,
    )
    if response.error_code:
        raise refused(response)


def _retriable_error(response: Any) -> ErrorCode:  # noqa: ANN401 - an InitProducerIdResponse
    code = ErrorCode(response.error_code)
    return code if code.retriable else ErrorCode.NONE


async def _find_hanging(client: KafkaClient, parsed: Namespace) -> None:
    partitions = [
        TopicPartition(topic.name, row.partition)
        for topic in await list_topics(client)
        if parsed.topic in (None, topic.name)
        for row in topic.partitions
        if parsed.partition in (None, row.partition)
        and (parsed.broker_id is None or parsed.broker_id in row.replicas)
    ]
    now_ms = AdjustableClock().now_ms()
    oldest_ms = now_ms - parsed.max_transaction_timeout * _MS_PER_MINUTE
    rows: list[tuple[str | int, ...]] = [
        (*partition, *_hanging_columns(each, now_ms))
        for partition, row in (await _producers(client, partitions, parsed.broker_id)).items()
        for each in row.active_producers
        if each.current_txn_start_offset >= 0
        and each.last_timestamp < oldest_ms
        and not await _is_known(client, each.producer_id, partition)
    ]
    write_tabbed_table(_HANGING_HEADER, rows)


def _hanging_columns(producer: Any, now_ms: int) -> tuple[int, ...]:  # noqa: ANN401 - a row
    return (
        producer.producer_id,
        producer.producer_epoch,
        producer.coordinator_epoch,
        producer.current_txn_start_offset,
        producer.last_timestamp,
        (now_ms - producer.last_timestamp) // _MS_PER_MINUTE,
    )


async def _is_known(client: KafkaClient, producer_id: int, partition: TopicPartition) -> bool:
    """Return whether a coordinator has an open transaction of a producer in a partition."""
    for listed in await list_transactions(client):
        if listed.producer_id == producer_id:
            try:
                found = await describe_transaction(client, listed.transactional_id)
            except ClientError:
                return False
            return partition in found.partitions
    return False
