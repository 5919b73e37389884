"""Log: lines with fields, levels, and no cost below the level."""

from __future__ import annotations

import errno
import io
import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from kafkalite.gateway.call import Call, ConnectionContext
from kafkalite.gateway.exchanges import Exchange
from kafkalite.partitions.table import Truncation
from kafkalite.protocol._generated.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafkalite.protocol._generated.messages.offset_commit import OffsetCommitResponse
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.server.logging import DiskFailureLog, Level, Log, log_exchange, log_truncation
from kafkalite.storage.disk_health import DiskFailure, DiskProblem
from tests.unit.nodes import node_of

if TYPE_CHECKING:
    from collections.abc import Sequence


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


def logged(exchange: Exchange, level: Level = Level.DEBUG) -> list[dict[str, object]]:
    """Return the lines about an exchange."""
    log_output = io.StringIO()
    log_exchange(Log(level, "json", log_output), exchange)
    return lines(log_output)


def heartbeat(**fields: Any) -> Exchange:  # noqa: ANN401 - any fields
    """Return the exchange of a Heartbeat whose answer is pending."""
    context = ConnectionContext(node=node_of(2), listener="A", client_host="/h", client_id="me\x1b")
    call = Call(context, api_version=4, request_bytes=99)
    exchange = Exchange(call, ApiKey.HEARTBEAT, 4, 1, HeartbeatRequest(), 0, was_pending=False)
    return exchange._replace(**fields)


NOT_COORDINATOR = {
    "answered_ms": 3, "response": HeartbeatResponse(error_code=16), "answer_bytes": 16,
}  # fmt: skip


def test_each_request_has_a_line_at_level_debug() -> None:
    exchange = heartbeat(**NOT_COORDINATOR)
    (line,) = logged(exchange)
    assert line.pop("timestamp")
    assert line == {
        "event": "request",
        "level": "debug",
        "node": 2,
        "listener": "A",
        "client": "/h",
        "client_id": "me\\x1b",
        "api": "Heartbeat",
        "api_key": 12,
        "version": 4,
        "correlation_id": 1,
        "request_bytes": 99,
        "answer_bytes": 16,
        "error": "NOT_COORDINATOR",
    }
    assert logged(exchange, Level.INFO) == []


def test_a_request_with_a_later_answer_has_a_second_line() -> None:
    (asked,) = logged(heartbeat())
    (answered,) = logged(heartbeat(**NOT_COORDINATOR, was_pending=True))
    assert (asked["event"], asked["answer_bytes"], asked["error"]) == ("request", "later", None)
    assert (answered["event"], answered["answer_bytes"]) == ("answer", 16)
    assert (answered["api"], answered["error"]) == ("Heartbeat", "NOT_COORDINATOR")
    assert "request_bytes" not in answered
    assert asked["correlation_id"] == answered["correlation_id"] == 1


def commits(codes: Sequence[int]) -> OffsetCommitResponse:
    partitions = [
        OffsetCommitResponse.OffsetCommitResponsePartition(partition_index=index, error_code=code)
        for index, code in enumerate(codes)
    ]
    topic = OffsetCommitResponse.OffsetCommitResponseTopic(name="t", partitions=partitions)
    return OffsetCommitResponse(topics=[topic])


@pytest.mark.parametrize(
    ("response", "answer_bytes", "error"),
    [
        (HeartbeatResponse(), 16, "NONE"),
        (None, 0, None),
        (
            commits([0, 16, 16, 22, 25, 15, 14]),
            90,
            "NOT_COORDINATOR, ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, +2",
        ),
        (commits([29_999]), 30, "error 29999"),
        (commits([16] * 10_000), 60_000, "not searched in a long answer"),
    ],
    ids=["no error", "no answer", "many errors", "unknown error", "long answer"],
)
def test_a_line_names_the_errors_of_the_answer(
    response: object, answer_bytes: int, error: str | None
) -> None:
    exchange = heartbeat(answered_ms=0, response=response, answer_bytes=answer_bytes)
    (line,) = logged(exchange)
    assert line["error"] == error


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
