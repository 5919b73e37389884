"""The results of a sweep as JUnit XML, which CI systems show as tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from xml.etree import ElementTree as ET

from kafkalite.lab.sweep.report import repeating_line
from kafkalite.lab.sweep.verdict import Outcome

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalite.lab.sweep.sweep import CaseResult, SweepOptions

_SKIPPED: Final = frozenset((
    Outcome.NOT_REACHED, Outcome.NOT_TRUE, Outcome.SLOW, Outcome.UNSTEADY,
))  # fmt: skip


def junit_xml(results: Sequence[CaseResult], options: SweepOptions) -> str:
    """Return a test suite with a test for each case; findings are failures."""
    suite = ET.Element(
        "testsuite",
        name="kafkalite sweep",
        tests=str(len(results)),
        failures=str(sum(each.verdict.is_finding for each in results)),
        errors="0",
        skipped=str(sum(each.verdict.outcome in _SKIPPED for each in results)),
        time=f"{sum(each.seconds for each in results):.3f}",
    )
    for each in results:
        case = ET.SubElement(
            suite,
            "testcase",
            classname=f"sweep.{each.schedule[0].api}",
            name=_valid(each.text),
            time=f"{each.seconds:.3f}",
        )
        message = _valid("; ".join(each.verdict.reasons) or each.verdict.outcome.value)
        if each.verdict.is_finding:
            failure = ET.SubElement(case, "failure", message=message)
            failure.text = _valid(f"{each.output}\n{repeating_line(each, options)}\n")
        elif each.verdict.outcome in _SKIPPED:
            ET.SubElement(
                case, "skipped", message=_valid(f"{each.verdict.outcome.value}: {message}")
            )
    suites = ET.Element("testsuites")
    suites.append(suite)
    ET.indent(suites)
    text: str = ET.tostring(suites, encoding="unicode")
    return f'<?xml version="1.0" encoding="utf-8"?>\n{text}\n'


def _valid(text: str) -> str:
    """Return a text without the characters that XML 1.0 does not allow."""
    return "".join(each if each.isprintable() or each in "\t\n" else "�" for each in text)
