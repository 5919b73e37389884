"""Log: lines with fields, levels, and no cost below the level."""

from __future__ import annotations

import errno
import io
import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from kafkalite.gateway.call import ConnectionContext
from kafkalite.partitions.table import Truncation
from kafkalite.ports.waiting import Waiting
from kafkalite.server.logging import (
    DiskFailureLog,
    Level,
    Log,
    log_requests,
    log_truncation,
)
from kafkalite.storage.disk_health import DiskFailure, DiskProblem
from kafkalite.wire.frames import ReceiveBuffers
from kafkalite.wire.session import Deferred, PendingAnswer, SessionSettings
from tests.unit.frames import header
from tests.unit.nodes import node_of

if TYPE_CHECKING:
    from kafkalite.wire.session import Pieces, Serve, ServeResult


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


def tracing_context() -> ConnectionContext:
    context = ConnectionContext(node=node_of(2), listener="A", client_host="/h")
    context.client_id = "me\x1b"
    return context


def logged(log: Log, serve: Serve) -> Serve:
    """Return `serve` with log lines."""
    settings = SessionSettings(
        buffers=ReceiveBuffers(),
        serve=serve,
        serve_in_worker=serve,
        wake=lambda _: None,
        max_request_bytes=1000,
        max_buffered_bytes=1000,
    )
    return log_requests(log, settings).serve


ANSWER = bytes.fromhex("0000000c 00000001 00 00000000 0010 00")
"""A Heartbeat response v4: NOT_COORDINATOR."""


def test_each_request_is_logged_at_level_debug() -> None:
    log_output = io.StringIO()
    log = Log(Level.DEBUG, "json", log_output)
    frame = bytearray(header(12, 4))

    def serve(_: object, __: object, ___: int, ____: int, out: Pieces) -> int:
        out.append(ANSWER)
        return len(ANSWER)

    dispatch = logged(log, serve)
    assert dispatch(tracing_context(), frame, 0, len(frame), []) == len(ANSWER)
    (line,) = lines(log_output)
    assert (line["level"], line["event"]) == ("debug", "request")
    assert (line["api"], line["api_key"]) == ("Heartbeat", 12)
    assert (line["version"], line["client_id"]) == (4, "me\\x1b")
    assert (line["request_bytes"], line["answer_bytes"]) == (len(frame), len(ANSWER))
    assert line["error"] == "NOT_COORDINATOR"


def test_raising_the_level_stops_request_lines() -> None:
    log_output = io.StringIO()
    log = Log(Level.DEBUG, "json", log_output)
    frame = bytearray(header(12, 4))
    dispatch = logged(log, lambda *_: 17)
    log.level = Level.INFO
    assert dispatch(tracing_context(), frame, 0, len(frame), []) == 17
    log.level = Level.DEBUG
    assert lines(log_output) == []
    dispatch(tracing_context(), frame, 0, len(frame), [])
    assert [line["error"] for line in lines(log_output)] == ["unreadable"]


def test_a_request_with_a_later_answer_has_a_second_line() -> None:
    log_output = io.StringIO()
    log = Log(Level.DEBUG, "json", log_output)
    frame = bytearray(header(12, 4))

    def finish(value: object, out: Pieces) -> int:
        assert value == "done"
        out.append(ANSWER)
        return len(ANSWER)

    pending = PendingAnswer(Waiting[str](), finish)
    dispatch = logged(log, lambda *_: pending)
    out: Pieces = []
    assert dispatch(tracing_context(), frame, 0, len(frame), out) is pending
    assert pending.encode("done", out) == len(ANSWER)
    assert out == [ANSWER]
    asked, answered = lines(log_output)
    assert (asked["event"], asked["answer_bytes"], asked["error"]) == ("request", "later", None)
    assert (answered["event"], answered["answer_bytes"]) == ("answer", len(ANSWER))
    assert (answered["api"], answered["error"]) == ("Heartbeat", "NOT_COORDINATOR")
    assert asked["correlation_id"] == answered["correlation_id"] == 1


ANSWER_WITHOUT_ERROR = ANSWER.replace(b"\0\x10", b"\0\0")


@pytest.mark.parametrize(
    ("own_answer", "error"),
    [(ANSWER_WITHOUT_ERROR, "NONE"), (b"", None)],
    ids=["with an answer", "without an answer"],
)
def test_a_line_has_no_errors_of_earlier_answers_that_were_sent_with_it(
    own_answer: bytes, error: str | None
) -> None:
    log_output = io.StringIO()
    frame = bytearray(header(12, 4))

    def encode(answer: bytes, out: Pieces) -> int:
        out.append(answer)
        return len(answer)

    deferred = [Deferred(ANSWER, None, encode) for _ in range(2)]
    results = iter(deferred)

    def serve(_: object, __: object, ___: int, ____: int, out: Pieces) -> ServeResult:
        result = next(results, None)
        if result is not None:
            return result
        size = sum(each.encode(each.value, out) for each in deferred)
        return size + encode(own_answer, out)

    dispatch = logged(Log(Level.DEBUG, "json", log_output), serve)
    out: Pieces = []
    for _ in range(3):
        size = dispatch(tracing_context(), frame, 0, len(frame), out)
    assert size == len(b"".join(out)) == 2 * len(ANSWER) + len(own_answer)
    requests = [line for line in lines(log_output) if line["event"] == "request"]
    answers = [line for line in lines(log_output) if line["event"] == "answer"]
    assert [line["answer_bytes"] for line in requests] == ["later", "later", len(own_answer)]
    assert [line["error"] for line in requests] == [None, None, error]
    assert [(line["answer_bytes"], line["error"]) for line in answers] == [
        (len(ANSWER), "NOT_COORDINATOR")
    ] * 2


@pytest.mark.parametrize("problem", DiskProblem)
def test_each_disk_failure_has_a_line_at_its_beginning_and_end(problem: DiskProblem) -> None:
    log_output = io.StringIO()
    log = DiskFailureLog(Log(Level.WARNING, "json", log_output))
    failure = DiskFailure(problem, "/data/t-0", "No space left on device")
    log.failure_began(failure)
    log.failure_ended(failure)
    lines = [json.loads(line) for line in log_output.getvalue().splitlines()]
    assert [line["level"] for line in lines] == ["warning", "warning"]
    assert {line["path"] for line in lines} == {"/data/t-0"}
    assert {line["reason"] for line in lines} == {"No space left on device"}
    assert lines[0]["event"] != lines[1]["event"]


def test_a_truncation_by_a_new_leader_is_one_warning() -> None:
    log_output = io.StringIO()
    log_truncation(Log(Level.WARNING, "json", log_output), Truncation("t", 1, 2, 7, 30, 12))
    (line,) = lines(log_output)
    assert line.pop("timestamp")
    assert line == {
        "event": "a new leader removed the records that it does not have",
        "level": "warning",
        "topic": "t",
        "partition": 1,
        "leader": 2,
        "leader_epoch": 7,
        "end_offset": 30,
        "removed_offsets": 12,
    }
