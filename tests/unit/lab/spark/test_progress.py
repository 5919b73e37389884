"""Progress: lines on a file, a bar on a terminal."""

from __future__ import annotations

import io
import threading

from kafkalite.lab.spark.progress import Amount, ConsoleReporter, SilentReporter


class Terminal(io.StringIO):
    """A stream that claims to be a terminal."""

    def isatty(self) -> bool:
        return True


def clock() -> int:
    clock.now += 2_000  # type: ignore[attr-defined]
    return int(clock.now)  # type: ignore[attr-defined]


clock.now = 0  # type: ignore[attr-defined]


def test_step_on_a_file_is_a_line_with_its_speed() -> None:
    stream = io.StringIO()
    console = ConsoleReporter(stream, clock)
    console.step("begin")
    with console.reading("reading", Amount(1_200, 64_000_000), lambda: None):
        pass
    assert stream.getvalue().splitlines() == [
        "begin",
        "reading: 1,200 files, 64.0 MB",
        "reading: done, 1,200 files, 64.0 MB in 2.0 s (32.0 MB/s)",
    ]


def test_small_input_is_counted_in_kilobytes() -> None:
    stream = io.StringIO()
    with ConsoleReporter(stream, clock).reading("reading", Amount(1, 13_400), lambda: None):
        pass
    assert stream.getvalue().splitlines() == [
        "reading: 1 file, 13.4 KB",
        "reading: done, 1 file, 13.4 KB in 2.0 s (6.7 KB/s)",
    ]


def test_terminal_shows_a_progress_bar() -> None:
    stream = Terminal()
    asked = threading.Event()

    def current() -> Amount:
        asked.set()
        return Amount(3, 21_000_000)

    with ConsoleReporter(stream, clock).reading("reading", Amount(4, 64_000_000), current):
        assert asked.wait(20)
    shown = stream.getvalue()
    assert "4 files" in shown
    assert shown.splitlines()[-1].endswith("4 files, 64.0 MB in 2.0 s (32.0 MB/s)")


def test_silent_reporter_runs_the_block_without_output() -> None:
    silent = SilentReporter()
    silent.step("begin")
    with silent.reading("reading", Amount(1, 1), lambda: None):
        worked = True
    assert worked
