"""MetadataRefresh: brokers are asked in turn, with backoff, until a response is not outdated."""

from __future__ import annotations

from kafkalite.client.cluster_metadata import ClusterMetadata
from kafkalite.client.metadata_refresh import MetadataAttempt, MetadataRefresh
from kafkalite.client.retries import Backoff
from tests.unit.client.scripted_client import NODES

OLD = ClusterMetadata({1: NODES[1]}, {}, 1)
NEW = ClusterMetadata(NODES, {}, 2)
BACKOFF = Backoff(100, 1_000)


def refresh(*nodes: int, deadline_ms: int = 10_000) -> MetadataRefresh:
    return MetadataRefresh(
        [NODES[node_id] for node_id in nodes],
        lambda response: response.is_outdated(NEW),
        backoff=BACKOFF,
        now_ms=0,
        deadline_ms=deadline_ms,
    )


def test_a_current_response_ends_the_refresh() -> None:
    one = refresh(1, 2)
    assert one.next_attempt() == MetadataAttempt(NODES[1], 0)
    assert one.accept(NEW, 5)


def test_after_an_outdated_response_another_broker_is_asked_later() -> None:
    one = refresh(1, 2)
    assert not one.accept(OLD, 5)
    assert one.failure == "the metadata of the broker at node:9001 is outdated"
    assert one.next_attempt() == MetadataAttempt(NODES[2], 105)
    assert not one.accept(OLD, 110)
    assert one.next_attempt() == MetadataAttempt(NODES[1], 310)
    assert one.accept(NEW, 320)


def test_the_waiting_time_grows_up_to_a_maximum() -> None:
    one = refresh(1, 2, deadline_ms=1_000_000)
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
    one = refresh(1)
    assert not one.accept(OLD._replace(brokers=NODES), 0)
    asked = []
    for _ in range(4):
        attempt = one.next_attempt()
        assert attempt is not None
        asked.append(attempt.address)
        one.fail("down", attempt.at_ms)
    assert asked == [NODES[2], NODES[3], NODES[1], NODES[2]]


def test_the_first_attempt_needs_no_time_and_the_next_must_be_before_the_deadline() -> None:
    one = refresh(1, deadline_ms=0)
    assert one.next_attempt() == MetadataAttempt(NODES[1], 0)
    one.fail("node 1 is down", 0)
    assert one.next_attempt() is None
    assert one.failure == "node 1 is down"
    other = refresh(1, deadline_ms=101)
    other.fail("down", 0)
    assert other.next_attempt() == MetadataAttempt(NODES[1], 100)
    other.fail("down", 100)
    assert other.next_attempt() is None


def test_without_brokers_there_is_no_attempt() -> None:
    assert refresh().next_attempt() is None
