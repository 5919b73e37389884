"""Calls of the operating system, and replacements where a system lacks them.

Linux and macOS have all of them. Windows lacks pread(2), writev(2) and fsync(2) of directories, and
it refuses to rename or remove a file that a process has open. Its sockets can share a port.
"""

from __future__ import annotations

import os
import socket
import time
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from kafkalite.ports.files import Buffer

IS_WINDOWS = os.name == "nt"

OPEN_FLAGS = sum(getattr(os, name, 0) for name in ("O_CLOEXEC", "O_BINARY", "O_NOINHERIT"))
"""Flags of every open(2): child processes do not inherit the descriptor, bytes are not changed."""

BIND_OPTION: int = getattr(socket, "SO_EXCLUSIVEADDRUSE", socket.SO_REUSEADDR)
"""Socket option of listeners: a new one takes the port of a process that ended, but of no other.

On Windows, SO_REUSEADDR would let two processes listen on one port.
"""

NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)

SYNC_FLAGS = os.O_RDWR if IS_WINDOWS else os.O_RDONLY
"""Flags to open a file only to sync it; Windows syncs only descriptors that can write."""

_RENAME_RETRIES_S = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2)
"""Waits between the attempts of a rename, in seconds; their sum is about 0.4 s."""


def read_at(fd: int, size: int, position: int) -> bytes:
    """Return up to `size` bytes from `position`, as pread(2) does; moves the file position.

    One read(2) may return fewer bytes than the file has, so it is repeated.
    """
    os.lseek(fd, position, os.SEEK_SET)
    pieces = []
    while size > 0:
        piece = os.read(fd, min(size, _MAX_READ))
        if not piece:
            break
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)


_MAX_READ = 1 << 24
"""The most bytes of one read(2): Python allocates the buffer before it reads."""


def write_all(fd: int, buffers: Sequence[Buffer]) -> int:
    """Write the buffers with one system call, as writev(2) does; return the number of bytes."""
    return os.write(fd, b"".join(buffers))


pread: Callable[[int, int, int], bytes] = getattr(os, "pread", read_at)
writev: Callable[[int, Sequence[Buffer]], int] = getattr(os, "writev", write_all)
sync_data: Callable[[int], None] = getattr(os, "fdatasync", os.fsync)  # macOS has no fdatasync


def boot_id() -> str | None:
    """Return an id that changes when the system is started, None where there is none."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:  # noqa: PTH123 - pathlib costs more
            return file.read().strip()
    except OSError:
        return None


_CGROUP_LIMITS = (
    "/sys/fs/cgroup/memory.max",
    "/sys/fs/cgroup/memory/memory.limit_in_bytes",
)
"""Files with the memory limit of a container, of either version of Linux's control groups."""


def machine_bytes(limits: Iterable[str] = _CGROUP_LIMITS) -> int:
    """Return the memory of this machine, or of the container that this process is in.

    0 if it is unknown, as on Windows.
    """
    sysconf: Callable[[str], int] | None = getattr(os, "sysconf", None)
    if sysconf is None:
        return 0
    total = sysconf("SC_PAGE_SIZE") * sysconf("SC_PHYS_PAGES")
    for path in limits:
        # Without a limit, the file is missing or contains "max".
        with suppress(OSError, ValueError), open(path, "rb") as file:  # noqa: PTH123 - as above
            total = min(total, int(file.read()))
    return total


def user_id() -> int | None:
    """Return the id of this process's user, or None where users have no numbers."""
    effective_user_id = getattr(os, "geteuid", None)
    return None if effective_user_id is None else effective_user_id()


def replace_with_retries(
    old: str,
    new: str,
    replace: Callable[[str, str], None] = os.replace,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Rename `old` to `new`; try again for a moment if the system refuses.

    On Windows, a virus scanner or an indexer opens new files for a few milliseconds, and nothing
    can rename them meanwhile. Raises the PermissionError of the last attempt.
    """
    for wait_s in _RENAME_RETRIES_S:
        try:
            replace(old, new)
        except PermissionError:
            sleep(wait_s)
        else:
            return
    replace(old, new)


replace: Callable[[str, str], None] = replace_with_retries if IS_WINDOWS else os.replace
