"""The results of a sweep as JUnit XML."""

from __future__ import annotations

from xml.etree import ElementTree as ET

from kafkalite.lab.sweep.junit import junit_xml
from kafkalite.lab.sweep.verdict import Outcome
from tests.unit.lab.sweep.seen import RESULTS, result


def test_each_case_is_a_test() -> None:
    (suite,) = ET.fromstring(junit_xml(RESULTS, ["pytest"]).partition("?>")[2])  # noqa: S314
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("4", "1", "1")
    assert [each.get("name") for each in suite] == [str(each.case) for each in RESULTS]
    assert [[child.tag for child in case] for case in suite] == [[], [], ["skipped"], ["failure"]]
    failure = suite[3][0]
    assert failure.get("message") == "exit status 1"
    assert failure.text is not None
    assert "kafkalite sweep --case 'Produce#1 orders-0 late' -- pytest" in failure.text


def test_an_output_with_control_characters_is_valid_xml() -> None:
    text = junit_xml([result("Fetch#1 late", Outcome.FAILED, output="\x1b[1m\x00")], ["pytest"])
    (suite,) = ET.fromstring(text.partition("?>")[2])  # noqa: S314
    assert "�[1m�" in (suite[0][0].text or "")
