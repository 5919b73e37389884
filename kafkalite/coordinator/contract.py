"""The contract between a coordinator's state machine, its log and the runtime.

A machine *decides*: from its state, a request and the time, it returns a `CoordinatorResult` and
changes no durable state. The runtime *appends* the records, *replays* them into the machine, then
applies timers and delivers replies. A restart replays the log.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Final, Generic, NewType, Protocol, TypeVar

from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.protocol.acl_operations import Entity

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kafkalite.coordinator.transactional_records import LogSection
    from kafkalite.protocol.errors import KafkaError
    from kafkalite.storage.producer_state import HasProducer
    from kafkalite.storage.transaction_marker import TransactionMarker

R = TypeVar("R")
K = TypeVar("K")
V = TypeVar("V")

Ticket = NewType("Ticket", int)
"""The number of a parked request; each machine assigns its own numbers."""


class CoordinatorRecord(NamedTuple, Generic[K, V]):
    """One record of a coordinator's log: a key and its value, None being a tombstone.

    Records of the metadata log have no key: `key` is None, and `value` is not None.
    """

    key: K
    value: V | None


class ParkedRequest(NamedTuple):
    """Returned instead of a response: the response follows in `replies` of a later result."""

    ticket: Ticket


class Reply(NamedTuple):
    """The response to a parked request."""

    ticket: Ticket
    response: object


class SetTimer(NamedTuple):
    """Call `on_timer(event)` at `deadline_ms`. Replaces an earlier timer of `key`.

    `is_periodic` marks a timer that makes up for missed rounds; see `Clock.periodic_deadline_ms`.
    """

    key: Hashable
    deadline_ms: int
    event: object
    is_periodic: bool = False


class CancelTimer(NamedTuple):
    """Cancel the timer of `key`, if it has one."""

    key: Hashable


TimerChange = SetTimer | CancelTimer


CREATED: Final = "created"
"""The kind of event of a topic that was created automatically."""

SUBJECTS = (Entity.GROUP, Entity.TRANSACTIONAL_ID, Entity.TOPIC, Entity.CLIENT)
"""What events are about. A group, a transactional id and a topic of one name are unrelated."""


class Event(NamedTuple):
    """Something that happened to a group or another kind of subject, and why; for explain."""

    subject: str
    """The group's id, the transactional id, the topic's name, or the client's address."""
    kind: str
    """One word, such as "rebalance", "refused", "fenced", "joined", "left" or "expired"."""
    text: str
    """One sentence for a human reader."""
    facts: Mapping[str, object]
    """The same information for programs, such as rule, epochs, member; JSON values."""
    subject_kind: Entity = Entity.GROUP


class CoordinatorResult(NamedTuple, Generic[R]):
    """Outcome of a decision: records to append as one batch, all or nothing, and a response.

    `replies` answer requests that earlier decisions parked. They are sent, as `response` is, once
    the records are appended. `timers` are applied after the replay. `events` give reasons and are
    stored once the records are appended. `intents` are work for other shards. They are handed over
    after the append and carried out at least once: `on_loaded` returns unfinished intents again.

    A `response` that is a KafkaError is raised after all this, so a refusal can write records.
    """

    response: R | ParkedRequest | KafkaError
    records: Sequence[CoordinatorRecord[object, object]] = ()
    replies: Sequence[Reply] = ()
    timers: Sequence[TimerChange] = ()
    events: Sequence[Event] = ()
    intents: Sequence[object] = ()


class BaseMachine(Protocol):
    """A state machine whose state is in one partition of a coordinator's log."""

    def replay(self, record: CoordinatorRecord[object, object]) -> None:
        """Apply one record of the log to the state."""

    def on_loaded(self, now_ms: int) -> CoordinatorResult[None]:
        """Resume work after the whole log was replayed: set timers, finish interrupted work."""

    def on_timer(self, event: object, now_ms: int) -> CoordinatorResult[None]:
        """Return the decision for a timer that is due."""


class Machine(BaseMachine, Protocol):
    """A machine with soft state, which must be reset when an append fails."""

    def on_append_failed(
        self, records: Sequence[CoordinatorRecord[object, object]], error: KafkaError, now_ms: int
    ) -> CoordinatorResult[None]:
        """Reset soft state that assumed these records; the result must not contain records."""


S = TypeVar("S", bound=BaseMachine)
Decision = Callable[[S, int], CoordinatorResult[R]]
"""state and now_ms → result."""


class RecordSerde(Protocol):
    """Records ↔ bytes."""

    def encode(
        self, record: CoordinatorRecord[object, object]
    ) -> tuple[bytes | None, bytes | None]:
        """Return the key and value bytes; None is a null key or a tombstone."""

    def decode(
        self, key: bytes | None, value: bytes | None
    ) -> CoordinatorRecord[object, object] | None:
        """Return the record, or None if its type is unknown."""


class UnreadableLogError(OSError):
    """An entry of a coordinator's log is not a coordinator record; errno is EIO."""

    def __init__(self, reason: str, name: str) -> None:
        super().__init__(errno.EIO, reason, name)


class CoordinatorLog(Protocol):
    """One partition of a coordinator's log, as the runtime needs it."""

    @property
    def name(self) -> str:
        """The log's name in messages."""

    @property
    def max_batch_bytes(self) -> int:
        """The size of the largest batch that the log accepts."""

    def append(self, records: Sequence[tuple[bytes | None, bytes | None]], now_ms: int) -> int:
        """Append one batch, all or nothing, and return the end offset; raises OSError on failure.

        Raises KafkaError MESSAGE_TOO_LARGE if the batch is larger than the log accepts.
        """

    def flush(self) -> None:
        """Sync everything that was appended, so that it survives a loss of power.

        Raises OSError when the disk fails; then the log accepts no more records.
        """

    def append_transactional(
        self,
        records: Sequence[tuple[bytes | None, bytes | None]],
        producer: HasProducer,
        now_ms: int,
    ) -> int:
        """Append one batch to a producer's transaction, as `append` does.

        Raises KafkaError INVALID_PRODUCER_EPOCH for a stale epoch.
        """

    def append_marker(self, marker: TransactionMarker, now_ms: int) -> int:
        """End a producer's transaction and return the end offset; raises OSError on failure.

        Raises KafkaError INVALID_PRODUCER_EPOCH or TRANSACTION_COORDINATOR_FENCED for a stale
        marker.
        """

    def is_in_transaction(self, producer: HasProducer) -> bool:
        """Whether a producer has an open transaction in this log, at this epoch.

        Raises KafkaError INVALID_PRODUCER_EPOCH for a stale epoch.
        """

    def read_all(self) -> Iterable[tuple[bytes | None, bytes | None]]:
        """Yield every valid key and value from the start of the log, without aborted ones.

        Raises OSError when the disk fails, UnreadableLogError for data that is not records.
        """

    def read_latest(self) -> Iterable[tuple[bytes | None, bytes | None]]:
        """Yield the same as `read_all`, but omit most records that a later record overwrites.

        The remaining records are in log order and include tombstones. A machine whose state depends
        only on the last record of each key gets the same state either way.
        """

    def read_sections(self) -> Iterable[LogSection]:
        """Yield the log in sections, for machines that store the records of open transactions.

        Up to the last stable offset, aborted records, markers and most overwritten records are
        omitted. After it, all records are yielded as they were appended.
        """
