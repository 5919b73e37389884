"""Library: what a capture tells of the cluster behind it; its topics, records and commits.

Batches are placed at the offsets that Fetch answers show them at, or that Produce was told. What a
capture does not show is not made up: a topic of which no answer told the partitions has as many as
were written or read.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from kafkalite.capture.messages import parse_request, parse_response
from kafkalite.protocol.errors import KafkaError, ProtocolViolation
from kafkalite.storage.batch import (
    FIRST_SIZE,
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
    """A partition by its topic's name."""

    topic: str
    partition: int


class Commit(NamedTuple):
    """How far a group said it has read a partition."""

    offset: int
    leader_epoch: int
    metadata: str | None


class Aborted(NamedTuple):
    """A transaction of a partition that was rolled back."""

    producer_id: int
    first_offset: int
    last_offset: int
    """Of its marker."""


class Shelf:
    """What is known of one partition: its batches, and the transactions in them."""

    __slots__ = ("_is_as_stored", "batches", "end_offset", "start_offset")

    def __init__(self) -> None:
        self.batches: list[BatchView] = []
        """In the order of their offsets; none twice."""
        self._is_as_stored: set[int] = set()
        self.start_offset: int | None = None
        """Where the log was last said to begin."""
        self.end_offset = 0
        """The highest of all high watermarks told, and of all that lies here."""

    def place(self, batch: BatchView, *, is_as_stored: bool) -> None:
        """Lay a batch where its offset says; as the log has it outweighs as it was sent.

        The two need not be alike, for a broker may put batches of its own together.
        """
        first = bisect_left(self.batches, batch.base_offset, key=_last_offset)
        end = bisect_right(self.batches, batch.last_offset, key=_base_offset)
        there = self.batches[first:end]
        if there and (
            not is_as_stored or any(each.base_offset in self._is_as_stored for each in there)
        ):
            return
        self.batches[first:end] = [batch]
        if is_as_stored:
            self._is_as_stored.add(batch.base_offset)
        self.end_offset = max(self.end_offset, batch.last_offset + 1)

    def end_transaction(self, producer_id: int, producer_epoch: int, kind: ControlKind) -> None:
        """Lay the marker that ends a producer's transaction where there is room behind it.

        The offset of a marker is told to nobody but readers, so this is where it must have been.
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
        self.place(_at(offset, BatchView(marker)), is_as_stored=False)

    def transactions(self) -> tuple[list[Aborted], dict[int, BatchView]]:
        """Return the aborted transactions, and the first batches of those that are open still."""
        aborted: list[Aborted] = []
        opened: dict[int, BatchView] = {}
        for batch in self.batches:
            if not batch.is_transactional:
                continue
            if not batch.is_control:
                opened.setdefault(batch.producer_id, batch)
                continue
            first = opened.pop(batch.producer_id, None)
            marker = batch.control_marker()
            if first is not None and marker is not None and marker.kind is ControlKind.ABORT:
                aborted.append(Aborted(batch.producer_id, first.base_offset, batch.last_offset))
        return aborted, opened

    def read(self, offset: int, max_bytes: int) -> list[BatchView]:
        """Return batches from the one that holds `offset` on, the first whatever its size."""
        at = bisect_left(self.batches, offset, key=_last_offset)
        found: list[BatchView] = []
        for batch in self.batches[at:]:
            max_bytes -= batch.size
            if found and max_bytes < 0:
                break
            found.append(batch)
        return found


class Library:
    """All that a capture tells of what its cluster held."""

    def __init__(self) -> None:
        self.names: dict[bytes, str] = {}
        """Topic id → name."""
        self.ids: dict[str, bytes] = {}
        """Topic name → the id it had last."""
        self.partitions: dict[str, int] = {}
        """Topic name → how many partitions."""
        self.internal: set[str] = set()
        """Topics that the cluster keeps for itself."""
        self.shelves: defaultdict[PartitionId, Shelf] = defaultdict(Shelf)
        self.commits: defaultdict[str, dict[PartitionId, Commit]] = defaultdict(dict)
        """By group."""
        self._open: defaultdict[int, set[PartitionId]] = defaultdict(set)
        """Producer id → where it has written since its last transaction ended."""
        self.clusters: set[str] = set()
        """The ids of clusters that were told: several where captures were thrown together."""
        self.nodes: set[int] = set()
        self._pending: defaultdict[tuple[str, int], list[tuple[str, PartitionId, Commit]]] = (
            defaultdict(list)
        )

    @classmethod
    def of(cls, exchanges: Iterable[Exchange]) -> Library:
        """Return what these exchanges tell, in their order; malformed ones tell nothing."""
        library = cls()
        for exchange in exchanges:
            library.take(exchange)
        return library

    def take(self, exchange: Exchange) -> None:
        """Learn from one exchange."""
        read = READERS.get(exchange.api_key)
        if read is None or exchange.response is None:
            return
        try:
            read(self, parse_request(exchange), parse_response(exchange))
        except (ProtocolViolation, KafkaError):
            return

    def topic_of(self, row: Any) -> str | None:  # noqa: ANN401 - its class is found by number
        """Return the topic that a struct of a message names, by name or id; None if unknown."""
        for name in ("name", "topic"):
            found = getattr(row, name, None)
            if found:
                return str(found)
        return self.names.get(getattr(row, "topic_id", _NO_ID))

    # --- what each API tells -----------------------------------------------------------------

    def learn_topics(self, _: Any, response: Any) -> None:  # noqa: ANN401 - as above
        """Learn which topics there are, and which nodes."""
        self.nodes.update(broker.node_id for broker in response.brokers)
        if response.cluster_id:
            self.clusters.add(response.cluster_id)
        for topic in response.topics:
            if topic.error_code == _NO_ERROR and topic.name:
                self._know(topic.name, topic.topic_id, len(topic.partitions))
                if topic.is_internal:
                    self.internal.add(topic.name)

    def learn_created(self, _: Any, response: Any) -> None:  # noqa: ANN401 - as above
        """Learn of topics that were made."""
        for topic in response.topics:
            if topic.error_code == _NO_ERROR:
                self._know(topic.name, topic.topic_id, max(topic.num_partitions, 1))

    def _know(self, name: str, topic_id: bytes, partitions: int) -> None:
        self.partitions[name] = max(partitions, self.partitions.get(name, 0))
        if topic_id != _NO_ID:
            self.names[topic_id] = name
            self.ids[name] = topic_id

    def shelf(self, topic: str, index: int) -> Shelf:
        """Return the shelf of a partition, which is thereby known to be there.

        ProtocolViolation for one that no cluster has: a broker is to make all those before it too.
        """
        if not 0 <= index < _MAX_PARTITIONS:
            raise ProtocolViolation(f"no topic has a partition {index}")
        self.partitions[topic] = max(self.partitions.get(topic, 0), index + 1)
        return self.shelves[PartitionId(topic, index)]

    def learn_produced(self, request: Any, response: Any) -> None:  # noqa: ANN401 - as above
        """Learn where records were put that clients sent."""
        sent = {
            (self.topic_of(topic), partition.index): partition.records
            for topic in request.topic_data
            for partition in topic.partition_data
        }
        for topic in response.responses:
            name = self.topic_of(topic)
            for told in topic.partition_responses:
                records = sent.get((name, told.index))
                if name is None or not records or told.error_code or told.base_offset < 0:
                    continue
                shelf = self.shelf(name, told.index)
                offset = told.base_offset
                for batch in split_batches(records):
                    shelf.place(_at(offset, batch), is_as_stored=False)
                    offset += batch.last_offset_delta + 1
                    if batch.is_transactional:
                        self._open[batch.producer_id].add(PartitionId(name, told.index))

    def learn_fetched(self, _: Any, response: Any) -> None:  # noqa: ANN401 - as above
        """Learn what logs hold."""
        for topic in response.responses:
            name = self.topic_of(topic)
            if name is None:
                continue
            for told in topic.partitions:
                if told.error_code:
                    continue
                shelf = self.shelf(name, told.partition_index)
                shelf.end_offset = max(shelf.end_offset, told.high_watermark)
                if told.log_start_offset >= 0:
                    shelf.start_offset = told.log_start_offset
                for batch in split_batches(bytes(told.records or b"")):
                    shelf.place(batch, is_as_stored=True)

    def learn_committed(self, request: Any, response: Any) -> None:  # noqa: ANN401 - as above
        """Learn how far groups have read."""
        for place, commit in self._accepted(request, response):
            self.commits[request.group_id][place] = commit

    def learn_pending(self, request: Any, response: Any) -> None:  # noqa: ANN401
        """Learn how far groups will have read once a transaction is committed."""
        producer = (request.transactional_id, request.producer_id)
        for place, commit in self._accepted(request, response):
            self._pending[producer].append((request.group_id, place, commit))

    def _accepted(self, request: Any, response: Any) -> Iterator[tuple[PartitionId, Commit]]:  # noqa: ANN401
        refused = {
            (self.topic_of(topic), partition.partition_index)
            for topic in response.topics
            for partition in topic.partitions
            if partition.error_code
        }
        for topic in request.topics:
            name = self.topic_of(topic)
            for row in topic.partitions:
                if name is not None and (name, row.partition_index) not in refused:
                    self.shelf(name, row.partition_index)
                    yield (
                        PartitionId(name, row.partition_index),
                        Commit(
                            row.committed_offset, row.committed_leader_epoch, row.committed_metadata
                        ),
                    )

    def learn_ended(self, request: Any, response: Any) -> None:  # noqa: ANN401 - as above
        """Learn that a transaction ended, and how."""
        if response.error_code:
            return
        pending = self._pending.pop((request.transactional_id, request.producer_id), [])
        kind = ControlKind.COMMIT if request.committed else ControlKind.ABORT
        for place in sorted(self._open.pop(request.producer_id, ())):
            shelf = self.shelves[place]
            shelf.end_transaction(request.producer_id, request.producer_epoch, kind)
        if request.committed:
            for group, place, commit in pending:
                self.commits[group][place] = commit

    def learn_offsets(self, request: Any, response: Any) -> None:  # noqa: ANN401 - as above
        """Learn what had been committed before the capture began; later commits outweigh it."""
        rows = [(request.group_id, response.topics)] if request.group_id else []
        rows += [(group.group_id, group.topics) for group in response.groups]
        for group, topics in rows:
            for topic in topics:
                name = self.topic_of(topic)
                for told in topic.partitions:
                    if name is not None and not told.error_code and told.committed_offset >= 0:
                        epoch = getattr(told, "committed_leader_epoch", _UNKNOWN_EPOCH)
                        self.shelf(name, told.partition_index)
                        self.commits[group].setdefault(
                            PartitionId(name, told.partition_index),
                            Commit(told.committed_offset, epoch, told.metadata),
                        )


def _at(offset: int, batch: BatchView) -> BatchView:
    """Return a batch as it is at an offset."""
    head = batch.first(offset, max(batch.leader_epoch, 0))
    return BatchView(head + bytes(memoryview(batch.data)[FIRST_SIZE:]))


READERS: Mapping[int, Callable[[Library, Any, Any], None]] = {
    0: Library.learn_produced,
    1: Library.learn_fetched,
    3: Library.learn_topics,
    8: Library.learn_committed,
    9: Library.learn_offsets,
    19: Library.learn_created,
    26: Library.learn_ended,
    28: Library.learn_pending,
}
"""API key → what its exchanges tell."""
