"""`RecordedCluster`: the topics, records and committed offsets that a capture contains.

Batches are stored at the offsets in Fetch and Produce responses. If no response has a topic's
number of partitions, the number is derived from the highest partition that was written or read.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from kafkalite.capture.reading.messages import parse_request, parse_response
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.errors import KafkaError, ProtocolViolation
from kafkalite.storage.batch import (
    PREFIX_SIZE,
    BatchView,
    ControlKind,
    ControlMarker,
    build_control_batch,
    split_batches,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from kafkalite.capture.model import Exchange

_NO_ID = bytes(16)
_NO_ERROR = 0
_UNKNOWN_EPOCH = -1
_MAX_PARTITIONS = 100_000
_base_offset = attrgetter("base_offset")
_last_offset = attrgetter("last_offset")


class PartitionId(NamedTuple):
    """A partition, with the name of its topic."""

    topic: str
    partition: int


class CommittedOffset(NamedTuple):
    """A committed offset of a group."""

    offset: int
    leader_epoch: int
    metadata: str | None


class AbortedTransaction(NamedTuple):
    """An aborted transaction in a partition."""

    producer_id: int
    first_offset: int
    last_offset: int
    """The offset of its marker."""


class RecordedPartition:
    """The recorded batches of one partition."""

    __slots__ = ("_stored_offsets", "batches", "end_offset", "start_offset")

    def __init__(self) -> None:
        self.batches: list[BatchView] = []
        """In order of offsets, without overlaps."""
        self._stored_offsets: set[int] = set()
        self.start_offset: int | None = None
        """The log start offset of the last response that has one."""
        self.end_offset = 0
        """The highest of all recorded high watermarks and end offsets of batches."""

    def add_batch(self, batch: BatchView, *, is_stored_form: bool) -> None:
        """Add a batch at its offset.

        A batch from a Fetch response (`is_stored_form`) replaces overlapping batches from Produce
        requests. These may differ from it, because a broker may rebuild batches.
        """
        first = bisect_left(self.batches, batch.base_offset, key=_last_offset)
        end = bisect_right(self.batches, batch.last_offset, key=_base_offset)
        overlapping = self.batches[first:end]
        if overlapping and (
            not is_stored_form
            or any(overlap.base_offset in self._stored_offsets for overlap in overlapping)
        ):
            return
        self.batches[first:end] = [batch]
        if is_stored_form:
            self._stored_offsets.add(batch.base_offset)
        self.end_offset = max(self.end_offset, batch.last_offset + 1)

    def end_transaction(self, producer_id: int, producer_epoch: int, kind: ControlKind) -> None:
        """Add the marker that ends a producer's transaction at the first free offset after it.

        Only Fetch responses have the offsets of markers, so the offset is derived.
        """
        offset = 0
        for batch in self.batches:
            if batch.producer_id == producer_id or batch.base_offset == offset:
                offset = batch.last_offset + 1
        marker = build_control_batch(
            ControlMarker(kind, 0),
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            now_ms=self.batches[-1].max_timestamp,
        )
        self.add_batch(_with_base_offset(offset, BatchView(marker)), is_stored_form=False)

    def transactions(self) -> tuple[list[AbortedTransaction], dict[int, BatchView]]:
        """Return the aborted transactions, and producer id → first batch of open transactions."""
        aborted: list[AbortedTransaction] = []
        open_transactions: dict[int, BatchView] = {}
        for batch in self.batches:
            if not batch.is_transactional:
                continue
            if not batch.is_control:
                open_transactions.setdefault(batch.producer_id, batch)
                continue
            first = open_transactions.pop(batch.producer_id, None)
            marker = batch.control_marker()
            if first is not None and marker is not None and marker.kind is ControlKind.ABORT:
                aborted.append(
                    AbortedTransaction(batch.producer_id, first.base_offset, batch.last_offset)
                )
        return aborted, open_transactions

    def read(self, offset: int, max_bytes: int) -> list[BatchView]:
        """Return batches of at most `max_bytes`, or one larger batch, from `offset` on."""
        first = bisect_left(self.batches, offset, key=_last_offset)
        batches: list[BatchView] = []
        for batch in self.batches[first:]:
            max_bytes -= batch.size
            if batches and max_bytes < 0:
                break
            batches.append(batch)
        return batches


class RecordedCluster:
    """The topics, records and committed offsets of a recorded cluster."""

    def __init__(self) -> None:
        self.topic_names: dict[bytes, str] = {}
        """Topic id → name."""
        self.topic_ids: dict[str, bytes] = {}
        """Topic name → its last id."""
        self.partition_counts: dict[str, int] = {}
        """Topic name → number of partitions."""
        self.internal_topics: set[str] = set()
        """Names of internal topics."""
        self.partitions: defaultdict[PartitionId, RecordedPartition] = defaultdict(
            RecordedPartition
        )
        self.committed_offsets: defaultdict[str, dict[PartitionId, CommittedOffset]] = defaultdict(
            dict
        )
        """By group."""
        self._open_partitions: defaultdict[int, set[PartitionId]] = defaultdict(set)
        """Producer id → partitions of its open transaction."""
        self.cluster_ids: set[str] = set()
        """Cluster ids; several if the captures are of several clusters."""
        self.node_ids: set[int] = set()
        self._pending_commits: defaultdict[
            tuple[str, int], list[tuple[str, PartitionId, CommittedOffset]]
        ] = defaultdict(list)

    @classmethod
    def from_exchanges(cls, exchanges: Iterable[Exchange]) -> RecordedCluster:
        """Return the cluster that exchanges show; malformed exchanges are skipped."""
        recorded_cluster = cls()
        for exchange in exchanges:
            recorded_cluster.learn(exchange)
        return recorded_cluster

    def learn(self, exchange: Exchange) -> None:
        """Learn from one recorded exchange; a malformed one is skipped."""
        learn = LEARN_METHODS.get(exchange.api_key)
        if learn is None or exchange.response is None:
            return
        try:
            learn(self, parse_request(exchange), parse_response(exchange))
        except (ProtocolViolation, KafkaError):
            return

    def topic_name(self, row: Any) -> str | None:  # noqa: ANN401 - a struct of a message
        """Return the name of the topic in a struct with a name or an id; None if unknown."""
        for name in ("name", "topic"):
            name_in_row = getattr(row, name, None)
            if name_in_row:
                return str(name_in_row)
        return self.topic_names.get(getattr(row, "topic_id", _NO_ID))

    # --- one method per API ------------------------------------------------------------------

    def learn_from_metadata(self, _: Any, response: Any) -> None:  # noqa: ANN401 - a message
        """Learn topics and nodes from Metadata."""
        self.node_ids.update(broker.node_id for broker in response.brokers)
        if response.cluster_id:
            self.cluster_ids.add(response.cluster_id)
        for topic in response.topics:
            if topic.error_code == _NO_ERROR and topic.name:
                self._add_topic(topic.name, topic.topic_id, len(topic.partitions))
                if topic.is_internal:
                    self.internal_topics.add(topic.name)

    def learn_from_create_topics(self, _: Any, response: Any) -> None:  # noqa: ANN401 - a message
        """Learn created topics from CreateTopics."""
        for topic in response.topics:
            if topic.error_code == _NO_ERROR:
                self._add_topic(topic.name, topic.topic_id, max(topic.num_partitions, 1))

    def _add_topic(self, name: str, topic_id: bytes, partitions: int) -> None:
        self.partition_counts[name] = max(partitions, self.partition_counts.get(name, 0))
        if topic_id != _NO_ID:
            self.topic_names[topic_id] = name
            self.topic_ids[name] = topic_id

    def partition(self, topic: str, index: int) -> RecordedPartition:
        """Return the contents of a partition; add it to the topic if it is new.

        Raises ProtocolViolation for an impossible index, because a seeded broker creates all lower
        partitions too.
        """
        if not 0 <= index < _MAX_PARTITIONS:
            raise ProtocolViolation(
                f"invalid partition {index}: expected 0 to {_MAX_PARTITIONS - 1}"
            )
        self.partition_counts[topic] = max(self.partition_counts.get(topic, 0), index + 1)
        return self.partitions[PartitionId(topic, index)]

    def learn_from_produce(self, request: Any, response: Any) -> None:  # noqa: ANN401 - a message
        """Learn records and their offsets from Produce."""
        sent_records = {
            (self.topic_name(topic), partition.index): partition.records
            for topic in request.topic_data
            for partition in topic.partition_data
        }
        for topic in response.responses:
            name = self.topic_name(topic)
            for row in topic.partition_responses:
                records = sent_records.get((name, row.index))
                if name is None or not records or row.error_code or row.base_offset < 0:
                    continue
                partition = self.partition(name, row.index)
                offset = row.base_offset
                for batch in split_batches(records):
                    partition.add_batch(_with_base_offset(offset, batch), is_stored_form=False)
                    offset += batch.last_offset_delta + 1
                    if batch.is_transactional:
                        self._open_partitions[batch.producer_id].add(PartitionId(name, row.index))

    def learn_from_fetch(self, _: Any, response: Any) -> None:  # noqa: ANN401 - a message
        """Learn records as the broker stores them, and the start and end of logs, from Fetch."""
        for topic in response.responses:
            name = self.topic_name(topic)
            if name is None:
                continue
            for row in topic.partitions:
                if row.error_code:
                    continue
                partition = self.partition(name, row.partition_index)
                partition.end_offset = max(partition.end_offset, row.high_watermark)
                if row.log_start_offset >= 0:
                    partition.start_offset = row.log_start_offset
                for batch in split_batches(bytes(row.records or b"")):
                    partition.add_batch(batch, is_stored_form=True)

    def learn_from_offset_commit(self, request: Any, response: Any) -> None:  # noqa: ANN401 - a message
        """Learn committed offsets from OffsetCommit."""
        for partition_id, commit in self._accepted_commits(request, response):
            self.committed_offsets[request.group_id][partition_id] = commit

    def learn_from_txn_offset_commit(self, request: Any, response: Any) -> None:  # noqa: ANN401
        """Learn the offsets that a transaction commits at its end, from TxnOffsetCommit."""
        producer = (request.transactional_id, request.producer_id)
        for partition_id, commit in self._accepted_commits(request, response):
            self._pending_commits[producer].append((request.group_id, partition_id, commit))

    def _accepted_commits(
        self,
        request: Any,  # noqa: ANN401 - a message
        response: Any,  # noqa: ANN401 - a message
    ) -> Iterator[tuple[PartitionId, CommittedOffset]]:
        refused = {
            (self.topic_name(topic), partition.partition_index)
            for topic in response.topics
            for partition in topic.partitions
            if partition.error_code
        }
        for topic in request.topics:
            name = self.topic_name(topic)
            for row in topic.partitions:
                if name is not None and (name, row.partition_index) not in refused:
                    self.partition(name, row.partition_index)
                    yield (
                        PartitionId(name, row.partition_index),
                        CommittedOffset(
                            row.committed_offset, row.committed_leader_epoch, row.committed_metadata
                        ),
                    )

    def learn_from_end_txn(self, request: Any, response: Any) -> None:  # noqa: ANN401 - a message
        """Learn the outcome of a transaction from EndTxn."""
        if response.error_code:
            return
        pending = self._pending_commits.pop((request.transactional_id, request.producer_id), [])
        kind = ControlKind.COMMIT if request.committed else ControlKind.ABORT
        for partition_id in sorted(self._open_partitions.pop(request.producer_id, ())):
            partition = self.partitions[partition_id]
            partition.end_transaction(request.producer_id, request.producer_epoch, kind)
        if request.committed:
            for group, partition_id, commit in pending:
                self.committed_offsets[group][partition_id] = commit

    def learn_from_offset_fetch(self, request: Any, response: Any) -> None:  # noqa: ANN401 - a message
        """Learn committed offsets from OffsetFetch, unless a commit was recorded before."""
        rows = [(request.group_id, response.topics)] if request.group_id else []
        rows += [(group.group_id, group.topics) for group in response.groups]
        for group, topics in rows:
            for topic in topics:
                name = self.topic_name(topic)
                for row in topic.partitions:
                    if name is not None and not row.error_code and row.committed_offset >= 0:
                        epoch = getattr(row, "committed_leader_epoch", _UNKNOWN_EPOCH)
                        self.partition(name, row.partition_index)
                        self.committed_offsets[group].setdefault(
                            PartitionId(name, row.partition_index),
                            CommittedOffset(row.committed_offset, epoch, row.metadata),
                        )


def _with_base_offset(offset: int, batch: BatchView) -> BatchView:
    """Return a batch with another base offset."""
    head = batch.prefix(offset, max(batch.leader_epoch, 0))
    return BatchView(head + bytes(memoryview(batch.data)[PREFIX_SIZE:]))


LEARN_METHODS: Mapping[int, Callable[[RecordedCluster, Any, Any], None]] = {
    ApiKey.PRODUCE: RecordedCluster.learn_from_produce,
    ApiKey.FETCH: RecordedCluster.learn_from_fetch,
    ApiKey.METADATA: RecordedCluster.learn_from_metadata,
    ApiKey.OFFSET_COMMIT: RecordedCluster.learn_from_offset_commit,
    ApiKey.OFFSET_FETCH: RecordedCluster.learn_from_offset_fetch,
    ApiKey.CREATE_TOPICS: RecordedCluster.learn_from_create_topics,
    ApiKey.END_TXN: RecordedCluster.learn_from_end_txn,
    ApiKey.TXN_OFFSET_COMMIT: RecordedCluster.learn_from_txn_offset_commit,
}
"""API key → the method that learns from its exchanges."""
