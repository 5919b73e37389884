"""Rows of share groups in messages."""

from __future__ import annotations

from kafkalite.lab.checker.history import Range
from kafkalite.lab.checker.share_rows import TypedRange, described_limits, typed_ranges
from kafkalite.protocol._generated.messages.describe_configs import DescribeConfigsResponse
from kafkalite.protocol._generated.messages.share_acknowledge import ShareAcknowledgeRequest

Batch = ShareAcknowledgeRequest.AcknowledgementBatch
Result = DescribeConfigsResponse.DescribeConfigsResult
Row = DescribeConfigsResponse.DescribeConfigsResourceResult


def test_a_single_type_is_that_of_all_records() -> None:
    batch = Batch(first_offset=5, last_offset=9, acknowledge_types=[1])
    assert [*typed_ranges(batch)] == [TypedRange(Range(5, 9), 1)]


def test_types_of_records_become_ranges() -> None:
    batch = Batch(first_offset=5, last_offset=9, acknowledge_types=[1, 1, 2, 3, 3])
    assert [*typed_ranges(batch)] == [
        TypedRange(Range(5, 6), 1),
        TypedRange(Range(7, 7), 2),
        TypedRange(Range(8, 9), 3),
    ]


def test_limits_are_those_of_brokers_and_groups() -> None:
    response = DescribeConfigsResponse(
        results=[
            Result(
                resource_type=4,
                resource_name="1",
                configs=[
                    Row(name="group.share.delivery.count.limit", value="7"),
                    Row(name="group.share.max.share.sessions", value="9"),
                ],
            ),
            Result(
                resource_type=32,
                resource_name="sharers",
                configs=[Row(name="share.delivery.count.limit", value="3")],
            ),
            Result(
                resource_type=32,
                resource_name="damaged",
                configs=[
                    Row(name="share.delivery.count.limit", value="\u00b2"),
                    Row(name="share.delivery.count.limit", value="9" * 5000),
                ],
            ),
        ]
    )
    assert [*described_limits(response)] == [("", 7), ("sharers", 3)]
