"""ConsumerGroupMember: a member of a group whose coordinator assigns partitions (KIP-848).

It has the methods of `GroupMember`, which is a member of a classic group.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

from kafkalite.client.coordinator_requests import GROUP, CoordinatorRequests
from kafkalite.client.epochs import TopicPartition
from kafkalite.client.errors import BrokerError, TimedOutError
from kafkalite.client.group_offsets import NO_MEMBERSHIP, Membership
from kafkalite.client.retries import DEFAULT_BACKOFF, Retries
from kafkalite.client.topics import list_topics
from kafkalite.ports.entropy import SystemEntropy
from kafkalite.protocol._generated.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
)
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.uuids import uuid_to_text
from kafkalite.protocol.versions import Versions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalite.client.client import KafkaClient
    from kafkalite.ports.clock import Clock
    from kafkalite.protocol.message import Message

_VERSIONS: Final = Versions(0, 1)
_JOIN_EPOCH: Final = 0
_LEAVE_EPOCH: Final = -1
_STATIC_LEAVE_EPOCH: Final = -2
"""The epoch of a static member that comes back."""
_REBALANCE_TIMEOUT_MS: Final = 300_000
_JOIN_TIMEOUT_MS: Final = 300_000
_REQUEST_TIMEOUT_MS: Final = 10_000
_FENCED: Final = frozenset((ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID))
"""Errors after which a member joins again."""


class ConsumerGroupMember:
    """A member of a consumer group that reads topics."""

    versions: ClassVar[Versions] = _VERSIONS
    """Versions of heartbeats."""

    def __init__(
        self,
        client: KafkaClient,
        group_id: str,
        topics: Sequence[str],
        clock: Clock,
        *,
        instance_id: str | None = None,
    ) -> None:
        """Create a member; with an `instance_id`, a static one (KIP-345)."""
        self._instance_id = instance_id
        self._client = client
        self._group_id = group_id
        self._topics = list(topics)
        self._clock = clock
        self._requests = CoordinatorRequests(client, group_id, GROUP)
        self._member_id = uuid_to_text(SystemEntropy().uuid())
        self._epoch = _JOIN_EPOCH
        self._owned: Any = []
        """The rows of the assignment."""
        self._heartbeat_ms = 0
        self._interval_ms = 0
        self._has_news = False

    @property
    def membership(self) -> Membership:
        """The id and the epoch of the member."""
        if self._epoch <= _JOIN_EPOCH:
            return NO_MEMBERSHIP
        return Membership(self._member_id, self._epoch, self._instance_id)

    async def join(self) -> list[TopicPartition]:
        """Join the group, or confirm a new assignment, and return the assigned partitions.

        Raises BrokerError or TimedOutError.
        """
        retries = Retries(self._clock, DEFAULT_BACKOFF, _JOIN_TIMEOUT_MS)
        while True:
            await self._beat(is_full=True)
            if self._epoch > _JOIN_EPOCH and not self._has_news:
                names = {each.topic_id: each.name for each in await list_topics(self._client)}
                return sorted(
                    TopicPartition(names[row.topic_id], index)
                    for row in self._owned
                    if row.topic_id in names
                    for index in row.partitions
                )
            self._has_news = False
            if self._epoch <= _JOIN_EPOCH and not await retries.wait():
                raise TimedOutError(f"group {self._group_id!r}: every attempt to join was refused")

    async def keep(self) -> bool:
        """Send a heartbeat if it is time for one; return False if the member must join again."""
        if self._clock.now_ms() - self._heartbeat_ms < self._interval_ms:
            return True
        await self._beat(is_full=False)
        return not self._has_news and self._epoch > _JOIN_EPOCH

    async def leave(self) -> None:
        """Leave the group; raises BrokerError or TimedOutError."""
        if self._epoch <= _JOIN_EPOCH:
            return
        self._epoch = _LEAVE_EPOCH if self._instance_id is None else _STATIC_LEAVE_EPOCH
        await self._beat(is_full=False)

    def _request(self, *, is_full: bool) -> Message:
        """Return a heartbeat; a full one has all fields."""
        row = ConsumerGroupHeartbeatRequest.TopicPartitions
        return ConsumerGroupHeartbeatRequest(
            group_id=self._group_id,
            member_id=self._member_id,
            member_epoch=self._epoch,
            instance_id=self._instance_id,
            rebalance_timeout_ms=_REBALANCE_TIMEOUT_MS if is_full else -1,
            subscribed_topic_names=self._topics if is_full else None,
            topic_partitions=[
                row(topic_id=each.topic_id, partitions=each.partitions) for each in self._owned
            ]
            if is_full
            else None,
        )

    async def _beat(self, *, is_full: bool) -> None:
        """Send a heartbeat, and set what the response says."""
        request = self._request(is_full=is_full)
        retries = Retries(self._clock, DEFAULT_BACKOFF, _REQUEST_TIMEOUT_MS)
        response = await self._requests.ask(request, self.versions, retries, _retriable_error)
        self._heartbeat_ms = self._clock.now_ms()
        code = ErrorCode(response.error_code)
        if code in _FENCED:
            self._epoch, self._owned = _JOIN_EPOCH, []
        elif code:
            raise BrokerError(code, f"group {self._group_id!r}", response.error_message)
        else:
            self._member_id = response.member_id or self._member_id
            self._epoch = response.member_epoch
            self._interval_ms = response.heartbeat_interval_ms
            if response.assignment is not None:
                owned = response.assignment.topic_partitions
                self._has_news |= _rows(owned) != _rows(self._owned)
                self._owned = owned


def _rows(owned: Any) -> list[tuple[bytes, list[int]]]:  # noqa: ANN401 - rows of the response
    return sorted((each.topic_id, sorted(each.partitions)) for each in owned)


def _retriable_error(response: Any) -> ErrorCode:  # noqa: ANN401 - a response of the coordinator
    code = ErrorCode(response.error_code)
    return code if code.retriable else ErrorCode.NONE
