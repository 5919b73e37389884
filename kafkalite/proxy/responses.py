"""Responses: what the cluster answers, on its way to clients; what tells addresses is rewritten.

An answer that is to be rewritten is gathered first, for its length stands before it. Any other goes
on as it comes.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING

from kafkalite.protocol.errors import ProtocolViolation
from kafkalite.proxy.rewriting import CORRELATION_BYTES, HEAD_BYTES
from kafkalite.wire.frames import LENGTH_BYTES, frame_length

if TYPE_CHECKING:
    from collections import deque

    from kafkalite.proxy.requests import Asked
    from kafkalite.proxy.rewriting import Rewriter, Tell

MAX_GATHERED_BYTES = 256 * 1024 * 1024
"""The longest answer that is gathered; clients choose how long their Fetch answers may be."""

_correlation_id = Struct(">i").unpack_from
_framed_head = Struct(">ii").unpack_from


class ResponseStream:
    """The answers of one connection, in the order of the requests in `unanswered`."""

    __slots__ = ("_gathered", "_kept", "_missing", "_rewriter", "_skip", "_tell", "_unanswered")

    def __init__(self, unanswered: deque[Asked], tell: Tell) -> None:
        self._unanswered = unanswered
        self._tell = tell
        self._kept = b""
        """A frame's first bytes, which do not yet tell what it is."""
        self._skip = 0
        """How much of the present frame is still to come and goes on untouched."""
        self._gathered: list[bytes] = []
        self._missing = 0
        """How much of the frame that is gathered is still to come."""
        self._rewriter: Rewriter | None = None

    @property
    def is_between(self) -> bool:
        """Whether no answer is due, or has come in part."""
        return not (self._unanswered or self._kept or self._skip or self._missing)

    def feed(self, data: bytes) -> list[bytes]:
        """Return what clients may see of `data` and what was kept before; ProtocolViolation."""
        out: list[bytes] = []
        if self._missing:
            data = self._gather(data, out)
        buffer = self._kept + data if self._kept else data
        self._kept = b""
        end = len(buffer)
        run, position = 0, self._skip
        while (position := self._run(buffer, position, end)) < end:
            stop, rewriter = self._next(buffer, position)
            if stop is None:
                self._kept = buffer[position:]
                break
            if rewriter is not None:
                out.append(buffer[run:position])
                self._begin(buffer[position:stop], stop - position, rewriter, out)
                run = min(stop, end)
                position = run
                continue
            position = stop
        self._skip = max(position - end, 0)
        out.append(buffer[run : min(position, end)])
        return [piece for piece in out if piece]

    def _run(self, buffer: bytes, position: int, end: int) -> int:
        """Pass over the answers from here on that are due and go on untouched."""
        unanswered = self._unanswered
        while unanswered and end - position >= HEAD_BYTES:
            length, found = _framed_head(buffer, position)
            correlation_id, rewriter = unanswered[0]
            if found != correlation_id or rewriter is not None or length < CORRELATION_BYTES:
                break
            unanswered.popleft()
            position += LENGTH_BYTES + length
        return position

    def _next(self, buffer: bytes, position: int) -> tuple[int | None, Rewriter | None]:
        """Return where the frame ends that begins here, None if that is not known yet.

        And who rewrites it, None for nobody.
        """
        end = len(buffer)
        if end - position < LENGTH_BYTES:
            return None, None
        length = frame_length(buffer, position)
        if length < 0:
            raise ProtocolViolation(f"an answer of negative length {length}")
        stop = position + LENGTH_BYTES + length
        if not self._unanswered:
            raise ProtocolViolation("an answer that nobody asked for")
        if self._unanswered[0].correlation_id is not None or len(self._unanswered) > 1:
            if end < min(stop, position + HEAD_BYTES):
                return None, None
            return stop, self._matched(buffer, position, stop)
        self._unanswered.popleft()
        return stop, None

    def _matched(self, buffer: bytes, position: int, stop: int) -> Rewriter | None:
        """Take the request that this frame answers from those unanswered.

        A mechanism may leave its last bytes without an answer: then the next request has it.
        """
        found = None
        if stop - position >= HEAD_BYTES:
            (found,) = _correlation_id(buffer, position + LENGTH_BYTES)
        asked = self._unanswered.popleft()
        if asked.correlation_id is None:
            following = next(
                (each for each in self._unanswered if each.correlation_id is not None), None
            )
            if following is None or following.correlation_id != found:
                return None
            while asked is not following:
                asked = self._unanswered.popleft()
        if asked.correlation_id != found:
            raise ProtocolViolation(
                f"an answer with correlation id {found} where {asked.correlation_id} is due"
            )
        return asked.rewriter

    def _begin(self, piece: bytes, size: int, rewriter: Rewriter, out: list[bytes]) -> None:
        """Begin to gather a frame, of which `piece` is there."""
        if size > MAX_GATHERED_BYTES:
            raise ProtocolViolation(
                f"an answer of {size} bytes, of which this proxy takes {MAX_GATHERED_BYTES}: "
                "have the client fetch less at a time"
            )
        if len(piece) == size:
            out.append(rewriter.rewrite(piece, self._tell))
            return
        self._gathered = [piece]
        self._missing = size - len(piece)
        self._rewriter = rewriter

    def _gather(self, data: bytes, out: list[bytes]) -> bytes:
        """Add to the frame that is gathered; return what is behind it."""
        taken = data[: self._missing]
        self._gathered.append(taken)
        self._missing -= len(taken)
        if not self._missing:
            assert self._rewriter is not None
            frame = b"".join(self._gathered)
            self._gathered = []
            out.append(self._rewriter.rewrite(frame, self._tell))
        return data[len(taken) :]
