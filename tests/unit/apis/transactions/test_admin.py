"""DescribeTransactions and ListTransactions: their results, and every filter."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.apis.duplicates import MAX_DUPLICATES
from kafkalite.protocol._generated.messages.describe_transactions import DescribeTransactionsRequest
from kafkalite.protocol._generated.messages.list_transactions import ListTransactionsRequest
from kafkalite.protocol.error_codes import ErrorCode
from tests.cluster.transactions import ID, TransactionCluster

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FIRST, SECOND = ("orders", 0), ("orders", 2)


@pytest.fixture
def wire(tmp_path: Path) -> Iterator[TransactionCluster]:
    wire = TransactionCluster(tmp_path)
    yield wire
    wire.end()


def listed(wire: TransactionCluster, version: int = 2, **asked: object) -> dict[str, str]:
    """Return the state of every listed id."""
    request = ListTransactionsRequest(**asked)  # type: ignore[arg-type]  # each its own type
    answer = wire.ask(request, version)
    assert answer.error_code == 0
    return {each.transactional_id: each.transaction_state for each in answer.transaction_states}


def test_a_transaction_is_described(wire: TransactionCluster) -> None:
    producer = wire.new_producer()
    begun = wire.describe()
    assert (begun.transaction_state, begun.transaction_start_time_ms) == ("Empty", -1)
    wire.clock.advance(1_000)
    began_ms = wire.clock.now_ms()
    wire.add(producer, SECOND)
    wire.clock.advance(1_000)
    wire.add(producer, FIRST)
    shown = wire.describe()
    assert (shown.error_code, shown.transactional_id, shown.transaction_state) == (0, ID, "Ongoing")
    assert (shown.producer_id, shown.producer_epoch) == producer
    assert (shown.transaction_timeout_ms, shown.transaction_start_time_ms) == (60_000, began_ms)
    assert [(topic.topic, topic.partitions) for topic in shown.topics] == [("orders", [0, 2])]


def test_duplicates_of_an_id_are_limited(wire: TransactionCluster) -> None:
    wire.new_producer()
    request = DescribeTransactionsRequest(transactional_ids=[ID] * (MAX_DUPLICATES + 3))
    codes = [each.error_code for each in wire.ask(request, 0).transaction_states]
    assert codes == [ErrorCode.NONE] * (MAX_DUPLICATES + 1) + [ErrorCode.INVALID_REQUEST] * 2


def test_each_id_has_its_own_result(wire: TransactionCluster) -> None:
    wire.new_producer()
    request = DescribeTransactionsRequest(transactional_ids=["unknown", ID, ""])
    states = wire.ask(request, 0).transaction_states
    assert [(each.transactional_id, each.error_code) for each in states] == [
        ("unknown", ErrorCode.TRANSACTIONAL_ID_NOT_FOUND),
        (ID, ErrorCode.NONE),
        ("", ErrorCode.INVALID_REQUEST),
    ]
    assert [entry.facts["api"] for entry in wire.events("unknown")] == ["DescribeTransactions"]


def test_unknown_states_are_returned_and_match_nothing(wire: TransactionCluster) -> None:
    wire.new_producer()
    request = ListTransactionsRequest(state_filters=["empty", "No", "Empty", "No", "Dead"])
    answer = wire.ask(request, 0)
    assert answer.unknown_state_filters == ["empty", "No"]
    assert [each.transactional_id for each in answer.transaction_states] == [ID]
    answer = wire.ask(ListTransactionsRequest(state_filters=["ongoing"]), 0)
    assert (answer.unknown_state_filters, answer.transaction_states) == (["ongoing"], [])


def test_ids_are_filtered_by_the_duration_of_their_transaction(wire: TransactionCluster) -> None:
    """An id without a transaction passes every duration filter."""
    wire.find("b")
    wire.new_producer(transactional_id="b")
    wire.add(wire.new_producer(), FIRST)
    wire.clock.advance(5_000)
    for version in (1, 2):
        assert listed(wire, version, duration_filter=4_999).keys() == {ID, "b"}
        assert listed(wire, version, duration_filter=5_000).keys() == {"b"}
        assert listed(wire, version, duration_filter=-1).keys() == {ID, "b"}
    wire.find("c")
    wire.new_producer(transactional_id="c")
    assert listed(wire, duration_filter=0).keys() == {ID, "b", "c"}


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        (None, {"pay-1", "pay-2", "ship"}),
        ("", {"pay-1", "pay-2", "ship"}),
        ("pay-.*", {"pay-1", "pay-2"}),
        ("pay", set()),
        ("(?i)SHIP|pay-[13]", {"pay-1", "ship"}),
    ],
)
def test_ids_are_filtered_by_an_expression_that_matches_completely(
    wire: TransactionCluster, pattern: str | None, found: set[str]
) -> None:
    for name in ("pay-1", "pay-2", "ship"):
        wire.new_producer(transactional_id=name)
    assert listed(wire, transactional_id_pattern=pattern).keys() == found


@pytest.mark.parametrize("pattern", ["(", "a{2000}{2000}", "(?=a)"])
def test_an_invalid_expression_is_refused(wire: TransactionCluster, pattern: str) -> None:
    answer = wire.ask(ListTransactionsRequest(transactional_id_pattern=pattern), 2)
    assert answer.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert answer.transaction_states == []


def test_each_node_lists_the_ids_that_it_coordinates(tmp_path: Path) -> None:
    wire = TransactionCluster(tmp_path, nodes=3)
    names = [f"id-{number}" for number in range(12)]
    leaders = dict(zip(names, wire.find(*names), strict=True))
    for name, node in leaders.items():
        wire.new_producer(transactional_id=name, node=node)
    for node in (1, 2, 3):
        answer = wire.ask(ListTransactionsRequest(), 2, node)
        assert {each.transactional_id for each in answer.transaction_states} == {
            name for name, leader in leaders.items() if leader == node
        }
    wire.end()


def test_without_the_topic_the_list_is_empty(tmp_path: Path) -> None:
    wire = TransactionCluster(tmp_path, finds=False)
    assert listed(wire) == {}
    assert wire.describe().error_code == ErrorCode.NOT_COORDINATOR
    wire.end()
