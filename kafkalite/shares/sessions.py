"""Share sessions: which partitions a member of a share group reads, request by request (KIP-932).

A member names its partitions once; its next requests carry what changes. Each request has the next
epoch, so that one sent twice is noticed. A session ends when its member says so or its connection
does, and with it what the member has acquired.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

MOST_PARTITIONS = 250_000
"""Partitions that all sessions of a node may name together; Kafka lets them name any number."""
INITIAL_EPOCH = 0
FINAL_EPOCH = -1
_MAX_INT32 = 2**31 - 1


class TopicPartition(NamedTuple):
    """A partition by its topic's id."""

    topic_id: bytes
    index: int  # type: ignore[assignment]  # hides tuple.index, which nobody needs here


class SessionKey(NamedTuple):
    """Whose session it is."""

    group_id: str
    member_id: str


class ShareSession:
    """What one member reads, and the epoch of its next request."""

    __slots__ = ("epoch", "names", "owner", "untold")

    def __init__(self, names: dict[TopicPartition, str | None], owner: object) -> None:
        self.names = names
        """Each partition with its topic's name; None for a topic unknown when it was named."""
        self.untold: set[TopicPartition] = set()
        """Partitions of which the member must be told something, whatever that is."""
        self.owner = owner
        """Who must not go away, or the session ends."""
        self.epoch = next_epoch(INITIAL_EPOCH)

    def update(
        self, added: Mapping[TopicPartition, str | None], forgotten: Iterable[TopicPartition]
    ) -> None:
        """Take in what a request adds, then drop what it forgets."""
        for partition, name in added.items():
            if partition not in self.names:
                self.names[partition] = name
                self.untold.add(partition)
        for partition in forgotten:
            self.names.pop(partition, None)
            self.untold.discard(partition)


class ShareContext(NamedTuple):
    """One share fetch as its session sees it."""

    names: Mapping[TopicPartition, str | None]
    """The partitions to be read, each with its topic's name."""
    session: ShareSession | None = None
    epoch: int = INITIAL_EPOCH
    """What the session's epoch must still be when the answer is made."""

    def check(self) -> None:
        """Raise KafkaError INVALID_SHARE_SESSION_EPOCH when another request came meanwhile."""
        if self.session is not None and self.session.epoch != self.epoch:
            raise KafkaError(ErrorCode.INVALID_SHARE_SESSION_EPOCH)

    def is_worth_telling(
        self, partition: TopicPartition, *, has_records: bool, has_error: bool
    ) -> bool:
        """Whether the member learns anything from this; called once for each answer."""
        session = self.session
        if session is None:
            return True
        is_news = has_records or has_error or partition in session.untold
        session.untold.discard(partition)
        if has_error:
            # The recovery from an error is news as well.
            session.untold.add(partition)
        if has_records and partition in session.names:
            # Whoever was served goes to the end of the queue.
            session.names[partition] = session.names.pop(partition)
        return is_news


def next_epoch(epoch: int) -> int:
    """Return the epoch that follows: 1 after the largest, and none after the final one."""
    if epoch < 0:
        return FINAL_EPOCH
    return 1 if epoch == _MAX_INT32 else epoch + 1


class ShareSessions:
    """The sessions of one node, as many as it allows."""

    def __init__(self, most: Callable[[], int]) -> None:
        self._most = most
        self._sessions: dict[SessionKey, ShareSession] = {}
        self._by_group: dict[str, dict[SessionKey, ShareSession]] = {}
        """The same, group by group: none is empty."""
        self._partition_count = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def begin_fetch(
        self,
        key: SessionKey,
        epoch: int,
        wanted: Sequence[tuple[TopicPartition, str | None]],
        forgotten: Iterable[TopicPartition],
        *,
        acknowledges: bool,
        owner: object,
    ) -> ShareContext:
        """Return what a share fetch is to read.

        KafkaError SHARE_SESSION_NOT_FOUND, INVALID_SHARE_SESSION_EPOCH, INVALID_REQUEST for a first
        request that acknowledges, SHARE_SESSION_LIMIT_REACHED.
        """
        if epoch == FINAL_EPOCH:
            self._get(key)
            return ShareContext({})
        names = dict(wanted)
        if epoch == INITIAL_EPOCH:
            if acknowledges:
                raise KafkaError(ErrorCode.INVALID_REQUEST)
            self.end(key)
            if len(names) < len(wanted):
                # Kafka stumbles over a partition that is named twice.
                raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
            if len(self._sessions) >= self._most():
                raise KafkaError(ErrorCode.SHARE_SESSION_LIMIT_REACHED)
            self._check_room(len(names))
            begun = self._sessions[key] = ShareSession(dict(names), owner)
            self._by_group.setdefault(key.group_id, {})[key] = begun
            self._partition_count += len(names)
            return ShareContext(names)
        session = self._next(key, epoch)
        self._check_room(len(names))
        before = len(session.names)
        session.update(names, forgotten)
        self._partition_count += len(session.names) - before
        return ShareContext(dict(session.names), session, session.epoch)

    def begin_acknowledge(self, key: SessionKey, epoch: int) -> None:
        """Take note of an acknowledgement that comes by itself.

        KafkaError SHARE_SESSION_NOT_FOUND or INVALID_SHARE_SESSION_EPOCH.
        """
        if epoch == INITIAL_EPOCH:
            raise KafkaError(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
        if epoch == FINAL_EPOCH:
            self._get(key)
        else:
            self._next(key, epoch)

    def end(self, key: SessionKey) -> Sequence[TopicPartition]:
        """Forget a session, and return what its member read; nothing when there is none."""
        session = self._sessions.pop(key, None)
        if session is None:
            return ()
        self._partition_count -= len(session.names)
        of_group = self._by_group[key.group_id]
        del of_group[key]
        if not of_group:
            del self._by_group[key.group_id]
        return tuple(session.names)

    def owned_by(self, owner: object, group_id: str) -> Sequence[SessionKey]:
        """Return whose sessions in a group go when `owner` does."""
        of_group = self._by_group.get(group_id, {})
        return [key for key, session in of_group.items() if session.owner is owner]

    def has_group(self, group_id: str) -> bool:
        """Whether any member of a group has a session."""
        return group_id in self._by_group

    def _check_room(self, count: int) -> None:
        if self._partition_count + count > MOST_PARTITIONS:
            raise KafkaError(ErrorCode.SHARE_SESSION_LIMIT_REACHED)

    def _get(self, key: SessionKey) -> ShareSession:
        session = self._sessions.get(key)
        if session is None:
            raise KafkaError(ErrorCode.SHARE_SESSION_NOT_FOUND)
        return session

    def _next(self, key: SessionKey, epoch: int) -> ShareSession:
        session = self._get(key)
        if session.epoch != epoch:
            raise KafkaError(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
        session.epoch = next_epoch(epoch)
        return session
