"""Interrupts of commands by signals."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from kafkalite.cli.interrupts import stops_as_interrupts
from kafkalite.ports.system import IS_WINDOWS

if TYPE_CHECKING:
    from collections.abc import Iterator


NUMBERS = [signal.SIGTERM, *(() if IS_WINDOWS else (signal.SIGHUP,))]


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """Run the tests with default handlers, also in a process with others."""
    before = {each: signal.signal(each, signal.SIG_DFL) for each in NUMBERS}
    before[signal.SIGINT] = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", NUMBERS)
def test_a_signal_is_an_interrupt_with_a_status_of_its_own(number: signal.Signals) -> None:
    with pytest.raises(SystemExit) as ended, stops_as_interrupts():
        signal.raise_signal(number)
    assert ended.value.code == 128 + number
    assert signal.getsignal(number) is signal.SIG_DFL


def test_an_interrupt_by_the_user_stays_one() -> None:
    with pytest.raises(KeyboardInterrupt), stops_as_interrupts():
        raise KeyboardInterrupt


@pytest.mark.skipif(IS_WINDOWS, reason="Windows has no SIGHUP")
def test_an_ignored_hangup_stays_ignored() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with stops_as_interrupts():
        signal.raise_signal(signal.SIGHUP)


def test_termination_cannot_be_ignored() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    with pytest.raises(SystemExit) as ended, stops_as_interrupts():
        signal.raise_signal(signal.SIGTERM)
    assert ended.value.code == 128 + signal.SIGTERM
