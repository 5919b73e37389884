"""DiskHealth: each failure is announced once when it begins and once when it ends."""

from __future__ import annotations

import errno

from kafkalite.storage.disk_health import (
    DamagedFileError,
    DiskFailure,
    DiskHealth,
    DiskProblem,
    FileUse,
    MissingFileError,
)

FULL = OSError(errno.ENOSPC, "No space left on device")
DENIED = OSError(errno.EACCES, "Permission denied")


class Recorder:
    """A DiskHealth and the calls to its listener."""

    def __init__(self) -> None:
        self.health = DiskHealth()
        self.health.subscribe(self)
        self.lines: list[tuple[str, str, str]] = []

    def failure_began(self, failure: DiskFailure) -> None:
        self.lines.append(("began", failure.path, failure.reason))

    def failure_ended(self, failure: DiskFailure) -> None:
        self.lines.append(("ended", failure.path, failure.reason))


def test_one_reason_for_many_paths_is_one_failure() -> None:
    recorder = Recorder()
    for _ in range(3):
        for path in ("a", "b"):
            recorder.health.report_failure(path, FULL, FileUse.WRITING)
    assert recorder.lines == [("began", "a", "No space left on device")]
    assert [failure.path for failure in recorder.health.failures] == ["a", "b"]
    recorder.health.report_success("a", FileUse.WRITING)
    recorder.health.report_success("a", FileUse.WRITING)
    assert len(recorder.lines) == 1
    recorder.health.report_success("b", FileUse.WRITING)
    assert recorder.lines[1:] == [("ended", "a", "No space left on device")]
    assert not recorder.health.failures


def test_another_reason_is_another_failure() -> None:
    recorder = Recorder()
    recorder.health.report_failure("a", FULL, FileUse.WRITING)
    recorder.health.report_failure("b", DENIED, FileUse.WRITING)
    recorder.health.report_failure("a", DENIED, FileUse.WRITING)
    assert [line[::2] for line in recorder.lines] == [
        ("began", "No space left on device"),
        ("began", "Permission denied"),
        ("ended", "No space left on device"),
    ]
    assert len(recorder.health.failures) == 2


def test_reading_and_writing_recover_separately() -> None:
    recorder = Recorder()
    recorder.health.report_failure("a", DENIED, FileUse.READING)
    recorder.health.report_failure("a", DENIED, FileUse.WRITING)
    recorder.health.report_success("a", FileUse.WRITING)
    assert recorder.health.failures == [DiskFailure(DiskProblem.REFUSED, "a", "Permission denied")]
    recorder.health.report_success("a", FileUse.READING)
    assert [line[0] for line in recorder.lines] == ["began", "ended"]


def test_every_damaged_file_is_a_separate_failure() -> None:
    recorder = Recorder()
    for path in ("t-0/0.log", "t-1/0.log", "t-0/0.log"):
        recorder.health.report_failure("t", DamagedFileError("bad", path), FileUse.READING)
    assert recorder.lines == [("began", "t-0/0.log", "bad"), ("began", "t-1/0.log", "bad")]
    assert {failure.problem for failure in recorder.health.failures} == {DiskProblem.DAMAGED}


def test_failures_of_a_forgotten_directory_end() -> None:
    recorder = Recorder()
    recorder.health.report_failure("t-1", MissingFileError("t-1/0.log"), FileUse.WRITING)
    recorder.health.report_failure("t-1", DamagedFileError("bad", "t-1/0.log"), FileUse.READING)
    recorder.health.report_failure("t-11", MissingFileError("t-11/0.log"), FileUse.WRITING)
    recorder.health.forget("t-1")
    assert [failure.path for failure in recorder.health.failures] == ["t-11"]
    assert [line[0] for line in recorder.lines] == ["began", "began", "began", "ended", "ended"]


def test_failure_ends_when_its_retry_succeeds() -> None:
    recorder = Recorder()
    outcomes: list[Exception | None] = [FULL, LookupError("gone"), FULL, None]

    def retry() -> None:
        outcome = outcomes.pop(0)
        if outcome is not None:
            raise outcome

    for _ in range(2):
        recorder.health.report_failure("a", FULL, FileUse.READING, retry)
        recorder.health.retry_all()
        assert recorder.health.failures
        recorder.health.retry_all()
        assert not recorder.health.failures
    recorder.health.report_failure("a", FULL, FileUse.WRITING)
    recorder.health.retry_all()
    assert recorder.health.failures


def test_late_subscriber_is_notified_of_current_failures() -> None:
    recorder = Recorder()
    health = DiskHealth()
    health.report_failure("a", FULL, FileUse.WRITING)
    health.report_failure("b", FULL, FileUse.WRITING)
    health.report_failure("c", DENIED, FileUse.WRITING)
    health.report_success("c", FileUse.WRITING)
    health.subscribe(recorder)
    assert recorder.lines == [("began", "a", "No space left on device")]
