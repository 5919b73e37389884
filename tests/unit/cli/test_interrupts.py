"""Interrupts of commands by signals."""

from __future__ import annotations

import signal

import pytest

from kafkalite.cli.interrupts import stops_as_interrupts
from kafkalite.ports.system import IS_WINDOWS


@pytest.mark.parametrize("number", [signal.SIGTERM, *(() if IS_WINDOWS else (signal.SIGHUP,))])
def test_a_signal_is_an_interrupt_with_a_status_of_its_own(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with pytest.raises(SystemExit) as ended, stops_as_interrupts():
        signal.raise_signal(number)
    assert ended.value.code == 128 + number
    assert signal.getsignal(number) is before


def test_an_interrupt_by_the_user_stays_one() -> None:
    with pytest.raises(KeyboardInterrupt), stops_as_interrupts():
        raise KeyboardInterrupt


def test_an_ignored_signal_stays_ignored() -> None:
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        with stops_as_interrupts():
            signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)
