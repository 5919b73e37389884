"""AddPartitionsToTxn, AddOffsetsToTxn, EndTxn: a producer's transaction, from first to last.

KIP-98. From version 4 on AddPartitionsToTxn is what leaders of partitions ask the coordinator
(KIP-890). Here they ask in plain calls, but the request is served, as tools and tests send it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from kafkalite.apis.contract import Api, Eras
from kafkalite.apis.descriptions import MOST_NOTED
from kafkalite.apis.refusals import note_refusal
from kafkalite.apis.transactional import FencingEra, fencing_eras, lower_fenced, shard_of
from kafkalite.coordinator.contract import SubjectKind
from kafkalite.metadata.image import INTERNAL_TOPICS
from kafkalite.metadata.internal_topics import OFFSETS_TOPIC
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnResponse
from kafkalite.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
)
from kafkalite.protocol.messages.end_txn import EndTxnResponse
from kafkalite.protocol.versions import Versions
from kafkalite.transactions.state import Producer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kafkalite.apis.context import RequestContext
    from kafkalite.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
    from kafkalite.protocol.messages.end_txn import EndTxnRequest
    from kafkalite.transactions.state import TopicPartition

RequestTransaction = AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction
Result = AddPartitionsToTxnResponse.AddPartitionsToTxnResult
TopicResult = AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult
PartitionResult = AddPartitionsToTxnResponse.AddPartitionsToTxnPartitionResult

_EXPLICIT, _IMPLICIT = 0, 2
"""Transaction versions: of clients that add partitions themselves, and of those that do not."""


# AddPartitionsToTxn


def lift_single(request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnRequest:
    """Make the one transaction of clients a batch of one."""
    request.transactions = [
        RequestTransaction(
            transactional_id=request.v3_and_below_transactional_id,
            producer_id=request.v3_and_below_producer_id,
            producer_epoch=request.v3_and_below_producer_epoch,
            topics=request.v3_and_below_topics,
        )
    ]
    return request


def lower_single(response: AddPartitionsToTxnResponse) -> AddPartitionsToTxnResponse:
    """Put the only transaction's partitions where clients look for them."""
    for result in response.results_by_transaction:
        response.results_by_topic_v3_and_below = result.topic_results
    return response


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPartitionsEra(FencingEra):
    """What a range of AddPartitionsToTxn versions means."""

    is_from_brokers: bool = False
    lift: Callable[[AddPartitionsToTxnRequest], AddPartitionsToTxnRequest] | None = lift_single
    lower: Callable[[AddPartitionsToTxnResponse], AddPartitionsToTxnResponse] | None = lower_single

    @property
    def transaction_version(self) -> int:
        """The transaction version of the client for whom partitions are added."""
        return _IMPLICIT if self.is_from_brokers else _EXPLICIT


ADD_PARTITIONS_ERAS = Eras(
    (0, AddPartitionsEra(knows_fenced=False)),
    (2, AddPartitionsEra()),
    (4, AddPartitionsEra(is_from_brokers=True, lift=None, lower=None)),
)


def handle_add_partitions_to_txn(
    context: RequestContext, request: AddPartitionsToTxnRequest
) -> AddPartitionsToTxnResponse:
    """Let partitions join transactions, or say whether they are in them; each for itself."""
    era: AddPartitionsEra = context.era
    results = []
    for index, transaction in enumerate(request.transactions):
        partitions = _partitions_of(transaction)
        codes = _unwanted(context, partitions)
        if not codes:
            try:
                codes = _join(context, transaction, partitions)
            except KafkaError as error:
                if index < MOST_NOTED:
                    _note(context, transaction, error)
                codes = dict.fromkeys(partitions, era.told(error.code))
        results.append(
            Result(
                transactional_id=transaction.transactional_id,
                topic_results=_topic_results(transaction, codes),
            )
        )
    return AddPartitionsToTxnResponse(results_by_transaction=results)


def _partitions_of(transaction: RequestTransaction) -> list[TopicPartition]:
    return [(topic.name, index) for topic in transaction.topics for index in topic.partitions]


def _unwanted(
    context: RequestContext, partitions: list[TopicPartition]
) -> Mapping[TopicPartition, ErrorCode]:
    """Say why none of these can join a transaction, of each; nothing when all can.

    Clients do not write to the broker's own topics.
    """
    era: AddPartitionsEra = context.era
    image = context.services.metadata.image
    codes = {}
    for topic, index in partitions:
        if topic in INTERNAL_TOPICS and not era.is_from_brokers:
            codes[topic, index] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif image.partition(topic, index) is None:
            codes[topic, index] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if not codes:
        return codes
    return {each: codes.get(each, ErrorCode.OPERATION_NOT_ATTEMPTED) for each in partitions}


def _join(
    context: RequestContext, transaction: RequestTransaction, partitions: list[TopicPartition]
) -> Mapping[TopicPartition, ErrorCode]:
    era: AddPartitionsEra = context.era
    transactional_id = transaction.transactional_id
    producer = Producer(transaction.producer_id, transaction.producer_epoch)
    shard = shard_of(context, transactional_id)
    if transaction.verify_only:
        return shard.machine.verify_partitions(transactional_id, producer, partitions)
    shard.write(
        lambda machine, now_ms: machine.add_partitions(
            transactional_id, producer, partitions, era.transaction_version, now_ms
        )
    )
    return dict.fromkeys(partitions, ErrorCode.NONE)


def _note(context: RequestContext, transaction: RequestTransaction, error: KafkaError) -> None:
    note_refusal(
        context,
        "AddPartitionsToTxn",
        transaction.transactional_id,
        error,
        transaction,
        of=SubjectKind.TRANSACTIONAL_ID,
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


def refuse_add_partitions_to_txn(
    request: AddPartitionsToTxnRequest, code: ErrorCode, message: str | None
) -> AddPartitionsToTxnResponse:
    """Say an error of everything asked for; there is no field for a message."""
    del message
    return AddPartitionsToTxnResponse(
        error_code=code,
        results_by_transaction=[
            Result(
                transactional_id=transaction.transactional_id,
                topic_results=_topic_results(
                    transaction, dict.fromkeys(_partitions_of(transaction), code)
                ),
            )
            for transaction in request.transactions
        ],
    )


def lift_add_partitions_to_txn(
    request: AddPartitionsToTxnRequest, version: int
) -> AddPartitionsToTxnRequest:
    """Return the request as a batch of transactions."""
    lift = ADD_PARTITIONS_ERAS.at(version).lift
    return request if lift is None else lift(request)


def lower_add_partitions_to_txn(
    response: AddPartitionsToTxnResponse, version: int
) -> AddPartitionsToTxnResponse:
    """Return the response in the shape this version has."""
    lower = ADD_PARTITIONS_ERAS.at(version).lower
    return response if lower is None else lower(response)


# AddOffsetsToTxn

ADD_OFFSETS_ERAS = fencing_eras(knows_fenced_from=2)


def handle_add_offsets_to_txn(
    context: RequestContext, request: AddOffsetsToTxnRequest
) -> AddOffsetsToTxnResponse:
    """Let the partition that keeps a group's offsets join a transaction.

    Clients that send this commit offsets without adding anything first, whatever the version.
    """
    transactional_id = request.transactional_id
    producer = Producer(request.producer_id, request.producer_epoch)
    partition = (OFFSETS_TOPIC, context.services.groups.partition_for(request.group_id))
    shard_of(context, transactional_id).write(
        lambda machine, now_ms: machine.add_partitions(
            transactional_id, producer, [partition], _EXPLICIT, now_ms
        )
    )
    return AddOffsetsToTxnResponse(error_code=ErrorCode.NONE)


def refuse_add_offsets_to_txn(
    request: AddOffsetsToTxnRequest, code: ErrorCode, message: str | None
) -> AddOffsetsToTxnResponse:
    """Say an error; there is no field for a message."""
    del request, message
    return AddOffsetsToTxnResponse(error_code=code)


def lower_add_offsets_to_txn(
    response: AddOffsetsToTxnResponse, version: int
) -> AddOffsetsToTxnResponse:
    """Return the response in words this version knows."""
    return lower_fenced(response, ADD_OFFSETS_ERAS.at(version))


# EndTxn


@dataclass(frozen=True, slots=True, kw_only=True)
class EndTxnEra(FencingEra):
    """What a range of EndTxn versions means."""

    transaction_version: int = _EXPLICIT
    """From 2 on the producer goes on with the epoch it is told (KIP-890)."""


END_TXN_ERAS = Eras(
    (0, EndTxnEra(knows_fenced=False)),
    (2, EndTxnEra()),
    (5, EndTxnEra(transaction_version=_IMPLICIT)),
)


def handle_end_txn(context: RequestContext, request: EndTxnRequest) -> EndTxnResponse:
    """Commit or abort a transaction, and say who its producer is from here on."""
    era: EndTxnEra = context.era
    transactional_id = request.transactional_id
    successor = cast(
        "Producer",
        shard_of(context, transactional_id).write(
            lambda machine, now_ms: machine.end(
                transactional_id,
                Producer(request.producer_id, request.producer_epoch),
                is_commit=request.committed,
                client_transaction_version=era.transaction_version,
                now_ms=now_ms,
            )
        ),
    )
    return EndTxnResponse(
        error_code=ErrorCode.NONE,
        producer_id=successor.producer_id,
        producer_epoch=successor.producer_epoch,
    )


def refuse_end_txn(request: EndTxnRequest, code: ErrorCode, message: str | None) -> EndTxnResponse:
    """Say an error, and that there is nobody to go on with."""
    del request, message
    return EndTxnResponse(error_code=code)


def lower_end_txn(response: EndTxnResponse, version: int) -> EndTxnResponse:
    """Return the response in words this version knows."""
    return lower_fenced(response, END_TXN_ERAS.at(version))


APIS = (
    Api(
        key=24,
        versions=Versions(0, 5),
        handler=handle_add_partitions_to_txn,
        refuse=refuse_add_partitions_to_txn,
        eras=ADD_PARTITIONS_ERAS,
        lift=lift_add_partitions_to_txn,
        lower=lower_add_partitions_to_txn,
    ),
    Api(
        key=25,
        versions=Versions(0, 4),
        handler=handle_add_offsets_to_txn,
        refuse=refuse_add_offsets_to_txn,
        eras=ADD_OFFSETS_ERAS,
        lower=lower_add_offsets_to_txn,
    ),
    Api(
        key=26,
        versions=Versions(0, 5),
        handler=handle_end_txn,
        refuse=refuse_end_txn,
        eras=END_TXN_ERAS,
        lower=lower_end_txn,
    ),
)
