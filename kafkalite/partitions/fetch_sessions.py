"""Fetch sessions: what a consumer need not say again, and a broker need not answer again (KIP-227).

A consumer names its partitions once. Its next fetches carry only what changed, and so do the
answers: a partition is left out when it has no records and its offsets are as told before.

Chosen: one cache per node, scanned when it is full, instead of Kafka's trees kept sorted at every
touch. A cache is full only where a thousand consumers meet, and then a scan costs microseconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kafkalite.ports.clock import Clock
    from kafkalite.ports.entropy import Entropy
    from kafkalite.protocol.messages.fetch import FetchResponse

NO_SESSION = 0
FIRST_EPOCH = 0
FINAL_EPOCH = -1
EVICTION_MS = 120_000
_MAX_INT32 = 2**31 - 1


class Wanted:
    """What a consumer wants of one partition, and what it was told of it last."""

    __slots__ = (
        "current_leader_epoch", "fetch_offset", "index", "last_fetched_epoch", "max_bytes",
        "told_high_watermark", "told_log_start_offset", "topic",
    )  # fmt: skip

    def __init__(  # noqa: PLR0917 - built for every partition of every fetch
        self,
        topic: str | bytes,
        index: int,
        fetch_offset: int,
        max_bytes: int,
        current_leader_epoch: int = -1,
        last_fetched_epoch: int = -1,
    ) -> None:
        self.topic = topic
        """The topic's name, or its id from Fetch v13 on."""
        self.index = index
        self.fetch_offset = fetch_offset
        self.max_bytes = max_bytes
        self.current_leader_epoch = current_leader_epoch
        self.last_fetched_epoch = last_fetched_epoch
        self.told_high_watermark = -1
        self.told_log_start_offset = -1


PartitionKey = tuple[str | bytes, int]


class FetchContext(Protocol):
    """One fetch, as its session sees it."""

    @property
    def session_id(self) -> int:
        """The session the fetch belongs to, or 0."""

    @property
    def wanted(self) -> Sequence[Wanted]:
        """Every partition to be read, the one that waited longest first."""

    def finish(
        self, answers: list[tuple[Wanted, FetchResponse.PartitionData]]
    ) -> tuple[int, list[tuple[Wanted, FetchResponse.PartitionData]]]:
        """Return the session id to answer with, and the partitions worth telling.

        KafkaError INVALID_FETCH_SESSION_EPOCH when another fetch used the session meanwhile.
        """


def next_epoch(epoch: int) -> int:
    """Return the session epoch that follows: 1 after the largest, and none after the final one."""
    if epoch < 0:
        return FINAL_EPOCH
    return 1 if epoch == _MAX_INT32 else epoch + 1


class FetchSession:
    """The partitions of one consumer; the next epoch it must send."""

    __slots__ = ("created_ms", "epoch", "id", "last_used_ms", "uses_topic_ids", "wanted")

    def __init__(
        self, session_id: int, wanted: Iterable[Wanted], *, uses_topic_ids: bool, now_ms: int
    ) -> None:
        self.id = session_id
        self.uses_topic_ids = uses_topic_ids
        self.wanted: dict[PartitionKey, Wanted] = {(one.topic, one.index): one for one in wanted}
        self.created_ms = now_ms
        self.last_used_ms = now_ms
        self.epoch = next_epoch(FIRST_EPOCH)

    def update(self, wanted: Iterable[Wanted], forgotten: Iterable[PartitionKey]) -> None:
        """Take in what a fetch adds or changes, then drop what it forgets."""
        for one in wanted:
            key = (one.topic, one.index)
            known = self.wanted.get(key)
            if known is None:
                self.wanted[key] = one
            else:
                known.fetch_offset = one.fetch_offset
                known.max_bytes = one.max_bytes
                known.current_leader_epoch = one.current_leader_epoch
                known.last_fetched_epoch = one.last_fetched_epoch
        for key in forgotten:
            self.wanted.pop(key, None)


class SessionlessFetch:
    """A fetch that names all it wants, and is answered for all of it."""

    __slots__ = ("wanted",)
    session_id = NO_SESSION

    def __init__(self, wanted: Sequence[Wanted]) -> None:
        self.wanted = wanted

    def finish(
        self, answers: list[tuple[Wanted, FetchResponse.PartitionData]]
    ) -> tuple[int, list[tuple[Wanted, FetchResponse.PartitionData]]]:
        """Return every answer, and no session."""
        return NO_SESSION, answers


class FullFetch:
    """A fetch that names all it wants and would like a session for it."""

    __slots__ = ("_sessions", "_uses_topic_ids", "wanted")
    session_id = NO_SESSION

    def __init__(
        self, sessions: FetchSessions, wanted: Sequence[Wanted], *, uses_topic_ids: bool
    ) -> None:
        self.wanted = wanted
        self._sessions = sessions
        self._uses_topic_ids = uses_topic_ids

    def finish(
        self, answers: list[tuple[Wanted, FetchResponse.PartitionData]]
    ) -> tuple[int, list[tuple[Wanted, FetchResponse.PartitionData]]]:
        """Return every answer, and the new session if there is room for one."""
        for one, answer in answers:
            one.told_high_watermark = answer.high_watermark
            one.told_log_start_offset = answer.log_start_offset
        session_id = self._sessions.create(
            [one for one, _ in answers], uses_topic_ids=self._uses_topic_ids
        )
        return session_id, answers


class IncrementalFetch:
    """A fetch within a session."""

    __slots__ = ("_expected_epoch", "_session", "session_id", "wanted")

    def __init__(self, session: FetchSession) -> None:
        self.wanted = list(session.wanted.values())
        self.session_id = session.id
        self._session = session
        self._expected_epoch = session.epoch

    def finish(
        self, answers: list[tuple[Wanted, FetchResponse.PartitionData]]
    ) -> tuple[int, list[tuple[Wanted, FetchResponse.PartitionData]]]:
        """Return the answers that say something new; those with records wait longest next time."""
        session = self._session
        if session.epoch != self._expected_epoch:
            raise KafkaError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        told = []
        for pair in answers:
            one, answer = pair
            if _tell(one, answer):
                told.append(pair)
                if answer.records:
                    # Whoever was served goes to the end of the queue, or a busy partition would
                    # use up the size limit of every answer.
                    key = (one.topic, one.index)
                    del session.wanted[key]
                    session.wanted[key] = one
        return session.id, told


def _tell(one: Wanted, answer: FetchResponse.PartitionData) -> bool:
    """Note what the consumer learns of a partition; return whether it learns anything."""
    news = bool(answer.records)
    if one.told_high_watermark != answer.high_watermark:
        one.told_high_watermark = answer.high_watermark
        news = True
    if one.told_log_start_offset != answer.log_start_offset:
        one.told_log_start_offset = answer.log_start_offset
        news = True
    if answer.error_code:
        # The recovery from an error is news as well, whatever the offsets are by then.
        one.told_high_watermark = -1
        news = True
    return news or answer.diverging_epoch is not None or answer.preferred_read_replica >= 0


class FetchSessions:
    """The sessions of one node, at most `slots` of them."""

    def __init__(self, *, slots: int, clock: Clock, entropy: Entropy) -> None:
        self._slots = slots
        self._clock = clock
        self._entropy = entropy
        self._sessions: dict[int, FetchSession] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def begin(
        self,
        session_id: int,
        epoch: int,
        wanted: Sequence[Wanted],
        forgotten: Iterable[PartitionKey],
        *,
        uses_topic_ids: bool,
    ) -> FetchContext:
        """Return the context of a fetch; KafkaError when its session is not what it takes it for.

        FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH, or FETCH_SESSION_TOPIC_ID_ERROR
        when a session of names meets a request of ids or the reverse.
        """
        if epoch in {FIRST_EPOCH, FINAL_EPOCH}:
            self._sessions.pop(session_id, None)
            if epoch == FINAL_EPOCH:
                return SessionlessFetch(wanted)
            return FullFetch(self, wanted, uses_topic_ids=uses_topic_ids)
        session = self._sessions.get(session_id)
        if session is None:
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != epoch:
            raise KafkaError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.uses_topic_ids != uses_topic_ids:
            raise KafkaError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        session.update(wanted, forgotten)
        if not session.wanted:
            del self._sessions[session_id]
            return SessionlessFetch(wanted)
        session.last_used_ms = self._clock.now_ms()
        session.epoch = next_epoch(session.epoch)
        return IncrementalFetch(session)

    def create(self, wanted: Sequence[Wanted], *, uses_topic_ids: bool) -> int:
        """Remember `wanted` in a new session and return its id; 0 when there is no room."""
        now_ms = self._clock.now_ms()
        if len(self._sessions) >= self._slots and not self._evict_for(len(wanted), now_ms):
            return NO_SESSION
        session_id = NO_SESSION
        while session_id == NO_SESSION or session_id in self._sessions:
            session_id = 1 + self._entropy.integer(_MAX_INT32 - 1)
        self._sessions[session_id] = FetchSession(
            session_id, wanted, uses_topic_ids=uses_topic_ids, now_ms=now_ms
        )
        return session_id

    def _evict_for(self, size: int, now_ms: int) -> bool:
        """Make room for a session of `size` partitions: a stale one goes, else an old smaller one.

        A session that has proved itself for two minutes gives way only to a larger one: large
        sessions save most.
        """
        if not self._sessions:
            return False
        stalest = min(self._sessions.values(), key=lambda one: (one.last_used_ms, one.id))
        if now_ms - stalest.last_used_ms > EVICTION_MS:
            del self._sessions[stalest.id]
            return True
        proven = (
            (len(one.wanted), one.id)
            for one in self._sessions.values()
            if one.last_used_ms - one.created_ms > EVICTION_MS
        )
        smallest = min(proven, default=None)
        if smallest is None or size <= smallest[0]:
            return False
        del self._sessions[smallest[1]]
        return True
