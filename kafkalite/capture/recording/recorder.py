"""`Recorder`: records the bytes of connections into capture files.

A connection only copies its bytes into shared memory; a separate process does the rest, see
`writer_process`. The memory is bounded. If the disk is too slow, the caller waits for at most
MAX_WAIT_S, as it would for a synchronous write. After that, recording stops until there is room
again. A connection that lost bytes is then recorded as a new one. Its recording starts between two
requests, when no response is pending: within a frame, bytes of a frame cannot be distinguished from
a password. The same happens if the writer process dies and is replaced.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from itertools import count
from typing import TYPE_CHECKING, Final

from kafkalite.capture.recording.capture_writer import CaptureOptions, OpenedConnection
from kafkalite.capture.recording.file_rotation import CaptureError
from kafkalite.capture.recording.ring_buffer import MAX_RECORD_BYTES, RingBuffer, Room, new_memory
from kafkalite.capture.recording.writer_process import (
    READY,
    RecordKind,
    command,
    encode_opened_connection,
)
from kafkalite.ports.system import IS_WINDOWS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kafkalite.capture.formats.pcapng import Buffer
    from kafkalite.capture.model import Endpoint

    GetTimeNs = Callable[[], int]

MAX_WAIT_S: Final = 2.0
"""Maximum wait for room in the shared memory."""
_CLOSE_TIMEOUT_S: Final = 30.0
_POLL_INTERVAL_S: Final = 0.001
_MAX_STARTS: Final = 10
"""Maximum number of writer processes, in case each crashes for the same reason."""

_RECEIVED, _SENT = int(RecordKind.RECEIVED), int(RecordKind.SENT)


class Recorder:
    """Records any number of connections into `directory`; its constructor creates the first file.

    `now_ns` returns the time of packets. `warn` is called with one line of text, from a separate
    thread, when the disk fails or recovers. Raises CaptureError if nothing can be written. Not
    thread-safe, except for `close`.
    """

    def __init__(
        self,
        directory: str,
        now_ns: Callable[[], int],
        options: CaptureOptions | None = None,
        warn: Callable[[str], None] = lambda _: None,
    ) -> None:
        if IS_WINDOWS:
            raise CaptureError("traffic cannot be recorded on Windows")
        self.directory = directory
        """The directory of the files."""
        self.started_ns = now_ns()
        """When the recording began, in nanoseconds since the Unix epoch."""
        self._now_ns = now_ns
        self._warn = warn
        self._numbers = count()
        self._taps: set[Tap] = set()
        """The taps of open connections."""
        self._is_stopped = False
        self._is_closed = False
        self._has_no_reader = threading.Event()
        """Set when the writer process has ended and is not replaced."""
        self._options = options or CaptureOptions()
        self._memory = new_memory()
        self._ring = RingBuffer(self._memory)
        self._wake_reader, self._wake_writer = os.pipe()
        try:
            self._start()
        except CaptureError:
            os.close(self._wake_writer)
            self._release_memory()
            raise
        self._status_thread = threading.Thread(
            target=self._forward_messages, name="kafkalite-capture", daemon=True
        )
        self._status_thread.start()

    def _start(self) -> None:
        """Start the writer process, and wait until it has its first file."""
        try:
            self._start_process()
        except OSError as error:
            raise CaptureError(
                f"cannot start the capture writer process: {error.strerror}"
            ) from error
        line = self._status.readline().strip()
        if line != READY:
            self._status.close()
            self._process.wait()
            raise CaptureError(line or "the capture writer process exited immediately")

    def _start_process(self) -> None:
        memory, wake_reader = self._memory, self._wake_reader
        status_reader, status_writer = os.pipe()
        self._status = os.fdopen(status_reader, encoding="utf-8", errors="replace")
        # malloc must not return large blocks to the system: allocating again costs page faults.
        malloc_settings = {
            "MALLOC_MMAP_THRESHOLD_": "67108864",
            "MALLOC_TRIM_THRESHOLD_": "268435456",
        }
        search_path = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        arguments = command(
            memory, wake_reader, status_writer, self.directory, self._options, self._now_ns()
        )
        try:
            self._process = subprocess.Popen(  # noqa: S603 - our own program
                arguments,
                env={**os.environ, **malloc_settings, **search_path},
                pass_fds=(memory, wake_reader, status_writer),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError:
            self._status.close()
            raise
        finally:
            os.close(status_writer)

    def open(self, *, client: Endpoint, broker: Endpoint, node_id: int, listener: str) -> Tap:
        """Begin to record a connection. Neither this nor the tap's methods raise."""
        opened_connection = encode_opened_connection(
            OpenedConnection(client, broker, node_id, listener)
        )
        tap = Tap(self, opened_connection, self._ring, self._now_ns)
        self._taps.add(tap)
        tap.begin()
        return tap

    def begin_connection(self, opened_connection: bytes) -> tuple[int, bool]:
        """Start to record a connection; return its number, and whether recording is stopped."""
        number = next(self._numbers) & 0xFFFFFFFF
        if self._is_stopped:
            self._resume(number)
        self.put(RecordKind.OPENED, number, opened_connection)
        return number, self._is_stopped

    def end_connection(self, tap: Tap, number: int) -> None:
        """Record that a connection has ended."""
        self._taps.discard(tap)
        self.put(RecordKind.CLOSED, number, b"")

    def _resume(self, number: int) -> None:
        """Resume recording with this connection if the ring has room."""
        if not self._is_closed and not self._has_no_reader.is_set() and self._ring.is_half_free():
            self._is_stopped = False
            self.put(RecordKind.LOST, number, b"")
            self._warn("capture resumed")

    def _mark_all_lost(self) -> None:
        for tap in tuple(self._taps):
            tap.is_lost = True

    def close(self) -> None:
        """Write the remaining bytes, and end the last file; no effect if closed before."""
        if self._is_closed:
            return
        self._is_closed = True
        self.put(RecordKind.ENDED, 0, b"")
        self._is_stopped = True
        self._ring.reject_writes()
        os.close(self._wake_writer)
        self._status_thread.join(_CLOSE_TIMEOUT_S)
        if self._status_thread.is_alive():
            self._warn("the end of the capture is still being written: the disk is slow")
        else:
            self._release_memory()

    def _release_memory(self) -> None:
        self._ring.close()
        os.close(self._memory)
        os.close(self._wake_reader)

    def put(self, kind: int, number: int, data: Buffer) -> None:
        """Record bytes that the ring did not accept at once."""
        ring, at_ns = self._ring, self._now_ns()
        view = memoryview(data)
        for start in range(0, len(view) or 1, MAX_RECORD_BYTES):
            part = view[start : start + MAX_RECORD_BYTES]
            if not self._wait_for_room(len(part)):
                return
            ring.put(kind, number, at_ns, part)

    def _wait_for_room(self, size: int) -> bool:
        """Wait until there is room; if there is none in time, stop recording all connections."""
        if self._is_stopped:
            return False
        room = self._ring.make_room(size)
        if room is not Room.AVAILABLE:
            os.write(self._wake_writer, b"\0")
        polls = int(MAX_WAIT_S / _POLL_INTERVAL_S)
        while room is Room.NONE and polls and not self._has_no_reader.wait(_POLL_INTERVAL_S):
            polls -= 1
            room = self._ring.make_room(size)
        if room is Room.NONE:
            self._is_stopped = True
            self._ring.reject_writes()
            self._mark_all_lost()
            if not self._has_no_reader.is_set():
                self._warn("capture stopped for all open connections: the disk is too slow")
        return room is not Room.NONE

    def _forward_messages(self) -> None:
        """Forward the writer process's messages; replace the process if it dies."""
        for starts in range(_MAX_STARTS):
            with self._status as status:
                for line in status:
                    self._warn(line.rstrip("\n"))
            if not (exit_status := self._process.wait()) and self._is_closed:
                return
            self._warn(
                "capture stopped for all open connections, and their last bytes may be missing: "
                f"the capture writer process {_exit_text(exit_status)}"
            )
            self._ring.clear()
            self._mark_all_lost()  # after `clear`, which also drops bytes of new connections
            if self._is_closed or starts == _MAX_STARTS - 1 or not self._restart():
                break
        self._has_no_reader.set()
        self._is_stopped = True
        self._warn("capture ended")

    def _restart(self) -> bool:
        try:
            self._start()
        except CaptureError as error:
            self._warn(str(error))
            return False
        self._warn("capture resumed")
        return True


def _exit_text(exit_status: int) -> str:
    """Return the exit status of a process as text."""
    return (
        f"exited with status {exit_status}"
        if exit_status >= 0
        else f"was killed by signal {-exit_status}"
    )


class Tap:
    """Receives the bytes of one connection."""

    __slots__ = ("_now_ns", "_number", "_opened_connection", "_put", "_recorder", "is_lost")

    def __init__(
        self, recorder: Recorder, opened_connection: bytes, ring: RingBuffer, now_ns: GetTimeNs
    ) -> None:
        self._recorder = recorder
        self._opened_connection = opened_connection
        # Bound once: attribute access is slow in a method that is called for each read and write.
        self._put = ring.put
        self._now_ns = now_ns
        self._number: int
        self.is_lost = True
        """Whether bytes of the connection were lost; it is not recorded until `begin`."""

    def begin(self) -> None:
        """Start to record, if possible. Both directions must be at the boundary of a frame."""
        self.is_lost = False  # set first: another thread may set it to True at any time
        self._number, is_stopped = self._recorder.begin_connection(self._opened_connection)
        if is_stopped:
            self.is_lost = True

    def received(self, data: Buffer) -> None:
        """Record bytes that the client sent."""
        if not self._put(_RECEIVED, self._number, self._now_ns(), data):
            self._recorder.put(_RECEIVED, self._number, data)

    def sent(self, pieces: Sequence[Buffer]) -> None:
        """Record bytes that are sent to the client."""
        for data in pieces:
            if not self._put(_SENT, self._number, self._now_ns(), data):
                self._recorder.put(_SENT, self._number, data)

    def close(self) -> None:
        """Record the end of the connection."""
        self._recorder.end_connection(self, self._number)
