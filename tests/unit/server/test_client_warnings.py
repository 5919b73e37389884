"""Warnings about clients: one line per interval, address and kind."""

from __future__ import annotations

from kafkalite.server.client_warnings import (
    INTERVAL_MS,
    MAX_ADDRESSES,
    MAX_KINDS,
    ClientWarnings,
    kind_of,
)
from kafkalite.testing.clock import ManualClock


class WarningLog:
    """A log of warnings with its clock."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.lines: list[tuple[str, dict[str, object]]] = []
        self.warnings = ClientWarnings(self.clock, self.write)

    def write(self, event: str, **fields: object) -> None:
        self.lines.append((event, fields))

    def warn(self, host: str = "h", kind: str = "k", count: int = 1) -> None:
        for number in range(count):
            self.warnings.warn(host, kind, "closed", number=number)

    def new_lines(self) -> list[tuple[str, dict[str, object]]]:
        lines, self.lines = self.lines, []
        return lines


def test_further_warnings_of_an_interval_are_counted_in_one_line() -> None:
    warning_log = WarningLog()
    warning_log.warn(count=5)
    assert warning_log.new_lines() == [("closed", {"number": 0})]
    warning_log.clock.advance(INTERVAL_MS - 1)
    assert warning_log.new_lines() == []
    warning_log.clock.advance(1)
    assert warning_log.new_lines() == [("closed", {"number": 4, "repeated": 4})]


def test_each_further_interval_has_a_line_with_its_own_count() -> None:
    warning_log = WarningLog()
    warning_log.warn(count=2)
    warning_log.clock.advance(INTERVAL_MS)
    warning_log.warn(count=3)
    warning_log.new_lines()
    warning_log.clock.advance(INTERVAL_MS)
    assert warning_log.new_lines() == [("closed", {"number": 2, "repeated": 3})]


def test_after_an_interval_without_warnings_the_next_is_written_immediately() -> None:
    warning_log = WarningLog()
    warning_log.warn()
    warning_log.clock.advance(INTERVAL_MS)
    warning_log.warn()
    assert warning_log.new_lines() == [("closed", {"number": 0})] * 2


def test_addresses_and_kinds_are_counted_separately() -> None:
    warning_log = WarningLog()
    for host, kind in (("h", "k"), ("h", "l"), ("i", "k")):
        warning_log.warn(host, kind)
    assert len(warning_log.new_lines()) == 3


def test_addresses_beyond_the_limit_are_counted_together() -> None:
    warning_log = WarningLog()
    for number in range(10 * MAX_ADDRESSES):
        warning_log.warn(f"h{number}")
    assert len(warning_log.new_lines()) == MAX_ADDRESSES + 1
    warning_log.clock.advance(INTERVAL_MS)
    assert warning_log.new_lines() == [("closed", {"number": 0, "repeated": 9 * MAX_ADDRESSES - 1})]
    warning_log.clock.advance(INTERVAL_MS)
    assert warning_log.clock.next_deadline_ms is None


def test_kinds_beyond_the_limit_of_an_address_are_counted_together() -> None:
    warning_log = WarningLog()
    for number in range(10 * MAX_KINDS):
        warning_log.warn("h", f"k{number}")
    assert len(warning_log.new_lines()) == MAX_KINDS + 1
    warning_log.warn("i", "k0")
    assert len(warning_log.new_lines()) == 1


def test_a_long_jump_of_time_writes_one_line() -> None:
    warning_log = WarningLog()
    warning_log.warn(count=2)
    warning_log.new_lines()
    warning_log.clock.advance(1_000 * INTERVAL_MS)
    assert len(warning_log.new_lines()) == 1


def test_stopping_writes_remaining_counts() -> None:
    warning_log = WarningLog()
    warning_log.warn("h", count=3)
    warning_log.warn("i")
    warning_log.new_lines()
    warning_log.warnings.stop()
    assert warning_log.new_lines() == [("closed", {"number": 2, "repeated": 2})]
    assert warning_log.clock.next_deadline_ms is None
    warning_log.warnings.stop()
    assert warning_log.new_lines() == []


def test_reasons_that_differ_in_numbers_have_the_same_kind() -> None:
    assert kind_of("frame length 17 is above 5") == kind_of("frame length 9999 is above 5")
    assert kind_of("Fetch v99 is not served") != kind_of("Produce v99 is not served")
    assert len(kind_of("x" * 1_000_000)) <= 200
