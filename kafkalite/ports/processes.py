"""Processes of this machine."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Protocol

from kafkalite.ports.system import IS_WINDOWS

if TYPE_CHECKING:
    from collections.abc import Callable

_MAX_PROCESS_ID = (1 << 32) - 1
_PROCESS_QUERY_LIMITED_INFORMATION = 0x1000
_STILL_ACTIVE = 259
"""The exit code of a process that has not ended."""


class WindowsKernel(Protocol):
    """The functions of kernel32.dll that examine a process."""

    @property
    def OpenProcess(self) -> Callable[[int, bool, int], int | None]:  # noqa: N802
        """Open the process with an id, and return its handle; None on failure."""

    @property
    def GetExitCodeProcess(self) -> Callable[[int, object], int]:  # noqa: N802
        """Store the exit code of the process with a handle; return 0 on failure."""

    @property
    def CloseHandle(self) -> Callable[[int], int]:  # noqa: N802
        """Close a handle; return 0 on failure."""


def own_process_id() -> int:
    """Return the id of this process."""
    return os.getpid()


def is_running(process_id: int) -> bool:
    """Return whether a process of this user has this id."""
    if not 0 < process_id <= _MAX_PROCESS_ID:
        return False  # 0 and negative numbers mean groups of processes
    if IS_WINDOWS:
        return is_running_on_windows(process_id, _windows_kernel())
    try:
        os.kill(process_id, 0)
    except (OSError, OverflowError):
        return False
    return True


def is_running_on_windows(process_id: int, kernel: WindowsKernel) -> bool:
    """Return whether a process has this id and permits this user to examine it.

    `os.kill` cannot be used: on Windows, signal 0 is Ctrl-C.
    """
    import ctypes  # noqa: PLC0415 - other systems do not need it

    handle = kernel.OpenProcess(_PROCESS_QUERY_LIMITED_INFORMATION, False, process_id)
    if not handle:
        return False
    exit_code = ctypes.c_uint32()
    try:
        found = kernel.GetExitCodeProcess(handle, ctypes.byref(exit_code))
        return bool(found) and exit_code.value == _STILL_ACTIVE
    finally:
        kernel.CloseHandle(handle)


def _windows_kernel() -> WindowsKernel:
    import ctypes  # noqa: PLC0415 - as above

    kernel = ctypes.CDLL("kernel32")  # 64-bit systems have one calling convention
    kernel.OpenProcess.restype = ctypes.c_void_p  # a handle is as wide as a pointer
    kernel.OpenProcess.argtypes = (ctypes.c_uint32, ctypes.c_int, ctypes.c_uint32)
    kernel.GetExitCodeProcess.argtypes = (ctypes.c_void_p, ctypes.c_void_p)
    kernel.CloseHandle.argtypes = (ctypes.c_void_p,)
    return kernel
