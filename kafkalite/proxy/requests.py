"""Requests: what clients ask, noted in passing; what goes to the cluster is what they sent.

Nothing is decoded but headers, and of a Produce request the number of acknowledgements it wants:
with none there will be no answer. A frame of any size passes without being gathered.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from struct import Struct, error
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkalite.protocol import codec
from kafkalite.protocol.errors import ProtocolViolation
from kafkalite.protocol.straightline import rest_of_varint
from kafkalite.protocol.versions import Versions
from kafkalite.proxy.rewriting import rewriter_of
from kafkalite.wire.frames import LENGTH_BYTES, frame_length
from kafkalite.wire.headers import HEADER_BYTES, skip_tagged_fields
from kafkalite.wire.session import refused_length

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalite.proxy.rewriting import Rewriter

MAX_HEAD_BYTES = 256 * 1024
"""How much of a frame may stand before what we look for: client id, transactional id, tags."""

_REMEMBERED: Final = 128
"""Of so many APIs and versions it is known by heart what is done; clients may write any numbers."""

_PRODUCE: Final = 0
_SASL_HANDSHAKE: Final = 17
_NAMES_TRANSACTION: Final = Versions(3)
_KEY_BYTES: Final = 8
"""Key, version and correlation id."""

_head = Struct(">hhi").unpack_from
_framed_head = Struct(">iIi").unpack_from
_int16 = Struct(">h").unpack_from


class Asked(NamedTuple):
    """A request that is to be answered."""

    correlation_id: int | None
    """None for the bytes of a SASL mechanism that go without any header."""
    rewriter: Rewriter | None
    """What to do with its answer, None for nothing."""


_asked: Callable[[tuple[int | None, Rewriter | None]], Asked] = partial(tuple.__new__, Asked)
"""As the class itself, in half the time: there is one for every request."""

TOKEN: Final = Asked(None, None)
"""A mechanism's own bytes, which are sent bare after SaslHandshake version 0."""


class RequestStream:
    """The requests of one connection; `unanswered` are those whose answers are to come."""

    __slots__ = ("_is_bare", "_kept", "_known", "_max_frame_bytes", "_skip", "seen", "unanswered")

    def __init__(self, max_frame_bytes: int) -> None:
        self._max_frame_bytes = max_frame_bytes
        self._kept = b""
        """A frame's first bytes, which do not yet tell what it is."""
        self._skip = 0
        """How much of the present frame is still to come and of no interest."""
        self._is_bare = False
        """Whether a mechanism's bytes may come."""
        self._known: dict[int, Rewriter | None] = {}
        """By API and version as one number: what rewrites answers to requests of which the heads
        tell all that matters."""
        self.unanswered: deque[Asked] = deque()
        self.seen = 0
        """How many requests have begun."""

    @property
    def is_between(self) -> bool:
        """Whether a request begins with what comes next, and nothing else can."""
        return not (self._kept or self._skip or self._is_bare)

    def feed(self, data: bytes) -> None:
        """Note the requests that begin in `data`; ProtocolViolation for what can be none."""
        buffer = self._kept + data if self._kept else data
        position, end = self._skip, len(buffer)
        while end - position >= LENGTH_BYTES:
            if not self._is_bare and (after := self._run(buffer, position, end)) > position:
                position = after
                continue
            length = frame_length(buffer, position)
            if not 0 <= length <= self._max_frame_bytes:
                raise ProtocolViolation(refused_length(length, self._max_frame_bytes))
            start = position + LENGTH_BYTES
            stop = start + length
            if not self._note(buffer, start, stop):
                break
            self.seen += 1
            position = stop
        if position >= end:
            self._kept, self._skip = b"", position - end
            return
        self._kept, self._skip = buffer[position:], 0
        if len(self._kept) > MAX_HEAD_BYTES:
            raise ProtocolViolation(f"a request's head is longer than {MAX_HEAD_BYTES} bytes")

    def _run(self, buffer: bytes, position: int, end: int) -> int:
        """Note the requests from here on of which nothing matters but their heads.

        Returns where something else begins, or what has not come yet.
        """
        known, note = self._known, self.unanswered.append
        most = self._max_frame_bytes
        count = 0
        while end - position >= LENGTH_BYTES + _KEY_BYTES:
            length, kind, correlation_id = _framed_head(buffer, position)
            if kind not in known or not _KEY_BYTES <= length <= most:
                break
            note(_asked((correlation_id, known[kind])))
            position += LENGTH_BYTES + length
            count += 1
        self.seen += count
        return position

    def _note(self, buffer: bytes, start: int, stop: int) -> bool:
        """Note the request in a frame; False where too little of it has come to tell."""
        here = min(stop, len(buffer))
        if self._is_bare:
            if here < min(stop, start + HEADER_BYTES):
                return False
            if not _is_request(buffer, start, stop):
                self.unanswered.append(TOKEN)
                return True
            self._is_bare = False
        if here < start + _KEY_BYTES:
            if here == stop:
                raise ProtocolViolation(f"a request of {stop - start} bytes has no header")
            return False
        key, version, correlation_id = _head(buffer, start)
        rewriter = rewriter_of(key, version)
        if key == _PRODUCE:
            wants_answer = _wants_answer(buffer, start, stop, version)
            if wants_answer is None:
                return False
            if not wants_answer:
                return True
        elif key != _SASL_HANDSHAKE and len(self._known) < _REMEMBERED:
            self._known[key << 16 | version] = rewriter
        self._is_bare = key == _SASL_HANDSHAKE and not version
        self.unanswered.append(Asked(correlation_id, rewriter))
        return True


def _is_request(buffer: bytes, start: int, stop: int) -> bool:
    """Whether a frame that may be a mechanism's own bytes begins as a request does.

    Those of PLAIN, SCRAM, OAUTHBEARER and GSSAPI all have, where a request has the numbers of its
    API and version and the length of its client id, something that these cannot be.
    """
    if stop - start < HEADER_BYTES:
        return False
    key, version, _ = _head(buffer, start)
    (client_id_bytes,) = _int16(buffer, start + _KEY_BYTES)
    return (
        key in codec.api_keys()
        and version in codec.api_versions(key, unstable=True)
        and -1 <= client_id_bytes <= stop - start - HEADER_BYTES
    )


def _wants_answer(buffer: bytes, start: int, stop: int, version: int) -> bool | None:
    """Whether a Produce request wants any acknowledgement; None where that has not come yet."""
    end = min(stop, len(buffer))
    reason: Exception | None = None
    try:
        position = _acks_position(buffer, start + _KEY_BYTES, end, version)
        (acks,) = _int16(buffer, position)
        if position + 2 <= end:
            return bool(acks)
    except (ProtocolViolation, IndexError, error) as fault:
        reason = fault
    if end == stop:
        raise ProtocolViolation("a Produce request ends inside its head") from reason
    return None


def _acks_position(buffer: bytes, position: int, end: int, version: int) -> int:
    """Return where a Produce request says how many acknowledgements it wants."""
    is_flexible = codec.is_flexible(_PRODUCE, version)
    position = _after_string(buffer, position)
    if is_flexible:
        position = skip_tagged_fields(buffer, position, end)
    if version in _NAMES_TRANSACTION:
        after = _after_compact_string if is_flexible else _after_string
        position = after(buffer, position)
    return position


def _after_string(buffer: bytes, position: int) -> int:
    """Return the position after a nullable string with a length of two bytes."""
    length: int = _int16(buffer, position)[0]
    return position + 2 + max(length, 0)


def _after_compact_string(buffer: bytes, position: int) -> int:
    """Return the position after a nullable string whose length plus one is a varint."""
    length = buffer[position]
    position += 1
    if length > 0x7F:  # noqa: PLR2004 - the continuation bit
        length, position = rest_of_varint(buffer, position, length)
    return position + max(length - 1, 0)
