"""The results of a sweep as JUnit XML."""

from __future__ import annotations

from xml.etree import ElementTree as ET

from kafkalite.lab.sweep.junit import junit_xml
from kafkalite.lab.sweep.sweep import SweepOptions
from kafkalite.lab.sweep.verdict import Outcome
from tests.unit.lab.sweep.seen import RESULTS, result

OPTIONS = SweepOptions(command=("pytest",))


def test_each_case_is_a_test() -> None:
    xml = junit_xml(RESULTS, OPTIONS).partition("?>")[2]
    (suite,) = ET.fromstring(xml)  # noqa: S314 - our own
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("4", "1", "1")
    assert [each.get("name") for each in suite] == [each.text for each in RESULTS]
    assert [[child.tag for child in case] for case in suite] == [[], [], ["skipped"], ["failure"]]
    failure = suite[3][0]
    assert failure.get("message") == "exit status 1"
    assert failure.text is not None
    assert "kafkalite sweep --case 'Produce#1 orders-0 late' -- pytest" in failure.text


def test_an_output_with_control_characters_is_valid_xml() -> None:
    text = junit_xml(
        [result("Fetch#1 late", Outcome.FAILED, output="\x1b[1m\x00")],
        OPTIONS,
    )
    (suite,) = ET.fromstring(text.partition("?>")[2])  # noqa: S314
    assert "�[1m�" in (suite[0][0].text or "")


def test_a_client_id_with_control_characters_is_valid_xml() -> None:
    text = junit_xml([result("Fetch#1 client='\x1b<b>' late", Outcome.SURVIVED)], OPTIONS)
    (suite,) = ET.fromstring(text.partition("?>")[2])  # noqa: S314
    assert suite[0].get("name") == "Fetch#1 client='�<b>' late"
