"""How grave a difference is, and what explains it."""

from __future__ import annotations

from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.replay.compare import Difference
from kafkalite.replay.findings import Circumstances, Explained, Severity, errors, judge


def severity(api: str, difference: Difference, *, is_raced: bool = False) -> Severity:
    return judge(difference, Circumstances(api, is_raced)).severity


def test_an_error_that_differs_is_graver_than_a_field() -> None:
    assert severity("Produce", Difference("error_code", 0, 3)) is Severity.ERROR
    assert severity("Metadata", Difference("topics.is_internal", 1, 0)) is Severity.DIFFERENCE


def test_a_rebalance_may_be_learnt_of_a_beat_sooner_or_later() -> None:
    sooner = Difference("error_code", ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS)
    assert severity("Heartbeat", sooner) is Severity.TIMING
    assert severity("LeaveGroup", sooner) is Severity.ERROR
    fenced = Difference("error_code", ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID)
    assert severity("Heartbeat", fenced) is Severity.ERROR


def test_offsets_of_producers_that_raced_may_be_either() -> None:
    swapped = Difference("responses.partition_responses.base_offset", 0, 1)
    assert severity("Produce", swapped) is Severity.DIFFERENCE
    assert severity("Produce", swapped, is_raced=True) is Severity.TIMING


def test_what_is_explained_has_its_reason() -> None:
    table = (
        Explained("Describe*", "*.value", "known", errors((1,), (2,))),  # type: ignore[arg-type]
    )
    verdict = judge(
        Difference("results.configs.value", 1, 2), Circumstances("DescribeConfigs"), table
    )
    assert (verdict.severity, verdict.reason) == (Severity.EXPLAINED, "known")
    other = judge(
        Difference("results.configs.value", 1, 3), Circumstances("DescribeConfigs"), table
    )
    assert other.severity is Severity.DIFFERENCE
