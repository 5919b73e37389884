"""Fetch sessions: incremental fetch requests and responses (KIP-227).

A consumer names its partitions once. Its later fetches contain only changes, and so do the
responses: a partition is omitted if it has no records and its offsets did not change.

Each node has one cache of sessions. When it is full, all sessions are scanned for one to evict.
Kafka keeps sorted trees instead and updates them at every fetch. The cache is full only with a
thousand consumers, and a scan takes microseconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from kafkalite.ports.turns import in_steps
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalite.ports.clock import Clock
    from kafkalite.ports.entropy import Entropy
    from kafkalite.protocol._generated.messages.fetch import FetchResponse

NO_SESSION = 0
FIRST_EPOCH = 0
FINAL_EPOCH = -1
MIN_EVICTION_AGE_MS = 120_000
_MAX_INT32 = 2**31 - 1


class RequestedPartition:
    """A partition of a fetch: the requested range, and the offsets that were last reported."""

    __slots__ = (
        "current_leader_epoch", "fetch_offset", "incarnation_epoch", "index", "last_fetched_epoch",
        "max_bytes", "reported_high_watermark", "reported_log_start_offset", "topic",
    )  # fmt: skip

    def __init__(  # noqa: PLR0917 - built for every partition of every fetch
        self,
        topic: str | bytes,
        index: int,
        fetch_offset: int,
        max_bytes: int,
        current_leader_epoch: int = -1,
        last_fetched_epoch: int = -1,
        incarnation_epoch: int = -1,
    ) -> None:
        self.topic = topic
        """The topic's name, or its id from Fetch v13 on."""
        self.index = index
        self.fetch_offset = fetch_offset
        self.max_bytes = max_bytes
        self.current_leader_epoch = current_leader_epoch
        self.last_fetched_epoch = last_fetched_epoch
        self.incarnation_epoch = incarnation_epoch
        """The partition epoch of KIP-232 that the client expects; -1 for no check."""
        self.reported_high_watermark = -1
        self.reported_log_start_offset = -1


PartitionKey = tuple[str | bytes, int]


class FetchContext(Protocol):
    """One fetch with its session."""

    @property
    def session_id(self) -> int:
        """The id of the fetch's session, or 0."""

    @property
    def requested(self) -> Sequence[RequestedPartition]:
        """All partitions to read, the least recently served first."""

    def finish(
        self, answers: list[tuple[RequestedPartition, FetchResponse.PartitionData]]
    ) -> tuple[int, list[tuple[RequestedPartition, FetchResponse.PartitionData]]]:
        """Return the session id for the response, and the partitions that it must contain.

        Raises KafkaError INVALID_FETCH_SESSION_EPOCH if another fetch used the session in the
        meantime.
        """


def next_epoch(epoch: int) -> int:
    """Return the next session epoch: 1 after the largest, and the final one after itself."""
    if epoch < 0:
        return FINAL_EPOCH
    return 1 if epoch == _MAX_INT32 else epoch + 1


class FetchSession:
    """The partitions of one consumer, and the epoch of its next request."""

    __slots__ = ("created_ms", "epoch", "id", "last_used_ms", "requested", "uses_topic_ids")

    def __init__(
        self,
        session_id: int,
        requested: Sequence[RequestedPartition],
        *,
        uses_topic_ids: bool,
        now_ms: int,
    ) -> None:
        self.id = session_id
        self.uses_topic_ids = uses_topic_ids
        self.requested: dict[PartitionKey, RequestedPartition] = {
            (partition.topic, partition.index): partition for partition in in_steps(requested)
        }
        self.created_ms = now_ms
        self.last_used_ms = now_ms
        self.epoch = next_epoch(FIRST_EPOCH)

    def update(
        self, requested: Sequence[RequestedPartition], forgotten: Sequence[PartitionKey]
    ) -> None:
        """Add or change the partitions in `requested`, then remove those in `forgotten`."""
        for partition in in_steps(requested):
            key = (partition.topic, partition.index)
            existing = self.requested.get(key)
            if existing is None:
                self.requested[key] = partition
            else:
                existing.fetch_offset = partition.fetch_offset
                existing.max_bytes = partition.max_bytes
                existing.current_leader_epoch = partition.current_leader_epoch
                existing.last_fetched_epoch = partition.last_fetched_epoch
                existing.incarnation_epoch = partition.incarnation_epoch
        for key in in_steps(forgotten):
            self.requested.pop(key, None)


class SessionlessFetch:
    """A fetch without a session: all partitions are in the request and the response."""

    __slots__ = ("requested",)
    session_id = NO_SESSION

    def __init__(self, requested: Sequence[RequestedPartition]) -> None:
        self.requested = requested

    def finish(
        self, answers: list[tuple[RequestedPartition, FetchResponse.PartitionData]]
    ) -> tuple[int, list[tuple[RequestedPartition, FetchResponse.PartitionData]]]:
        """Return all partitions, and no session."""
        return NO_SESSION, answers


class FullFetch:
    """A fetch that names all its partitions and requests a session."""

    __slots__ = ("_sessions", "_uses_topic_ids", "requested")
    session_id = NO_SESSION

    def __init__(
        self,
        sessions: FetchSessions,
        requested: Sequence[RequestedPartition],
        *,
        uses_topic_ids: bool,
    ) -> None:
        self.requested = requested
        self._sessions = sessions
        self._uses_topic_ids = uses_topic_ids

    def finish(
        self, answers: list[tuple[RequestedPartition, FetchResponse.PartitionData]]
    ) -> tuple[int, list[tuple[RequestedPartition, FetchResponse.PartitionData]]]:
        """Return all partitions, and the new session if the cache has room."""
        for partition, answer in in_steps(answers):
            partition.reported_high_watermark = answer.high_watermark
            partition.reported_log_start_offset = answer.log_start_offset
        session_id = self._sessions.create(
            [partition for partition, _ in in_steps(answers)], uses_topic_ids=self._uses_topic_ids
        )
        return session_id, answers


class IncrementalFetch:
    """A fetch within a session."""

    __slots__ = ("_expected_epoch", "_session", "requested", "session_id")

    def __init__(self, session: FetchSession, epoch: int) -> None:
        """`epoch` is the session's epoch until another fetch uses the session."""
        self.requested = list(session.requested.values())
        self.session_id = session.id
        self._session = session
        self._expected_epoch = epoch

    def finish(
        self, answers: list[tuple[RequestedPartition, FetchResponse.PartitionData]]
    ) -> tuple[int, list[tuple[RequestedPartition, FetchResponse.PartitionData]]]:
        """Return the changed partitions; those with records come last in the next fetch."""
        session = self._session
        if session.epoch != self._expected_epoch:
            raise KafkaError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        reported = []
        for pair in in_steps(answers):
            partition, answer = pair
            if _update_reported(partition, answer):
                reported.append(pair)
                key = (partition.topic, partition.index)
                if answer.records and session.requested.pop(key, None) is not None:
                    # A partition that was served goes to the end of the queue. Otherwise a busy one
                    # could use up the size limit of every response.
                    session.requested[key] = partition
        return session.id, reported


def _update_reported(partition: RequestedPartition, answer: FetchResponse.PartitionData) -> bool:
    """Store the offsets that are reported; return whether the partition must be reported."""
    must_report = bool(answer.records)
    if partition.reported_high_watermark != answer.high_watermark:
        partition.reported_high_watermark = answer.high_watermark
        must_report = True
    if partition.reported_log_start_offset != answer.log_start_offset:
        partition.reported_log_start_offset = answer.log_start_offset
        must_report = True
    if answer.error_code:
        # The end of an error must be reported as well, even if the offsets did not change.
        partition.reported_high_watermark = -1
        must_report = True
    return must_report or answer.diverging_epoch is not None or answer.preferred_read_replica >= 0


class FetchSessions:
    """The sessions of one node, at most `max_sessions` of them."""

    def __init__(self, *, max_sessions: int, clock: Clock, entropy: Entropy) -> None:
        self._max_sessions = max_sessions
        self._clock = clock
        self._entropy = entropy
        self._sessions: dict[int, FetchSession] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def size_of(self, session_id: int) -> int:
        """Return the number of partitions of a session; 0 if it does not exist."""
        session = self._sessions.get(session_id)
        return 0 if session is None else len(session.requested)

    def partitions_of(self, session_id: int) -> list[PartitionKey]:
        """Return the partitions of a session, with names or ids of topics, as the client sent."""
        session = self._sessions.get(session_id)
        return [] if session is None else list(session.requested)

    def offsets_of(self, session_id: int) -> list[tuple[str | bytes, int, int]]:
        """Return the partitions of a session as `partitions_of` does, with their offsets."""
        session = self._sessions.get(session_id)
        if session is None:
            return []
        return [(*key, each.fetch_offset) for key, each in session.requested.items()]

    def begin(
        self,
        session_id: int,
        epoch: int,
        requested: Sequence[RequestedPartition],
        forgotten: Sequence[PartitionKey],
        *,
        uses_topic_ids: bool,
    ) -> FetchContext:
        """Return the context of a fetch; raises KafkaError if it does not match its session.

        The codes are FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH, or
        FETCH_SESSION_TOPIC_ID_ERROR when a session with topic names gets a request with topic ids,
        or the reverse.
        """
        if epoch in {FIRST_EPOCH, FINAL_EPOCH}:
            self._sessions.pop(session_id, None)
            if epoch == FINAL_EPOCH:
                return SessionlessFetch(requested)
            return FullFetch(self, requested, uses_topic_ids=uses_topic_ids)
        session = self._sessions.get(session_id)
        if session is None:
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != epoch:
            raise KafkaError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.uses_topic_ids != uses_topic_ids:
            raise KafkaError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        # Set before the update, which may pause, so that another fetch at this epoch is refused.
        session.epoch = next_session_epoch = next_epoch(epoch)
        session.last_used_ms = self._clock.now_ms()
        session.update(requested, forgotten)
        if not session.requested:
            self._sessions.pop(session_id, None)
            return SessionlessFetch(requested)
        return IncrementalFetch(session, next_session_epoch)

    def create(self, requested: Sequence[RequestedPartition], *, uses_topic_ids: bool) -> int:
        """Create a session for `requested` and return its id; 0 if the cache is full."""
        now_ms = self._clock.now_ms()
        # Created before the check, because this may pause, and another session could fill the
        # cache.
        session = FetchSession(NO_SESSION, requested, uses_topic_ids=uses_topic_ids, now_ms=now_ms)
        if len(self._sessions) >= self._max_sessions and not self._make_room(
            len(requested), now_ms
        ):
            return NO_SESSION
        while session.id == NO_SESSION or session.id in self._sessions:
            session.id = 1 + self._entropy.integer(_MAX_INT32 - 1)
        self._sessions[session.id] = session
        return session.id

    def _make_room(self, size: int, now_ms: int) -> bool:
        """Evict a stale session, or an old one with fewer than `size` partitions; return success.

        A session that is older than two minutes and still in use is evicted only for a larger one,
        because large sessions save most bytes.
        """
        if not self._sessions:
            return False
        least_recently_used = min(
            self._sessions.values(), key=lambda session: (session.last_used_ms, session.id)
        )
        if now_ms - least_recently_used.last_used_ms > MIN_EVICTION_AGE_MS:
            del self._sessions[least_recently_used.id]
            return True
        old_sessions = (
            (len(session.requested), session.id)
            for session in self._sessions.values()
            if session.last_used_ms - session.created_ms > MIN_EVICTION_AGE_MS
        )
        smallest = min(old_sessions, default=None)
        if smallest is None or size <= smallest[0]:
            return False
        del self._sessions[smallest[1]]
        return True
