"""TopicReader: reads topics from a start to its end or on and on, alone or in a group."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from kafkalite.client.access import PLAINTEXT
from kafkalite.client.client import KafkaClient
from kafkalite.client.consumer import ISOLATION_LEVELS, PartitionConsumer
from kafkalite.client.epochs import NO_EPOCH, OffsetAndEpochs, TopicPartition
from kafkalite.client.errors import BrokerError, NoLeaderError
from kafkalite.client.group_member import REJOIN_ERRORS, GroupMember
from kafkalite.client.offsets import OffsetTarget, end_offsets, target_offsets
from kafkalite.client.retries import wait_until
from kafkalite.ports.clock import AdjustableClock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Collection, Sequence

    from kafkalite.client.access import Access
    from kafkalite.client.consumer import Isolation
    from kafkalite.client.consumer_group_member import ConsumerGroupMember
    from kafkalite.client.records import ConsumerRecord
    from kafkalite.ports.clock import Clock

_POLL_MS: Final = 500
_COMMIT_INTERVAL_MS: Final = 5_000


class TopicReader:
    """Reads the records of topics from a start on.

    A member of a group begins at its committed offsets, and at the start where it has none. What it
    has read is committed every five seconds and at the end.
    """

    def __init__(
        self,
        client: KafkaClient,
        consumer: PartitionConsumer,
        *,
        start: OffsetTarget,
        isolation: Isolation,
        follows: bool,
        clock: Clock,
        member: GroupMember | ConsumerGroupMember | None = None,
        commits: bool = True,
    ) -> None:
        self._client = client
        self._consumer = consumer
        self._start = start
        self._isolation_level = ISOLATION_LEVELS[isolation]
        self._follows = follows
        self._member = member
        self._commits = commits
        self._clock = clock
        self._ends: dict[TopicPartition, int] = {}
        """Partition → the end up to which it is read, unless the reader follows."""
        self._read: dict[TopicPartition, OffsetAndEpochs] = {}
        """Partition → the offset that will be committed."""
        self._committed_ms = self._clock.now_ms()
        self.commit_interval_ms = _COMMIT_INTERVAL_MS

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        client: KafkaClient,
        topics: Sequence[str],
        *,
        group_id: str | None,
        start: OffsetTarget,
        isolation: Isolation,
        follows: bool,
        access: Access = PLAINTEXT,
        clock: Clock | None = None,
        commits: bool = True,
        member_class: Callable[..., GroupMember | ConsumerGroupMember] = GroupMember,
    ) -> AsyncIterator[TopicReader]:
        """Open a reader of a cluster; it commits, and leaves the group, when it is closed.

        `member_class` makes a member; `clock` is that of heartbeats and commits.
        """
        used_clock = AdjustableClock() if clock is None else clock
        servers = ",".join(map(str, client.bootstrap))
        async with (
            PartitionConsumer(
                servers,
                group_id=group_id,
                auto_offset_reset="earliest",
                isolation=isolation,
                access=access,
            ) as consumer,
            # A broker answers a JoinGroup when the other members have joined.
            KafkaClient(client.bootstrap, access) as member_client,
        ):
            member = (
                None
                if group_id is None
                else member_class(member_client, group_id, topics, used_clock)
            )
            reader = cls(
                client,
                consumer,
                start=start,
                isolation=isolation,
                follows=follows,
                clock=used_clock,
                member=member,
                commits=commits,
            )
            try:
                yield reader
            finally:
                await reader.close()

    async def assign(self, partitions: Sequence[TopicPartition]) -> None:
        """Read these partitions; raises ClientError if one has no leader."""
        committed: dict[TopicPartition, OffsetAndEpochs] = {}
        if self._member is not None:
            committed = await self._consumer.committed(partitions)
        others = [each for each in partitions if each not in committed]
        starts = await target_offsets(self._client, others, self._start, self._isolation_level)
        _check_leaders(others, starts)
        self._consumer.assign(partitions)
        for partition, offset in starts.items():
            self._consumer.seek(partition, offset)
            # As with Java's consumer, the group has a position although nothing was read.
            self._read[partition] = OffsetAndEpochs(offset)
        for partition, at in committed.items():
            self._consumer.seek(partition, at.offset, at.offset_epoch)
        if not self._follows:
            ends = await end_offsets(self._client, partitions, self._isolation_level)
            _check_leaders(partitions, ends)
            self._ends = ends

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions that are read."""
        return self._consumer.assignment

    async def join(self) -> None:
        """Join the group, and read the assigned partitions."""
        assert self._member is not None
        partitions = await self._member.join()
        self._consumer.set_membership(self._member.membership)
        self._read = {}
        await self.assign(partitions)

    async def poll(self, timeout_ms: int = _POLL_MS) -> list[ConsumerRecord] | None:
        """Return the next records, after the timeout an empty list, or None at the end.

        Raises ClientError.
        """
        if self._member is not None and not await self._member.keep():
            await self._commit_before_rejoining()
            await self.join()
        if not self._follows and await self._is_at_end():
            return None
        if not self._consumer.assignment:
            await wait_until(self._clock, self._clock.now_ms() + timeout_ms)
            return []
        records = await self._consumer.poll(timeout_ms)
        if self._clock.now_ms() - self._committed_ms >= self.commit_interval_ms:
            await self.commit()
        return records

    def set_read(self, records: Collection[ConsumerRecord], *, with_epochs: bool = True) -> None:
        """Commit later that these records were read; `with_epochs`, with their leader epochs."""
        for each in records:
            epoch = each.leader_epoch if with_epochs else NO_EPOCH
            self._read[each.partition] = OffsetAndEpochs(each.offset + 1, epoch)

    async def set_all_read(self) -> None:
        """Commit later that everything was read that `poll` returned."""
        for partition in self._consumer.assignment:
            self._read[partition] = await self._consumer.position(partition)

    async def commit(self) -> None:
        """Commit what was read, if this is a member of a group; raises ClientError."""
        self._committed_ms = self._clock.now_ms()
        if self._member is not None and self._commits and self._read:
            self._consumer.set_membership(self._member.membership)
            await self._consumer.commit(self._read)
            self._read = {}

    async def close(self) -> None:
        """Commit what was read, and leave the group."""
        if self._member is not None:
            try:
                await self.commit()
            finally:
                await self._member.leave()

    async def _commit_before_rejoining(self) -> None:
        """Commit if the group still accepts it; else other members read the records again."""
        try:
            await self.commit()
        except BrokerError as error:
            if error.code not in REJOIN_ERRORS:
                raise

    async def _is_at_end(self) -> bool:
        for partition, end in self._ends.items():
            if (await self._consumer.position(partition)).offset < end:
                return False
        return True


def _check_leaders(partitions: Sequence[TopicPartition], found: Collection[TopicPartition]) -> None:
    for partition in partitions:
        if partition not in found:
            raise NoLeaderError(partition)
