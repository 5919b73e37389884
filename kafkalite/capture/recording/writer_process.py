"""The process that writes a capture: it reads the broker's records from the ring and writes files.

Writing packets takes as long as serving the requests. A thread would take that time from the event
loop, but a process can use an idle core. It ends when the ring is empty and
the broker's end of a pipe is closed; if the broker is killed, the system closes the pipe. It
ignores signals.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Final

from kafkalite.capture.model import Endpoint
from kafkalite.capture.recording.capture_writer import (
    CaptureOptions,
    CaptureWriter,
    OpenedConnection,
)
from kafkalite.capture.recording.file_rotation import CaptureError
from kafkalite.capture.recording.ring_buffer import RingBuffer
from kafkalite.ports.int_enums import IntEnum
from kafkalite.ports.signals import stop_signals

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kafkalite.capture.formats.pcapng import Buffer

READY: Final = "ready"
"""The line that the process prints when it has opened its first file. If that fails, it prints the
error instead."""

_MIN_SLEEP_S: Final = 0.008
_MAX_SLEEP_S: Final = 0.032
"""Sleep while the ring is empty: it begins with the minimum and doubles up to the maximum."""

_FLUSH_BYTES: Final = 1024 * 1024
"""Number of bytes after which files are flushed, and the ring's space is released."""

_RECORD_BYTES: Final = 64
"""Approximate size of a record without its data."""


class RecordKind(IntEnum):
    """Kinds of records in the ring."""

    OPENED = 0
    RECEIVED = 1
    SENT = 2
    CLOSED = 3
    LOST = 4
    """Earlier connections have lost bytes, because the ring was full for too long."""
    ENDED = 5
    """The recording ends normally; the record belongs to no connection."""


def encode_opened_connection(connection: OpenedConnection) -> bytes:
    """Return the data of an OPENED record."""
    return json.dumps(connection).encode()


def decode_opened_connection(data: Buffer) -> OpenedConnection:
    """Decode the data of an OPENED record."""
    client, broker, node_id, listener = json.loads(bytes(data))
    return OpenedConnection(Endpoint(*client), Endpoint(*broker), node_id, listener)


def command(  # noqa: PLR0917 - called once
    ring: int, wake: int, status: int, directory: str, options: CaptureOptions, at_ns: int
) -> list[str]:
    """Return the command line of the process; it inherits the descriptors."""
    task = {
        "ring": ring,
        "wake": wake,
        "status": status,
        "directory": directory,
        "options": asdict(options),
        "at_ns": at_ns,
    }
    # With -I and -S the interpreter would start twice as fast, but would not find its packages.
    return [
        sys.executable,
        "-P",
        "-m",
        "kafkalite.capture.recording.writer_process",
        json.dumps(task),
    ]


class RingWriter:
    """Writes the records of a ring to a capture."""

    def __init__(self, ring: RingBuffer, capture: CaptureWriter, at_ns: int) -> None:
        self._ring = ring
        self._capture = capture
        self._latest_ns = at_ns

    def run(self, wake: int) -> None:
        """Write records until the pipe is closed, then write the remaining ones."""
        sleep_s = _MIN_SLEEP_S
        is_finished = False
        # poll(2), because select(2) accepts only descriptors below 1,024, and the broker may have
        # more connections than that.
        waiter = select.poll()
        waiter.register(wake, select.POLLIN)
        while not is_finished:
            # The position is read before the sleep. After it, all earlier bytes are visible here,
            # even if the other processor wrote them out of order.
            head = self._ring.head
            ready = waiter.poll(sleep_s * 1000)
            if ready and not os.read(wake, 4096):
                is_finished = True
                head = self._ring.head
            sleep_s = _MIN_SLEEP_S if self.write_until(head) else min(2 * sleep_s, _MAX_SLEEP_S)
        self._capture.close(self._latest_ns)

    def write_until(self, head: int) -> bool:
        """Write the records before `head`; return whether there were any."""
        capture = self._capture
        write: Mapping[int, Callable[[int, int, Buffer], None]] = {
            RecordKind.RECEIVED: capture.write_received,
            RecordKind.SENT: capture.write_sent,
        }
        latest_ns = None
        unflushed_bytes = 0
        for kind, number, at_ns, data in self._ring.read(head):
            latest_ns = at_ns
            if kind in write:
                write[kind](number, at_ns, data)
            elif kind == RecordKind.OPENED:
                capture.open_connection(number, at_ns, decode_opened_connection(data))
            elif kind == RecordKind.CLOSED:
                capture.close_connection(number, at_ns)
            elif kind == RecordKind.LOST:
                capture.drop_connections()
            unflushed_bytes += len(data) + _RECORD_BYTES
            if unflushed_bytes > _FLUSH_BYTES:
                self._flush()
                unflushed_bytes = 0
        if latest_ns is None:
            return False
        self._latest_ns = latest_ns
        self._flush()
        return True

    def _flush(self) -> None:
        self._capture.flush()
        self._ring.free()


def main(arguments: Sequence[str]) -> None:
    """Run the process; the only argument is its task as JSON."""
    task = json.loads(arguments[0])
    # Ctrl-C in a terminal ends the broker; this process ends after it.
    for number in stop_signals():
        signal.signal(number, signal.SIG_IGN)

    def report(line: str) -> None:
        with suppress(OSError):  # the broker has ended
            os.write(task["status"], f"{line}\n".encode())

    capture = CaptureWriter(task["directory"], CaptureOptions(**task["options"]), report)
    try:
        capture.begin(task["at_ns"])
    except CaptureError as error:
        report(str(error))
        return
    report(READY)
    RingWriter(RingBuffer(task["ring"]), capture, task["at_ns"]).run(task["wake"])


if __name__ == "__main__":
    main(sys.argv[1:])
