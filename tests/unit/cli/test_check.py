"""`kafkalite check`: its output and its exit status."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from kafkalite.cli.main import main
from tests.captures.member_lives import CAPTURE
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
    (tmp_path / "text.pcap").write_text("some text")
    assert run(str(tmp_path)) == 2
    assert "problems (see kafkalite show --problems): not a capture: 1\n" in capsys.readouterr().err


def test_a_data_directory_is_compared_with_a_capture(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    captures, data = tmp_path / "captures", tmp_path / "data"
    record(captures, data)
    assert run(str(captures), "--data-dir", str(data)) == 0
    assert "data directories: 5 records in the logs of topics\n" in capsys.readouterr().out
    assert run(str(data)) == 0
    assert capsys.readouterr().out.startswith("data directories: 5 records")
    segment = data / "orders-0" / "00000000000000000000.log"
    segment.write_bytes(segment.read_bytes()[:40])
    assert run(str(captures), "--data-dir", str(data)) == 1
    assert (
        "violation: answered, but not in the books (records missing): the broker "
        "acknowledged offsets 0 to 4 of orders-0 to " in capsys.readouterr().out
    )


def test_directories_that_are_not_of_a_broker_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    captures, data = tmp_path / "captures", tmp_path / "data"
    record(captures, data)
    assert run(str(captures), "--data-dir", str(captures)) == 2
    assert "is not a data directory of a broker" in capsys.readouterr().err
    assert run(str(captures), str(data)) == 2
    assert "name it with --data-dir" in capsys.readouterr().err
    assert run(str(data / "orders-0")) == 2
    assert f"is the directory of a partition: name the data directory, {data}" in (
        capsys.readouterr().err
    )
    assert run("--what-if", str(data)) == 2
    assert "--what-if needs a capture" in capsys.readouterr().err
    assert run(str(data), "--data-dir", str(data)) == 2
    assert "--data-dir needs a capture" in capsys.readouterr().err


def test_other_rules_are_replayed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--what-if", str(CAPTURE)) in {0, 1}
    lines = capsys.readouterr().out.splitlines()
    rows = [line for line in lines if line.startswith("what if: group classic-late with ")]
    assert len(rows) == 4
    assert "0 of 1 rebalances fewer, 7.7 partition-seconds of standstill fewer than 19.7" in rows[0]
    assert sum(line.startswith("assumption: ") for line in lines) > 5
    run("--what-if", "--json", str(CAPTURE))
    result = json.loads(capsys.readouterr().out)
    assert {row["rule"] for row in result["what_if"]} == {
        "cooperative assignment", "KIP-848", "static membership", "relaxed fencing",
    }  # fmt: skip
    assert result["assumptions"]


@pytest.mark.parametrize(
    ("name", "content", "text"),
    [
        ("partition.metadata", b"\xff", "orders-0/partition.metadata: not a text file"),
        ("00000000000000000000.log", None, "orders-0/00000000000000000000.log: not a regular file"),
        ("../log-start-offset-checkpoint", b"a\nb\n", "log-start-offset-checkpoint: 0 rows, but"),
    ],
)
def test_a_data_directory_that_cannot_be_read_is_refused(
    name: str,
    content: bytes | None,
    text: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "meta.properties").touch()
    (tmp_path / "orders-0").mkdir()
    if content is None:
        (tmp_path / "orders-0" / name).mkdir()
    else:
        (tmp_path / "orders-0" / "00000000000000000000.log").touch()
        (tmp_path / "orders-0" / name).write_bytes(content)
    assert run(str(tmp_path)) == 2
    assert text in capsys.readouterr().err
