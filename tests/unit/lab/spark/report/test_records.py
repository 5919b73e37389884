"""The section on what became of records."""

from __future__ import annotations

from typing import Any

from kafkalite.lab.spark.report.model import BAD, GOOD, WARN
from kafkalite.lab.spark.report.records import records

PROOF = {
    "file": "a b.pcapng",
    "offset": 81244,
    "connection": "10.0.0.7:51022 > 10.0.0.2:9092",
    "request": 31,
    "correlation_id": 33,
}


def finding(severity: str) -> dict[str, Any]:
    return {
        "severity": severity, "rule": "lost", "cause": "skipped by a commit",
        "text": "group shop never got offsets 410 to 454", "topic": "orders", "partition": 0,
        "first_offset": 410, "last_offset": 454, "records": 45, "group_id": "shop",
        "transactional_id": None, "client_id": "billing", "host": "10.0.0.9", "proofs": [PROOF],
    }  # fmt: skip


def test_a_violation_is_an_answer_with_the_culprit_and_the_proofs() -> None:
    section = records(
        {
            "findings_by_severity": [{"severity": "violation", "findings": 1}],
            "record_findings": [finding("violation")],
            "undecidable": [{"reason": "writes without an answer", "count": 2}],
        }
    )
    (answer,) = section.answers
    assert (section.tone, answer.tone) == (BAD, BAD)
    assert answer.heading == "Group shop never got offsets 410 to 454."
    assert "client billing at 10.0.0.9" in answer.facts
    (proof,) = answer.proofs
    assert proof.commands == (
        "kafkalite show 'a b.pcapng' --offset 81244",
        (
            "tshark -r 'a b.pcapng' -d tcp.port==9092,kafka -Y "
            "'(tcp.port==51022 && tcp.port==9092 && kafka.correlation_id==33)'"
        ),
    )
    assert proof.place == (
        "a b.pcapng, packet at 81,244, 10.0.0.7:51022 > 10.0.0.2:9092, request 31"
    )
    assert section.headline == "1 violation. The severest: group shop never got offsets 410 to 454."
    assert section.detail == "2 facts could not be decided; the last table has the reasons."


def test_notes_are_no_answers() -> None:
    section = records(
        {
            "findings_by_severity": [{"severity": "note", "findings": 1}],
            "record_findings": [finding("note")],
        }
    )
    assert (section.tone, section.answers) == (GOOD, ())
    assert section.headline == "No violation: 1 note."


def test_only_the_first_answers_are_shown() -> None:
    section = records(
        {
            "findings_by_severity": [{"severity": "warning", "findings": 30}],
            "record_findings": [finding("warning")] * 30,
        }
    )
    assert section.tone == WARN
    assert len(section.answers) == 25
    assert section.detail == "The first 25 of 30 violations and warnings:"


def test_no_finding_is_good() -> None:
    section = records({"findings_by_severity": ()})
    assert section.tone == GOOD
    assert section.headline.startswith("No record was lost")
