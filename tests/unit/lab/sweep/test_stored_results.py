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

COMMAND = ["pytest", "my tests"]


def test_results_are_read_again(tmp_path: Path) -> None:
    path = str(tmp_path / "results")
    written = ResultFile(path, COMMAND)
    for each in RESULTS:
        written.add(each)
    assert ResultFile(path, COMMAND).results == RESULTS


def test_a_line_that_was_not_written_to_its_end_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "results"
    ResultFile(str(path), COMMAND).add(FAILED)
    whole = path.read_text()
    path.write_text(whole + whole.splitlines()[1][:40])
    resumed = ResultFile(str(path), COMMAND)
    assert resumed.results == [FAILED]
    resumed.add(FAILED)
    assert ResultFile(str(path), COMMAND).results == [FAILED, FAILED]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[]\n", "has no results of a sweep"),
        ("text\n", "has no results of a sweep"),
        ('{"version": 1, "command": ["a"]}\n{"case": "x"}\n', "has no results of a sweep"),
        ('{"version": 2, "command": []}\n', "is of another release of kafkalite"),
        ('{"version": 1, "command": ["a", "b c"]}\n', "is of another command: a 'b c'"),
    ],
)
def test_another_file_is_refused(text: str, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "results"
    path.write_text(text)
    with pytest.raises(ResumeError, match="results ") as refused:
        ResultFile(str(path), COMMAND)
    assert reason in str(refused.value)


def test_the_json_has_the_lines_that_repeat_cases() -> None:
    shape = sweep_as_json(RESULTS, SweepOptions(command=tuple(COMMAND)), 9)
    assert (shape["cases"], shape["findings"], len(shape["results"])) == (9, 1, 4)
    found = json.loads(json.dumps(shape))["results"][3]
    assert found["case"] == "Produce#1 orders-0 late"
    assert found["outcome"] == "failed"
    assert found["timeline"] == [{"at_ms": 5, "kind": "failure", "text": "shop <Produce> v9"}]
    assert found["repeat"].endswith("--case 'Produce#1 orders-0 late' -- pytest 'my tests'")
