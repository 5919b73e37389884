"""The contract between a coordinator machine, its log, and the runtime that joins them.

A machine *decides*: from its state, a request and the time it is told, it returns a
`CoordinatorResult` and changes nothing that lasts. The runtime *appends* the records, then
*replays* them into the machine, then applies timers and hands out replies. Restarting is replaying.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Hashable
from enum import Enum
from typing import TYPE_CHECKING, Generic, NamedTuple, NewType, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kafkalite.coordinator.transactional import Incarnation, Run
    from kafkalite.protocol.errors import KafkaError
    from kafkalite.storage.marker import TransactionMarker

R = TypeVar("R")
K = TypeVar("K")
V = TypeVar("V")

Ticket = NewType("Ticket", int)
"""Names an answer that a machine owes; tickets are drawn from the machine's own counter."""


class CoordinatorRecord(NamedTuple, Generic[K, V]):
    """One record of a coordinator's log: a key and its value, None being a tombstone.

    The metadata log has no keys: there `key` is None and `value` never is.
    """

    key: K
    value: V | None


class Parked(NamedTuple):
    """Returned instead of a response: the answer comes later, in some result's `replies`."""

    ticket: Ticket


class Reply(NamedTuple):
    """The answer to a parked request."""

    ticket: Ticket
    response: object


class SetTimer(NamedTuple):
    """Call `on_timer(event)` at `deadline_ms`, instead of what `key` was set to before.

    `is_tick` says that it comes round and makes up for rounds left out: see `Clock.tick_ms`.
    """

    key: Hashable
    deadline_ms: int
    event: object
    is_tick: bool = False


class CancelTimer(NamedTuple):
    """Forget what `key` was set to, if anything."""

    key: Hashable


TimerChange = SetTimer | CancelTimer


class SubjectKind(Enum):
    """What an id names; a group and a transactional id of one text have nothing in common."""

    GROUP = "group"
    TRANSACTIONAL_ID = "transactional id"


class Event(NamedTuple):
    """Something that befell somebody, and why: kept for whoever asks for an explanation."""

    subject: str
    """The group's id, or the transactional id."""
    kind: str
    """One word: "rebalance", "refused", "fenced", "joined", "left", "expired"."""
    text: str
    """One sentence for people."""
    facts: Mapping[str, object]
    """The same for programs: which rule, which epochs, which member; what JSON can hold."""
    of: SubjectKind = SubjectKind.GROUP


class CoordinatorResult(NamedTuple, Generic[R]):
    """What a decision wants: records appended (as one batch, all or nothing) and an answer given.

    `replies` answer requests parked by earlier decisions; like `response`, they go out once the
    records are committed. `timers` are applied after the replay. `events` tell why, and are noted
    once the records are appended. `intents` are work for other shards, handed on at that moment and
    carried out at least once: a machine names again in `on_loaded` what was left undone.
    """

    response: R | Parked
    records: Sequence[CoordinatorRecord[object, object]] = ()
    replies: Sequence[Reply] = ()
    timers: Sequence[TimerChange] = ()
    events: Sequence[Event] = ()
    intents: Sequence[object] = ()


class Shard(Protocol):
    """A machine that owns one partition of a coordinator's log."""

    def replay(self, record: CoordinatorRecord[object, object]) -> None:
        """Make one record of the log true."""

    def on_loaded(self, now_ms: int) -> CoordinatorResult[None]:
        """Take up work after the whole log was replayed: timers, what a crash left undone."""

    def on_timer(self, event: object, now_ms: int) -> CoordinatorResult[None]:
        """Decide what the expiry of a timer means."""


class Machine(Shard, Protocol):
    """A shard with soft state, which must be put right when a decision came to nothing."""

    def on_append_failed(
        self, records: Sequence[CoordinatorRecord[object, object]], error: KafkaError, now_ms: int
    ) -> CoordinatorResult[None]:
        """Give up soft state that foresaw these records; the result holds no records itself."""


S = TypeVar("S", bound=Shard)
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
        """Return the record, or None for a kind that this version does not know."""


class UnreadableLogError(OSError):
    """A coordinator's log that does not hold what a coordinator writes; EIO and the log's name."""

    def __init__(self, reason: str, name: str) -> None:
        super().__init__(errno.EIO, reason, name)


class CoordinatorLog(Protocol):
    """One partition of a coordinator's log, as the runtime needs it."""

    @property
    def name(self) -> str:
        """What to call the log when there is something to say of it."""

    def append(self, records: Sequence[tuple[bytes | None, bytes | None]], now_ms: int) -> int:
        """Append one batch, all or nothing, and return the end offset; OSError if it cannot.

        KafkaError MESSAGE_TOO_LARGE for one that is larger than the log takes.
        """

    def append_transactional(
        self,
        records: Sequence[tuple[bytes | None, bytes | None]],
        producer: Incarnation,
        now_ms: int,
    ) -> int:
        """Append one batch to a producer's transaction, as `append` does.

        KafkaError INVALID_PRODUCER_EPOCH for an epoch that has passed.
        """

    def append_marker(self, marker: TransactionMarker, now_ms: int) -> int:
        """End a producer's transaction, and return the end offset; OSError if it cannot.

        KafkaError INVALID_PRODUCER_EPOCH or TRANSACTION_COORDINATOR_FENCED for one that is late.
        """

    def is_in_transaction(self, producer: Incarnation) -> bool:
        """Whether a producer has a transaction open in this log, at this epoch.

        KafkaError INVALID_PRODUCER_EPOCH for an epoch that has passed.
        """

    def read_all(self) -> Iterable[tuple[bytes | None, bytes | None]]:
        """Yield every live key and value from the start of the log, aborted ones left out.

        OSError when the disk fails, UnreadableLogError for what cannot be read as records.
        """

    def read_last(self) -> Iterable[tuple[bytes | None, bytes | None]]:
        """As `read_all`, but leave out most of what is overwritten later on.

        What is left is in the order of the log, and tombstones are kept: a machine that keeps the
        replay law comes to the same state by either.
        """

    def read_runs(self) -> Iterable[Run]:
        """Yield the log by runs, for machines that keep what open transactions have written.

        As far as every transaction has ended, most of what is overwritten is left out, and so is
        what was aborted, and every marker; from there on everything comes as it was appended.
        """
