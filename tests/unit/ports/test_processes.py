"""Processes that run, and others."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys

import pytest

from kafkalite.ports.processes import is_running, is_running_on_windows, own_process_id


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


class Kernel:
    """Functions of kernel32.dll that know process 7."""

    def __init__(self, exit_code: int, *, is_readable: bool = True) -> None:
        self.handles: list[int] = []
        self._exit_code = exit_code
        self._is_readable = is_readable

    def OpenProcess(self, access: int, inherits: bool, process_id: int) -> int | None:  # noqa: FBT001, N802
        assert (access, inherits) == (0x1000, False)
        if process_id != 7:
            return None
        self.handles.append(12)
        return 12

    def GetExitCodeProcess(self, handle: int, exit_code: object) -> int:  # noqa: N802
        assert handle in self.handles
        pointer = ctypes.cast(exit_code, ctypes.POINTER(ctypes.c_uint32))  # type: ignore[arg-type]
        pointer.contents.value = self._exit_code
        return int(self._is_readable)

    def CloseHandle(self, handle: int) -> int:  # noqa: N802
        self.handles.remove(handle)
        return 1


def test_a_process_on_windows_runs_until_it_has_an_exit_code() -> None:
    assert is_running_on_windows(7, Kernel(259))
    assert not is_running_on_windows(8, Kernel(259))
    assert not is_running_on_windows(7, Kernel(0))
    assert not is_running_on_windows(7, Kernel(259, is_readable=False))


def test_handles_of_windows_are_closed() -> None:
    kernel = Kernel(0)
    is_running_on_windows(7, kernel)
    assert not kernel.handles
