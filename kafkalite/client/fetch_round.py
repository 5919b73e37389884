"""FetchRound: one Fetch request to each leader, and the results for each partition."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from kafkalite.client.connection import UnreachableError
from kafkalite.client.errors import BrokerError, InvalidPartitionEpochError, LogTruncationError
from kafkalite.client.fetches import (
    EPOCH_END_VERSIONS,
    FETCH_VERSIONS,
    READ_UNCOMMITTED,
    EpochEnd,
    Meaning,
    Reason,
    divergent_offset,
    epoch_end_request,
    fetch_answers,
    fetch_request,
    is_truncated,
    meaning_of,
    reason_in_metadata,
)
from kafkalite.client.records import decode_batches
from kafkalite.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalite.client.client import KafkaClient
    from kafkalite.client.cluster_metadata import PartitionMetadata
    from kafkalite.client.epochs import OffsetAndEpochs, TopicPartition
    from kafkalite.client.fetches import FetchAnswer, FetchedPosition, FetchLimits
    from kafkalite.client.metadata import Metadata
    from kafkalite.client.records import ConsumerRecord
    from kafkalite.client.retries import Retries


class FetchRound:
    """One round of Fetch requests, with the positions that were fetched."""

    def __init__(
        self,
        client: KafkaClient,
        metadata: Metadata,
        fetched: Mapping[TopicPartition, FetchedPosition],
        retries: Retries,
        isolation_level: int = READ_UNCOMMITTED,
    ) -> None:
        """Create a round; `retries` limits the time of its requests."""
        self._isolation_level = isolation_level
        self._client = client
        self._retries = retries
        self._metadata = metadata
        self._fetched = fetched
        self._refused: dict[TopicPartition, EpochEnd | None] = {}
        """Partition whose leader does not have the position → the end that the leader reported."""
        self._other_partitions: dict[TopicPartition, int] = {}
        self._truncated: dict[TopicPartition, OffsetAndEpochs | None] = {}
        self._error: BrokerError | None = None
        self.records: list[ConsumerRecord] = []
        """The fetched records."""
        self.positions: dict[TopicPartition, OffsetAndEpochs] = {}
        """Partition → the position after its records."""
        self.deleted: list[TopicPartition] = []
        """The partitions whose position is out of range, although the log was not truncated."""
        self.needs_refresh = False
        """Whether a leader was not reached, or refused for now."""

    async def run(self, limits: FetchLimits) -> None:
        """Fetch from all leaders at once.

        Raises CorruptBatchError; the fetches from other leaders have ended then.
        """
        by_leader: dict[int, dict[TopicPartition, FetchedPosition]] = {}
        for partition, fetched in self._fetched.items():
            by_leader.setdefault(fetched.metadata.leader, {})[partition] = fetched
        max_wait_ms = min(limits.max_wait_ms, self._retries.remaining_ms)
        try:
            async with asyncio.TaskGroup() as group:
                for rows in by_leader.values():
                    group.create_task(self._fetch(rows, limits, max_wait_ms))
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None
        if self._refused:
            await self._explain_refusals()

    def raise_error(self) -> None:
        """Raise the exception for the partitions that cannot be read, if there are any.

        Raises InvalidPartitionEpochError, LogTruncationError or BrokerError.
        """
        if self._other_partitions:
            raise InvalidPartitionEpochError(self._other_partitions)
        if self._truncated:
            raise LogTruncationError(self._truncated)
        if self._error is not None:
            raise self._error

    async def _fetch(
        self,
        fetched: Mapping[TopicPartition, FetchedPosition],
        limits: FetchLimits,
        max_wait_ms: int,
    ) -> None:
        leader = self._metadata.leader_address(next(iter(fetched)))
        if leader is None:
            self.needs_refresh = True
            return
        request = fetch_request(fetched, limits, max_wait_ms, self._isolation_level)
        try:
            response = await self._client.ask(
                leader, request, FETCH_VERSIONS, timeout_s=self._retries.request_timeout_s
            )
        except UnreachableError:
            self.needs_refresh = True
            return
        for partition, answer in fetch_answers(response, fetched):
            self._handle_answer(partition, fetched[partition].position, answer)

    def _handle_answer(
        self, partition: TopicPartition, position: OffsetAndEpochs, answer: FetchAnswer
    ) -> None:
        match meaning_of(answer, position):
            case Meaning.RECORDS:
                records, self.positions[partition] = decode_batches(
                    partition, answer.records, position, answer.partition_epoch, answer.aborted
                )
                self.records += records
            case Meaning.RETRY:
                self.needs_refresh = True
            case Meaning.NEW_PARTITION:
                self._other_partitions[partition] = position.partition_epoch
            case Meaning.OUT_OF_RANGE | Meaning.DIVERGING:
                self._refused[partition] = answer.diverging
            case Meaning.FAILED:
                self._error = BrokerError(answer.code, f"cannot fetch {partition}")

    async def _explain_refusals(self) -> None:
        """Find out why leaders do not have positions; they may not be the leaders any more."""
        if not await self._metadata.ask_all(self._retries.request_deadline_ms):
            self.needs_refresh = True
            return
        for partition, end in self._refused.items():
            position, used = self._fetched[partition]
            newest = self._metadata.partition(partition)
            match reason_in_metadata(position, used, newest):
                case Reason.STALE_LEADER:
                    self.needs_refresh = True
                case Reason.NEW_PARTITION:
                    self._other_partitions[partition] = position.partition_epoch
                case Reason.UNKNOWN:
                    await self._check_log(partition, position, used, end)

    async def _check_log(
        self,
        partition: TopicPartition,
        position: OffsetAndEpochs,
        metadata: PartitionMetadata,
        end: EpochEnd | None,
    ) -> None:
        """Find out whether the log of the present leader was truncated below a position."""
        if end is None and position.leader_epoch >= 0:
            end = await self._end_of_epoch(partition, metadata, position.leader_epoch)
            if end is None:
                self.needs_refresh = True
                return
        if end is not None and is_truncated(position, end):
            self._truncated[partition] = divergent_offset(position, end)
        else:
            self.deleted.append(partition)

    async def _end_of_epoch(
        self, partition: TopicPartition, metadata: PartitionMetadata, leader_epoch: int
    ) -> EpochEnd | None:
        """Return the end of a leader epoch in the leader's log; None if it refuses for now."""
        leader = self._metadata.leader_address(partition)
        if leader is None:
            return None
        request = epoch_end_request(partition, metadata, leader_epoch)
        try:
            response = await self._client.ask(
                leader, request, EPOCH_END_VERSIONS, timeout_s=self._retries.request_timeout_s
            )
        except UnreachableError:
            return None
        row = response.topics[0].partitions[0]
        if row.error_code:
            code = ErrorCode(row.error_code)
            if not code.retriable:
                self._error = BrokerError(code, f"cannot find the end of an epoch of {partition}")
            return None
        return EpochEnd(row.leader_epoch, row.end_offset)
