"""Log lines: data, as loud as asked for, and free when nothing is said."""

from __future__ import annotations

import errno
import io
import json
import subprocess
import sys
from typing import TYPE_CHECKING, cast

import pytest

from kafkalite.apis.context import RequestContext
from kafkalite.server.logging import Level, Log, traced
from tests.unit.frames import header

if TYPE_CHECKING:
    from kafkalite.apis.context import Services


def lines(words: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in words.getvalue().splitlines()]


def test_a_json_line_holds_the_fields_it_was_given() -> None:
    words = io.StringIO()
    Log(Level.INFO, "json", words).warning("connection closed", peer="h:1", reason="why")
    (line,) = lines(words)
    assert line.pop("timestamp")
    assert line == {
        "event": "connection closed",
        "level": "warning",
        "peer": "h:1",
        "reason": "why",
    }


def test_a_console_line_can_be_read_by_people() -> None:
    words = io.StringIO()
    Log(Level.INFO, "console", words).info("started", port=9092)
    (line,) = words.getvalue().splitlines()
    assert "started" in line
    assert "port=9092" in line


@pytest.mark.parametrize("level", list(Level))
def test_a_log_is_as_quiet_as_it_is_told_to_be(level: Level) -> None:
    words = io.StringIO()
    log = Log(level, "json", words)
    log.debug("d")
    log.info("i")
    log.warning("w")
    log.error("e")
    said = [line["event"] for line in lines(words)]
    assert (
        said
        == {
            Level.DEBUG: ["d", "i", "w", "e"],
            Level.INFO: ["i", "w", "e"],
            Level.WARNING: ["w", "e"],
            Level.ERROR: ["e"],
        }[level]
    )


def test_a_level_that_changes_counts_at_once() -> None:
    words = io.StringIO()
    log = Log(Level.WARNING, "json", words)
    log.warning("first")
    log.level = Level.DEBUG
    log.debug("second")
    log.level = Level.ERROR
    log.warning("third")
    assert [line["event"] for line in lines(words)] == ["first", "second"]


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
def test_kafkas_levels_have_their_like(name: str, level: Level) -> None:
    assert Level.of_kafka(name) is level
    assert Level.of_kafka(level.kafka_name) is level


@pytest.mark.parametrize("style", ["json", "console"])
def test_a_fault_is_told_whole(style: str) -> None:
    words = io.StringIO()
    try:
        _ = 1 // 0
    except ZeroDivisionError as fault:
        Log(Level.ERROR, style, words).error("a fault", exception=fault)
    assert "ZeroDivisionError" in words.getvalue()
    assert __file__.rpartition("/")[2] in words.getvalue()


@pytest.mark.parametrize("name", ["structlog", "structlog.processors", "structlog.dev"])
def test_a_line_is_written_though_structlog_cannot_be_imported(name: str) -> None:
    """As when connections have taken every descriptor before the first line."""
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


def test_whoever_cannot_be_heard_goes_on() -> None:
    closed = io.StringIO()
    closed.close()
    for stream in (FullDisk(), closed):
        Log(Level.INFO, "json", stream).warning("closed", peer="h:1")


def test_structlog_is_not_imported_before_the_first_line() -> None:
    program = (
        "import sys; from kafkalite.server.logging import Log, Level\n"
        "log = Log(Level.ERROR); log.info('unheard')\n"
        "print('structlog' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "False"


def test_each_request_is_told_when_asked_for() -> None:
    words = io.StringIO()
    log = Log(Level.DEBUG, "json", words)
    context = RequestContext(
        services=cast("Services", None), node_id=2, listener="A", client_host="/h"
    )
    context.client_id = "me"
    context.api_version = 4
    frame = bytearray(header(12, 4))
    dispatch = traced(log, lambda *_: 17)
    assert dispatch(context, frame, 0, len(frame), []) == 17
    (line,) = lines(words)
    assert line["level"] == "debug"
    assert (line["api"], line["api_key"]) == ("Heartbeat", 12)
    assert (line["version"], line["client_id"]) == (4, "me")
    assert (line["request_bytes"], line["answer_bytes"]) == (len(frame), 17)
