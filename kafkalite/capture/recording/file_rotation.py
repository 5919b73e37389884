"""The files of a recording: rotation by size and age, and recovery from a full disk.

A file is named by the time of its first packet, so names sort by time. Files are never reopened: a
recording adds files to a directory with older captures. A file is readable at any time. If the
disk is full, the file ends with its last complete packet, and the next file is tried later. If the
current file is removed or moved, the next file begins.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from kafkalite.ports.system import writev
from kafkalite.ports.units import MILLISECONDS_PER_SECOND, NANOSECONDS_PER_SECOND

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kafkalite.capture.formats.pcapng import Buffer

DEFAULT_FILE_BYTES: Final = 64 * 1024 * 1024
SUFFIX: Final = ".pcapng"

_RETRY_NS: Final = 5 * NANOSECONDS_PER_SECOND
_RETRY_BYTES: Final = 64 * 1024 * 1024
"""After an error, a new file is tried after this time, or after this many lost bytes. The second
limit is for a clock that stands still."""

_MAX_BUFFERS: Final = 1024
"""Maximum number of buffers for one writev call."""

_MAX_TIME_NS: Final = 253_402_300_799 * NANOSECONDS_PER_SECOND
_MAX_FILES_PER_TIMESTAMP: Final = 10_000
_TIMESTAMP: Final = "%Y%m%dT%H%M%S"
_NAME: Final = re.compile(
    r"kafkalite-([0-9]{8}T[0-9]{6})\.([0-9]{3})[0-9]{6}Z-[0-9]+\.pcapng", re.ASCII
)


class CaptureError(Exception):
    """A recording cannot begin; the message is one line with the reason."""


class FileRotation:
    """The files of one directory; the last one is being written.

    `header` returns the first bytes of a file, `trailer` the last ones. `warn` is called with one
    line when the disk fails, and when writing works again.
    """

    def __init__(
        self,
        directory: str,
        *,
        file_bytes: int,
        file_ns: int | None,
        header: Callable[[], bytes],
        trailer: Callable[[int], bytes],
        warn: Callable[[str], None],
    ) -> None:
        self._directory = directory
        self._file_bytes = file_bytes
        self._file_ns = file_ns
        self._header = header
        self._trailer = trailer
        self._warn = warn
        self._fd = -1
        self._path = ""
        self._written = 0
        """Bytes of complete packets that were handed to the operating system."""
        self._pending: list[Buffer] = []
        self._pending_bytes = 0
        self._opened_ns = 0
        self._latest_ns = 0
        self._lost_bytes = 0
        self._failed_ns = 0
        self._retry_lost_bytes = 0
        self.file_number = 0
        """Number of the current file. In each file, the first packet of a connection has a comment
        about the connection."""

    def begin(self, at_ns: int) -> None:
        """Open the first file; raises CaptureError if that fails."""
        try:
            self._open(at_ns)
            self._written = _write_all(self._fd, self._take_pending())
        except OSError as error:
            self._close_file()
            raise CaptureError(
                f"cannot write captures to {self._directory}: {_reason(error)}"
            ) from error

    def rotate_if_due(self, at_ns: int) -> None:
        """Start the next file if the current one is large or old enough."""
        self._latest_ns = at_ns
        if self._fd < 0:
            self._retry(at_ns)
        elif self._written + self._pending_bytes >= self._file_bytes or (
            # A clock that was set back gives a negative age.
            self._file_ns is not None and not 0 <= at_ns - self._opened_ns < self._file_ns
        ):
            self._start_next_file(at_ns)

    def add(self, block: Sequence[Buffer]) -> None:
        """Append a block in one or more pieces. They are referenced until `flush`, not copied."""
        self._pending += block
        self._pending_bytes += sum(map(len, block))

    def flush(self) -> None:
        """Write the appended blocks to the file."""
        self._write_pending()
        if 0 < self._written < self._file_bytes and not os.path.exists(self._path):  # noqa: PTH110
            self._warn(f"capture continues in a new file: {self._path} was removed")
            self._written = self._file_bytes  # the next file follows

    def _write_pending(self) -> None:
        size = self._pending_bytes
        pieces = self._take_pending()
        if self._fd < 0:
            self._lost_bytes += size
            return
        try:
            for start in range(0, len(pieces), _MAX_BUFFERS):
                _write_all(self._fd, pieces[start : start + _MAX_BUFFERS])
        except OSError as error:
            self._fail(error, size)
            return
        self._written += size
        if size and self._lost_bytes:
            self._warn(
                f"capture continues in {self._path}; {self._lost_bytes} bytes of packets were lost"
            )
            self._lost_bytes = 0

    def _take_pending(self) -> list[Buffer]:
        pieces, self._pending, self._pending_bytes = self._pending, [], 0
        return pieces

    def close(self) -> None:
        """End the current file normally; no effect if there is none."""
        if self._fd >= 0:
            self.add((self._trailer(self._latest_ns),))
        self._write_pending()
        self._close_file()

    def _start_next_file(self, at_ns: int) -> None:
        self.close()
        if self._lost_bytes:
            return  # the end of the file was not written: `_retry` opens the next one
        try:
            self._open(at_ns)
        except OSError as error:
            self._fail(error, 0)

    def _open(self, at_ns: int) -> None:
        os.makedirs(self._directory, exist_ok=True)  # noqa: PTH103 - paths are plain text here
        for count in range(_MAX_FILES_PER_TIMESTAMP):
            path = f"{self._directory}/kafkalite-{_file_timestamp(at_ns)}-{count:04}{SUFFIX}"
            try:
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
                self._fd = os.open(path, flags, 0o600)
            except FileExistsError:
                continue
            break
        else:
            raise FileExistsError("all file names are in use")
        self._path = path
        self._written = 0
        self._opened_ns = self._latest_ns = at_ns
        self.file_number += 1
        self.add((self._header(),))

    def _retry(self, at_ns: int) -> None:
        if abs(at_ns - self._failed_ns) < _RETRY_NS and self._lost_bytes < self._retry_lost_bytes:
            return
        try:
            self._open(at_ns)
        except OSError:
            self._schedule_retry(at_ns)

    def _fail(self, error: OSError, lost_bytes: int) -> None:
        """Close the file after its last complete packet."""
        is_first = self._lost_bytes == 0
        if self._fd >= 0:
            try:
                os.ftruncate(self._fd, self._written)
            except OSError:
                is_first = True  # the file ends within a packet, as after a crash
            self._close_file()
        self._lost_bytes += max(lost_bytes, 1)
        self._schedule_retry(self._latest_ns)
        if is_first:
            self._warn(f"capture stopped: cannot write {self._path}: {_reason(error)}; will retry")

    def _schedule_retry(self, at_ns: int) -> None:
        self._failed_ns = at_ns
        self._retry_lost_bytes = self._lost_bytes + _RETRY_BYTES

    def _close_file(self) -> None:
        """Close the file; remove it if it is empty, because a disk can be full for weeks."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)
            if not self._written:
                with suppress(OSError):
                    os.unlink(self._path)  # noqa: PTH108 - paths are plain text here
        self._written = 0


def _write_all(fd: int, pieces: Sequence[Buffer]) -> int:
    size = sum(map(len, pieces))
    written = writev(fd, pieces)
    if written == size:
        return size
    remaining = memoryview(b"".join(pieces))[written:]  # a nearly full disk accepts a part
    while remaining:
        remaining = remaining[os.write(fd, remaining) :]
    return size


def _file_timestamp(at_ns: int) -> str:
    seconds, fraction_ns = divmod(min(max(at_ns, 0), _MAX_TIME_NS), NANOSECONDS_PER_SECOND)
    return f"{datetime.fromtimestamp(seconds, UTC):{_TIMESTAMP}}.{fraction_ns:09}Z"


def started_ms_of(name: str) -> int | None:
    """Return when a file with this name was begun, in milliseconds since the Unix epoch.

    None for a name that no recording gives.
    """
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    with suppress(ValueError):
        began = datetime.strptime(found[1], _TIMESTAMP).replace(tzinfo=UTC)
        return int(began.timestamp()) * MILLISECONDS_PER_SECOND + int(found[2])
    return None


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
