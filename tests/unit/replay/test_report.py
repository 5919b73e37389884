"""What a report counts, and how machines and people read it."""

from __future__ import annotations

import json

from kafkalite.capture.model import Problem, ProblemKind
from kafkalite.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from kafkalite.replay import report as module
from kafkalite.replay.compare import Difference
from kafkalite.replay.findings import Severity
from kafkalite.replay.report import FailOn, ReplayReport, Where, iso_of, shown
from kafkalite.replay.telling import replay_text

HERE = Where(1_700_000_000_123_456_789, "a > b", "app", "Produce", 9)


def filled() -> ReplayReport:
    report = ReplayReport(connections=1, requests=4, responses=3, equal=1, seconds=2.0)
    for _ in range(2):
        report.add(Severity.DIFFERENCE, HERE, Difference("responses", "(absent)", "t"))
    report.add(Severity.ERROR, HERE, Difference("error_code", 0, 3))
    report.add(Severity.ERROR, HERE, Difference("error_code", 0, 6))
    report.add(Severity.TIMING, HERE, Difference("x", 1, 2), "either may come first")
    report.skipped["SaslHandshake", "secrets"] = 1
    report.notes.append("a note")
    return report


def test_equal_findings_are_counted_and_errors_told_apart() -> None:
    found = filled().findings
    assert [(each.path, each.times) for each in found] == [
        ("error_code", 1),
        ("error_code", 1),
        ("responses", 2),
        ("x", 1),
    ]
    assert {each.target for each in found[:2]} == {
        "UNKNOWN_TOPIC_OR_PARTITION",
        "NOT_LEADER_OR_FOLLOWER",
    }


def test_what_a_recorded_value_is_at_the_target_is_told() -> None:
    report = ReplayReport()
    report.add(Severity.DIFFERENCE, HERE, Difference("offset", 0, 0, meant=5))
    assert "recorded 0, which is 5 at the target\n" in replay_text(report)


def test_a_report_fails_by_the_gravest_that_is_counted() -> None:
    report = filled()
    assert report.failed(FailOn.ERROR)
    assert report.failed(FailOn.TIMING)
    assert not report.failed(FailOn.UNANSWERED)
    assert not report.failed(FailOn.NONE)
    assert report.counts()[Severity.DIFFERENCE] == 2
    assert len(report.at_least(Severity.ERROR)) == 2


def test_machines_get_all_of_it() -> None:
    report = filled()
    report.problem(
        Problem(kind=ProblemKind.GAP, file="f", offset=7, connection=None, detail="12 bytes")
    )
    shape = json.loads(json.dumps(report.to_json()))
    assert [each["severity"] for each in shape["findings"]] == [
        "error", "error", "difference", "timing",
    ]  # fmt: skip
    assert shape["findings"][0]["at"] == "2023-11-14T22:13:20.123456789Z"
    assert shape["skipped"] == [{"api": "SaslHandshake", "why": "secrets", "times": 1}]
    assert shape["problems"][0]["kind"] == "gap"


def test_people_get_the_gravest_first_with_an_example() -> None:
    text = replay_text(filled())
    assert text.index("errors differ: 2 times") < text.index("fields differ: 2 times, of 1 kind")
    assert "recorded NONE" in text
    assert "client app" in text
    assert "SaslHandshake: once: secrets" in text


def test_kinds_of_findings_are_bounded() -> None:
    report = ReplayReport()
    for number in range(module.MOST_FINDINGS + 5):
        report.add(Severity.DIFFERENCE, HERE, Difference(f"x{number}", 1, 2))
    assert len(report.findings) == module.MOST_FINDINGS + 1
    assert report.counts()[Severity.DIFFERENCE] == module.MOST_FINDINGS + 5


def test_structs_are_shown_without_the_names_of_classes() -> None:
    partitions = ConsumerGroupHeartbeatResponse.TopicPartitions(topic_id=bytes(16), partitions=[0])
    assignment = ConsumerGroupHeartbeatResponse.Assignment(topic_partitions=[partitions])
    told = "(topic_partitions=[(topic_id=AAAAAAAAAAAAAAAAAAAAAA partitions=[0])])"
    assert shown("assignment", assignment) == told


def test_long_values_and_times_beyond_the_calendar_are_shown_somehow() -> None:
    assert shown("x", b"\x00" * 500).endswith("… (1000)")
    assert iso_of(2**70).endswith("411303424")
