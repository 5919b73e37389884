"""Stored results: files from which a sweep is resumed, and JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from kafkalite.lab.sweep.stored_results import ResultFile, ResumeError, sweep_as_json
from kafkalite.lab.sweep.sweep import SweepOptions
from tests.unit.lab.sweep.seen import FAILED, RESULTS

if TYPE_CHECKING:
    from pathlib import Path

OPTIONS = SweepOptions(command=("pytest", "my tests"), check=("true",))
HEADER = '{"version": 1, "command": ["pytest", "my tests"], "options": %s}\n'
NONE = "has no results of a sweep"


def test_results_are_read_again(tmp_path: Path) -> None:
    path = str(tmp_path / "results")
    written = ResultFile(path, OPTIONS)
    for each in RESULTS:
        written.add(each)
    assert ResultFile(path, OPTIONS).results == RESULTS


def test_a_line_that_was_not_written_to_its_end_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "results"
    ResultFile(str(path), OPTIONS).add(FAILED)
    whole = path.read_text()
    path.write_text(whole + whole.splitlines()[1][:40])
    resumed = ResultFile(str(path), OPTIONS)
    assert resumed.results == [FAILED]
    resumed.add(FAILED)
    assert ResultFile(str(path), OPTIONS).results == [FAILED, FAILED]


CHECKED = '{"--state": null, "--brokers": 3, "--clock": "auto", "--check": ["true"]}'
OTHER = '{"--state": "a", "--brokers": 3, "--clock": "auto", "--check": []}'
MOMENT = '"timeline": [{"at_ms": "1", "kind": "request", "text": ""}]'
RESULT = '{"case": "Produce#1 late", "outcome": "failed", "seconds": 1, "reasons": [], "output": '


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[]\n", NONE),
        ("text\n", NONE),
        ("a file of something else\nwithout a newline at its end", NONE),
        ("one line", "has no results of a sweep: it has no line"),
        ("[" * 100_000 + "\n", NONE),
        (HEADER % CHECKED + '{"case": "x"}\n', NONE),
        (HEADER % CHECKED + RESULT + '1, "timeline": []}\n', "a text must be a string"),
        (HEADER % CHECKED + RESULT + '"", ' + MOMENT + "}\n", "a time must be a whole number"),
        (HEADER % OTHER, "is of a sweep with another --state and --check"),
        (HEADER % "[]", NONE),
        ('{"version": 2, "command": []}\n', "is of another release of kafkalite"),
        (
            '{"version": 1, "command": ["a", "b c"], "options": {}}\n',
            "is of another command: a 'b c'",
        ),
        ('{"version": 1, "command": 5, "options": {}}\n', NONE),
    ],
)
def test_another_file_is_refused_and_not_changed(text: str, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "results"
    path.write_text(text)
    with pytest.raises(ResumeError, match="results ") as refused:
        ResultFile(str(path), OPTIONS)
    assert reason in str(refused.value)
    assert path.read_text() == text


def test_a_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ResumeError, match="is not a regular file"):
        ResultFile(str(tmp_path), OPTIONS)


def test_the_json_has_the_lines_that_repeat_cases() -> None:
    shape = sweep_as_json(RESULTS, OPTIONS, 9)
    assert (shape["cases"], shape["findings"], len(shape["results"])) == (9, 1, 4)
    found = json.loads(json.dumps(shape))["results"][3]
    assert found["case"] == "Produce#1 orders-0 late"
    assert found["outcome"] == "failed"
    assert found["timeline"] == [{"at_ms": 5, "kind": "failure", "text": "shop <Produce> v9"}]
    assert found["repeat"].endswith(
        "--case 'Produce#1 orders-0 late' --check true -- pytest 'my tests'"
    )
