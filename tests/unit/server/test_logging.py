"""Log: lines with fields, levels, and no cost below the level."""

from __future__ import annotations

import errno
import io
import json
import subprocess
import sys

import pytest

from kafkalite.server.logging import Level, Log


def lines(log_output: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in log_output.getvalue().splitlines()]


def test_a_json_line_has_its_fields() -> None:
    log_output = io.StringIO()
    Log(Level.INFO, "json", log_output).warning("connection closed", peer="h:1", reason="why")
    (line,) = lines(log_output)
    assert line.pop("timestamp")
    assert line == {
        "event": "connection closed",
        "level": "warning",
        "peer": "h:1",
        "reason": "why",
    }


@pytest.mark.parametrize("style", ["json", "console"])
def test_a_traceback_has_no_local_variables(style: str) -> None:
    log_output = io.StringIO()

    def authenticate(password: str) -> None:
        raise LookupError(f"{len(password)} characters")

    try:
        authenticate("correct-horse")
    except LookupError as error:
        Log(Level.ERROR, style, log_output).error("a fault", exception=error)
    text = log_output.getvalue()
    assert "13 characters" in text
    assert "authenticate" in text
    assert "password=" not in text
    assert '"correct-horse"' not in text.replace('authenticate("correct-horse")', "")
    assert "locals" not in text


def test_a_console_line_is_readable() -> None:
    log_output = io.StringIO()
    Log(Level.INFO, "console", log_output).info("started", port=9092)
    (line,) = log_output.getvalue().splitlines()
    assert "started" in line
    assert "port=9092" in line


@pytest.mark.parametrize("level", list(Level))
def test_lines_below_the_level_are_not_written(level: Level) -> None:
    log_output = io.StringIO()
    log = Log(level, "json", log_output)
    log.debug("d")
    log.info("i")
    log.warning("w")
    log.error("e")
    events = [line["event"] for line in lines(log_output)]
    assert (
        events
        == {
            Level.DEBUG: ["d", "i", "w", "e"],
            Level.INFO: ["i", "w", "e"],
            Level.WARNING: ["w", "e"],
            Level.ERROR: ["e"],
        }[level]
    )


def test_a_changed_level_takes_effect_immediately() -> None:
    log_output = io.StringIO()
    log = Log(Level.WARNING, "json", log_output)
    log.warning("first")
    log.level = Level.DEBUG
    log.debug("second")
    log.level = Level.ERROR
    log.warning("third")
    assert [line["event"] for line in lines(log_output)] == ["first", "second"]


@pytest.mark.parametrize(
    ("name", "level"),
    [
        ("TRACE", Level.DEBUG),
        ("DEBUG", Level.DEBUG),
        ("INFO", Level.INFO),
        ("WARN", Level.WARNING),
        ("ERROR", Level.ERROR),
        ("FATAL", Level.ERROR),
    ],
)
def test_kafkas_levels_map_to_the_nearest(name: str, level: Level) -> None:
    assert Level.of_kafka(name) is level
    assert Level.of_kafka(level.kafka_name) is level


@pytest.mark.parametrize("style", ["json", "console"])
def test_an_error_has_the_whole_traceback(style: str) -> None:
    log_output = io.StringIO()
    try:
        _ = 1 // 0
    except ZeroDivisionError as fault:
        Log(Level.ERROR, style, log_output).error("a fault", exception=fault)
    assert "ZeroDivisionError" in log_output.getvalue()
    assert __file__.rpartition("/")[2] in log_output.getvalue()


@pytest.mark.parametrize("name", ["structlog", "structlog.processors", "structlog.dev"])
def test_a_line_is_written_even_if_structlog_cannot_be_imported(name: str) -> None:
    """For example if connections have used all descriptors before the first line."""
    program = (
        "import sys; from kafkalite.server.logging import Log\n"
        f"sys.modules[{name!r}] = None; Log().warning('closed', peer='h:1')"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert "closed" in done.stderr
    assert "h:1" in done.stderr


class FullDisk(io.StringIO):
    def write(self, _: str) -> int:
        raise OSError(errno.ENOSPC, "no space")


def test_an_unwritable_line_does_not_raise() -> None:
    closed = io.StringIO()
    closed.close()
    for stream in (FullDisk(), closed):
        Log(Level.INFO, "json", stream).warning("closed", peer="h:1")


def test_structlog_is_imported_with_the_first_line() -> None:
    program = (
        "import sys; from kafkalite.server.logging import Log, Level\n"
        "log = Log(Level.ERROR); log.info('unheard')\n"
        "print('structlog' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "False"
