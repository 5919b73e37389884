"""`kafkalite sweep`: its output and its exit status."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kafkalite.cli.main import main

if TYPE_CHECKING:
    from collections.abc import Sequence

TINY = Path(__file__).parents[1] / "lab" / "sweep" / "tiny_client.py"
CARELESS = ["--brokers", "1", "--", sys.executable, "-IS", str(TINY), "careless"]


def run(*arguments: str) -> int:
    try:
        main(["sweep", *arguments])
    except SystemExit as error:
        return int(error.code or 0)
    return 0


def test_a_finding_is_printed_with_the_line_that_repeats_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = {name: tmp_path / f"sweep.{name}" for name in ("json", "junit", "html", "resume")}
    files = [word for name, path in paths.items() for word in (f"--{name}", str(path))]
    arguments = [*files, "--case", "ApiVersions#1 request-lost", *CARELESS]
    assert run(*arguments) == 1
    output = capsys.readouterr()
    lines = output.out.splitlines()
    assert lines[0] == "failed: ApiVersions#1 request-lost"
    assert lines[-4].startswith(
        "  repeat: kafkalite sweep --case 'ApiVersions#1 request-lost' --brokers 1 -- "
    )
    assert lines[-1] == "1 case: 1 failed"
    assert "kafkalite: run 3 of 3 without failures" in output.err
    assert "kafkalite: failed: ApiVersions#1 request-lost" in output.err
    (found,) = json.loads(paths["json"].read_text())["results"]
    assert "failure" in {each["kind"] for each in found["timeline"]}
    assert "<failure" in paths["junit"].read_text()
    assert "ApiVersions#1 request-lost" in paths["html"].read_text()

    assert run(*arguments) == 1
    output = capsys.readouterr()
    assert output.out.splitlines() == lines
    assert "failed:" not in output.err, "the result is in the file"


def test_cases_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--list", "--skip", "stalled", *CARELESS) == 0
    assert capsys.readouterr().out.splitlines() == [
        "ApiVersions#1 request-lost",
        "ApiVersions#1 killed-before",
        "ApiVersions#2 killed-before",
        "ApiVersions#2 request-lost",
    ]


def test_random_schedules_are_shrunk(capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--random", "1", "--skip", "stalled", "--skip", "killed-before"]
    assert run(*options, *CARELESS) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] in {f"failed: ApiVersions#{number} request-lost" for number in (1, 2)}


def test_what_was_found_is_reported_although_the_sweep_cannot_go_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    service, runs, report = (tmp_path / name for name in ("service", "runs", "sweep.json"))
    tiny = shlex.join([sys.executable, "-IS", str(TINY), "careless"])
    service.write_text(
        f'#!/bin/sh\necho >> {runs}\n[ "$(wc -l < {runs})" -lt 5 ] || rm "$0"\nexec {tiny}\n'
    )
    service.chmod(0o755)
    options = ["--only", "*-lost", "--html", "/dev/full", "--json", str(report)]
    assert run(*options, "--brokers", "1", "--", str(service)) == 2
    output = capsys.readouterr()
    assert output.out.splitlines()[-1] == "2 cases: 1 failed, 1 not run"
    assert json.loads(report.read_text())["findings"] == 1
    assert "kafkalite: /dev/full: no space left on device" in output.err
    assert "Traceback" not in output.err


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ([], "sweep needs a command: kafkalite sweep -- COMMAND"),
        (["--"], "sweep needs a command: kafkalite sweep -- COMMAND"),
        (["--case", "Produce late", "--", "true"], "must begin with an API and a number"),
        (["--case", "Fetch#1 late", "--only", "Fetch", "--", "true"], "--only selects from all ca"),
        (["--case", "Fetch#1 late", "--keep", "--resume", "a", "--", "true"], "be with --resume"),
        (["--keep", "--", "true"], "--keep needs --case, which says whose broker to keep"),
        (["--json", "/none/a.json", "--", "true"], "/none/a.json: no such file or directory"),
        (["--json", "/", "--", "true"], "/ is a directory: write the name of a file"),
        (["--timeout", "31d", "--", "true"], "--timeout '31d' is longer than 30 days"),
        (["--random", "0", "--", "true"], "--random 0 is not above 0"),
        (["--jobs", "0", "--", "true"], "--jobs 0 is not between 1 and 64"),
        (["--budget", "10", "--", "true"], "'10'"),
        (["--check", "", "--", "true"], "--check is empty: write a command"),
        (["--state", "/none.yaml", "--", "true"], "/none.yaml"),
        (["--clock", "fast", "--", "true"], "fast"),
        (["--", "no-such-program"], "cannot run 'no-such-program': no such file or directory"),
        (["--", sys.executable, "-ISc", "import os; os._exit(4)"], "it ended with exit status 4"),
    ],
)
def test_a_sweep_that_cannot_run_says_why(
    arguments: Sequence[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*arguments) == 2
    error = capsys.readouterr().err
    assert text in error
    assert "Traceback" not in error
