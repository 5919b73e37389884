"""The process that writes a capture: takes what a broker put into the ring, until that ends.

Beside the broker rather than within it, for putting bytes into packets costs as much as serving
them does: a thread would take that from the event loop, and this process takes it from a core that
may be idle. It outlives the broker by as long as it takes to write what is in the ring, even where
the broker was killed. No signal tells it to end, only the end of a pipe does.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
from contextlib import suppress
from dataclasses import asdict
from enum import IntEnum
from typing import TYPE_CHECKING, Final

from kafkalite.capture.model import Endpoint
from kafkalite.capture.ring import Ring
from kafkalite.capture.rotation import CaptureError
from kafkalite.capture.scribe import CaptureOptions, Ends, Scribe

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kafkalite.capture.pcapng import Buffer

READY: Final = "ready"
"""What the process says when it has its first file; anything else says why it has none."""

_SHORTEST_S: Final = 0.008
_LONGEST_S: Final = 0.032
"""How long it rests when there is nothing to take: longer each time, up to this."""

_FLUSH_BYTES: Final = 1024 * 1024
"""After so much it hands all that it took to the operating system, and frees its place."""

_RECORD_BYTES: Final = 64
"""What a record takes beside its data, about."""


class Kind(IntEnum):
    """What a record of the ring says of its connection."""

    OPENED = 0
    RECEIVED = 1
    SENT = 2
    CLOSED = 3
    LOST = 4
    """All connections before this one: the ring was full for too long."""
    ENDED = 5
    """None in particular: the recording ends in order."""


def encode_ends(ends: Ends) -> bytes:
    """Return what a record says of who is connected."""
    return json.dumps(ends).encode()


def decode_ends(data: Buffer) -> Ends:
    """Return what `encode_ends` encoded."""
    client, broker, node_id, listener = json.loads(bytes(data))
    return Ends(Endpoint(*client), Endpoint(*broker), node_id, listener)


def command(  # noqa: PLR0917 - said once
    ring: int, wake: int, status: int, directory: str, options: CaptureOptions, at_ns: int
) -> list[str]:
    """Return what starts the process, given descriptors that it inherits."""
    task = {
        "ring": ring,
        "wake": wake,
        "status": status,
        "directory": directory,
        "options": asdict(options),
        "at_ns": at_ns,
    }
    # Without site and its search paths the interpreter starts twice as fast, but finds nothing.
    return [sys.executable, "-P", "-m", "kafkalite.capture.scribing", json.dumps(task)]


class Scribing:
    """A scribe that is told by a ring what to write."""

    def __init__(self, ring: Ring, scribe: Scribe, at_ns: int) -> None:
        self._ring = ring
        self._scribe = scribe
        self._latest_ns = at_ns

    def run(self, wake: int) -> None:
        """Write until the other side of the pipe is closed, and all that came before that."""
        rest_s = _SHORTEST_S
        is_over = False
        while not is_over:
            # What is seen now is taken after the rest: by then its bytes have arrived as well,
            # whatever order the processor wrote them in.
            head = self._ring.head
            ready, _, _ = select.select([wake], [], [], rest_s)
            if ready and not os.read(wake, 4096):
                is_over = True
                head = self._ring.head
            rest_s = _SHORTEST_S if self.take(head) else min(2 * rest_s, _LONGEST_S)
        self._scribe.close(self._latest_ns)

    def take(self, head: int) -> bool:
        """Write down what was put before `head` was that; whether there was anything."""
        scribe = self._scribe
        tell: Mapping[int, Callable[[int, int, Buffer], None]] = {
            Kind.RECEIVED: scribe.received,
            Kind.SENT: scribe.sent,
        }
        latest_ns = None
        taken = 0
        for kind, number, at_ns, data in self._ring.take(head):
            latest_ns = at_ns
            if kind in tell:
                tell[kind](number, at_ns, data)
            elif kind == Kind.OPENED:
                scribe.opened(number, at_ns, decode_ends(data))
            elif kind == Kind.CLOSED:
                scribe.closed(number, at_ns)
            elif kind == Kind.LOST:
                scribe.lose_all()
            taken += len(data) + _RECORD_BYTES
            if taken > _FLUSH_BYTES:
                self._flush()
                taken = 0
        if latest_ns is None:
            return False
        self._latest_ns = latest_ns
        self._flush()
        return True

    def _flush(self) -> None:
        self._scribe.flush()
        self._ring.free()


def main(arguments: Sequence[str]) -> None:
    """Do the one task that the argument describes."""
    task = json.loads(arguments[0])
    # A terminal's Ctrl-C is for the broker, whose end is ours.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)

    def tell(line: str) -> None:
        with suppress(OSError):  # the broker is gone, and nobody wants to know
            os.write(task["status"], f"{line}\n".encode())

    scribe = Scribe(task["directory"], CaptureOptions(**task["options"]), tell)
    try:
        scribe.begin(task["at_ns"])
    except CaptureError as error:
        tell(str(error))
        return
    tell(READY)
    Scribing(Ring(task["ring"]), scribe, task["at_ns"]).run(task["wake"])


if __name__ == "__main__":
    main(sys.argv[1:])
