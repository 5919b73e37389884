"""The report of what a broker saw."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from kafkalite.control.commands import report
from kafkalite.control.commands.report import COMMANDS, Report
from kafkalite.control.commands.requests import recorded
from kafkalite.protocol._generated.messages.heartbeat import HeartbeatRequest
from kafkalite.protocol._generated.messages.list_groups import ListGroupsRequest
from kafkalite.testing import Broker
from tests.conformance.raw import RawClient

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalite.control.commands.requests import RecordedRequest
    from kafkalite.server.request_log import LoggedRequest

TIME = "2026-03-01T12:00:00.000Z"


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(request_log=100, clock="manual@2026-03-01T12:00") as running:
        yield running


def beat(broker: Broker, *groups: str) -> None:
    """Send heartbeats, which are refused, and one more request."""
    with closing(RawClient(int(broker.bootstrap_servers.rpartition(":")[2]))) as client:
        for group in groups:
            client.call(HeartbeatRequest(group_id=group, member_id="m", generation_id=1), 4)
        client.call(ListGroupsRequest(), 4)


def test_equal_requests_in_a_row_are_one_line(broker: Broker) -> None:
    beat(broker, "a", "a", "b", "a")
    heartbeat = "conformance Heartbeat v4"
    assert broker.report().requests == (
        f"{TIME} #2 {heartbeat} a NOT_COORDINATOR 0 ms (2 times)",
        f"{TIME} #3 {heartbeat} b NOT_COORDINATOR 0 ms",
        f"{TIME} #4 {heartbeat} a NOT_COORDINATOR 0 ms",
        f"{TIME} #5 conformance ListGroups v4 ok 0 ms",
    )


def test_a_report_continues_an_earlier_one(broker: Broker) -> None:
    broker.faults.add(api="Heartbeat", error="NOT_COORDINATOR")
    beat(broker, "a")
    first = broker.report()
    assert (first.last_request, len(first.requests), len(first.history)) == (2, 2, 1)
    after = {"after_request": first.last_request, "after_entry": first.last_entry}
    assert broker.report(**after).is_empty
    beat(broker, "b", "c")
    second = broker.report(**after, limit=1)
    assert second.requests == (f"{TIME} #5 conformance ListGroups v4 ok 0 ms",)
    (entry,) = second.history
    assert entry.startswith(f"{TIME} c refused: Heartbeat")


def test_only_lines_of_a_report_are_described(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    described = []

    def record(logged: LoggedRequest) -> RecordedRequest:
        described.append(logged.number)
        return recorded(logged)

    monkeypatch.setattr(report, "recorded", record)
    beat(broker, "a", "b", "c")
    assert len(broker.report(limit=2).requests) == 2
    assert described == [3, 4]


def test_a_line_has_the_beginning_of_a_long_name(broker: Broker) -> None:
    beat(broker, "g" * 30_000)
    assert f" {'g' * 255}… NOT_COORDINATOR" in broker.report().requests[-2]


def test_a_report_has_sections() -> None:
    shown = Report(1, 2, ("r1",), ("h1", "h2"), ("f1",), ("mistake",), is_logging=True)
    assert str(shown).splitlines() == [
        "Requests:", "  r1", "History:", "  h1", "  h2", "Faults:", "  f1", "Hints:", "  mistake",
    ]  # fmt: skip
    (row,) = COMMANDS.rows
    assert list(row.lines(shown, {})) == str(shown).splitlines()
    assert str(Report(0, 0, (), (), (), (), is_logging=True)) == "no requests"


def test_a_report_does_not_begin_to_log_requests() -> None:
    with Broker() as running:
        beat(running, "a")
        shown = running.report()
        assert (shown.requests, shown.is_logging) == ((), False)
        assert "requests are not logged: --request-log, or request_log of Broker" in str(shown)
