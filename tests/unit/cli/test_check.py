"""`kafkalite check`: its output and its exit status."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from kafkalite.cli.main import main
from tests.unit.lab.checker.test_captured_history import record

if TYPE_CHECKING:
    from pathlib import Path


def run(*arguments: str) -> int:
    try:
        main(["check", *arguments])
    except SystemExit as error:
        return int(error.code or 0)
    return 0


def test_findings_are_printed_with_their_requests(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record(tmp_path)
    assert run(str(tmp_path)) == 0, "a regression of one member is no violation"
    lines = capsys.readouterr().out.splitlines()
    (warning,) = (line for line in lines if line.startswith("warning: "))
    assert warning == (
        "warning: commit regression (position moved back): the committed offset of group shop for "
        "orders-0 went back from 5 to 3: reader at 127.0.0.1 committed both"
    )
    assert lines[-1].startswith("violations: 0, warnings: 1, ")
    assert run("--json", str(tmp_path)) == 0
    result = json.loads(capsys.readouterr().out)
    assert "commit regression" in {each["rule"] for each in result["findings"]}


def test_captures_of_several_clusters_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("one", "two"):
        record(tmp_path / name)
    assert run(str(tmp_path / "one"), str(tmp_path / "two")) == 2
    assert "the captures are of several clusters (" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "text"), [("missing", "no such file or directory"), ("x.pcap", "is not a capture")]
)
def test_a_file_that_is_no_capture_is_refused(
    name: str, text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "x.pcap").write_bytes(b"not a capture")
    assert run(str(tmp_path / name)) == 2
    assert text in capsys.readouterr().err


def test_captures_without_requests_do_not_pass(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(str(tmp_path)) == 2
    assert capsys.readouterr().err == f"kafkalite: no requests in {tmp_path}\n"
