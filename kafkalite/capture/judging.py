"""What is done with each frame of a connection: kept, cut, blanked; a response by its request.

Responses come in the order of their requests, so the requests that wait for theirs are a queue. One
whose answer never comes, as Produce without acknowledgement, is passed over when a later one's
comes.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkalite.capture.cutting import HEAD_BYTES, LENGTH_BYTES, Piece, Plain
from kafkalite.capture.messages import is_request, request_header
from kafkalite.capture.notes import PacketNote
from kafkalite.capture.secrets import (
    SASL_HANDSHAKE,
    SECRETS_OF_REQUESTS,
    SECRETS_OF_RESPONSES,
    blank_request,
    blank_response,
)
from kafkalite.protocol import codec

if TYPE_CHECKING:
    from kafkalite.capture.cutting import Treatment
    from kafkalite.capture.snapping import Snap

_API_VERSIONS: Final = 18
_KNOWN_KEYS: Final = frozenset(codec.api_keys())
_TEXT_FROM: Final = 0x20
"""Versions from here on are no versions: they are what the letters of a password look like."""

_MAX_WAITING: Final = 4096
_unpack_head = Struct(">hhi").unpack_from
_unpack_id = Struct(">i").unpack_from


class _Asked(NamedTuple):
    """A request whose response has not been seen."""

    correlation_id: int | None
    """None for a token of SASL that is in no request, as is its answer."""
    api_key: int
    version: int


_NO_REQUEST: Final = _Asked(None, 0, 0)


class Judge:
    """Decides for the frames of one connection, in the order in which they passed."""

    __slots__ = ("_are_secret", "_is_raw", "_snap", "_waiting", "software")

    def __init__(self, snap: Snap | None, *, keep_secrets: bool) -> None:
        self._snap = snap
        self._are_secret = not keep_secrets
        self._is_raw = False
        """Whether tokens of SASL may come that are in no request, as SaslHandshake v0 has it."""
        self._waiting: deque[_Asked] = deque()
        self.software: tuple[str, str] | None = None
        """What the client says it is, and which version of it."""

    def request(self, frame: bytes) -> Treatment:
        """Say what is done with a request, given all of it or its beginning."""
        if len(frame) < HEAD_BYTES or (self._is_raw and not self._is_request_again(frame)):
            # No request: nothing is known of it, least of all that it is harmless.
            self._wait(_NO_REQUEST)
            return Plain.HIDE if self._are_secret else Plain.KEEP
        api_key, version, correlation_id = _unpack_head(frame, LENGTH_BYTES)
        self._wait(_Asked(correlation_id, api_key, version))
        if api_key == _API_VERSIONS:
            return self._introduce
        if api_key == SASL_HANDSHAKE and version == 0:
            self._is_raw = True
        if self._are_secret:
            if api_key in SECRETS_OF_REQUESTS:
                return blank_request
            if api_key not in _KNOWN_KEYS or not 0 <= version < _TEXT_FROM:
                return Plain.BLANK
        return Plain.KEEP if self._snap is None else self._snap.of_request(api_key)

    def response(self, frame: bytes) -> Treatment:
        """Say what is done with a response."""
        asked = self._answered(_unpack_id(frame, 4)[0] if len(frame) >= 8 else None)  # noqa: PLR2004
        if asked is None:
            return Plain.KEEP
        if self._are_secret:
            if asked.correlation_id is None:
                return Plain.HIDE
            if asked.api_key in SECRETS_OF_RESPONSES:
                return partial(_blank_response, asked)
            if asked.api_key not in _KNOWN_KEYS:
                return Plain.BLANK
        snap = self._snap
        return Plain.KEEP if snap is None else snap.of_response(asked.api_key, asked.version)

    def _wait(self, asked: _Asked) -> None:
        waiting = self._waiting
        if len(waiting) >= _MAX_WAITING:
            # Their answers will hardly come, and if one does it is not one to be treated.
            kept = [each for each in waiting if _is_treated(each)][-_MAX_WAITING // 2 :]
            waiting.clear()
            waiting.extend(kept)
        waiting.append(asked)

    def _answered(self, correlation_id: int | None) -> _Asked | None:
        """Return which request is answered; None for one that nobody remembers."""
        waiting = self._waiting
        if not waiting:
            return None
        first = waiting[0]
        if first.correlation_id == correlation_id:
            return waiting.popleft()
        for nth, each in enumerate(waiting):
            if each.correlation_id == correlation_id and correlation_id is not None:
                for _ in range(nth):
                    waiting.popleft()
                return waiting.popleft()
        if first.correlation_id is None:
            return waiting.popleft()
        return None

    def _is_request_again(self, frame: bytes) -> bool:
        """Whether tokens have come to their end; a token is never a whole request by chance."""
        self._is_raw = not is_request(frame[LENGTH_BYTES:])
        return not self._is_raw

    def _introduce(self, frame: bytes) -> Piece:
        """Keep an ApiVersions request, and what the client says of itself in it."""
        try:
            header = request_header(frame[LENGTH_BYTES:])
            parse = codec.request_parser(header.api_key, header.api_version)
            message, _ = parse(frame, LENGTH_BYTES + header.start, len(frame))
        except (KeyError, *codec.PARSE_ERRORS):
            return Piece(frame)
        if not message.client_software_name:
            return Piece(frame)
        self.software = (message.client_software_name, message.client_software_version)
        note = PacketNote(software=self.software[0], software_version=self.software[1])
        return Piece(frame, note)


def _is_treated(asked: _Asked) -> bool:
    return asked.correlation_id is None or asked.api_key in SECRETS_OF_RESPONSES


def _blank_response(asked: _Asked, frame: bytes) -> Piece:
    return blank_response(frame, asked.api_key, asked.version)
