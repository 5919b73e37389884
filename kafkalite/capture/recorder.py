"""Recorder: where bytes that pass a connection are handed over to be written down."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

from kafkalite.capture.scribe import CaptureOptions, Ends, Scribe

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kafkalite.capture.model import Endpoint

    Buffer = bytes | bytearray | memoryview


class Recorder:
    """A recording into `directory`, of any number of connections; made, it has its first file.

    `now_ns` tells the time that packets get. `tell` is given a line when the disk fails. Raises
    CaptureError when nothing can be written there.
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
        self._numbers = count()
        self._scribe = Scribe(directory, options or CaptureOptions(), tell)
        self._scribe.begin(now_ns())

    def open(self, *, client: Endpoint, broker: Endpoint, node_id: int, listener: str) -> Tap:
        """Begin to record a connection; never raises, nor does anything of the tap."""
        number = next(self._numbers)
        self._scribe.opened(number, self._now_ns(), Ends(client, broker, node_id, listener))
        self._scribe.flush()
        return Tap(self._scribe, number, self._now_ns)

    def close(self) -> None:
        """Write down what is left, and end the last file."""
        self._scribe.close(self._now_ns())


class Tap:
    """What one connection hands its bytes to."""

    __slots__ = ("_now_ns", "_number", "_scribe")

    def __init__(self, scribe: Scribe, number: int, now_ns: Callable[[], int]) -> None:
        self._scribe = scribe
        self._number = number
        self._now_ns = now_ns

    def received(self, data: Buffer) -> None:
        """Record bytes that the client has sent."""
        self._scribe.received(self._number, self._now_ns(), bytes(data))
        self._scribe.flush()

    def sent(self, pieces: Sequence[Buffer]) -> None:
        """Record bytes that the client is sent."""
        self._scribe.sent(self._number, self._now_ns(), b"".join(pieces))
        self._scribe.flush()

    def close(self) -> None:
        """Record that the connection has ended."""
        self._scribe.closed(self._number, self._now_ns())
        self._scribe.flush()
