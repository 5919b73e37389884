"""GroupOffsets: commits have epochs, and the coordinator is found again after errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.client.connection import UnreachableError
from kafkalite.client.epochs import OffsetAndEpochs
from kafkalite.client.errors import BrokerError, InvalidPartitionEpochError, TimedOutError
from kafkalite.client.group_offsets import GroupOffsets
from kafkalite.client.metadata import Metadata
from kafkalite.client.retries import Backoff, Retries
from kafkalite.protocol._generated.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
)
from kafkalite.protocol._generated.messages.offset_fetch import OffsetFetchResponse
from kafkalite.protocol.error_codes import ErrorCode
from tests.unit.client.scripted_client import AUDIT, ORDERS, ScriptedClient, SkippingClock

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalite.client.epochs import TopicPartition

OFFSET = OffsetAndEpochs(20, 5, 3)


class Stage:
    """The offsets of one group, whose coordinator answers with scripted codes."""

    def __init__(self, *codes: ErrorCode | UnreachableError) -> None:
        self.codes = list(codes)
        self.commits: list[OffsetCommitRequest] = []
        self.client = ScriptedClient(
            answers={
                "FindCoordinatorRequest": lambda _node, _key: 2,
                "OffsetCommitRequest": self._commit,
                "OffsetFetchRequest": self._fetch,
            }
        )
        self.clock = SkippingClock()
        metadata = Metadata(self.client, self.clock)
        self.group = GroupOffsets(self.client, metadata, "shop")

    def retries(self, timeout_ms: int = 10_000) -> Retries:
        return Retries(self.clock, Backoff(100, 1_000), timeout_ms)

    async def commit(self, offsets: Mapping[TopicPartition, OffsetAndEpochs]) -> None:
        await self.group.commit(offsets, self.retries())

    def _next_code(self) -> ErrorCode | UnreachableError:
        return self.codes.pop(0) if self.codes else ErrorCode.NONE

    def _commit(self, _: int, request: OffsetCommitRequest) -> OffsetCommitResponse | Exception:
        self.commits.append(request)
        code = self._next_code()
        if isinstance(code, UnreachableError):
            return code
        return OffsetCommitResponse(
            topics=[
                OffsetCommitResponse.OffsetCommitResponseTopic(
                    name=topic.name,
                    partitions=[
                        OffsetCommitResponse.OffsetCommitResponsePartition(
                            partition_index=row.partition_index, error_code=code
                        )
                        for row in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    def _fetch(self, _: int, __: object) -> OffsetFetchResponse | Exception:
        code = self._next_code()
        if isinstance(code, UnreachableError):
            return code
        row = OffsetFetchResponse.OffsetFetchResponsePartitions
        topic = OffsetFetchResponse.OffsetFetchResponseTopics
        topics = [
            topic(
                name="orders",
                partitions=[
                    row(
                        partition_index=0,
                        committed_offset=20,
                        committed_leader_epoch=5,
                        incarnation_epoch=3,
                    )
                ],
            ),
            topic(name="audit", partitions=[row(partition_index=0, committed_offset=-1)]),
        ]
        group = OffsetFetchResponse.OffsetFetchResponseGroup(
            group_id="shop", topics=topics, error_code=code
        )
        return OffsetFetchResponse(groups=[group])


async def test_a_commit_has_the_epochs_of_the_offset() -> None:
    stage = Stage()
    await stage.commit({ORDERS: OFFSET, AUDIT: OffsetAndEpochs(1)})
    (request,) = stage.commits
    assert (request.group_id, request.generation_id_or_member_epoch) == ("shop", -1)
    orders, audit = (topic.partitions[0] for topic in request.topics)
    assert (orders.committed_offset, orders.committed_leader_epoch) == (20, 5)
    assert orders.incarnation_epoch == 3
    assert (audit.committed_leader_epoch, audit.incarnation_epoch) == (-1, -1)


async def test_committed_offsets_have_epochs_and_missing_ones_are_omitted() -> None:
    stage = Stage()
    assert await stage.group.fetch([ORDERS, AUDIT], stage.retries()) == {ORDERS: OFFSET}


@pytest.mark.parametrize(
    ("error", "lookups"),
    [
        (ErrorCode.NOT_COORDINATOR, 2),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 1),
        (UnreachableError("down"), 2),
    ],
)
async def test_a_retriable_error_is_retried_at_the_present_coordinator(
    error: ErrorCode | UnreachableError, lookups: int
) -> None:
    stage = Stage(error)
    await stage.commit({ORDERS: OFFSET})
    found = [node for node, name in stage.client.asked if name == "FindCoordinatorRequest"]
    assert found == [1, 2][:lookups]  # each lookup asks another broker
    assert stage.clock.waits_ms == [100]
    assert len(stage.commits) == 2
    other = Stage(error)
    assert await other.group.fetch([ORDERS], other.retries()) == {ORDERS: OFFSET}


async def test_a_refused_partition_epoch_is_reported_for_its_partitions() -> None:
    with pytest.raises(InvalidPartitionEpochError) as caught:
        await Stage(ErrorCode.INVALID_PARTITION_EPOCH).commit({ORDERS: OFFSET})
    assert caught.value.partition_epochs == {ORDERS: 3}


async def test_other_errors_are_raised_at_once() -> None:
    with pytest.raises(BrokerError, match="cannot commit orders-0") as caught:
        await Stage(ErrorCode.OFFSET_METADATA_TOO_LARGE).commit({ORDERS: OFFSET})
    assert caught.value.code is ErrorCode.OFFSET_METADATA_TOO_LARGE
    stage = Stage(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    with pytest.raises(BrokerError, match="group 'shop'"):
        await stage.group.fetch([ORDERS], stage.retries())


async def test_a_coordinator_that_is_not_found_in_time_is_an_error() -> None:
    stage = Stage()
    stage.client.answers["FindCoordinatorRequest"] = lambda _node, _key: (
        ErrorCode.COORDINATOR_NOT_AVAILABLE
    )
    with pytest.raises(TimedOutError, match="COORDINATOR_NOT_AVAILABLE"):
        await stage.commit({ORDERS: OFFSET})
    stage.client.answers["FindCoordinatorRequest"] = lambda _node, _key: (
        ErrorCode.GROUP_AUTHORIZATION_FAILED
    )
    with pytest.raises(BrokerError, match="GROUP_AUTHORIZATION_FAILED"):
        await stage.commit({ORDERS: OFFSET})
