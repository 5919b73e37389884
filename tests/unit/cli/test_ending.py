"""How commands end: in one line, with a status."""

from __future__ import annotations

import pytest

from kafkalite.cli.ending import FAILED_STATUS, as_json, as_lines, end


def test_a_command_ends_with_a_line_that_no_terminal_obeys(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit, match=str(FAILED_STATUS)):
        end(FAILED_STATUS, "no \x1b[2J here\nnor there")
    assert capsys.readouterr().err == "kafkalite: no \\x1b[2J here\\nnor there\n"


def test_text_keeps_its_lines_and_nothing_else_that_moves() -> None:
    assert as_lines("one\ntwo\x07\n\nthree") == "one\ntwo\\x07\n\nthree\n"
    assert as_json({"a": [1]}) == '{\n  "a": [\n    1\n  ]\n}\n'
