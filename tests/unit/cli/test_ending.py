"""How commands end: in one line, with a status."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kafkalite.cli.ending import FAILED_STATUS, as_json, as_lines, end, put


def test_a_command_ends_with_a_line_that_no_terminal_obeys(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit, match=str(FAILED_STATUS)):
        end(FAILED_STATUS, "no \x1b[2J here\nnor there")
    assert capsys.readouterr().err == "kafkalite: no \\x1b[2J here\\nnor there\n"


def test_text_keeps_its_lines_and_nothing_else_that_moves() -> None:
    assert as_lines("one\ntwo\x07\n\nthree") == "one\ntwo\\x07\n\nthree\n"
    assert as_json({"a": [1]}) == '{\n  "a": [\n    1\n  ]\n}\n'


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_an_answer_that_cannot_be_written_is_no_success(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with Path("/dev/full").open("w") as full:
        monkeypatch.setattr("sys.stdout", full)
        with pytest.raises(SystemExit) as ended:
            put("much to tell\n")
    assert ended.value.code == FAILED_STATUS
    assert capsys.readouterr().err == (
        "kafkalite: the answer cannot be written: no space left on device\n"
    )


def test_whoever_does_not_read_on_has_what_he_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as pipe:
        monkeypatch.setattr("sys.stdout", pipe)
        assert not put("much to tell\n")
