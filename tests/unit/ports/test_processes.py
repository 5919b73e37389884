"""Processes that run, and others."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from kafkalite.ports.processes import is_running, own_process_id


def test_this_process_is_running() -> None:
    assert own_process_id() == os.getpid()
    assert is_running(own_process_id())


def test_an_ended_process_is_not_running() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    assert not is_running(process.pid)


@pytest.mark.parametrize("process_id", [0, -1, 1 << 100])
def test_another_number_is_no_process(process_id: int) -> None:
    assert not is_running(process_id)
