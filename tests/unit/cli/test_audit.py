"""`kafkalite audit`: its options, and errors in one line."""

from __future__ import annotations

import errno
import subprocess
import sys
from argparse import ArgumentParser
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kafkalite.cli.audit import (
    COUNTS,
    DURATIONS,
    MAX_INTERPRETED_BYTES,
    MAX_LOCAL_BYTES,
    _failure_text,
    _input_size,
    _is_for_local_engine,
    _job,
    _print_outcome,
    _root_cause,
    _run_locally,
    _selection_text,
    add_options,
    system_failure_text,
)
from kafkalite.cli.main import main
from kafkalite.lab.columnar.kernels import Kernel
from kafkalite.lab.spark import pipeline
from kafkalite.lab.spark.pipeline import Outcome

if TYPE_CHECKING:
    from argparse import Namespace

pyspark = pytest.importorskip("pyspark")

OF_PERIODS = {"since_us"}
"""Fields of the audits' options that the periods of --follow determine."""
CAPTURE = Path(__file__).parents[2] / "captures/kafka-4.3.1/java-share.pcapng.gz"


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit) as ended:
        main(["audit", *arguments])
    assert ended.value.code == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert error.startswith("kafkalite: ")
    return error


def test_every_audit_option_has_a_command_line_option() -> None:
    from kafkalite.lab.spark.audits import AuditOptions  # noqa: PLC0415 - not without the extra

    settable = {setting.field for setting in (*DURATIONS, *COUNTS)}
    assert settable == {each.name for each in fields(AuditOptions) if each.name not in OF_PERIODS}


def test_defaults_equal_those_of_audit_options() -> None:
    from kafkalite.lab.spark.audits import AuditOptions  # noqa: PLC0415
    from kafkalite.ports.times import duration_ms  # noqa: PLC0415 - as above

    ours = AuditOptions()
    assert {each.field: duration_ms(each.default) for each in DURATIONS} | {
        each.field: int(each.default) for each in COUNTS
    } == {
        each.name: getattr(ours, each.name)
        for each in fields(AuditOptions)
        if each.name not in OF_PERIODS
    }


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["--audits", "fencng"], "fencing"),
        (["--follow", "--audits", "health"], "--audits cannot be combined with --follow"),
        (["--conf", "spark.sql"], "KEY=VALUE"),
        (["--api", "OffsetComit"], "OffsetComit"),
        (["--from", "yesterday"], "--from"),
        (
            ["--from", "2026-02-01T00:00:00Z", "--until", "2026-01-01T00:00:00Z"],
            "the start of the time range",
        ),
        (["--offset-retention", "a week"], "--offset-retention"),
        (["--rebalance-storm-threshold", "0"], "--rebalance-storm-threshold"),
        (["--task-mib", "0"], "--task-mib"),
        (["--offset-retention", "365001d"], "--offset-retention must be at most 365000d"),
        (["--follow", "--period", "365001d"], "--period must be at most 365000d"),
        (["--rebalance-storm-threshold", "1.5"], "'1.5' is not a whole number"),
        (["--rebalance-storm-threshold", "1000000000"], "of at most 9 digits"),
        (["--audits", "requests,fencing"], "'requests' stands for no audit, so write it alone"),
        (["--audits", ""], "--audits is empty"),
        (["--api", ","], "--api is empty"),
        (["--client", ""], "--client is empty"),
        (["--master", "spark://elsewhere:7077"], "executors of spark://elsewhere:7077 cannot open"),
    ],
)
def test_invalid_arguments_are_rejected_before_spark_starts(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, arguments: list[str], word: str
) -> None:
    assert word in refused(capsys, str(tmp_path), "--out", str(tmp_path / "out"), *arguments)
    assert not (tmp_path / "out").exists()


def test_empty_paths_are_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert "--out is empty" in refused(capsys, str(tmp_path), "--out", "")
    assert "INPUT is empty" in refused(capsys, str(tmp_path), "", "--out", "out")
    assert not [*tmp_path.iterdir()]


def test_period_without_follow_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exited:
        main(["audit", "in", "--out", "out", "--period", "1h"])
    assert exited.value.code == 2
    assert capsys.readouterr().err == "kafkalite: --period needs --follow\n"


@pytest.mark.parametrize(
    ("options", "size", "is_local"),
    [
        ([], MAX_LOCAL_BYTES - 1, True),
        ([], MAX_LOCAL_BYTES, False),
        ([], None, False),
        (["--engine", "local"], MAX_LOCAL_BYTES, True),
        (["--engine", "spark"], 1, False),
        (["--follow"], 1, False),
        (["--master", "local[1]"], 1, False),
        (["--conf", "a=b"], 1, False),
        (["--read-with-spark"], 1, False),
    ],
)
def test_small_local_captures_need_no_spark(
    options: list[str], size: int | None, *, is_local: bool
) -> None:
    arguments = _arguments("in", "--out", "out", *options)
    assert _is_for_local_engine(arguments, _job(arguments), size) is is_local


@pytest.mark.parametrize(
    ("size", "is_interpreted"),
    [(0, True), (MAX_INTERPRETED_BYTES - 1, True), (MAX_INTERPRETED_BYTES, False), (None, False)],
)
def test_nothing_is_compiled_for_the_smallest_captures(
    monkeypatch: pytest.MonkeyPatch, size: int | None, *, is_interpreted: bool
) -> None:
    modes: list[bool] = []
    monkeypatch.setattr(pipeline, "audit", lambda *_: modes.append(Kernel.is_interpreted))
    _run_locally(_job(_arguments("in", "--out", "out")), size)
    assert modes == [is_interpreted]
    assert not Kernel.is_interpreted


def test_stores_need_spark() -> None:
    for names in (("s3a://bucket/in", "--out", "out"), ("in", "--out", "s3a://bucket/out")):
        arguments = _arguments(*names)
        assert not _is_for_local_engine(arguments, _job(arguments), 1)
    arguments = _arguments("file:///in", "--out", "out")
    assert _is_for_local_engine(arguments, _job(arguments), 1)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["in", "--follow"], "--follow needs Spark"),
        (["in", "--master", "local[1]"], "--master needs Spark"),
        (["in", "--conf", "a=b"], "--conf needs Spark"),
        (["in", "--read-with-spark"], "--read-with-spark needs Spark"),
        (["s3a://bucket/in"], "s3a://bucket/in: --engine local reads and writes files"),
    ],
)
def test_local_engine_refuses_what_needs_spark(arguments: list[str], reason: str) -> None:
    parsed = _arguments(*arguments, "--out", "out", "--engine", "local")
    with pytest.raises(ValueError, match=reason):
        _is_for_local_engine(parsed, _job(parsed), 1)


def _arguments(*words: str) -> Namespace:
    parser = ArgumentParser()
    add_options(parser)
    return parser.parse_args(words)


def test_compressed_files_count_as_more_than_their_size(tmp_path: Path) -> None:
    for name in ("a.pcap", "b.pcap.gz"):
        (tmp_path / name).write_bytes(bytes(10))
    arguments = _arguments(str(tmp_path), "--out", str(tmp_path / "out"))
    assert _input_size(_job(arguments), "local[*]", is_following=False) == 90


def test_retained_requests_count_as_input(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.pcap").write_bytes(bytes(10))
    names = (str(tmp_path / "in"), "--out", str(tmp_path / "out"))
    arguments = _arguments(*names, "--keep-removed-inputs")
    assert _input_size(_job(arguments), "local[*]", is_following=False) == 10
    stored = tmp_path / "out/requests/api=Fetch"
    stored.mkdir(parents=True)
    (stored / "1.parquet").write_bytes(bytes(100))
    assert _input_size(_job(arguments), "local[*]", is_following=False) == 810
    arguments = _arguments(*names)
    assert _input_size(_job(arguments), "local[*]", is_following=False) == 10


@pytest.mark.spark
def test_small_capture_is_audited_without_spark_and_java(tmp_path: Path) -> None:
    program = (
        "import sys; sys.modules['pyspark'] = sys.modules['py4j'] = None\n"
        "from kafkalite.cli.main import main\n"
        f"main(['audit', {str(CAPTURE)!r}, '--out', 'out'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "report: " in done.stdout
    assert (tmp_path / "out/report.html").exists()
    assert [*(tmp_path / "out/audits/latency").glob("*.parquet")]


def test_an_outcome_names_the_selection_without_requests_and_files_that_are_no_captures(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    outcome = Outcome(
        files=3, files_read=3, bytes_read=900, requests=0, quarantined=("a.pcap",),
        skipped=("README.md", "notes"), report=None,
    )  # fmt: skip
    arguments = _arguments("in", "--out", str(tmp_path), "--client", "10.0.0.9:*", "--api", "Fetch")
    _print_outcome(outcome, _selection_text(arguments))
    _print_outcome(replace(outcome, requests=1, skipped=()), _selection_text(arguments))
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if not line.startswith("files: ")] == [
        "requests: 0",
        "no request matches --client 10.0.0.9:* --api Fetch",
        "not read completely: a.pcap; see problems",
        "skipped, because they are no captures: README.md and 1 more",
        "requests: 1",
        "not read completely: a.pcap; see problems",
    ]


def test_former_flags_are_accepted_but_not_shown() -> None:
    parser = ArgumentParser()
    add_options(parser)
    former = [
        *("--aftermath", "5s", "--storm", "7", "--jobs", "health"),
        *("--by-spark", "--keep-vanished"),
    ]
    arguments = parser.parse_args(["in", "--out", "out", *former])
    assert (arguments.effect_window_ms, arguments.rebalance_storm_threshold) == ("5s", "7")
    assert arguments.audits == "health"
    assert arguments.read_with_spark
    assert arguments.keep_removed_inputs
    defaults = parser.parse_args(["in", "--out", "out"])
    assert (defaults.effect_window_ms, defaults.audits) == ("1m", None)
    assert not defaults.read_with_spark
    assert not any(flag in parser.format_help() for flag in former if flag.startswith("--"))


@pytest.mark.parametrize("inputs", [["caps"], ["caps/*.pcap"], ["caps/a.pcap"], ["alias"]])
@pytest.mark.parametrize("options", [[], ["--read-with-spark"], ["--follow"]])
def test_output_inside_an_input_is_rejected(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    inputs: list[str],
    options: list[str],
) -> None:
    (tmp_path / "caps").mkdir()
    (tmp_path / "caps/a.pcap").write_bytes(b"")
    (tmp_path / "alias").symlink_to("caps")
    named = [str(tmp_path / each) for each in inputs]
    error = refused(capsys, *named, "--out", str(tmp_path / "caps"), *options)
    assert "choose another --out" in error
    assert [each.name for each in (tmp_path / "caps").iterdir()] == ["a.pcap"]


def test_input_without_files_creates_no_output(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    out = tmp_path / "out"
    assert "no files" in refused(capsys, str(tmp_path / "empty"), "--out", str(out))
    assert not out.exists()


def test_missing_spark_names_the_package_to_install(tmp_path: Path) -> None:
    program = (
        "import sys; sys.modules['pyspark'] = None\n"
        "from kafkalite.cli.main import main\n"
        "main(['audit', '.', '--out', 'out', '--engine', 'spark'])"
    )
    (tmp_path / "capture.pcap").write_bytes(b"")
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert (
        done.stderr == "kafkalite: audits need pyspark: pip install 'kafkalite[spark]', "
        "or pip install '.[spark]' in a clone of kafkalite\n"
    )


TRACEBACK = """Traceback (most recent call last):
  File "worker.py", line 1, in main
    process()
{error}
"""


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "Exception"),
        ("first\n\tat Main.java\nsecond", "first"),
        ("first\nCaused by: second\n\tat Main.java\nCaused by: third\n", "Caused by: third"),
        (
            "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: torn",
            "torn",
        ),
        (
            "Failed to perform latestOffset: " + TRACEBACK.format(error="some.where.Error: gone"),
            "Error: gone",
        ),
        (
            TRACEBACK.format(error="KeyError: 1")
            + "\nDuring handling of the above exception, another exception occurred:\n\n"
            + TRACEBACK.format(error="OSError: [Errno 28] No space left on device"),
            "OSError: [Errno 28] No space left on device",
        ),
    ],
)
def test_spark_error_is_reduced_to_its_root_cause(text: str, reason: str) -> None:
    assert _root_cause(Exception(text)) == reason


def test_connection_refused_by_java_that_was_killed_names_the_cause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from kafkalite.lab.spark import session  # noqa: PLC0415 - not without the extra

    java = subprocess.Popen(["sh", "-c", "kill -9 $$"])
    monkeypatch.setattr(session, "java_process", lambda: java)
    text = _failure_text(ConnectionRefusedError(111, "Connection refused"), "out")
    assert text.startswith("Spark failed: the system killed Java")


@pytest.mark.parametrize(
    ("number", "cause"),
    [
        (errno.ENOSPC, "the disk is full: free space in the output directory"),
        (errno.EFBIG, "a file is larger than this process or the file system allows"),
    ],
)
def test_failed_write_names_the_output_directory(number: int, cause: str) -> None:
    error = OSError(number, "Error writing bytes")
    assert _failure_text(error, "out").startswith(f"out: {cause}")
    of_local_engine = system_failure_text(error, "out")
    assert of_local_engine.startswith(f"out: {cause}")
    assert "--conf" not in of_local_engine
