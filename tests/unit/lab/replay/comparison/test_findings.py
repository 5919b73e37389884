"""Severity of differences, and their explanations."""

from __future__ import annotations

from kafkalite.lab.replay.comparison.compare import Difference
from kafkalite.lab.replay.comparison.findings import (
    Circumstances,
    ExplainedDifference,
    Severity,
    classify,
    when_errors_are,
)
from kafkalite.protocol.error_codes import ErrorCode


def severity(api: str, difference: Difference, *, has_concurrent_writes: bool = False) -> Severity:
    return classify(difference, Circumstances(api, has_concurrent_writes)).severity


def test_differing_error_is_more_severe_than_differing_field() -> None:
    assert severity("Produce", Difference("error_code", 0, 3)) is Severity.ERROR
    assert severity("Metadata", Difference("topics.is_internal", 1, 0)) is Severity.DIFFERENCE


def test_rebalance_error_one_heartbeat_earlier_is_timing() -> None:
    earlier = Difference("error_code", ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS)
    assert severity("Heartbeat", earlier) is Severity.TIMING
    assert severity("LeaveGroup", earlier) is Severity.ERROR
    fenced = Difference("error_code", ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID)
    assert severity("Heartbeat", fenced) is Severity.ERROR


def test_base_offsets_of_concurrent_producers_are_timing() -> None:
    swapped = Difference("responses.partition_responses.base_offset", 0, 1)
    assert severity("Produce", swapped) is Severity.DIFFERENCE
    assert severity("Produce", swapped, has_concurrent_writes=True) is Severity.TIMING


def test_explained_difference_has_its_reason() -> None:
    table = (
        ExplainedDifference("Describe*", "*.value", "known", when_errors_are((1,), (2,))),  # type: ignore[arg-type]
    )
    classification = classify(
        Difference("results.configs.value", 1, 2), Circumstances("DescribeConfigs"), table
    )
    assert (classification.severity, classification.reason) == (Severity.EXPLAINED, "known")
    other = classify(
        Difference("results.configs.value", 1, 3), Circumstances("DescribeConfigs"), table
    )
    assert other.severity is Severity.DIFFERENCE
