"""ShareReader: reads topics as a member of a share group (KIP-932), and acknowledges records."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from kafkalite.client.consumer_group_member import ConsumerGroupMember
from kafkalite.client.epochs import OffsetAndEpochs, TopicPartition
from kafkalite.client.errors import raise_refusal
from kafkalite.client.partition_requests import by_leader
from kafkalite.client.records import decode_batches
from kafkalite.client.retries import wait_until
from kafkalite.client.topics import list_topics
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.protocol._generated.messages.share_acknowledge import ShareAcknowledgeRequest
from kafkalite.protocol._generated.messages.share_fetch import ShareFetchRequest
from kafkalite.protocol._generated.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
)
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.versions import Versions

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kafkalite.client.client import KafkaClient
    from kafkalite.client.records import ConsumerRecord
    from kafkalite.ports.clock import Clock
    from kafkalite.protocol.message import Message
    from kafkalite.server.addresses import Address

ACCEPT: Final = 1
RELEASE: Final = 2
REJECT: Final = 3
RENEW: Final = 4
"""Types of acknowledgements."""
_GAP: Final = 0
"""The acknowledgement of an offset without a record."""
_FETCH_VERSIONS: Final = Versions(1, 2)
_HEARTBEAT_VERSIONS: Final = Versions(1, 1)
_LAST_EPOCH: Final = -1
_MAX_RECORDS: Final = 500
_MAX_BYTES: Final = 50 * 1024 * 1024
_UNKNOWN_PARTITION_EPOCH: Final = -1
_SESSION_ERRORS: Final = frozenset(
    (ErrorCode.SHARE_SESSION_NOT_FOUND, ErrorCode.INVALID_SHARE_SESSION_EPOCH)
)
"""Errors after which a session begins again."""


class SharedRecord(NamedTuple):
    """A record that the group delivers to this member."""

    record: ConsumerRecord
    delivery_count: int


class ShareGroupMember(ConsumerGroupMember):
    """A member of a share group that reads topics."""

    versions = _HEARTBEAT_VERSIONS

    @property
    def id(self) -> str:
        """The id of the member."""
        return self._member_id

    def _request(self, *, is_full: bool) -> Message:
        return ShareGroupHeartbeatRequest(
            group_id=self._group_id,
            member_id=self._member_id,
            member_epoch=self._epoch,
            subscribed_topic_names=self._topics if is_full else None,
        )


class _Session:
    """The share session with a leader."""

    def __init__(self) -> None:
        self.epoch = 0
        self.partitions: frozenset[TopicPartition] = frozenset()
        """The partitions that the leader knows to be read."""


class ShareReader:
    """Reads topics in a share group; records without an acknowledgement are released at the end."""

    def __init__(
        self, client: KafkaClient, group_id: str, topics: Sequence[str], clock: Clock
    ) -> None:
        self._client = client
        self._group_id = group_id
        self._clock = clock
        self._member = ShareGroupMember(client, group_id, topics, clock)
        self._sessions: dict[Address, _Session] = {}
        self._leaders: dict[Address, frozenset[TopicPartition]] = {}
        """The assigned partitions by leader."""
        self._topic_ids: dict[str, bytes] = {}
        self._acknowledged: dict[TopicPartition, dict[int, int]] = {}
        """Partition → offset → the type of the acknowledgement that is not sent yet."""

    async def join(self) -> None:
        """Join the group, and read the assigned partitions; raises ClientError."""
        partitions = await self._member.join()
        self._topic_ids = {each.name: each.topic_id for each in await list_topics(self._client)}
        await self._find_leaders(partitions)

    async def _find_leaders(self, partitions: Iterable[TopicPartition]) -> None:
        leaders = await by_leader(self._client, dict.fromkeys(partitions))
        self._leaders = {address: frozenset(rows) for address, rows in leaders.items()}

    async def poll(self, timeout_ms: int) -> list[SharedRecord]:
        """Return the next records, an empty list after the timeout; raises ClientError."""
        if not await self._member.keep():
            await self.join()
        addresses = self._leaders.keys() | self._sessions.keys()
        if not addresses:
            await wait_until(self._clock, self._clock.now_ms() + timeout_ms)
            return []
        found = await asyncio.gather(*(self._fetch(each, timeout_ms) for each in addresses))
        return [record for records in found for record in records]

    def acknowledge(self, record: ConsumerRecord, kind: int) -> None:
        """Acknowledge a record with the next request."""
        self._acknowledged.setdefault(record.partition, {})[record.offset] = kind

    async def commit(self) -> dict[TopicPartition, ErrorCode]:
        """Send the acknowledgements, and return the result of each partition that has some.

        Raises ClientError if a leader refuses the session.
        """
        results: dict[TopicPartition, ErrorCode] = {}
        for address, session in self._sessions.items():
            topics = self._topic_rows(session.partitions, ShareAcknowledgeRequest)
            if not topics:
                continue
            response = await self._send_acknowledgements(address, session.epoch, topics)
            raise_refusal(response, f"group {self._group_id!r}")
            session.epoch += 1
            names = {topic_id: name for name, topic_id in self._topic_ids.items()}
            results |= {
                TopicPartition(names[topic.topic_id], row.partition_index): ErrorCode(
                    row.error_code
                )
                for topic in response.responses
                for row in topic.partitions
            }
        return results

    async def close(self) -> None:
        """Send the acknowledgements, release the other records, and leave the group."""
        try:
            for address, session in self._sessions.items():
                if session.epoch:
                    topics = self._topic_rows(session.partitions, ShareAcknowledgeRequest)
                    await self._send_acknowledgements(address, _LAST_EPOCH, topics)
        finally:
            await self._member.leave()

    async def _send_acknowledgements(
        self, address: Address, session_epoch: int, topics: list[Any]
    ) -> Any:  # noqa: ANN401 - a ShareAcknowledgeResponse
        request = ShareAcknowledgeRequest(
            group_id=self._group_id,
            member_id=self._member.id,
            share_session_epoch=session_epoch,
            topics=topics,
        )
        return await self._client.ask(address, request, _FETCH_VERSIONS)

    def _topic_rows(
        self,
        partitions: Iterable[TopicPartition],
        request_class: Any,  # noqa: ANN401 - one of two classes with equal rows
        added: frozenset[TopicPartition] = frozenset(),
    ) -> list[Any]:
        """Return the rows of partitions that are added, or that have acknowledgements."""
        is_fetch = request_class is ShareFetchRequest
        partition_class = (
            request_class.FetchPartition if is_fetch else request_class.AcknowledgePartition
        )
        topic_class = request_class.FetchTopic if is_fetch else request_class.AcknowledgeTopic
        topics: dict[str, list[Any]] = {}
        for each in sorted({*partitions, *added}):
            kinds = self._acknowledged.pop(each, {})
            if kinds or each in added:
                batches = [
                    request_class.AcknowledgementBatch(
                        first_offset=offset, last_offset=offset, acknowledge_types=[kind]
                    )
                    for offset, kind in sorted(kinds.items())
                ]
                row = partition_class(
                    partition_index=each.partition, acknowledgement_batches=batches
                )
                topics.setdefault(each.topic, []).append(row)
        return [
            topic_class(topic_id=self._topic_ids[name], partitions=rows)
            for name, rows in topics.items()
        ]

    async def _fetch(self, address: Address, timeout_ms: int) -> list[SharedRecord]:
        session = self._sessions.setdefault(address, _Session())
        assigned = self._leaders.get(address, frozenset())
        removed = session.partitions - assigned
        request = ShareFetchRequest(
            group_id=self._group_id,
            member_id=self._member.id,
            share_session_epoch=session.epoch,
            max_wait_ms=timeout_ms,
            min_bytes=1,
            max_bytes=_MAX_BYTES,
            max_records=_MAX_RECORDS,
            batch_size=_MAX_RECORDS,
            topics=self._topic_rows(
                session.partitions, ShareFetchRequest, assigned - session.partitions
            ),
            forgotten_topics_data=[
                ShareFetchRequest.ForgottenTopic(
                    topic_id=self._topic_ids[topic], partitions=[index]
                )
                for topic, index in sorted(removed)
                if topic in self._topic_ids
            ],
        )
        response = await self._client.ask(address, request, _FETCH_VERSIONS)
        if response.error_code in _SESSION_ERRORS:
            self._sessions[address] = _Session()
            return []
        raise_refusal(response, f"group {self._group_id!r}")
        session.epoch += 1
        session.partitions = assigned
        return await self._records_of(response)

    async def _records_of(self, response: Any) -> list[SharedRecord]:  # noqa: ANN401 - a ShareFetchResponse
        names = {topic_id: name for name, topic_id in self._topic_ids.items()}
        records: list[SharedRecord] = []
        has_moved = False
        for topic in response.responses:
            for row in topic.partitions:
                partition = TopicPartition(names[topic.topic_id], row.partition_index)
                if row.error_code and ErrorCode(row.error_code).retriable:
                    has_moved = True
                    continue
                raise_refusal(row, f"cannot read {partition}")
                records += self._acquired(partition, row)
        if has_moved:
            partitions = [each for rows in self._leaders.values() for each in rows]
            await self._find_leaders(partitions)
        return records

    def _acquired(self, partition: TopicPartition, row: Any) -> list[SharedRecord]:  # noqa: ANN401 - of the response
        """Return the acquired records of a partition, and acknowledge acquired gaps."""
        counts: Mapping[int, int] = {
            offset: each.delivery_count
            for each in row.acquired_records
            for offset in range(each.first_offset, each.last_offset + 1)
        }
        if not counts:
            return []
        start = OffsetAndEpochs(min(counts))
        found, _ = decode_batches(
            partition, bytes(row.records or b""), start, _UNKNOWN_PARTITION_EPOCH
        )
        records = [
            SharedRecord(each, counts[each.offset]) for each in found if each.offset in counts
        ]
        gaps = counts.keys() - {each.record.offset for each in records}
        if gaps:
            self._acknowledged.setdefault(partition, {}).update(dict.fromkeys(gaps, _GAP))
        return records
