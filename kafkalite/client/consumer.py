"""PartitionConsumer: reads partitions, and uses epochs to find positions that became invalid."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, Self

from kafkalite.client.access import PLAINTEXT
from kafkalite.client.bootstrap import bootstrap_addresses
from kafkalite.client.client import KafkaClient
from kafkalite.client.connection import UnreachableError
from kafkalite.client.epochs import Epochs, OffsetAndEpochs, TopicPartition
from kafkalite.client.errors import (
    BrokerError,
    NoOffsetError,
    OffsetOutOfRangeError,
    TimedOutError,
)
from kafkalite.client.fetch_round import FetchRound
from kafkalite.client.fetches import (
    LIST_OFFSETS_VERSIONS,
    READ_COMMITTED,
    READ_UNCOMMITTED,
    FetchedPosition,
    FetchLimits,
    list_offsets_request,
)
from kafkalite.client.group_offsets import GroupOffsets
from kafkalite.client.metadata import DEFAULT_MAX_AGE_MS, Metadata
from kafkalite.client.position_check import PositionCheck
from kafkalite.client.retries import DEFAULT_BACKOFF, Backoff, Retries
from kafkalite.ports.clock import AdjustableClock
from kafkalite.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from types import TracebackType

    from kafkalite.client.access import Access
    from kafkalite.client.cluster_metadata import PartitionMetadata
    from kafkalite.client.group_offsets import Membership
    from kafkalite.client.records import ConsumerRecord
    from kafkalite.ports.clock import Clock
    from kafkalite.server.addresses import Address

OffsetReset = Literal["earliest", "latest", "none"]
Isolation = Literal["read_uncommitted", "read_committed"]

ISOLATION_LEVELS: Final = {
    "read_uncommitted": READ_UNCOMMITTED,
    "read_committed": READ_COMMITTED,
}

_TIMESTAMPS: Final = {"earliest": -2, "latest": -1}
"""Policy → the timestamp of ListOffsets."""
_DEFAULT_LIMITS: Final = FetchLimits()
_POLL_GRACE_MS: Final = 1_000
"""Maximum time after the timeout of a `poll` in which brokers may answer its last requests."""


class PartitionConsumer:
    """Reads records of assigned partitions; it does not join a group.

    - `bootstrap_servers`: addresses of any brokers of the cluster, as `host:port,…`.
    - `group_id`: the group whose offsets `commit` and `committed` use.
    - `auto_offset_reset`: the position of a partition without a committed offset, or whose records
      were deleted: "earliest", "latest" or "none", which raises an exception.
    - `isolation`: "read_uncommitted", or "read_committed" without the records of open and aborted
      transactions.
    - `access`: TLS and login.
    - `limits`: limits of Fetch requests.
    - `timeout_ms`: maximum time of `commit`, `committed` and `position`, with their retries, and
      the time in which metadata may be older than a position.
    - `request_timeout_ms`: maximum time of one request.
    - `metadata_max_age_ms`: time after which metadata is requested again, even without an error.
    - `backoff`: waiting times between retries.
    - `clock`: the clock for waiting times; None for the system's.

    Offsets have epochs (KIP-232): the leader epoch of the records before the offset, and the
    partition epoch. The consumer fetches only with metadata that is at least as new as the epochs
    of its positions. Only a broker with `kafkalite.partition.epochs=true` reports partition epochs.

    One task at a time may use a consumer.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        *,
        group_id: str | None = None,
        auto_offset_reset: OffsetReset = "latest",
        isolation: Isolation = "read_uncommitted",
        access: Access = PLAINTEXT,
        limits: FetchLimits = _DEFAULT_LIMITS,
        timeout_ms: int = 30_000,
        request_timeout_ms: int = 10_000,
        metadata_max_age_ms: int = DEFAULT_MAX_AGE_MS,
        backoff: Backoff = DEFAULT_BACKOFF,
        clock: Clock | None = None,
    ) -> None:
        if auto_offset_reset not in (*_TIMESTAMPS, "none"):
            raise ValueError(
                f'auto_offset_reset is "earliest", "latest" or "none", not {auto_offset_reset!r}'
            )
        if isolation not in ISOLATION_LEVELS:
            raise ValueError(
                f"isolation is one of {', '.join(ISOLATION_LEVELS)}, not {isolation!r}"
            )
        self._isolation_level = ISOLATION_LEVELS[isolation]
        self._auto_offset_reset = auto_offset_reset
        self._clock = AdjustableClock() if clock is None else clock
        self._limits = limits
        self._timeout_ms = timeout_ms
        self._backoff = backoff
        addresses = bootstrap_addresses(bootstrap_servers)
        self._client = KafkaClient(addresses, access, response_timeout_s=request_timeout_ms / 1_000)
        self.metadata = Metadata(self._client, self._clock, backoff, metadata_max_age_ms)
        """The cached metadata."""
        self._check = PositionCheck(self.metadata, self._clock, timeout_ms)
        self._group = (
            None if group_id is None else GroupOffsets(self._client, self.metadata, group_id)
        )
        self._positions: dict[TopicPartition, OffsetAndEpochs | None] = {}
        """Assigned partition → its position; None until it is known."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._client.__aexit__(kind, error, traceback)

    # --- assignment and positions --------------------------------------------------------------

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """The assigned partitions."""
        return frozenset(self._positions)

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Replace the assignment; partitions that remain assigned keep their positions."""
        former = self._positions
        self._positions = {partition: former.get(partition) for partition in partitions}
        for partition in former.keys() - self._positions:
            self._check.forget(partition)
        self.metadata.set_partitions(self._positions)

    def seek(
        self, partition: TopicPartition, offset: int, offset_epoch: bytes | None = None
    ) -> None:
        """Set the position of an assigned partition.

        `offset_epoch` is the `OffsetAndEpochs.offset_epoch` that was stored with the offset.
        Without it, the consumer does not check whether the offset belongs to the present log.
        Raises ValueError if it cannot be decoded, for a negative offset and for other partitions.
        """
        self._check_assigned(partition)
        if offset < 0:
            raise ValueError(f"an offset is not negative: {offset}")
        epochs = Epochs() if offset_epoch is None else Epochs.decode(offset_epoch)
        self._check.forget(partition)
        self._positions[partition] = OffsetAndEpochs(offset, *epochs)

    async def position(self, partition: TopicPartition) -> OffsetAndEpochs:
        """Return the offset of the next record to read, with epochs.

        The leader epoch is the largest of the records that were consumed before it. The partition
        epoch is that of the latest Fetch response. Before the first record, both are those of the
        committed offset, of `seek`, or of the reset. Raises ValueError for a partition that is not
        assigned, NoOffsetError, BrokerError or TimedOutError.
        """
        self._check_assigned(partition)
        retries = self._retries(self._timeout_ms)
        while (position := self._positions[partition]) is None:
            await self._find_positions(retries)
            if self._positions[partition] is None and not await self._refresh_later(retries):
                raise TimedOutError(f"no position of {partition}: {self.metadata.failure}")
        return position

    def _check_assigned(self, partition: TopicPartition) -> None:
        if partition not in self._positions:
            raise ValueError(f"{partition} is not assigned")

    # --- committed offsets ---------------------------------------------------------------------

    def set_membership(self, membership: Membership) -> None:
        """Let commits be those of a member of the group; raises RuntimeError without a group id."""
        self._checked_group().membership = membership

    async def commit(self, offsets: Mapping[TopicPartition, OffsetAndEpochs] | None = None) -> None:
        """Commit offsets with their epochs, by default the positions of all assigned partitions.

        Raises RuntimeError without a group id, InvalidPartitionEpochError if the broker refuses a
        partition epoch, BrokerError for other errors, TimedOutError.
        """
        group = self._checked_group()
        if offsets is None:
            offsets = {each: at for each, at in self._positions.items() if at is not None}
        if offsets:
            await group.commit(offsets, self._retries(self._timeout_ms))

    async def committed(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, OffsetAndEpochs]:
        """Return the committed offsets with their epochs; partitions without one are omitted.

        Raises RuntimeError without a group id, BrokerError or TimedOutError.
        """
        group = self._checked_group()
        return await group.fetch(list(partitions), self._retries(self._timeout_ms))

    def _checked_group(self) -> GroupOffsets:
        if self._group is None:
            raise RuntimeError("the consumer has no group id")
        return self._group

    # --- reading -------------------------------------------------------------------------------

    async def poll(self, timeout_ms: int = 1_000) -> list[ConsumerRecord]:
        """Return the next records, and set the positions after them; empty if there are none yet.

        Also returns no records if the leaders or up-to-date metadata are not available within
        `timeout_ms`. Brokers that do not answer delay the end by at most one second. The positions
        remain unchanged when an exception is raised:

        - InvalidPartitionEpochError: the topic of a position was deleted and created again.
        - OutdatedMetadataError: for `timeout_ms` of the constructor, no broker knew the epochs of a
          position. Without partition epochs, the topic may have been created again.
        - LogTruncationError: the log lost records before a position.
        - OffsetOutOfRangeError: records were deleted, and `auto_offset_reset` is "none".
        - NoOffsetError: no offset is committed, and `auto_offset_reset` is "none".
        - CorruptBatchError, BrokerError.
        - RuntimeError: no partitions are assigned.
        """
        if not self._positions:
            raise RuntimeError("no partitions are assigned")
        retries = Retries(self._clock, self._backoff, timeout_ms, grace_ms=_POLL_GRACE_MS)
        while True:
            try:
                await self._find_positions(retries)
            except TimedOutError:
                return []
            fetched = await self._positions_to_fetch(retries)
            fetch_round = FetchRound(
                self._client, self.metadata, fetched, retries, self._isolation_level
            )
            await fetch_round.run(self._limits)
            self._positions |= fetch_round.positions
            for partition in fetch_round.positions:
                self._check.set_topic_id(partition, fetched[partition].metadata.topic_id)
            if fetch_round.records:
                return fetch_round.records
            fetch_round.raise_error()
            must_wait = fetch_round.needs_refresh or len(fetched) < len(self._positions)
            if fetch_round.deleted and not await self._reset_deleted(fetch_round.deleted, retries):
                must_wait = True
            if (must_wait and not await self._refresh_later(retries)) or not retries.remaining_ms:
                return []

    def _retries(self, timeout_ms: int) -> Retries:
        return Retries(self._clock, self._backoff, timeout_ms)

    async def _refresh_later(self, retries: Retries) -> bool:
        """Wait, and refresh the metadata; return False if there is no time for it."""
        return await retries.wait() and await self._refresh(retries)

    async def _refresh(self, retries: Retries) -> bool:
        return await self.metadata.refresh(
            retries.deadline_ms,
            self._check.required(self._positions),
            request_deadline_ms=retries.request_deadline_ms,
        )

    async def _find_positions(self, retries: Retries) -> None:
        """Set missing positions: the committed offsets, or by `auto_offset_reset`."""
        missing = [partition for partition, at in self._positions.items() if at is None]
        if not missing:
            return
        if self._group is not None:
            self._positions |= await self._group.fetch(missing, retries)
        without_commit = [each for each in missing if self._positions[each] is None]
        if without_commit:
            await self._reset(without_commit, retries)

    async def _reset(self, partitions: Sequence[TopicPartition], retries: Retries) -> bool:
        """Set positions by `auto_offset_reset`; return False if a leader is not available."""
        if self._auto_offset_reset == "none":
            raise NoOffsetError(frozenset(partitions))
        if self.metadata.has_new_topics:
            await self._refresh(retries)
        is_complete = True
        for partition in partitions:
            leader = self.metadata.leader_address(partition)
            known = self.metadata.partition(partition)
            reset = None
            if leader is not None and known is not None:
                reset = await self._list_offset(partition, leader, known, retries)
            if reset is None:
                is_complete = False
            else:
                self._check.forget(partition)
                self._positions[partition] = reset
        return is_complete

    async def _reset_deleted(self, partitions: Sequence[TopicPartition], retries: Retries) -> bool:
        """Reset positions whose records were deleted, see `_reset`.

        Raises OffsetOutOfRangeError if `auto_offset_reset` is "none".
        """
        if self._auto_offset_reset == "none":
            positions = {each: self._positions[each] for each in partitions}
            raise OffsetOutOfRangeError(
                {each: at.offset for each, at in positions.items() if at is not None}
            )
        return await self._reset(partitions, retries)

    async def _list_offset(
        self,
        partition: TopicPartition,
        leader: Address,
        known: PartitionMetadata,
        retries: Retries,
    ) -> OffsetAndEpochs | None:
        """Return the first or last offset with its epochs; None if the leader refuses for now."""
        request = list_offsets_request(
            partition, known, _TIMESTAMPS[self._auto_offset_reset], self._isolation_level
        )
        try:
            response = await self._client.ask(
                leader, request, LIST_OFFSETS_VERSIONS, timeout_s=retries.request_timeout_s
            )
        except UnreachableError:
            return None
        row = response.topics[0].partitions[0]
        code = ErrorCode(row.error_code)
        if not code:
            return OffsetAndEpochs(row.offset, row.leader_epoch, row.incarnation_epoch)
        if code.retriable:
            return None
        raise BrokerError(code, f"cannot find the {self._auto_offset_reset} offset of {partition}")

    async def _positions_to_fetch(self, retries: Retries) -> dict[TopicPartition, FetchedPosition]:
        """Return the positions whose metadata has a leader and is at least as new as they are."""
        required = self._check.required(self._positions)
        # The check is first: a refresh can use all the time if the metadata remains outdated.
        unusable = await self._check.unusable(required, retries)
        if self.metadata.must_refresh or unusable:
            await self._refresh(retries)
            unusable = await self._check.unusable(required, retries)
        known = self.metadata.current
        return {
            partition: FetchedPosition(position, known.partitions[partition])
            for partition, position in self._positions.items()
            if position is not None
            and partition not in unusable
            and self.metadata.leader_address(partition) is not None
        }
