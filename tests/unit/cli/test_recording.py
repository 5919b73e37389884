"""Options of a recording, and invalid values."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

import pytest

from kafkalite.capture.recording.file_rotation import CaptureError
from kafkalite.cli.broker_options import add_broker_options
from kafkalite.cli.main import main
from kafkalite.cli.recording import recorder_from
from kafkalite.config.options import RECORDING_OPTIONS

if TYPE_CHECKING:
    from pathlib import Path


def parsed(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_broker_options(parser, RECORDING_OPTIONS)
    return parser.parse_args(arguments)


def test_options_of_a_recording_are_optional() -> None:
    asked = parsed()
    assert [getattr(asked, option.dest) or None for option in RECORDING_OPTIONS] == [None] * 4


def test_sizes_have_units() -> None:
    sizes = [parsed("--rotate-bytes", text).rotate_bytes for text in ("65536", "500k", "64M", "1g")]
    assert sizes == [65536, 500 * 1024, 64 * 1024**2, 1024**3]
    assert parsed("--rotate-seconds", "0.5").rotate_seconds == 0.5
    assert parsed("--truncate-records", "0").truncate_records == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ("--rotate-bytes", "1k"),
        ("--rotate-bytes", "64 m"),
        ("--rotate-bytes", "much"),
        ("--rotate-seconds", "0"),
        ("--rotate-seconds", "-1"),
        ("--rotate-seconds", "nan"),
        ("--truncate-records", "-1"),
        ("--truncate-records", "٣"),
    ],
)
def test_invalid_size_is_rejected(
    arguments: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        parsed(*arguments)
    assert repr(arguments[1]) in capsys.readouterr().err


def test_recorder_has_the_given_options(tmp_path: Path) -> None:
    asked = parsed("--truncate-records", "3", "--rotate-bytes", "64k")
    recorder = recorder_from(asked, str(tmp_path / "here"), lambda: 5, pytest.fail)
    recorder.close()
    (file,) = (tmp_path / "here").iterdir()
    assert file.name.startswith("kafkalite-19700101T000000.000000005Z")


def test_missing_or_unwritable_directory_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="empty"):
        recorder_from(parsed(), " ", lambda: 5, pytest.fail)
    (tmp_path / "file").write_text("")
    with pytest.raises(CaptureError, match="cannot write"):
        recorder_from(parsed(), str(tmp_path / "file"), lambda: 5, pytest.fail)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--capture", "{file}"), "--capture: cannot write captures to"),
        (("--capture", ""), "--capture: the directory for captures is empty"),
        (("--keep-secrets",), "--keep-secrets needs --capture"),
        (("--truncate-records", "0"), "--truncate-records needs --capture"),
    ],
)
def test_broker_with_invalid_recording_options_does_not_start(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    complaint: str,
) -> None:
    (tmp_path / "file").write_text("")
    options = [each.format(file=tmp_path / "file") for each in arguments]
    with pytest.raises(SystemExit) as ended:
        main(["serve", "--listen", "127.0.0.1:0", *options])
    assert ended.value.code == 2
    error = capsys.readouterr().err
    assert error.startswith(f"kafkalite: {complaint}")
    assert error.count("\n") == 1
