"""Recorder: where bytes that pass a connection are handed over to be written down.

What it costs a connection is to copy its bytes into shared memory: all else is done by another
process, see `scribing`. The memory is bounded. Should the disk not keep up, whoever brings bytes
waits for it, as for a disk that is written to at once; when that takes PATIENCE_S, nothing more is
recorded until there is room again. A connection that has lost bytes by that is recorded again as
if it began, from where a request begins while none is under way: before that nobody could tell a
frame from a password. So it is when the other process dies and another takes its place.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from itertools import count
from typing import TYPE_CHECKING, Final

from kafkalite.capture.ring import MAX_RECORD_BYTES, Ring, Room, new_memory
from kafkalite.capture.rotation import CaptureError
from kafkalite.capture.scribe import CaptureOptions, Ends
from kafkalite.capture.scribing import READY, Kind, command, encode_ends

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kafkalite.capture.model import Endpoint
    from kafkalite.capture.pcapng import Buffer

    Now = Callable[[], int]

PATIENCE_S: Final = 2.0
_LAST_WAIT_S: Final = 30.0
_ROUND_S: Final = 0.001
_LIVES: Final = 10
"""So many processes are started: what kills one may be there for the next."""

_RECEIVED, _SENT = int(Kind.RECEIVED), int(Kind.SENT)


class Recorder:
    """A recording into `directory`, of any number of connections; made, it has its first file.

    `now_ns` tells the time that packets get. `tell` is given a line when the disk fails, on a
    thread of its own. Raises CaptureError when nothing can be written there. But for `close` it is
    to be used by one thread.
    """

    def __init__(
        self,
        directory: str,
        now_ns: Callable[[], int],
        options: CaptureOptions | None = None,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.directory = directory
        """Where the files are."""
        self._now_ns = now_ns
        self._tell = tell
        self._numbers = count()
        self._taps: set[Tap] = set()
        """Those of connections that are open."""
        self._is_stalled = False
        self._is_closed = False
        self._is_gone = threading.Event()
        """Set when nobody takes anything any more."""
        self._options = options or CaptureOptions()
        self._memory = new_memory()
        self._ring = Ring(self._memory)
        self._waking, self._wake = os.pipe()
        try:
            self._start()
        except CaptureError:
            os.close(self._wake)
            self._let_go()
            raise
        self._reader = threading.Thread(target=self._listen, name="kafkalite-capture", daemon=True)
        self._reader.start()

    def _start(self) -> None:
        """Start the process that writes, and wait until it has its first file."""
        try:
            self._launch()
        except OSError as error:
            raise CaptureError(
                f"cannot start the process that writes captures: {error.strerror}"
            ) from error
        said = self._status.readline().strip()
        if said != READY:
            self._status.close()
            self._process.wait()
            raise CaptureError(said or "the process that writes captures ended at once")

    def _launch(self) -> None:
        memory, waking = self._memory, self._waking
        heard, telling = os.pipe()
        self._status = os.fdopen(heard, encoding="utf-8", errors="replace")
        # Large pieces of memory are kept once they are had: to give them back costs page faults.
        memory_rules = {"MALLOC_MMAP_THRESHOLD_": "67108864", "MALLOC_TRIM_THRESHOLD_": "268435456"}
        search_path = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        wanted = command(memory, waking, telling, self.directory, self._options, self._now_ns())
        try:
            self._process = subprocess.Popen(  # noqa: S603 - our own program
                wanted,
                env={**os.environ, **memory_rules, **search_path},
                pass_fds=(memory, waking, telling),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError:
            self._status.close()
            raise
        finally:
            os.close(telling)

    def open(self, *, client: Endpoint, broker: Endpoint, node_id: int, listener: str) -> Tap:
        """Begin to record a connection; never raises, nor does anything of the tap."""
        ends = encode_ends(Ends(client, broker, node_id, listener))
        tap = Tap(self, ends, self._ring, self._now_ns)
        self._taps.add(tap)
        tap.begin()
        return tap

    def begin(self, ends: bytes) -> tuple[int, bool]:
        """Record a connection from here on; return its number, and whether that was in vain."""
        number = next(self._numbers) & 0xFFFFFFFF
        if self._is_stalled:
            self._go_on(number)
        self.put(Kind.OPENED, number, ends)
        return number, self._is_stalled

    def end(self, tap: Tap, number: int) -> None:
        """Record that a connection has ended."""
        self._taps.discard(tap)
        self.put(Kind.CLOSED, number, b"")

    def _go_on(self, number: int) -> None:
        """Record again from this connection on, if there is room by now."""
        if not self._is_closed and not self._is_gone.is_set() and self._ring.has_half():
            self._is_stalled = False
            self.put(Kind.LOST, number, b"")
            self._tell("capture goes on")

    def _lose_all(self) -> None:
        for tap in tuple(self._taps):
            tap.is_lost = True

    def close(self) -> None:
        """Write down what is left, and end the last file; harmless when that was done."""
        if self._is_closed:
            return
        self._is_closed = True
        self.put(Kind.ENDED, 0, b"")
        self._is_stalled = True
        self._ring.shut()
        os.close(self._wake)
        self._reader.join(_LAST_WAIT_S)
        if self._reader.is_alive():
            self._tell("the end of the capture is still being written: the disk is slow")
        else:
            self._let_go()

    def _let_go(self) -> None:
        self._ring.close()
        os.close(self._memory)
        os.close(self._waking)

    def put(self, kind: int, number: int, data: Buffer) -> None:
        """Record what came of a connection where the ring would not take it at once."""
        ring, at_ns = self._ring, self._now_ns()
        view = memoryview(data)
        for start in range(0, len(view) or 1, MAX_RECORD_BYTES):
            part = view[start : start + MAX_RECORD_BYTES]
            if not self._has_room(len(part)):
                return
            ring.put(kind, number, at_ns, part)

    def _has_room(self, size: int) -> bool:
        """Wait until there is room, or give up for all connections there are."""
        if self._is_stalled:
            return False
        room = self._ring.make_room(size)
        if room is not Room.THERE:
            os.write(self._wake, b"\0")
        rounds = int(PATIENCE_S / _ROUND_S)
        while room is Room.NONE and rounds and not self._is_gone.wait(_ROUND_S):
            rounds -= 1
            room = self._ring.make_room(size)
        if room is Room.NONE:
            self._is_stalled = True
            self._ring.shut()
            self._lose_all()
            if not self._is_gone.is_set():
                self._tell(
                    "capture stopped for all connections there are: the disk is too slow for it"
                )
        return room is not Room.NONE

    def _listen(self) -> None:
        """Pass on what the process says; start another should it die."""
        for life in range(_LIVES):
            with self._status as status:
                for line in status:
                    self._tell(line.rstrip("\n"))
            if not (ended := self._process.wait()) and self._is_closed:
                return
            self._tell(
                "capture stopped for all connections there are, and may miss the last of them: "
                f"the process that writes it {_fate(ended)}"
            )
            self._ring.forget()
            self._lose_all()  # now: what begins anew before is forgotten
            if self._is_closed or life == _LIVES - 1 or not self._is_alive_again():
                break
        self._is_gone.set()
        self._is_stalled = True
        self._tell("capture ended")

    def _is_alive_again(self) -> bool:
        try:
            self._start()
        except CaptureError as error:
            self._tell(str(error))
            return False
        self._tell("capture goes on")
        return True


def _fate(status: int) -> str:
    """Say how a process ended."""
    return f"ended with status {status}" if status >= 0 else f"was ended by signal {-status}"


class Tap:
    """What one connection hands its bytes to."""

    __slots__ = ("_ends", "_now_ns", "_number", "_put", "_recorder", "is_lost")

    def __init__(self, recorder: Recorder, ends: bytes, ring: Ring, now_ns: Now) -> None:
        self._recorder = recorder
        self._ends = ends
        # Asked for once: it is done for every few bytes.
        self._put = ring.put
        self._now_ns = now_ns
        self._number: int
        self.is_lost = True
        """Whether it is recorded no further, until it is begun again."""

    def begin(self) -> None:
        """Record from here on, if that can be; on neither way may a frame be under way."""
        self.is_lost = False  # at first, for it may be lost at any time
        self._number, is_in_vain = self._recorder.begin(self._ends)
        if is_in_vain:
            self.is_lost = True

    def received(self, data: Buffer) -> None:
        """Record bytes that the client has sent."""
        if not self._put(_RECEIVED, self._number, self._now_ns(), data):
            self._recorder.put(_RECEIVED, self._number, data)

    def sent(self, pieces: Sequence[Buffer]) -> None:
        """Record bytes that the client is sent."""
        for data in pieces:
            if not self._put(_SENT, self._number, self._now_ns(), data):
                self._recorder.put(_SENT, self._number, data)

    def close(self) -> None:
        """Record that the connection has ended."""
        self._recorder.end(self, self._number)
