"""The tables of a history: writes, deliveries, commits, ends of transactions and other events.

A history has what clients sent and what they were answered. Its rows are in the order in which the
requests were sent. Times are in nanoseconds since the Unix epoch.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from typing import TYPE_CHECKING, Any, Protocol

from kafkalite.lab.checker.packed_rows import (
    EventTable,
    Numbers,
    Objects,
    OptionalNumbers,
    PackedRows,
    References,
    Shared,
    Structs,
    View,
    WideNumbers,
    grouped,
)
from kafkalite.ports.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


class Client(NamedTuple):
    """A client as its requests name it; several processes can have the same host and id."""

    id: str
    host: str

    def __str__(self) -> str:
        return f"{self.id or 'a client without id'} at {self.host}"


class Partition(NamedTuple):
    """A partition of one incarnation of a topic."""

    topic: str
    number: int
    incarnation: int
    """How many topics of this name were deleted before, as far as the history has it."""

    def __str__(self) -> str:
        suffix = f" (incarnation {self.incarnation + 1})" if self.incarnation else ""
        return f"{self.topic}-{self.number}{suffix}"


@dataclass(frozen=True, slots=True)
class Proof:
    """The place of a request in a capture, or among the requests that a broker received."""

    file: str
    """Path of the capture; empty for the requests of a running broker."""
    offset: int
    """File offset of the packet in which the request begins; -1 without a file."""
    connection: str
    """The connection as "client > broker"."""
    request: int
    """Number of the request in its connection, from 0."""
    correlation_id: int | None = None
    """The id that the client gave the request; None if it is unknown."""
    at_ns: int = 0
    """When the request was sent; 0 if the history has no losses, for which it is needed."""

    def __str__(self) -> str:
        place = f"{self.file}:{self.offset} " if self.file else ""
        return f"{place}({self.connection}, request {self.request})"

    def as_json(self) -> dict[str, Any]:
        """Return the place as an object of JSON."""
        return {
            "file": self.file or None,
            "offset": None if self.offset < 0 else self.offset,
            "connection": self.connection,
            "request": self.request,
            "correlation_id": self.correlation_id,
        }


@dataclass(frozen=True, slots=True)
class LogProof:
    """The place of a batch in the log of a partition."""

    file: str
    """Path of the segment."""
    position: int
    """Position of the batch in the file, in bytes."""
    offset: int
    """Base offset of the batch."""

    def __str__(self) -> str:
        return f"{self.file}:{self.position} (offset {self.offset})"

    def as_json(self) -> dict[str, Any]:
        """Return the place as an object of JSON."""
        return {"file": self.file, "position": self.position, "log_offset": self.offset}


@dataclass(frozen=True, slots=True)
class Event:
    """What all rows have in common."""

    client: Client
    connection: int
    """Number of the connection; connections that were opened later have higher numbers."""
    sent_ns: int
    answered_ns: int | None
    """None if the history has no answer."""
    broker: str
    """The node that received it, as an address or a number."""
    proof: Proof | LogProof
    """The request; of a marker that is read from a log, the batch."""


class Outcome(Enum):
    """What the answer says about a request, or about a partition in it."""

    ACCEPTED = "accepted"
    REFUSED = "refused"
    UNKNOWN = "unknown"
    """The history has no answer."""


@dataclass(frozen=True, slots=True)
class Batch:
    """The header of a record batch, without its offsets."""

    records: int
    """Offsets that the batch has, which is the number of records before compaction."""
    crc: int
    """Checksum of the records and of the header, but not of the offsets."""
    size: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    is_transactional: bool
    attributes: int
    """Compression, kind of timestamps and other flags, as in the header."""

    @property
    def content(self) -> tuple[int, int, int, int, int]:
        """What is the same each time this batch is sent, and differs from other batches."""
        if self.producer_id >= 0 and self.base_sequence >= 0:
            return self.producer_id, self.producer_epoch, self.base_sequence, 0, 0
        return -1, -1, -1, self.crc, self.size


@dataclass(frozen=True, slots=True)
class Write:
    """A batch in a Produce request."""

    event: Event
    partition: Partition
    batch: Batch
    transactional_id: str | None
    outcome: Outcome
    error_code: int
    first_offset: int
    """-1 if the answer has no offset."""
    is_answerable: bool = True
    """False with acks=0, for which brokers send no answer."""

    @property
    def last_offset(self) -> int:
        """Offset of the last record; only meaningful with `first_offset`."""
        return self.first_offset + self.batch.records - 1

    @property
    def is_acknowledged(self) -> bool:
        """Whether the broker confirmed the batch with its offset."""
        return self.outcome is Outcome.ACCEPTED and self.first_offset >= 0


@dataclass(frozen=True, slots=True)
class Delivery:
    """A batch in an answer to a consumer."""

    event: Event
    partition: Partition
    batch: Batch
    first_offset: int
    """The first offset that the consumer asked for, if the batch begins before it."""
    last_offset: int
    base_offset: int
    group: str | None
    """None if the client is in no group, or if it is not clear in which."""
    member: str | None
    is_read_committed: bool
    is_aborted: bool
    """Whether the answer lists the transaction of the batch among the aborted ones."""
    delivery_count: int = 0
    """How often a share group says that it delivered the records; 0 for other consumers."""

    @property
    def is_shared(self) -> bool:
        """Whether the consumer is a member of a share group (KIP-932)."""
        return self.delivery_count > 0


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """Consecutive records that a member of a share group acknowledged in the same way (KIP-932)."""

    event: Event
    group: str
    member: str
    partition: Partition
    first_offset: int
    last_offset: int
    type: int
    """An `AcknowledgeType`, such as 1 for accepted records."""
    outcome: Outcome
    error_code: int


@dataclass(frozen=True, slots=True)
class ShareSessionUse:
    """A request of a share session, which has an epoch that grows with each request."""

    event: Event
    group: str
    member: str
    session_epoch: int
    """0 for the first request of a session, and -1 for the last one."""
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class ShareReset:
    """A change of a share group's start offset, or its removal, by an administrator."""

    event: Event
    group: str
    topic: str


@dataclass(frozen=True, slots=True)
class RecordDeletion:
    """A DeleteRecords request for a partition, which moves the start of its log."""

    event: Event
    partition: Partition
    start_offset: int
    """The first offset that the log has from then on."""


@dataclass(frozen=True, slots=True)
class Marker:
    """A transaction marker in an answer to a consumer."""

    event: Event
    partition: Partition
    offset: int
    producer_id: int
    producer_epoch: int
    is_commit: bool


@dataclass(frozen=True, slots=True)
class Coverage:
    """Offsets from a fetch position to the end of the batches in the answer.

    Offsets in it without a record have no record any more, or never had one.
    """

    event: Event
    partition: Partition
    first_offset: int
    last_offset: int
    group: str | None
    member: str | None


@dataclass(frozen=True, slots=True)
class Commit:
    """The offset of a partition in an OffsetCommit or TxnOffsetCommit request."""

    event: Event
    group: str
    member: str
    generation: int
    """Generation of a classic group or epoch of a member; -1 for an administrator's request."""
    partition: Partition
    offset: int
    outcome: Outcome
    error_code: int
    producer_id: int
    """-1 unless the commit belongs to a transaction."""
    transactional_id: str | None
    producer_epoch: int = -1

    @property
    def is_transactional(self) -> bool:
        """Whether the commit belongs to a transaction."""
        return self.producer_id >= 0

    @property
    def is_administrative(self) -> bool:
        """Whether the request names no member, as those of administrators and simple consumers."""
        return self.generation < 0 and not self.is_transactional


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """A committed offset in an answer to OffsetFetch; -1 if there is none."""

    event: Event
    group: str
    partition: Partition
    offset: int
    is_stable: bool = False
    """Whether the request waits for commits of transactions that have ended (KIP-447)."""


@dataclass(frozen=True, slots=True)
class TransactionEnd:
    """An EndTxn request."""

    event: Event
    transactional_id: str
    producer_id: int
    producer_epoch: int
    is_commit: bool
    outcome: Outcome
    error_code: int


@dataclass(frozen=True, slots=True)
class TransactionAddition:
    """An AddPartitionsToTxn or AddOffsetsToTxn request, as clients without KIP-890 send them."""

    event: Event
    transactional_id: str
    producer_id: int
    producer_epoch: int
    targets: frozenset[str]
    """The partitions, such as "orders-0", or the group, such as "group shop"."""
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class ProducerStart:
    """A producer id and epoch that the broker assigned."""

    event: Event
    transactional_id: str | None
    producer_id: int
    producer_epoch: int


@dataclass(frozen=True, slots=True)
class PositionLookup:
    """The offset of a partition in an answer to ListOffsets."""

    event: Event
    partition: Partition
    timestamp: int
    offset: int


class Lifetime(StrEnum):
    """Events of topics."""

    CREATED = "created"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True)
class TopicEvent:
    """The creation or deletion of a topic by a client."""

    event: Event
    topic: str
    kind: Lifetime


@dataclass(frozen=True, slots=True)
class Loss:
    """Bytes of a connection that are missing in a capture, so that requests may be missing.

    They were sent between the frame before them and the one after them.
    """

    from_ns: int
    until_ns: int


@dataclass(frozen=True, slots=True)
class Undecided:
    """What a history does not have, so that rules cannot decide something."""

    reason: str
    count: int


def _events() -> EventTable:
    proof = Objects(
        Proof,
        file=Shared(),
        offset=Numbers(),
        connection=Shared(),
        request=WideNumbers(),
        correlation_id=OptionalNumbers(),
        at_ns=Numbers(),
    )
    return EventTable(
        Event,
        sent_ns=Numbers(),
        client=Shared(),
        connection=Shared(),
        answered_ns=OptionalNumbers(),
        broker=Shared(),
        proof=proof,
    )


def _headers() -> Structs:
    return Structs(
        Batch,
        records=Numbers(),
        crc=Numbers("I"),
        size=Numbers("I"),
        producer_id=Numbers(),
        producer_epoch=Numbers("h"),
        base_sequence=Numbers("i"),
        is_transactional=Shared("b"),
        attributes=Numbers("h"),
    )


def _writes(events: EventTable) -> PackedRows[Write]:
    return PackedRows(
        Write,
        References(events),
        partition=Shared(),
        batch=_headers(),
        transactional_id=Shared(),
        outcome=Shared("b"),
        error_code=Numbers("h"),
        first_offset=Numbers(),
        is_answerable=Shared("b"),
    )


def _deliveries(events: EventTable) -> PackedRows[Delivery]:
    return PackedRows(
        Delivery,
        References(events),
        partition=Shared(),
        batch=_headers(),
        first_offset=Numbers(),
        last_offset=Numbers(),
        base_offset=Numbers(),
        group=Shared(),
        member=Shared(),
        is_read_committed=Shared("b"),
        is_aborted=Shared("b"),
        delivery_count=Numbers("i"),
    )


def _coverages(events: EventTable) -> PackedRows[Coverage]:
    return PackedRows(
        Coverage,
        References(events),
        partition=Shared(),
        first_offset=Numbers(),
        last_offset=Numbers(),
        group=Shared(),
        member=Shared(),
    )


@dataclass(slots=True)
class History:
    """All tables. `sort` brings the rows into the order of their requests."""

    writes: PackedRows[Write]
    deliveries: PackedRows[Delivery]
    coverages: PackedRows[Coverage]
    markers: list[Marker] = field(default_factory=list)
    commits: list[Commit] = field(default_factory=list)
    committed_offsets: list[CommittedOffset] = field(default_factory=list)
    transaction_ends: list[TransactionEnd] = field(default_factory=list)
    transaction_additions: list[TransactionAddition] = field(default_factory=list)
    producer_starts: list[ProducerStart] = field(default_factory=list)
    lookups: list[PositionLookup] = field(default_factory=list)
    topic_events: list[TopicEvent] = field(default_factory=list)
    acknowledgements: list[Acknowledgement] = field(default_factory=list)
    share_session_uses: list[ShareSessionUse] = field(default_factory=list)
    share_resets: list[ShareReset] = field(default_factory=list)
    record_deletions: list[RecordDeletion] = field(default_factory=list)
    delivery_limits: dict[str, int] = field(default_factory=dict)
    """Share group → maximum number of deliveries of a record, as far as requests name it."""
    first_uses: dict[tuple[str, str], dict[int, int]] = field(default_factory=dict)
    """Member or transactional id, and broker → connection to its coordinator → time of the first
    request there."""
    restarts: dict[tuple[str, str], dict[int, list[int]]] = field(default_factory=dict)
    """Transactional id and broker → connection → times of the accepted InitProducerId requests."""
    compacted_topics: set[str] = field(default_factory=set)
    cluster_ids: set[str] = field(default_factory=set)
    """Ids of the clusters that the requests went to; a history is that of one cluster."""
    losses: list[Loss] = field(default_factory=list)
    undecided: list[Undecided] = field(default_factory=list)
    requests: int = 0

    @classmethod
    def empty(cls) -> History:
        """Return a history without rows."""
        events = _events()
        return cls(_writes(events), _deliveries(events), _coverages(events))

    def sort(self) -> None:
        """Sort all tables by the time at which the requests were sent."""
        self.writes.sort()
        self.deliveries.sort()
        self.coverages.sort()
        for table in (
            self.markers, self.commits, self.committed_offsets, self.transaction_ends,
            self.producer_starts, self.lookups, self.topic_events, self.acknowledgements,
            self.share_session_uses, self.share_resets, self.transaction_additions,
            self.record_deletions,
        ):  # fmt: skip
            table.sort(key=sent_ns)

    def was_given_up(self, event: Event, sender: str) -> bool:
        """Return whether a request arrived when its sender had a newer connection to the broker.

        A client opens another connection to a coordinator when it has closed the one before, so a
        request on the older one was delayed by the network. `sender` is a member or transactional
        id. After InitProducerId, a connection is that of the newest instance of a producer: what
        another instance, or an administrator who fenced it, had requested before says nothing.
        """
        key = sender, event.broker
        newer_ns = max(
            (
                at_ns
                for connection, at_ns in self.first_uses.get(key, {}).items()
                if connection > event.connection and at_ns < event.sent_ns
            ),
            default=None,
        )
        if newer_ns is None:
            return False
        restarts = self.restarts.get(key, {}).get(event.connection, ())
        return not any(newer_ns <= at_ns < event.sent_ns for at_ns in restarts)

    def acknowledged(self) -> dict[Partition, View[Write]]:
        """Return the acknowledged batches by partition, in the order of their offsets."""
        found = grouped(
            self.writes, lambda write: write.partition if write.is_acknowledged else None
        )
        return {each: writes.sorted_by(_first_offset) for each, writes in found.items()}


class HasEvent(Protocol):
    """A row of any table."""

    @property
    def event(self) -> Event:
        """Its request."""


def sent_ns(row: HasEvent) -> int:
    """Return when the request of a row was sent, by which tables are ordered."""
    return row.event.sent_ns


def _first_offset(write: Write) -> int:
    return write.first_offset


class Range(NamedTuple):
    """Offsets from `first` to `last`, which belongs to the range."""

    first: int
    last: int

    def __str__(self) -> str:
        if self.first == self.last:
            return f"offset {self.first}"
        return f"offsets {self.first} to {self.last}"


def joined(ranges: Iterable[Range]) -> Iterator[Range]:
    """Yield ranges, with one for each run in which each begins in or right after those before.

    Ranges that come in their order need little memory this way.
    """
    run: Range | None = None
    for each in ranges:
        if run is None:
            run = each
        elif run.first <= each.first <= run.last + 1:
            if each.last > run.last:
                run = Range(run.first, each.last)
        else:
            yield run
            run = each
    if run is not None:
        yield run


def merged(ranges: Iterable[Range]) -> list[Range]:
    """Return the ranges in order, with those joined that overlap or follow each other."""
    result: list[Range] = []
    for each in sorted(joined(ranges)):
        if result and each.first <= result[-1].last + 1:
            if each.last > result[-1].last:
                result[-1] = Range(result[-1].first, each.last)
        else:
            result.append(each)
    return result


def without(whole: Range, covered: Sequence[Range]) -> list[Range]:
    """Return the parts of a range that are in none of the others, which are `merged`."""
    rest, position = [], whole.first
    for each in intersection(whole, covered):
        if each.first > position:
            rest.append(Range(position, each.first - 1))
        position = each.last + 1
    if position <= whole.last:
        rest.append(Range(position, whole.last))
    return rest


def intersection(whole: Range, others: Sequence[Range]) -> list[Range]:
    """Return the parts of a range that are in others, which are `merged`."""
    found = []
    for index in range(bisect_left(others, whole.first, key=_last), len(others)):
        each = others[index]
        if each.first > whole.last:
            break
        found.append(Range(max(whole.first, each.first), min(whole.last, each.last)))
    return found


def _last(each: Range) -> int:
    return each.last
