"""AddPartitionsToTxn, AddOffsetsToTxn and EndTxn.

KIP-98. From version 4 on, AddPartitionsToTxn is the request of partition leaders to the coordinator
(KIP-890). Here leaders call the coordinator directly, but the request is served for tools and
tests.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkalite.apis.transactions.transactional_producers import (
    FencingEra,
    fencing_eras,
    lower_fencing_error,
    shard_of,
)
from kafkalite.gateway.api import Api, Eras
from kafkalite.gateway.refusals import MAX_REPORTED, report_refusal
from kafkalite.metadata.image import INTERNAL_TOPICS
from kafkalite.metadata.internal_topics import OFFSETS_TOPIC
from kafkalite.ports.turns import in_steps
from kafkalite.protocol._generated.messages.add_offsets_to_txn import AddOffsetsToTxnResponse
from kafkalite.protocol._generated.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
)
from kafkalite.protocol._generated.messages.end_txn import EndTxnResponse
from kafkalite.protocol.acl_operations import Entity, Operation, Resource
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.versions import Versions
from kafkalite.transactions.state import ProducerIdAndEpoch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kafkalite.gateway.call import Call
    from kafkalite.protocol._generated.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
    from kafkalite.protocol._generated.messages.end_txn import EndTxnRequest
    from kafkalite.transactions.state import TopicPartition

RequestTransaction = AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction
Result = AddPartitionsToTxnResponse.AddPartitionsToTxnResult
TopicResult = AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult
PartitionResult = AddPartitionsToTxnResponse.AddPartitionsToTxnPartitionResult

_EXPLICIT, _IMPLICIT = 0, 2
"""Transaction versions of clients that add partitions themselves, and of those that do not."""


# AddPartitionsToTxn


def lift_single_transaction(request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnRequest:
    """Convert the only transaction of a client's request to a batch of one."""
    request.transactions = [
        RequestTransaction(
            transactional_id=request.v3_and_below_transactional_id,
            producer_id=request.v3_and_below_producer_id,
            producer_epoch=request.v3_and_below_producer_epoch,
            topics=request.v3_and_below_topics,
        )
    ]
    return request


def lower_single_transaction(response: AddPartitionsToTxnResponse) -> AddPartitionsToTxnResponse:
    """Move the results of the only transaction to the fields of earlier versions."""
    for result in response.results_by_transaction:
        response.results_by_topic_v3_and_below = result.topic_results
    return response


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPartitionsEra(FencingEra):
    """Traits of a range of AddPartitionsToTxn versions."""

    is_from_brokers: bool = False
    lift: Callable[[AddPartitionsToTxnRequest], AddPartitionsToTxnRequest] | None = (
        lift_single_transaction
    )
    lower: Callable[[AddPartitionsToTxnResponse], AddPartitionsToTxnResponse] | None = (
        lower_single_transaction
    )

    @property
    def transaction_version(self) -> int:
        """The transaction version of the client that writes to the partitions."""
        return _IMPLICIT if self.is_from_brokers else _EXPLICIT


ADD_PARTITIONS_ERAS = Eras(
    (0, AddPartitionsEra(knows_fenced=False)),
    (2, AddPartitionsEra()),
    (4, AddPartitionsEra(is_from_brokers=True, lift=None, lower=None)),
)


def handle_add_partitions_to_txn(
    call: Call, request: AddPartitionsToTxnRequest
) -> AddPartitionsToTxnResponse:
    """Add partitions to transactions, or verify that the transactions contain them.

    Each transaction has its own result.
    """
    era: AddPartitionsEra = call.era
    results = []
    for index, transaction in enumerate(request.transactions):
        partitions = _partitions_of(transaction)
        codes = _partition_errors(call, partitions)
        if not codes:
            try:
                codes = _add_or_verify(call, transaction, partitions)
            except KafkaError as error:
                if index < MAX_REPORTED:
                    _report(call, transaction, error)
                codes = dict.fromkeys(partitions, era.error_for(error.code))
        results.append(
            Result(
                transactional_id=transaction.transactional_id,
                topic_results=_topic_results(transaction, codes),
            )
        )
    return AddPartitionsToTxnResponse(results_by_transaction=results)


def _partitions_of(transaction: RequestTransaction) -> list[TopicPartition]:
    return [(topic.name, index) for topic in transaction.topics for index in topic.partitions]


def _partition_errors(
    call: Call, partitions: list[TopicPartition]
) -> Mapping[TopicPartition, ErrorCode]:
    """Return an error for each partition if one cannot be added, {} otherwise.

    Clients must not write to internal topics, nor to those that no ACL allows.
    """
    era: AddPartitionsEra = call.era
    image = call.node.image
    codes = {}
    for topic, index in in_steps(partitions):
        if not era.is_from_brokers and not _may_write(call, topic):
            codes[topic, index] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif image.partition(topic, index) is None:
            codes[topic, index] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if not codes:
        return codes
    return {
        partition: codes.get(partition, ErrorCode.OPERATION_NOT_ATTEMPTED)
        for partition in in_steps(partitions)
    }


def _may_write(call: Call, topic: str) -> bool:
    return topic not in INTERNAL_TOPICS and call.allows(Operation.WRITE, Resource.TOPIC, topic)


def _add_or_verify(
    call: Call, transaction: RequestTransaction, partitions: list[TopicPartition]
) -> Mapping[TopicPartition, ErrorCode]:
    era: AddPartitionsEra = call.era
    transactional_id = transaction.transactional_id
    producer = ProducerIdAndEpoch(transaction.producer_id, transaction.producer_epoch)
    shard = shard_of(call, transactional_id)
    if transaction.verify_only:
        return shard.machine.verify_partitions(transactional_id, producer, partitions)
    shard.write(
        lambda machine, now_ms: machine.add_partitions(
            transactional_id, producer, partitions, era.transaction_version, now_ms
        )
    )
    return dict.fromkeys(partitions, ErrorCode.NONE)


def _report(call: Call, transaction: RequestTransaction, error: KafkaError) -> None:
    report_refusal(
        call,
        "AddPartitionsToTxn",
        transaction.transactional_id,
        error,
        transaction,
        kind=Entity.TRANSACTIONAL_ID,
    )


def _topic_results(
    transaction: RequestTransaction, codes: Mapping[TopicPartition, ErrorCode]
) -> list[TopicResult]:
    return [
        TopicResult(
            name=topic.name,
            results_by_partition=[
                PartitionResult(
                    partition_index=index, partition_error_code=codes[topic.name, index]
                )
                for index in topic.partitions
            ],
        )
        for topic in transaction.topics
    ]


def lift_add_partitions_to_txn(
    request: AddPartitionsToTxnRequest, version: int
) -> AddPartitionsToTxnRequest:
    """Return the request as a batch of transactions."""
    lift = ADD_PARTITIONS_ERAS.at(version).lift
    return request if lift is None else lift(request)


def lower_add_partitions_to_txn(
    response: AddPartitionsToTxnResponse, version: int
) -> AddPartitionsToTxnResponse:
    """Return the response in the structure of this version."""
    lower = ADD_PARTITIONS_ERAS.at(version).lower
    return response if lower is None else lower(response)


# AddOffsetsToTxn

ADD_OFFSETS_ERAS = fencing_eras(knows_fenced_from=2)


def handle_add_offsets_to_txn(
    call: Call, request: AddOffsetsToTxnRequest
) -> AddOffsetsToTxnResponse:
    """Add the partition with a group's offsets to a transaction.

    A client that sends this request adds partitions explicitly, in every version.
    """
    transactional_id = request.transactional_id
    producer = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
    partition = (OFFSETS_TOPIC, call.node.groups.partition_for(request.group_id))
    shard_of(call, transactional_id).write(
        lambda machine, now_ms: machine.add_partitions(
            transactional_id, producer, [partition], _EXPLICIT, now_ms
        )
    )
    return AddOffsetsToTxnResponse(error_code=ErrorCode.NONE)


def lower_add_offsets_to_txn(
    response: AddOffsetsToTxnResponse, version: int
) -> AddOffsetsToTxnResponse:
    """Return the response with error codes that this version knows."""
    return lower_fencing_error(response, ADD_OFFSETS_ERAS.at(version))


# EndTxn


@dataclass(frozen=True, slots=True, kw_only=True)
class EndTxnEra(FencingEra):
    """Traits of a range of EndTxn versions."""

    transaction_version: int = _EXPLICIT
    """From 2 on, the producer continues with the epoch in the response (KIP-890)."""


END_TXN_ERAS = Eras(
    (0, EndTxnEra(knows_fenced=False)),
    (2, EndTxnEra()),
    (5, EndTxnEra(transaction_version=_IMPLICIT)),
)


def handle_end_txn(call: Call, request: EndTxnRequest) -> EndTxnResponse:
    """Commit or abort a transaction, and return the producer id and epoch to continue with."""
    era: EndTxnEra = call.era
    transactional_id = request.transactional_id
    successor = shard_of(call, transactional_id).write_immediately(
        lambda machine, now_ms: machine.end(
            transactional_id,
            ProducerIdAndEpoch(request.producer_id, request.producer_epoch),
            is_commit=request.committed,
            client_transaction_version=era.transaction_version,
            now_ms=now_ms,
        )
    )
    return EndTxnResponse(
        error_code=ErrorCode.NONE,
        producer_id=successor.producer_id,
        producer_epoch=successor.producer_epoch,
    )


def lower_end_txn(response: EndTxnResponse, version: int) -> EndTxnResponse:
    """Return the response with error codes that this version knows."""
    return lower_fencing_error(response, END_TXN_ERAS.at(version))


APIS = (
    Api(
        key=ApiKey.ADD_PARTITIONS_TO_TXN,
        other_pausing_lists=frozenset(("v3_and_below_topics",)),
        versions=Versions(0, 5),
        handler=handle_add_partitions_to_txn,
        eras=ADD_PARTITIONS_ERAS,
        lift=lift_add_partitions_to_txn,
        lower=lower_add_partitions_to_txn,
    ),
    Api(
        key=ApiKey.ADD_OFFSETS_TO_TXN,
        versions=Versions(0, 4),
        handler=handle_add_offsets_to_txn,
        eras=ADD_OFFSETS_ERAS,
        lower=lower_add_offsets_to_txn,
    ),
    Api(
        key=ApiKey.END_TXN,
        versions=Versions(0, 5),
        handler=handle_end_txn,
        eras=END_TXN_ERAS,
        lower=lower_end_txn,
    ),
)
