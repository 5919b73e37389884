"""TransactionMarkers: writes the markers of ended transactions by requests to partition leaders.

It is the counterpart of Kafka's TransactionMarkerChannelManager. The node that coordinates a
transaction sends WriteTxnMarkers to the leaders of its partitions. If a leader refuses a marker or
does not answer, the node sends another request for these partitions later.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from kafkalite.cluster.outbox import INITIAL_RETRY_BACKOFF_MS, MAX_RETRY_BACKOFF_MS
from kafkalite.metadata.internal_topics import TRANSACTION_STATE_TOPIC
from kafkalite.ports.waiting import Waiting
from kafkalite.protocol._generated.messages.write_txn_markers import (
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.transactions.intents import WriteMarkers
from kafkalite.transactions.state import TransactionState

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kafkalite.cluster.node import Node
    from kafkalite.cluster.outbox import Outbox
    from kafkalite.cluster.pace import Pace
    from kafkalite.coordinator.active_shard import ActiveShard
    from kafkalite.transactions.coordinator import TransactionCoordinator
    from kafkalite.transactions.shard import TransactionShard
    from kafkalite.transactions.state import TopicPartition

_PARTITIONS_PER_PASS = 200
"""Partitions of one transaction per pass; other requests are served between passes."""

_FENCING_ERRORS = frozenset((
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.TRANSACTION_COORDINATOR_FENCED,
))  # fmt: skip
"""Errors of partitions that already have a marker of a later epoch; these are not retried."""


class _PendingMarkers:
    """A WriteMarkers intent with markers that are not written yet."""

    __slots__ = ("intent", "is_fenced", "refused", "retry_ms", "shard", "unanswered", "unsent")

    def __init__(self, intent: WriteMarkers, shard: ActiveShard[TransactionShard]) -> None:
        self.intent = intent
        self.shard = shard
        """The shard with the transaction. If it is loaded again, it requests all markers again."""
        self.unsent: Sequence[TopicPartition] = intent.partitions
        self.refused: list[TopicPartition] = []
        """Partitions whose marker was not written in this round; the next round retries them."""
        self.unanswered = 0
        """Number of requests of this round that have no answer yet."""
        self.is_fenced = False
        """Whether a partition has a marker of a later epoch."""
        self.retry_ms = INITIAL_RETRY_BACKOFF_MS

    @property
    def is_awaited(self) -> bool:
        """Whether the coordinator still waits for these markers."""
        return not self.shard.is_unloaded and _is_prepared(self.shard, self.intent)

    def begin_next_round(self) -> int:
        """Prepare to retry the refused partitions; return the delay in milliseconds."""
        self.unsent, self.refused = self.refused, []
        delay_ms, self.retry_ms = self.retry_ms, min(2 * self.retry_ms, MAX_RETRY_BACKOFF_MS)
        return delay_ms


class TransactionMarkers:
    """Carries out the WriteMarkers intents of transaction coordinators."""

    __slots__ = ("_nodes", "_outbox", "_pace", "_transactions")

    def __init__(
        self,
        nodes: Mapping[int, Node],
        transactions: TransactionCoordinator,
        outbox: Outbox,
        pace: Pace | None = None,
    ) -> None:
        self._nodes = nodes
        self._transactions = transactions
        self._outbox = outbox
        self._pace = pace
        outbox.assign(WriteMarkers, self.write)
        outbox.assign(_PendingMarkers, self._continue_writing)

    def write(self, intent: WriteMarkers) -> None:
        """Write the markers of a transaction, then complete it at its coordinator.

        If the marker of a partition cannot be written now, it is retried later without delaying the
        others. Other requests are served between passes over many partitions. Deleted partitions
        are skipped. An intent is dropped if it no longer fits the state at its coordinator: its
        producer may have begun another transaction with the same epoch, which these markers would
        end. It is also dropped if the coordinator has moved, because the next one requests all
        markers again. As in Kafka, a transaction remains incomplete if a partition has a marker of
        a later epoch. With the pace of a real Kafka, the markers are written after a delay.
        """
        shard = self._shard_of(intent)
        if shard is None:
            return
        pending = _PendingMarkers(intent, shard)
        if self._pace is None:
            self._continue_writing(pending)
        else:
            delay_ms = self._pace.completion_ms(intent.transaction_version)
            self._outbox.carry_out_later(pending, delay_ms)

    def _continue_writing(self, pending: _PendingMarkers) -> None:
        if not pending.is_awaited:
            return
        shard = pending.shard
        sender = self._nodes[shard.leader_id]
        partitions = pending.unsent[:_PARTITIONS_PER_PASS]
        pending.unsent = pending.unsent[_PARTITIONS_PER_PASS:]
        coordinator_epoch = _leader_epoch(sender, shard.partition)
        pending.unanswered += 1  # until all requests of this pass are sent
        by_leader, unknown = _by_leader(sender, partitions)
        pending.refused += unknown
        for leader, led_partitions in by_leader.items():
            self._send(pending, sender, leader, led_partitions, coordinator_epoch)
        pending.unanswered -= 1
        if pending.unsent:
            self._outbox.carry_out_later(pending, 0)
        else:
            self._finish_round(pending)

    def _send(
        self,
        pending: _PendingMarkers,
        sender: Node,
        leader: int,
        partitions: Sequence[TopicPartition],
        coordinator_epoch: int,
    ) -> None:
        request = _request(pending.intent, partitions, coordinator_epoch)
        pending.unanswered += 1

        def on_answer(answer: WriteTxnMarkersResponse | Exception) -> None:
            pending.unanswered -= 1
            _record_results(pending, partitions, answer)
            self._finish_round(pending)

        try:
            answer = sender.send(leader, ApiKey.WRITE_TXN_MARKERS, request)
        except KafkaError as error:
            answer = error
        if isinstance(answer, Waiting):
            answer.then(on_answer)
        else:
            on_answer(answer)

    def _finish_round(self, pending: _PendingMarkers) -> None:
        """When all partitions have answered, begin the next round or complete the transaction."""
        if pending.unanswered or pending.unsent:
            return
        if pending.refused:
            self._outbox.carry_out_later(pending, pending.begin_next_round())
            return
        if pending.is_fenced or not pending.is_awaited:
            return
        intent = pending.intent
        try:
            pending.shard.write(
                lambda machine, now_ms: machine.complete_transaction(intent, now_ms)
            )
        except KafkaError:
            self._outbox.carry_out_later(pending, pending.begin_next_round())

    def _shard_of(self, intent: WriteMarkers) -> ActiveShard[TransactionShard] | None:
        """Return the shard with the prepared transaction; None if it is completed or unknown.

        If partitions were added to the topic, the id may now map to a different shard.
        """
        for shard in self._candidate_shards(intent.transactional_id):
            if _is_prepared(shard, intent):
                return shard
        return None

    def _candidate_shards(self, transactional_id: str) -> Iterator[ActiveShard[TransactionShard]]:
        """Yield every shard, beginning with the one that the id maps to."""
        with suppress(KafkaError):
            yield self._transactions.shard_for(transactional_id)
        yield from self._transactions.shards()


def _is_prepared(shard: ActiveShard[TransactionShard], intent: WriteMarkers) -> bool:
    """Return whether a shard has decided this end of the transaction, and not completed it."""
    prepared = (
        TransactionState.PREPARE_COMMIT if intent.is_commit else TransactionState.PREPARE_ABORT
    )
    try:
        transaction = shard.machine.describe(intent.transactional_id)
    except KafkaError:
        return False
    return (transaction.state, transaction.producer_id, transaction.producer_epoch) == (
        prepared,
        intent.producer_id,
        intent.producer_epoch,
    )


def _leader_epoch(node: Node, partition: int) -> int:
    """Return the leader epoch of a partition of the transaction log: the coordinator epoch.

    The metadata of the node may be older than its coordinator.
    """
    topic = node.partitions.topic(TRANSACTION_STATE_TOPIC)
    return 0 if topic is None else topic.partitions[partition].leader_epoch


def _by_leader(
    node: Node, partitions: Sequence[TopicPartition]
) -> tuple[Mapping[int, list[TopicPartition]], list[TopicPartition]]:
    """Return partitions by leader without deleted ones, and those that the node does not know yet.

    A node whose metadata is stale may coordinate a transaction with partitions that are newer.
    """
    by_leader: dict[int, list[TopicPartition]] = {}
    unknown: list[TopicPartition] = []
    for topic, index in partitions:
        image = node.image.partition(topic, index)
        if image is not None:
            by_leader.setdefault(image.leader, []).append((topic, index))
        elif node.has_stale_metadata:
            unknown.append((topic, index))
    return by_leader, unknown


def _request(
    intent: WriteMarkers, partitions: Sequence[TopicPartition], coordinator_epoch: int
) -> WriteTxnMarkersRequest:
    by_topic: dict[str, list[int]] = {}
    for topic, index in partitions:
        by_topic.setdefault(topic, []).append(index)
    return WriteTxnMarkersRequest(
        markers=[
            WriteTxnMarkersRequest.WritableTxnMarker(
                producer_id=intent.producer_id,
                producer_epoch=intent.producer_epoch,
                transaction_result=intent.is_commit,
                topics=[
                    WriteTxnMarkersRequest.WritableTxnMarkerTopic(
                        name=topic, partition_indexes=indexes
                    )
                    for topic, indexes in by_topic.items()
                ],
                coordinator_epoch=coordinator_epoch,
                transaction_version=intent.transaction_version,
            )
        ]
    )


def _record_results(
    pending: _PendingMarkers,
    partitions: Sequence[TopicPartition],
    answer: WriteTxnMarkersResponse | Exception,
) -> None:
    """Store the result of each partition; without an answer all are retried."""
    if isinstance(answer, Exception):
        pending.refused += partitions
        return
    codes = {
        (topic.name, row.partition_index): row.error_code
        for marker in answer.markers
        for topic in marker.topics
        for row in topic.partitions
    }
    for partition in partitions:
        code = codes.get(partition, ErrorCode.UNKNOWN_SERVER_ERROR)
        if code in _FENCING_ERRORS:
            pending.is_fenced = True
        elif code:
            pending.refused.append(partition)
