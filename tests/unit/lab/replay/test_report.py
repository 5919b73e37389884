"""Counts of a replay report, and its JSON and text forms."""

from __future__ import annotations

import json

from kafkalite.capture.model import Problem, ProblemKind
from kafkalite.lab.replay import report as module
from kafkalite.lab.replay.comparison.compare import Difference
from kafkalite.lab.replay.comparison.findings import Severity
from kafkalite.lab.replay.report import (
    ExchangeSummary,
    FailOn,
    ReplayReport,
    iso_time,
    value_text,
)
from kafkalite.lab.replay.report_text import replay_text
from kafkalite.protocol._generated.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatResponse,
)

EXCHANGE = ExchangeSummary(1_700_000_000_123_456_789, "a > b", "app", "Produce", 9)


def example_report() -> ReplayReport:
    report = ReplayReport(connections=1, requests=4, responses=3, equal=1, seconds=2.0)
    for _ in range(2):
        report.add_finding(Severity.DIFFERENCE, EXCHANGE, Difference("responses", "(absent)", "t"))
    report.add_finding(Severity.ERROR, EXCHANGE, Difference("error_code", 0, 3))
    report.add_finding(Severity.ERROR, EXCHANGE, Difference("error_code", 0, 6))
    report.add_finding(Severity.TIMING, EXCHANGE, Difference("x", 1, 2), "either may come first")
    report.skipped["SaslHandshake", "secrets"] = 1
    report.notes.append("a note")
    return report


def test_equal_findings_are_counted_and_errors_are_separate() -> None:
    findings = example_report().findings
    assert [(row.path, row.times) for row in findings] == [
        ("error_code", 1),
        ("error_code", 1),
        ("responses", 2),
        ("x", 1),
    ]
    assert {row.target for row in findings[:2]} == {
        "UNKNOWN_TOPIC_OR_PARTITION",
        "NOT_LEADER_OR_FOLLOWER",
    }


def test_expected_value_at_the_target_is_shown() -> None:
    report = ReplayReport()
    report.add_finding(Severity.DIFFERENCE, EXCHANGE, Difference("offset", 0, 0, expected=5))
    assert "recorded 0 (expected 5 at the target)\n" in replay_text(report)


def test_report_fails_at_the_given_severity_or_above() -> None:
    report = example_report()
    assert report.failed(FailOn.ERROR)
    assert report.failed(FailOn.TIMING)
    assert not report.failed(FailOn.UNANSWERED)
    assert not report.failed(FailOn.NONE)
    assert report.counts()[Severity.DIFFERENCE] == 2
    assert len(report.at_least(Severity.ERROR)) == 2


def test_json_report_has_all_fields() -> None:
    report = example_report()
    report.add_problem(
        Problem(kind=ProblemKind.GAP, file="f", offset=7, connection=None, detail="12 bytes")
    )
    report_json = json.loads(json.dumps(report.to_json()))
    assert [each["severity"] for each in report_json["findings"]] == [
        "error", "error", "difference", "timing",
    ]  # fmt: skip
    assert report_json["findings"][0]["at"] == "2023-11-14T22:13:20.123456789Z"
    assert report_json["skipped"] == [{"api": "SaslHandshake", "reason": "secrets", "times": 1}]
    assert report_json["problems"][0]["kind"] == "gap"


def test_text_report_begins_with_the_most_severe_findings() -> None:
    text = replay_text(example_report())
    assert text.index("errors differ: 2 times") < text.index("fields differ: 2 times, 1 kind")
    assert "recorded NONE" in text
    assert "client app" in text
    assert "SaslHandshake: once: secrets" in text


def test_number_of_kinds_of_findings_is_bounded() -> None:
    report = ReplayReport()
    for number in range(module.MAX_FINDINGS + 5):
        report.add_finding(Severity.DIFFERENCE, EXCHANGE, Difference(f"x{number}", 1, 2))
    assert len(report.findings) == module.MAX_FINDINGS + 1
    assert report.counts()[Severity.DIFFERENCE] == module.MAX_FINDINGS + 5


def test_struct_is_shown_without_class_names() -> None:
    partitions = ConsumerGroupHeartbeatResponse.TopicPartitions(topic_id=bytes(16), partitions=[0])
    assignment = ConsumerGroupHeartbeatResponse.Assignment(topic_partitions=[partitions])
    expected = "(topic_partitions=[(topic_id=AAAAAAAAAAAAAAAAAAAAAA partitions=[0])])"
    assert value_text("assignment", assignment) == expected


def test_long_value_is_shortened_and_time_out_of_range_is_in_seconds() -> None:
    assert value_text("x", b"\x00" * 500).endswith("… (1000)")
    assert iso_time(2**70).endswith("411303424")
