"""`kafkalite explain --capture`: its output, and the arguments that it refuses."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from kafkalite.cli.main import main
from tests.captures.member_lives import CAPTURE

if TYPE_CHECKING:
    from pathlib import Path

GROUP = "consumer-killed"


def run(*arguments: str) -> int:
    try:
        main(["explain", "--capture", str(CAPTURE), *arguments])
    except SystemExit as error:
        return int(error.code or 0)
    return 0


def test_the_time_line_of_a_group_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--group", GROUP) == 0
    lines = capsys.readouterr().out.splitlines()
    assert " joined: " in lines[0]
    assert run("--group", GROUP, "--limit", "3") == 0
    assert len(capsys.readouterr().out.splitlines()) == 3
    assert run("--group", GROUP, "--json") == 0
    entries = json.loads(capsys.readouterr().out)
    assert len(entries) == len(lines)
    assert {each["group"] for each in entries} == {GROUP}
    assert entries[0]["members"][0]["client_id"] == "consumer-killed-a"


def test_without_a_group_all_groups_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--since", "1s", "--limit", "200") == 0
    out = capsys.readouterr().out
    assert " shared " in out
    assert "left:" in out


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--group", "consumer-kiled"], "similar names are consumer-killed"),
        (["--topic", "orders"], "--capture cannot be combined with --topic"),
        (["--group", GROUP, "--since", "soon"], "'soon' is neither a duration"),
    ],
)
def test_other_arguments_are_refused(
    arguments: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*arguments) == 2
    assert text in capsys.readouterr().err


def test_captures_without_members_have_no_time_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "text.pcap").write_text("some text")
    for path, text in (
        (tmp_path, f"no request of a member of a group in {tmp_path}"),
        (tmp_path, "the captures have problems (see kafkalite show --problems): not a capture: 1"),
        (tmp_path / "text.pcap", "text.pcap is not a capture"),
    ):
        with pytest.raises(SystemExit) as ended:
            main(["explain", "--capture", str(path)])
        assert ended.value.code == 2
        assert text in capsys.readouterr().err
