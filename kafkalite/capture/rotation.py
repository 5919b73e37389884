"""The files that a recording goes to, one after the other, and what becomes of a full disk.

A file is named by the time of its first packet, so that names sort by time, and is never opened
twice: a directory with older captures gets more. It is readable at any moment. When the disk takes
no more, the file ends at its last whole packet, and a new one is tried again later. One that
somebody has removed, or moved away, is followed by a new one.
"""

from __future__ import annotations

import os
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kafkalite.capture.pcapng import Buffer

DEFAULT_FILE_BYTES: Final = 64 * 1024 * 1024
SUFFIX: Final = ".pcapng"

_SECOND_NS: Final = 1_000_000_000
_RETRY_NS: Final = 5 * _SECOND_NS
_RETRY_BYTES: Final = 64 * 1024 * 1024
"""A new file is tried after this long by the capture's clock, or so much lost if that stands."""

_AT_ONCE: Final = 1024
"""So many pieces one system call takes."""

_LATEST_NS: Final = 253_402_300_799 * _SECOND_NS
_MAX_SAME_NAME: Final = 10_000


class CaptureError(Exception):
    """A recording cannot begin as asked; the text is one line that says why."""


class Rotation:
    """A series of files in one directory, of which the last is being written.

    `head` makes what a file begins with, `tail` what it ends with; `tell` is given one line when
    the disk fails and one when it serves again.
    """

    def __init__(
        self,
        directory: str,
        *,
        file_bytes: int,
        file_ns: int | None,
        head: Callable[[], bytes],
        tail: Callable[[int], bytes],
        tell: Callable[[str], None],
    ) -> None:
        self._directory = directory
        self._file_bytes = file_bytes
        self._file_ns = file_ns
        self._head = head
        self._tail = tail
        self._tell = tell
        self._fd = -1
        self._path = ""
        self._written = 0
        """How many bytes of the file are whole packets on their way to the disk."""
        self._pending: list[Buffer] = []
        self._pending_bytes = 0
        self._begun_ns = 0
        self._latest_ns = 0
        self._lost_bytes = 0
        self._retry_ns = 0
        self._retry_bytes = 0
        self.serial = 0
        """Counts the files: a connection without a packet in this one has to be introduced."""

    def begin(self, at_ns: int) -> None:
        """Open the first file; CaptureError when that cannot be."""
        try:
            self._open(at_ns)
            self._written = _write_all(self._fd, self._take())
        except OSError as error:
            self._let_go()
            raise CaptureError(
                f"cannot write captures to {self._directory}: {_reason(error)}"
            ) from error

    def make_ready(self, at_ns: int) -> None:
        """Go on to the next file if it is time to."""
        self._latest_ns = at_ns
        if self._fd < 0:
            self._retry(at_ns)
        elif self._written + self._pending_bytes >= self._file_bytes or (
            # A clock that was set back makes a file as old as none can be.
            self._file_ns is not None and not 0 <= at_ns - self._begun_ns < self._file_ns
        ):
            self._go_on(at_ns)

    def add(self, block: Sequence[Buffer]) -> None:
        """Append a block, which may be in pieces; they are kept until `flush`, and not copied."""
        self._pending += block
        self._pending_bytes += sum(map(len, block))

    def flush(self) -> None:
        """Hand what was added to the operating system."""
        self._hand_over()
        if 0 < self._written < self._file_bytes and not os.path.exists(self._path):  # noqa: PTH110
            self._tell(f"capture goes on in a new file: {self._path} was removed")
            self._written = self._file_bytes  # as much as lets the next one follow

    def _hand_over(self) -> None:
        size = self._pending_bytes
        pieces = self._take()
        if self._fd < 0:
            self._lost_bytes += size
            return
        try:
            for start in range(0, len(pieces), _AT_ONCE):
                _write_all(self._fd, pieces[start : start + _AT_ONCE])
        except OSError as error:
            self._fail(error, size)
            return
        self._written += size
        if size and self._lost_bytes:
            self._tell(
                f"capture goes on in {self._path}: {self._lost_bytes} bytes of packets are missing"
            )
            self._lost_bytes = 0

    def _take(self) -> list[Buffer]:
        pieces, self._pending, self._pending_bytes = self._pending, [], 0
        return pieces

    def close(self) -> None:
        """End the file in order; harmless when there is none."""
        if self._fd >= 0:
            self.add((self._tail(self._latest_ns),))
        self._hand_over()
        self._let_go()

    def _go_on(self, at_ns: int) -> None:
        self.close()
        if self._lost_bytes:
            return  # the file's end was not written: the next one is for `_retry`
        try:
            self._open(at_ns)
        except OSError as error:
            self._fail(error, 0)

    def _open(self, at_ns: int) -> None:
        os.makedirs(self._directory, exist_ok=True)  # noqa: PTH103 - paths are plain text here
        for count in range(_MAX_SAME_NAME):
            path = f"{self._directory}/kafkalite-{_stamp(at_ns)}-{count:04}{SUFFIX}"
            try:
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
                self._fd = os.open(path, flags, 0o600)
            except FileExistsError:
                continue
            break
        else:
            raise FileExistsError("every name is taken")
        self._path = path
        self._written = 0
        self._begun_ns = self._latest_ns = at_ns
        self.serial += 1
        self.add((self._head(),))

    def _retry(self, at_ns: int) -> None:
        if abs(at_ns - self._retry_ns) < _RETRY_NS and self._lost_bytes < self._retry_bytes:
            return
        try:
            self._open(at_ns)
        except OSError:
            self._come_back_later(at_ns)

    def _fail(self, error: OSError, lost_bytes: int) -> None:
        """Give a file up, at its last whole packet."""
        is_news = self._lost_bytes == 0
        if self._fd >= 0:
            try:
                os.ftruncate(self._fd, self._written)
            except OSError:
                is_news = True  # then readers meet a torn tail, as after a crash
            self._let_go()
        self._lost_bytes += max(lost_bytes, 1)
        self._come_back_later(self._latest_ns)
        if is_news:
            self._tell(
                f"capture stopped: cannot write {self._path}: {_reason(error)}; "
                "it goes on when it can"
            )

    def _come_back_later(self, at_ns: int) -> None:
        self._retry_ns = at_ns
        self._retry_bytes = self._lost_bytes + _RETRY_BYTES

    def _let_go(self) -> None:
        """End the file, and remove it when nothing is in it: a disk may be full for weeks."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)
            if not self._written:
                with suppress(OSError):
                    os.unlink(self._path)  # noqa: PTH108 - paths are plain text here
        self._written = 0


def _write_all(fd: int, pieces: Sequence[Buffer]) -> int:
    size = sum(map(len, pieces))
    written = os.writev(fd, pieces)
    if written == size:
        return size
    rest = memoryview(b"".join(pieces))[written:]  # a disk that is nearly full takes parts
    while rest:
        rest = rest[os.write(fd, rest) :]
    return size


def _stamp(at_ns: int) -> str:
    seconds, rest = divmod(min(max(at_ns, 0), _LATEST_NS), _SECOND_NS)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y%m%dT%H%M%S}.{rest:09}Z"


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
