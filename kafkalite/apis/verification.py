"""Verification: the transaction coordinator is asked before records of a transaction are appended.

Only where the transaction is not open yet, and once for all partitions of a request (KIP-890).
Kafka asks again for a tenth of a second while the transaction before is still being ended; here
an end is complete when it is answered, or held up by a failing disk; then the client asks again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kafkalite.apis.refusals import note_refusal
from kafkalite.coordinator.contract import SubjectKind
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.transactions.state import Producer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafkalite.apis.context import RequestContext
    from kafkalite.partitions.partition import Partition
    from kafkalite.storage.batch import BatchView
    from kafkalite.transactions.state import TopicPartition

_EVERY_CLIENT = {
    # Since KIP-588 a producer is told so by partitions, and knows that it may go on.
    ErrorCode.PRODUCER_FENCED: ErrorCode.INVALID_PRODUCER_EPOCH,
    # Errors that only those expect who speak to coordinators; this one is tried again by all.
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_COORDINATOR: ErrorCode.NOT_ENOUGH_REPLICAS,
}
_WITHOUT_ADDING = {
    **_EVERY_CLIENT,
    ErrorCode.CONCURRENT_TRANSACTIONS: ErrorCode.NOT_ENOUGH_REPLICAS,
}
_WITHOUT_ABORTABLE = {
    **_WITHOUT_ADDING,
    ErrorCode.TRANSACTION_ABORTABLE: ErrorCode.INVALID_TXN_STATE,
}

# These sentences reach applications: they are Kafka's.
_MESSAGES = {
    ErrorCode.INVALID_TXN_STATE: "Partition was not added to the transaction",
    ErrorCode.NOT_ENOUGH_REPLICAS: (
        "Unable to verify the partition has been added to the transaction. Underlying error: {}"
    ),
}


class VerificationEra(NamedTuple):
    """What clients of a range of versions know of the way into a transaction."""

    adds_partitions: bool
    """Partitions join a transaction by being written to."""
    substitutes: Mapping[ErrorCode, ErrorCode]
    """The coordinator's errors → what such a client is told instead."""


# TRANSACTION_ABORTABLE came with KIP-890's first part, and joining by writing with its second.
BEFORE_ABORTABLE = VerificationEra(adds_partitions=False, substitutes=_WITHOUT_ABORTABLE)
KNOWS_ABORTABLE = VerificationEra(adds_partitions=False, substitutes=_WITHOUT_ADDING)
ADDS_PARTITIONS = VerificationEra(adds_partitions=True, substitutes=_EVERY_CLIENT)


class Verified(NamedTuple):
    """Where a transaction may begin, and where it may not."""

    partitions: frozenset[Partition]
    refusals: Mapping[Partition, KafkaError]


def verify(
    context: RequestContext,
    transactional_id: str,
    batches: Sequence[tuple[Partition, BatchView]],
    era: VerificationEra,
) -> Verified:
    """Have the coordinator say to which partitions the transactional batches may go.

    KafkaError INVALID_PRODUCER_ID_MAPPING when they are not all of one producer.
    """
    producers = {Producer(one.producer_id, one.producer_epoch) for _, one in batches}
    if len(producers) > 1:
        raise KafkaError(
            ErrorCode.INVALID_PRODUCER_ID_MAPPING,
            "Transactional records contained more than one producer ID",
        )
    services = context.services
    is_enabled = services.config.bool("transaction.partition.verification.enable")
    if not (era.adds_partitions or is_enabled):
        return Verified(frozenset(partition for partition, _ in batches), {})
    asked, refusals = _begin(context, transactional_id, batches, era)
    if asked:
        (producer,) = producers
        codes = services.transactions.admit(
            transactional_id, producer, tuple(asked), adds=era.adds_partitions
        )
        refusals |= {asked[place]: _refusal(code, era) for place, code in codes.items() if code}
    return Verified(frozenset(asked.values()) - refusals.keys(), refusals)


def _begin(
    context: RequestContext,
    transactional_id: str,
    batches: Sequence[tuple[Partition, BatchView]],
    era: VerificationEra,
) -> tuple[dict[TopicPartition, Partition], dict[Partition, KafkaError]]:
    """Return where the coordinator must be asked, and where it need not be."""
    asked: dict[TopicPartition, Partition] = {}
    refusals: dict[Partition, KafkaError] = {}
    now_ms = context.services.clock.now_ms()
    for partition, batch in batches:
        if partition.leader != context.node_id:
            continue
        try:
            must_ask = partition.log.producers.start_verification(
                batch, adds_partitions=era.adds_partitions, now_ms=now_ms
            )
        except KafkaError as error:
            if not refusals:
                why = KafkaError(error.code, error.message, {"partition": partition.name})
                note_refusal(
                    context, "Produce", transactional_id, why, of=SubjectKind.TRANSACTIONAL_ID
                )
            refusals[partition] = KafkaError(error.code)
        else:
            if must_ask:
                asked[partition.topic_name, partition.index] = partition
    return asked, refusals


def _refusal(code: ErrorCode, era: VerificationEra) -> KafkaError:
    told = era.substitutes.get(code, code)
    message = _MESSAGES.get(told)
    return KafkaError(told, None if message is None else message.format(code.name))
