"""GroupMember: a member of a classic group, with eager rebalancing and the range assignor.

Every broker supports this protocol. A consumer group accepts such members, too (KIP-848).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from kafkalite.client.coordinator_requests import GROUP, CoordinatorRequests
from kafkalite.client.epochs import TopicPartition
from kafkalite.client.errors import BrokerError, TimedOutError
from kafkalite.client.group_offsets import NO_MEMBERSHIP, Membership
from kafkalite.client.retries import DEFAULT_BACKOFF, Retries
from kafkalite.client.topics import find_topic
from kafkalite.groups.migration.consumer_protocol import (
    encode_named_assignment,
    encode_subscription,
    parse_assignment,
    parse_subscription,
)
from kafkalite.protocol._generated.messages.heartbeat import HeartbeatRequest
from kafkalite.protocol._generated.messages.join_group import JoinGroupRequest
from kafkalite.protocol._generated.messages.leave_group import LeaveGroupRequest
from kafkalite.protocol._generated.messages.sync_group import SyncGroupRequest
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.versions import Versions

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafkalite.client.client import KafkaClient
    from kafkalite.ports.clock import Clock

PROTOCOL_TYPE: Final = "consumer"
_ASSIGNOR: Final = "range"
_PROTOCOL_VERSION: Final = 3
_SESSION_TIMEOUT_MS: Final = 45_000
_REBALANCE_TIMEOUT_MS: Final = 300_000
"""The defaults of clients in Java."""
_HEARTBEAT_INTERVAL_MS: Final = 3_000
_JOIN_TIMEOUT_MS: Final = 300_000
"""Maximum time of a rebalance: other members may take as long as the default of Java."""
_REQUEST_TIMEOUT_MS: Final = 10_000
_JOIN_VERSIONS: Final = Versions(1, 9)
_SYNC_VERSIONS: Final = Versions(0, 5)
_HEARTBEAT_VERSIONS: Final = Versions(0, 4)
_LEAVE_VERSIONS: Final = Versions(0, 5)
REJOIN_ERRORS: Final = frozenset((
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.UNKNOWN_MEMBER_ID,
))  # fmt: skip
"""Errors after which a member joins again."""


class GroupMember:
    """A member of a group that reads topics."""

    def __init__(
        self,
        client: KafkaClient,
        group_id: str,
        topics: Sequence[str],
        clock: Clock,
        *,
        instance_id: str | None = None,
    ) -> None:
        """Create a member; `client` must not limit the time of a response.

        With an `instance_id`, it is a static member: it does not leave the group (KIP-345).
        """
        self._instance_id = instance_id
        self._client = client
        self._group_id = group_id
        self._topics = list(topics)
        self._clock = clock
        self._requests = CoordinatorRequests(client, group_id, GROUP)
        self._heartbeat_ms = 0
        self.membership = NO_MEMBERSHIP
        """The id and the generation of the member."""

    async def join(self) -> list[TopicPartition]:
        """Join the group, or join again, and return the assigned partitions.

        Waits for other members. Raises BrokerError or TimedOutError.
        """
        retries = self._retries(_JOIN_TIMEOUT_MS)
        while True:
            joined = await self._join(retries)
            response = None if joined is None else await self._sync(joined, retries)
            if response is not None:
                self._heartbeat_ms = self._clock.now_ms()
                return self._partitions_of(bytes(response.assignment))
            if not await retries.wait():
                raise TimedOutError(f"group {self._group_id!r}: every attempt to join was refused")

    async def keep(self) -> bool:
        """Send a heartbeat if it is time for one; return False if the member must join again."""
        now_ms = self._clock.now_ms()
        if now_ms - self._heartbeat_ms < _HEARTBEAT_INTERVAL_MS:
            return True
        request = HeartbeatRequest(
            group_id=self._group_id,
            generation_id=self.membership.generation,
            member_id=self.membership.member_id,
            group_instance_id=self._instance_id,
        )
        response = await self._ask(request, _HEARTBEAT_VERSIONS, self._retries(_REQUEST_TIMEOUT_MS))
        self._heartbeat_ms = now_ms
        return response is not None

    async def leave(self) -> None:
        """Leave the group; raises BrokerError or TimedOutError."""
        if self.membership == NO_MEMBERSHIP or self._instance_id is not None:
            return
        member_id = self.membership.member_id
        request = LeaveGroupRequest(
            group_id=self._group_id,
            member_id=member_id,
            members=[LeaveGroupRequest.MemberIdentity(member_id=member_id)],
        )
        self.membership = NO_MEMBERSHIP
        await self._ask(request, _LEAVE_VERSIONS, self._retries(_REQUEST_TIMEOUT_MS))

    def _retries(self, timeout_ms: int) -> Retries:
        return Retries(self._clock, DEFAULT_BACKOFF, timeout_ms)

    async def _join(self, retries: Retries) -> Any | None:  # noqa: ANN401 - a JoinGroupResponse
        """Join, and set the membership; None if the member must join again."""
        response = await self._ask_to_join(retries)
        if response.error_code == ErrorCode.MEMBER_ID_REQUIRED and not self.membership.member_id:
            self.membership = Membership(response.member_id)
            response = await self._ask_to_join(retries)
        code = ErrorCode(response.error_code)
        if code in REJOIN_ERRORS:
            self._forget(code)
            return None
        if code:
            raise BrokerError(code, f"cannot join group {self._group_id!r}")
        self.membership = Membership(response.member_id, response.generation_id, self._instance_id)
        return response

    async def _ask_to_join(self, retries: Retries) -> Any:  # noqa: ANN401 - a JoinGroupResponse
        protocol = JoinGroupRequest.JoinGroupRequestProtocol(
            name=_ASSIGNOR, metadata=encode_subscription(self._topics, _PROTOCOL_VERSION)
        )
        request = JoinGroupRequest(
            group_id=self._group_id,
            session_timeout_ms=_SESSION_TIMEOUT_MS,
            rebalance_timeout_ms=_REBALANCE_TIMEOUT_MS,
            member_id=self.membership.member_id,
            group_instance_id=self._instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=[protocol],
        )
        return await self._requests.ask(request, _JOIN_VERSIONS, retries, _retriable_error)

    async def _sync(self, joined: Any, retries: Retries) -> Any | None:  # noqa: ANN401 - responses
        """Return the response with the assignment; None if the member must join again."""
        request = SyncGroupRequest(
            group_id=self._group_id,
            generation_id=self.membership.generation,
            member_id=self.membership.member_id,
            group_instance_id=self._instance_id,
            protocol_type=joined.protocol_type or PROTOCOL_TYPE,
            protocol_name=joined.protocol_name,
            assignments=await self._assignments(joined) if self._leads(joined) else [],
        )
        return await self._ask(request, _SYNC_VERSIONS, retries)

    def _leads(self, joined: Any) -> bool:  # noqa: ANN401 - a JoinGroupResponse
        return bool(joined.leader == joined.member_id and not joined.skip_assignment)

    async def _ask(self, request: Any, versions: Versions, retries: Retries) -> Any | None:  # noqa: ANN401 - any classes
        """Return the response; None if the member must join again."""
        response = await self._requests.ask(request, versions, retries, _retriable_error)
        code = ErrorCode(response.error_code)
        if code in REJOIN_ERRORS:
            self._forget(code)
            return None
        if code:
            raise BrokerError(code, f"group {self._group_id!r}")
        return response

    def _forget(self, code: ErrorCode) -> None:
        """Forget the id if the group does not have it any more."""
        if code is ErrorCode.UNKNOWN_MEMBER_ID:
            self.membership = NO_MEMBERSHIP

    async def _assignments(
        self,
        joined: Any,  # noqa: ANN401 - a JoinGroupResponse
    ) -> list[SyncGroupRequest.SyncGroupRequestAssignment]:
        subscribed: dict[str, list[str]] = {}
        for member in joined.members:
            for topic in parse_subscription(bytes(member.metadata)).topics:
                subscribed.setdefault(topic, []).append(member.member_id)
        topics = await asyncio.gather(*(find_topic(self._client, name) for name in subscribed))
        counts = {topic.name: len(topic.partitions) for topic in topics}
        assigned = assign_ranges(subscribed, counts)
        return [
            SyncGroupRequest.SyncGroupRequestAssignment(
                member_id=member.member_id,
                assignment=encode_named_assignment(
                    assigned.get(member.member_id, {}), _PROTOCOL_VERSION
                ),
            )
            for member in joined.members
        ]

    def _partitions_of(self, assignment: bytes) -> list[TopicPartition]:
        if not assignment:
            return []
        partitions = parse_assignment(assignment).partitions
        return sorted(
            TopicPartition(topic, index)
            for topic, indexes in partitions.items()
            for index in indexes
        )


def assign_ranges(
    subscribed: Mapping[str, list[str]], counts: Mapping[str, int]
) -> dict[str, dict[str, range]]:
    """Return the partitions of each member by topic, as Kafka's range assignor divides them.

    `subscribed` has the members by topic, `counts` the numbers of partitions. The first members, by
    their ids, get one partition more if the division has a remainder.
    """
    assigned: dict[str, dict[str, range]] = {}
    for topic, members in subscribed.items():
        share, remainder = divmod(counts.get(topic, 0), len(members))
        start = 0
        for position, member in enumerate(sorted(members)):
            end = start + share + (position < remainder)
            if end > start:
                assigned.setdefault(member, {})[topic] = range(start, end)
            start = end
    return assigned


def _retriable_error(response: Any) -> ErrorCode:  # noqa: ANN401 - any response class
    code = ErrorCode(response.error_code)
    return code if code.retriable else ErrorCode.NONE
