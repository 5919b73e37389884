"""PositionCheck: outdated metadata is tolerated for a time, and re-created topics are found."""

from __future__ import annotations

import pytest

from kafkalite.client.cluster_metadata import RequiredMetadata
from kafkalite.client.epochs import Epochs, OffsetAndEpochs
from kafkalite.client.errors import InvalidPartitionEpochError, OutdatedMetadataError
from kafkalite.client.metadata import Metadata
from kafkalite.client.position_check import PositionCheck
from kafkalite.client.retries import Backoff, Retries
from tests.unit.client.scripted_client import AUDIT, ORDERS, ScriptedClient, SkippingClock
from tests.unit.client.scripted_partition import ID, state

OTHER_ID = b"b" * 16
FORMER, PRESENT = state(1, 5, -1, -1), state(1, 0, -1, -1, OTHER_ID)
POSITION = OffsetAndEpochs(20, 5)


class Stage:
    """A check with a timeout of 1,000 ms, and the metadata of three brokers."""

    def __init__(self) -> None:
        self.client = ScriptedClient({1: PRESENT, 2: PRESENT, 3: PRESENT})
        self.clock = SkippingClock()
        self.metadata = Metadata(self.client, self.clock)
        self.metadata.set_partitions([ORDERS])
        self.check = PositionCheck(self.metadata, self.clock, 1_000)

    async def unusable(self, position: OffsetAndEpochs = POSITION) -> bool:
        """Return whether the position is unusable; begins with metadata of node 1."""
        if not self.metadata.current.partitions:
            assert await self.metadata.refresh(10_000)
        self.client.asked.clear()
        required = self.check.required({ORDERS: position, AUDIT: None})
        retries = Retries(self.clock, Backoff(), 100)
        return ORDERS in await self.check.unusable(required, retries)


def test_a_position_is_required_with_the_id_of_its_topic() -> None:
    check = Stage().check
    assert check.required({ORDERS: POSITION, AUDIT: None}) == {
        ORDERS: RequiredMetadata(Epochs(5), bytes(16))
    }
    check.set_topic_id(ORDERS, ID)
    assert check.required({ORDERS: POSITION}) == {ORDERS: RequiredMetadata(Epochs(5), ID)}
    check.forget(ORDERS)
    assert check.required({ORDERS: POSITION}) == {ORDERS: RequiredMetadata(Epochs(5), bytes(16))}


async def test_a_position_that_the_metadata_does_not_contradict_needs_no_request() -> None:
    stage = Stage()
    stage.check.set_topic_id(ORDERS, OTHER_ID)
    assert not await stage.unusable(OffsetAndEpochs(20, 0))
    assert stage.client.asked == []


async def test_a_topic_id_that_no_broker_reports_belongs_to_a_former_topic() -> None:
    stage = Stage()
    stage.check.set_topic_id(ORDERS, ID)
    with pytest.raises(InvalidPartitionEpochError) as caught:
        await stage.unusable()
    assert caught.value.partition_epochs == {ORDERS: -1}
    assert [node_id for node_id, _ in stage.client.asked] == [1, 2, 3]


async def test_a_topic_id_that_a_broker_reports_may_be_the_present_one() -> None:
    stage = Stage()
    stage.check.set_topic_id(ORDERS, ID)
    stage.client.metadata_of[2] = FORMER
    assert await stage.unusable()
    stage.clock.advance(999)
    assert await stage.unusable()
    stage.clock.advance(1)
    with pytest.raises(InvalidPartitionEpochError):
        await stage.unusable()


async def test_the_newest_metadata_can_have_the_topic_of_the_position() -> None:
    stage = Stage()
    stage.check.set_topic_id(ORDERS, ID)
    stage.client.metadata_of |= {2: FORMER, 3: FORMER}
    assert not await stage.unusable()


async def test_without_answers_no_topic_is_reported() -> None:
    stage = Stage()
    stage.check.set_topic_id(ORDERS, ID)
    assert await stage.metadata.refresh(10_000)
    stage.client.metadata_of.clear()
    stage.clock.advance(5_000)
    assert await stage.unusable()


async def test_outdated_metadata_is_reported_after_the_timeout() -> None:
    stage = Stage()
    assert await stage.unusable()
    stage.clock.advance(999)
    assert await stage.unusable()
    assert stage.client.asked == []
    stage.clock.advance(1)
    with pytest.raises(OutdatedMetadataError) as caught:
        await stage.unusable()
    assert caught.value.epochs == {ORDERS: Epochs(5)}


async def test_a_broker_with_newer_metadata_prevents_the_report() -> None:
    stage = Stage()
    assert await stage.unusable()
    stage.clock.advance(1_000)
    stage.client.metadata_of[2] = state(2, 6, -1, -1, OTHER_ID)
    assert not await stage.unusable()


async def test_a_fetch_ends_the_time_and_usable_metadata_does_not() -> None:
    stage = Stage()
    assert await stage.unusable()
    stage.clock.advance(900)
    assert not await stage.unusable(OffsetAndEpochs(20, 0))
    stage.check.set_topic_id(ORDERS, OTHER_ID)
    stage.clock.advance(900)
    assert await stage.unusable()
    assert not await stage.unusable(OffsetAndEpochs(20, 0))
    stage.clock.advance(1_000)
    with pytest.raises(OutdatedMetadataError):
        await stage.unusable()
