"""The report's section on what became of records: each finding as an answer, with its proofs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kafkalite.lab.spark.report.formatting import commands, listing, name
from kafkalite.lab.spark.report.model import BAD, GOOD, WARN, Answer, Proof, Section
from kafkalite.ports.texts import count_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kafkalite.lab.spark.report.formatting import Row, Rows

_TONES: Final = {"violation": BAD, "warning": WARN, "note": GOOD}
_MAX_ANSWERS: Final = 25
_LISTED_PROOFS: Final = 10
_FIRST_WORDS: Final = frozenset(("a", "group", "no", "share", "the"))
"""Words with which texts of findings begin."""


def records(rows_by_query: Mapping[str, Rows]) -> Section:
    """Return the section about what became of records."""
    counts = {row["severity"]: row["findings"] for row in rows_by_query["findings_by_severity"]}
    found = rows_by_query.get("record_findings", ())
    violations, warnings = counts.get("violation", 0), counts.get("warning", 0)
    answers = [row for row in found if row["severity"] != "note"][:_MAX_ANSWERS]
    return Section(
        name="records",
        title="What became of records",
        source="the rules of kafkalite check",
        tone=BAD if violations else WARN if warnings else GOOD,
        headline=_headline(counts, found),
        detail=" ".join(_details(rows_by_query, violations + warnings, len(answers))),
        answers=tuple(map(_answer, answers)),
        listings=(
            listing(
                "Causes, with their share of the records of a rule",
                rows_by_query.get("record_causes", ()),
                ("severity", "rule", "cause", "client_id", "host", "findings", "records", "share"),
            ),
            listing(
                "All findings, the severest first",
                found,
                ("severity", "rule", "cause", "client_id", "host", "topic", "partition",
                 "first_offset", "last_offset", "records", "group_id", "transactional_id"),
            ),
            listing(
                "What the capture does not decide",
                rows_by_query.get("undecidable", ()),
                ("count", "reason"),
            ),
        ),
    )  # fmt: skip


def _headline(counts: Mapping[str, int], found: Rows) -> str:
    numbers = ", ".join(
        count_text(counts[severity], severity) for severity in _TONES if counts.get(severity)
    )
    if not numbers:
        return "No record was lost, doubled, reordered, torn or read although aborted."
    worst = found[0] if found else None
    if worst is None or worst["severity"] == "note":
        return f"No violation: {numbers}."
    return f"{numbers}. The severest: {_sentence(worst)}"


def _details(rows_by_query: Mapping[str, Rows], findings: int, shown: int) -> Iterator[str]:
    if findings > shown:
        yield f"The first {shown} of {findings:,} violations and warnings:"
    undecided = sum(row["count"] for row in rows_by_query.get("undecidable", ()))
    if undecided:
        facts = count_text(undecided, "fact")
        yield f"{facts} could not be decided; the last table has the reasons."


def _answer(row: Row) -> Answer:
    return Answer(
        tone=_TONES[row["severity"]],
        heading=_capitalized(_sentence(row)),
        facts=tuple(_facts(row)),
        proofs=tuple(map(_proof, row["proofs"][:_LISTED_PROOFS])),
    )


def _sentence(row: Row) -> str:
    return f"{row['text']}."


def _capitalized(sentence: str) -> str:
    """Return a sentence with a capital letter, unless it begins with the name of a client."""
    is_word = sentence.partition(" ")[0] in _FIRST_WORDS
    return sentence[0].upper() + sentence[1:] if is_word else sentence


def _facts(row: Row) -> Iterator[str]:
    yield f"{row['severity']}: {row['rule']}"
    yield f"because of: {row['cause']}"
    if row["client_id"] is not None or row["host"] is not None:
        yield f"client {name(row['client_id'] or None)} at {name(row['host'])}"
    if row["records"]:
        yield count_text(row["records"], "record")


def _proof(proof: Any) -> Proof:  # noqa: ANN401 - a row or a dictionary
    fields = proof if isinstance(proof, dict) else proof.asDict()
    file = str(fields["file"])
    number = "" if fields["request"] is None else f", request {fields['request']:,}"
    return Proof(
        f"{file}, packet at {fields['offset']:,}, {fields['connection']}{number}",
        commands([fields]),
    )
