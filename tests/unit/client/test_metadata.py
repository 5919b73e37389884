"""Metadata: the cache is never replaced by outdated metadata, and other brokers are asked."""

from __future__ import annotations

import asyncio

import pytest

from kafkalite.client.cluster_metadata import (
    NO_METADATA,
    ClusterMetadata,
    PartitionMetadata,
    RequiredMetadata,
)
from kafkalite.client.epochs import Epochs
from kafkalite.client.metadata import Metadata, MetadataAttempt, MetadataRefresh
from kafkalite.client.retries import Backoff
from tests.unit.client.scripted_client import (
    AUDIT,
    NODES,
    ORDERS,
    ScriptedClient,
    SkippingClock,
    metadata_response,
)

OLD = metadata_response(leader=1, leader_epoch=4, partition_epoch=3, max_partition_epoch=7)
NEW = metadata_response(leader=2, leader_epoch=5, partition_epoch=3, max_partition_epoch=7)


class Stage:
    """A cache, its brokers and its clock."""

    def __init__(self, *bootstrap: int) -> None:
        self.client = ScriptedClient(bootstrap=bootstrap or (1, 2, 3))
        self.clock = SkippingClock()
        self.metadata = Metadata(self.client, self.clock, Backoff(100, 1_000), max_age_ms=5_000)
        self.metadata.set_partitions([ORDERS])

    async def refresh(self, required: Epochs | None = None) -> bool:
        deadline_ms = self.clock.now_ms() + 10_000
        return await self.metadata.refresh(
            deadline_ms, {ORDERS: RequiredMetadata(required)} if required else {}
        )

    def asked(self) -> list[int]:
        nodes = [node_id for node_id, _ in self.client.asked]
        self.client.asked.clear()
        return nodes


async def test_an_outdated_response_is_rejected_and_another_broker_is_asked() -> None:
    stage = Stage()
    stage.client.metadata_of = {1: NEW, 2: OLD, 3: NEW}
    assert await stage.refresh()
    assert stage.metadata.leader_address(ORDERS) == NODES[2]
    assert stage.asked() == [1]
    assert await stage.refresh()
    assert stage.asked() == [2, 3]
    assert stage.clock.waits_ms == [100]
    assert stage.metadata.partition(ORDERS) == PartitionMetadata(2, 5, 3, bytes(16))
    assert stage.metadata.outdated_responses == 1


async def test_metadata_must_be_as_new_as_required_epochs() -> None:
    stage = Stage()
    stage.client.metadata_of = {1: OLD, 2: OLD, 3: NEW}
    assert await stage.refresh(required=Epochs(5, 3))
    assert stage.asked() == [1, 2, 3]
    assert stage.clock.waits_ms == [100, 200]


async def test_a_refresh_without_current_metadata_ends_at_the_deadline() -> None:
    stage = Stage()
    stage.client.metadata_of = {1: OLD, 2: OLD}
    assert not await stage.refresh(required=Epochs(5, 3))
    assert stage.metadata.current is NO_METADATA
    assert stage.clock.now_ms() < 10_000
    assert "outdated" in stage.metadata.failure or "down" in stage.metadata.failure


async def test_brokers_are_found_through_the_outdated_metadata_of_the_only_bootstrap_address() -> (
    None
):
    stage = Stage(1)
    stage.client.metadata_of = {1: OLD, 2: NEW}
    assert await stage.refresh(required=Epochs(5, 3))
    assert stage.asked() == [1, 2]


async def test_an_unreachable_broker_is_skipped() -> None:
    stage = Stage()
    stage.client.metadata_of = {3: NEW}
    assert await stage.refresh()
    assert stage.asked() == [1, 2, 3]


async def test_all_brokers_are_asked_for_the_newest_metadata() -> None:
    stage = Stage()
    stage.client.metadata_of = {1: OLD}
    assert await stage.refresh()
    stage.client.metadata_of = {1: OLD, 2: NEW}
    assert await stage.metadata.ask_all(10_000)
    assert stage.metadata.leader_address(ORDERS) == NODES[2]
    stage.client.metadata_of = {1: OLD}
    assert await stage.metadata.ask_all(10_000)
    assert stage.metadata.leader_address(ORDERS) == NODES[2]
    stage.client.metadata_of = {}
    assert not await stage.metadata.ask_all(10_000)


async def test_a_partition_that_is_not_of_interest_does_not_reject_a_response() -> None:
    stage = Stage()
    stage.client.metadata_of = {1: NEW, 2: OLD}
    assert await stage.refresh()
    stage.metadata.set_partitions([ORDERS._replace(partition=1)])
    assert await stage.refresh()
    assert stage.metadata.outdated_responses == 0


async def test_all_partitions_of_an_added_topic_are_of_interest() -> None:
    stage = Stage()
    metadata = Metadata(stage.client, stage.clock)
    metadata.add_topic("orders")
    stage.client.metadata_of = {1: NEW, 2: OLD, 3: NEW}
    assert await metadata.refresh(10_000)
    assert await metadata.refresh(10_000)
    assert metadata.outdated_responses == 1


async def test_new_topics_and_old_metadata_must_be_requested() -> None:
    stage = Stage()
    stage.client.metadata_of = {1: NEW, 2: NEW, 3: NEW}
    assert stage.metadata.must_refresh
    assert await stage.refresh()
    assert not stage.metadata.must_refresh
    stage.clock.advance(5_001)
    assert stage.metadata.must_refresh
    assert await stage.refresh()
    assert not stage.metadata.must_refresh
    stage.metadata.set_partitions([ORDERS, AUDIT])
    assert stage.metadata.must_refresh


async def test_concurrent_refreshes_of_the_same_metadata_send_one_request() -> None:
    stage = Stage()
    stage.client.metadata_of = {1: NEW, 2: NEW}
    seen = stage.metadata.current
    refreshes = [stage.metadata.refresh(10_000, replacing=seen) for _ in range(3)]
    assert await asyncio.gather(*refreshes) == [True] * 3
    assert stage.asked() == [1]


async def test_a_partition_without_a_leader_has_no_address() -> None:
    stage = Stage()
    assert stage.metadata.leader_address(ORDERS) is None
    stage.client.metadata_of = {1: metadata_response(leader=-1)}
    assert await stage.refresh()
    assert stage.metadata.leader_address(ORDERS) is None


async def test_an_unexpected_exception_is_raised() -> None:
    stage = Stage()

    class BrokenClient(ScriptedClient):
        async def metadata(self, *_: object, **__: object) -> object:
            raise ZeroDivisionError

    metadata = Metadata(BrokenClient(), stage.clock)
    with pytest.raises(ZeroDivisionError):
        await metadata.ask_all(10_000)


# --- attempts of a refresh, without I/O ----------------------------------------------------------

FORMER = ClusterMetadata({1: NODES[1]}, {}, 1)
PRESENT = ClusterMetadata(NODES, {}, 2)


def attempts(*nodes: int, deadline_ms: int = 10_000) -> MetadataRefresh:
    return MetadataRefresh(
        [NODES[node_id] for node_id in nodes],
        lambda response: response.is_outdated(PRESENT),
        backoff=Backoff(100, 1_000),
        now_ms=0,
        deadline_ms=deadline_ms,
    )


def test_a_current_response_ends_the_attempts() -> None:
    one = attempts(1, 2)
    assert one.next_attempt() == MetadataAttempt(NODES[1], 0)
    assert one.accept(PRESENT, 5)


def test_after_an_outdated_response_another_broker_is_asked_later() -> None:
    one = attempts(1, 2)
    assert not one.accept(FORMER, 5)
    assert one.failure == "the metadata of the broker at node:9001 is outdated"
    assert one.next_attempt() == MetadataAttempt(NODES[2], 105)
    assert not one.accept(FORMER, 110)
    assert one.next_attempt() == MetadataAttempt(NODES[1], 310)
    assert one.accept(PRESENT, 320)


def test_the_waiting_time_grows_up_to_a_maximum() -> None:
    one = attempts(1, 2, deadline_ms=1_000_000)
    times = []
    now_ms = 0
    for _ in range(7):
        one.fail("down", now_ms)
        attempt = one.next_attempt()
        assert attempt is not None
        times.append(attempt.at_ms - now_ms)
        now_ms = attempt.at_ms
    assert times == [100, 200, 400, 800, 1_000, 1_000, 1_000]


def test_brokers_in_an_outdated_response_are_asked_too() -> None:
    one = attempts(1)
    assert not one.accept(FORMER._replace(brokers=NODES), 0)
    asked = []
    for _ in range(4):
        attempt = one.next_attempt()
        assert attempt is not None
        asked.append(attempt.address)
        one.fail("down", attempt.at_ms)
    assert asked == [NODES[2], NODES[3], NODES[1], NODES[2]]


def test_the_first_attempt_needs_no_time_and_the_next_must_be_before_the_deadline() -> None:
    one = attempts(1, deadline_ms=0)
    assert one.next_attempt() == MetadataAttempt(NODES[1], 0)
    one.fail("node 1 is down", 0)
    assert one.next_attempt() is None
    assert one.failure == "node 1 is down"
    other = attempts(1, deadline_ms=101)
    other.fail("down", 0)
    assert other.next_attempt() == MetadataAttempt(NODES[1], 100)
    other.fail("down", 100)
    assert other.next_attempt() is None


def test_without_brokers_there_is_no_attempt() -> None:
    assert attempts().next_attempt() is None
