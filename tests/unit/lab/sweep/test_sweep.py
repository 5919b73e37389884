"""Sweeps: what is refused before one starts, its runs, and their results."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from kafkalite.lab.sweep.schedules import parse_schedule
from kafkalite.lab.sweep.sweep import Sweep, SweepError, SweepOptions
from kafkalite.lab.sweep.verdict import Outcome

TINY = Path(__file__).with_name("tiny_client.py")


def tiny(kind: str, **more: object) -> SweepOptions:
    command = (sys.executable, "-IS", str(TINY), kind)
    return SweepOptions(command=command, brokers=1, **more)  # type: ignore[arg-type]


def python(code: str, **more: object) -> SweepOptions:
    command = (sys.executable, "-ISc", code)
    return SweepOptions(command=command, brokers=1, **more)  # type: ignore[arg-type]


def test_every_request_fails_once() -> None:
    with Sweep(tiny("careful")) as sweep:
        sweep.run_baseline(lambda _: None)
        cases = [each for each in sweep.cases() if not each.kind.stalls]
        assert [str(each) for each in cases] == [
            "ApiVersions#1 request-lost",
            "ApiVersions#1 killed-before",
            "ApiVersions#2 request-lost",
            "ApiVersions#2 killed-before",
        ]
        results = [*sweep.run_all([(each,) for each in cases[::2]], lambda: False)]
    assert [each.verdict.outcome for each in results] == [Outcome.SURVIVED, Outcome.SURVIVED]


def test_a_program_that_does_not_try_again_is_found() -> None:
    with Sweep(tiny("careless")) as sweep:
        sweep.run_baseline(lambda _: None)
        result = sweep.run(parse_schedule("ApiVersions#2 request-lost"))
        missing = sweep.run(parse_schedule("ApiVersions#3 request-lost"))
        assert [*sweep.run_all([parse_schedule("Fetch#1 stalled")], lambda: True)] == []
    assert result.verdict.is_finding
    assert result.output == "request 1 has no answer"
    assert missing.verdict.outcome is Outcome.NOT_REACHED


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("raise SystemExit('broken')", "fails without a failure: it ended with exit status 1; "),
        ("pass", "the command never reached the cluster: it must connect to the address in"),
    ],
)
def test_a_command_that_cannot_be_swept_is_refused(code: str, text: str) -> None:
    with Sweep(python(code)) as sweep, pytest.raises(SweepError, match=text):
        sweep.run_baseline(lambda _: None)


def test_a_flaky_command_is_refused(tmp_path: Path) -> None:
    path = str(tmp_path / "ran")
    code = f"{TINY.read_text()}\nif os.path.exists({path!r}): sys.exit(5)\nopen({path!r}, 'w')"
    command = (sys.executable, "-ISc", code, "careful")
    with (
        Sweep(SweepOptions(command=command, brokers=1)) as sweep,
        pytest.raises(SweepError, match=r"is flaky: it succeeded 1 times .* exit status 5"),
    ):
        sweep.run_baseline(lambda _: None)


def test_a_check_that_fails_without_a_failure_is_refused() -> None:
    check = (sys.executable, "-ISc", "raise SystemExit('3 bills')")
    options = tiny("careful", check=check)
    with (
        Sweep(options) as sweep,
        pytest.raises(SweepError, match=r"the check fails without a failure; .*\n3 bills"),
    ):
        sweep.run_baseline(lambda _: None)


def test_runs_at_the_same_time_find_the_same() -> None:
    def outcomes(jobs: int) -> dict[str, Outcome]:
        with Sweep(tiny("careless", jobs=jobs)) as sweep:
            sweep.run_baseline(lambda _: None)
            schedules = [(each,) for each in sweep.cases() if not each.kind.stalls]
            results = [*sweep.run_all(schedules, lambda: False)]
        assert len(results) == len(schedules)
        return {each.text: each.verdict.outcome for each in results}

    found = outcomes(4)
    assert found == outcomes(1)
    assert Outcome.FAILED in found.values()
