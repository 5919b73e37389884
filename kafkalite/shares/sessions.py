"""Share sessions: the partitions that a member of a share group reads, across requests (KIP-932).

The first request names the partitions; later requests contain changes. Each request has the next
epoch, so repeated requests are detected. A session ends by a request of its member or with its
connection; then the member's records are released.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

MAX_PARTITIONS = 250_000
"""Maximum partitions in all sessions of a node; Kafka has no such limit."""
INITIAL_EPOCH = 0
FINAL_EPOCH = -1
_MAX_INT32 = 2**31 - 1


class TopicPartition(NamedTuple):
    """A partition by its topic id."""

    topic_id: bytes
    index: int  # type: ignore[assignment]  # hides tuple.index, which is not used


class SessionKey(NamedTuple):
    """Group and member of a session."""

    group_id: str
    member_id: str


class ShareSession:
    """The partitions that one member reads, and the epoch of its next request."""

    __slots__ = ("connection", "epoch", "topic_names", "unreported")

    def __init__(self, topic_names: dict[TopicPartition, str | None], connection: object) -> None:
        self.topic_names = topic_names
        """Each partition with its topic's name; None if the topic was unknown when it was added."""
        self.unreported: set[TopicPartition] = set()
        """Partitions that the next response must contain in any case."""
        self.connection = connection
        """The session ends with this connection."""
        self.epoch = next_epoch(INITIAL_EPOCH)

    def update(
        self, added: Mapping[TopicPartition, str | None], forgotten: Iterable[TopicPartition]
    ) -> None:
        """Add the new partitions of a request, then remove its forgotten partitions."""
        for partition, name in added.items():
            if partition not in self.topic_names:
                self.topic_names[partition] = name
                self.unreported.add(partition)
        for partition in forgotten:
            self.topic_names.pop(partition, None)
            self.unreported.discard(partition)


class ShareFetchContext(NamedTuple):
    """The partitions that one share fetch reads, and its session."""

    topic_names: Mapping[TopicPartition, str | None]
    """The partitions to read, each with its topic's name."""
    session: ShareSession | None = None
    epoch: int = INITIAL_EPOCH
    """The session must still have this epoch when the response is built."""

    def check(self) -> None:
        """Raise KafkaError INVALID_SHARE_SESSION_EPOCH if another request came in the meantime."""
        if self.session is not None and self.session.epoch != self.epoch:
            raise KafkaError(ErrorCode.INVALID_SHARE_SESSION_EPOCH)

    def must_report(self, partition: TopicPartition, *, has_records: bool, has_error: bool) -> bool:
        """Whether the response must contain this partition; called once for each response."""
        session = self.session
        if session is None:
            return True
        must_be_reported = has_records or has_error or partition in session.unreported
        session.unreported.discard(partition)
        if has_error:
            # The end of an error must be reported as well.
            session.unreported.add(partition)
        if has_records and partition in session.topic_names:
            # A partition that was served goes to the end of the queue.
            session.topic_names[partition] = session.topic_names.pop(partition)
        return must_be_reported


def next_epoch(epoch: int) -> int:
    """Return the next epoch: 1 after the largest; the final epoch stays the final epoch."""
    if epoch < 0:
        return FINAL_EPOCH
    return 1 if epoch == _MAX_INT32 else epoch + 1


class ShareSessions:
    """The sessions of one node, up to a limit."""

    def __init__(self, max_sessions: Callable[[], int]) -> None:
        self._max_sessions = max_sessions
        self._sessions: dict[SessionKey, ShareSession] = {}
        self._by_group: dict[str, dict[SessionKey, ShareSession]] = {}
        """The same sessions by group; each group has at least one."""
        self._partition_count = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def partitions_of(self, key: SessionKey) -> list[TopicPartition]:
        """Return the partitions of a session."""
        session = self._sessions.get(key)
        return [] if session is None else list(session.topic_names)

    def begin_fetch(
        self,
        key: SessionKey,
        epoch: int,
        requested: Sequence[tuple[TopicPartition, str | None]],
        forgotten: Iterable[TopicPartition],
        *,
        acknowledges: bool,
        connection: object,
    ) -> ShareFetchContext:
        """Return the context of a share fetch.

        Raises KafkaError SHARE_SESSION_NOT_FOUND, INVALID_SHARE_SESSION_EPOCH, INVALID_REQUEST for
        a first request that acknowledges, SHARE_SESSION_LIMIT_REACHED.
        """
        if epoch == FINAL_EPOCH:
            self._get(key)
            return ShareFetchContext({})
        topic_names = dict(requested)
        if epoch == INITIAL_EPOCH:
            if acknowledges:
                raise KafkaError(ErrorCode.INVALID_REQUEST)
            self.end(key)
            if len(topic_names) < len(requested):
                # Kafka fails on a partition that is named twice.
                raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
            if len(self._sessions) >= self._max_sessions():
                raise KafkaError(ErrorCode.SHARE_SESSION_LIMIT_REACHED)
            self._check_partition_limit(len(topic_names))
            session = self._sessions[key] = ShareSession(dict(topic_names), connection)
            self._by_group.setdefault(key.group_id, {})[key] = session
            self._partition_count += len(topic_names)
            return ShareFetchContext(topic_names)
        session = self._advance(key, epoch)
        self._check_partition_limit(len(topic_names))
        previous_count = len(session.topic_names)
        session.update(topic_names, forgotten)
        self._partition_count += len(session.topic_names) - previous_count
        return ShareFetchContext(dict(session.topic_names), session, session.epoch)

    def begin_acknowledge(self, key: SessionKey, epoch: int) -> None:
        """Handle a ShareAcknowledge request.

        Raises KafkaError SHARE_SESSION_NOT_FOUND or INVALID_SHARE_SESSION_EPOCH.
        """
        if epoch == INITIAL_EPOCH:
            raise KafkaError(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
        if epoch == FINAL_EPOCH:
            self._get(key)
        else:
            self._advance(key, epoch)

    def end(self, key: SessionKey) -> Sequence[TopicPartition]:
        """Remove a session, and return its partitions; empty if there is none."""
        session = self._sessions.pop(key, None)
        if session is None:
            return ()
        self._partition_count -= len(session.topic_names)
        group_sessions = self._by_group[key.group_id]
        del group_sessions[key]
        if not group_sessions:
            del self._by_group[key.group_id]
        return tuple(session.topic_names)

    def sessions_of_connection(self, connection: object, group_id: str) -> Sequence[SessionKey]:
        """Return the sessions of a connection in a group."""
        group_sessions = self._by_group.get(group_id, {})
        return [key for key, session in group_sessions.items() if session.connection is connection]

    def has_group(self, group_id: str) -> bool:
        """Whether a group has a session."""
        return group_id in self._by_group

    def _check_partition_limit(self, count: int) -> None:
        if self._partition_count + count > MAX_PARTITIONS:
            raise KafkaError(ErrorCode.SHARE_SESSION_LIMIT_REACHED)

    def _get(self, key: SessionKey) -> ShareSession:
        session = self._sessions.get(key)
        if session is None:
            raise KafkaError(ErrorCode.SHARE_SESSION_NOT_FOUND)
        return session

    def _advance(self, key: SessionKey, epoch: int) -> ShareSession:
        session = self._get(key)
        if session.epoch != epoch:
            raise KafkaError(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
        session.epoch = next_epoch(epoch)
        return session
