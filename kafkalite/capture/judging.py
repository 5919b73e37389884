"""What is done with each frame of a connection: kept, cut, blanked; a response by its request.

Responses come in the order of their requests, so the requests that wait for theirs are a queue. One
whose answer never comes, as Produce without acknowledgement, is passed over when a later one's
comes. Most frames are kept as they are, so runs of those are gone through in one loop each way.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from struct import Struct
from typing import TYPE_CHECKING, Final

from kafkalite.capture.cutting import (
    HEAD_BYTES,
    LENGTH_BYTES,
    REQUEST_HEAD_BYTES,
    Plain,
)
from kafkalite.capture.messages import is_request, request_header
from kafkalite.capture.notes import PacketNote
from kafkalite.capture.secrets import (
    SASL_HANDSHAKE,
    SECRETS_OF_REQUESTS,
    SECRETS_OF_RESPONSES,
    blank_request,
    blank_response,
)
from kafkalite.capture.snapping import SNAPPED_REQUESTS, SNAPPED_RESPONSES, Snap
from kafkalite.capture.synthetic import SEGMENT_BYTES
from kafkalite.protocol import codec

if TYPE_CHECKING:
    from kafkalite.capture.cutting import Treated, Treatment
    from kafkalite.capture.pcapng import Buffer

_API_VERSIONS: Final = 18
_KNOWN_KEYS: Final = frozenset(codec.api_keys())
_TEXT_FROM: Final = 0x20
"""Versions from here on are no versions: they are what the letters of a password look like."""

_NO_KEY_FROM: Final = 1024
"""Keys from here on no broker will have for long."""

_MAX_WAITING: Final = 16_384
_RUN_BYTES: Final = SEGMENT_BYTES - LENGTH_BYTES
_request_head = Struct(">ihhi").unpack_from
_response_head = Struct(">ii").unpack_from
_Asked = tuple[int | None, int, int]
"""A request whose response has not been seen: its correlation id, API and version; without an id a
token of SASL that is in no request, as is its answer."""

_NO_REQUEST: Final[_Asked] = (None, -1, -1)


class Rules:
    """What is kept of all connections of a recording."""

    __slots__ = ("are_secret", "plain_requests", "plain_responses", "snap")

    def __init__(self, snap_records: int | None, *, keep_secrets: bool) -> None:
        self.snap = None if snap_records is None else Snap(snap_records)
        self.are_secret = not keep_secrets
        requests, responses = set(_KNOWN_KEYS) - {_API_VERSIONS, SASL_HANDSHAKE}, set(_KNOWN_KEYS)
        if self.are_secret:
            requests -= SECRETS_OF_REQUESTS.keys()
            responses -= SECRETS_OF_RESPONSES.keys()
        if self.snap is not None:
            requests -= SNAPPED_REQUESTS.keys()
            responses -= SNAPPED_RESPONSES.keys()
        self.plain_requests = frozenset(requests)
        """APIs whose requests are kept as they are, and tell nothing of what follows them."""
        self.plain_responses = frozenset(responses)


class Judge:
    """Decides for the frames of one connection, in the order in which they passed."""

    __slots__ = ("_is_raw", "_rules", "_waiting", "software")

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._is_raw = False
        """Whether tokens of SASL may come that are in no request, as SaslHandshake v0 has it."""
        self._waiting: deque[_Asked] = deque()
        self.software: tuple[str, str] | None = None
        """What the client says it is, and which version of it."""

    @property
    def keeps_raw(self) -> bool:
        """Whether what is no frame is kept as it is."""
        return not self._rules.are_secret

    def plain_requests(self, data: Buffer, position: int, ends: list[int]) -> int:
        """Go through whole requests that are kept as they are; add where each ends to `ends`.

        Returns where something else begins.
        """
        if self._is_raw:
            return position
        plain, wait, end = self._rules.plain_requests, self._waiting.append, len(data)
        while end - position >= HEAD_BYTES:
            length, api_key, version, correlation_id = _request_head(data, position)
            after = position + LENGTH_BYTES + length
            if (
                after > end
                or not REQUEST_HEAD_BYTES <= length <= _RUN_BYTES
                or api_key not in plain
                or not 0 <= version < _TEXT_FROM
            ):
                break
            wait((correlation_id, api_key, version))
            ends.append(after)
            position = after
        if len(self._waiting) > _MAX_WAITING:
            self._forget()
        return position

    def plain_responses(self, data: Buffer, position: int, ends: list[int]) -> int:
        """Go through whole responses that are kept as they are, as `plain_requests` does."""
        plain, waiting, end = self._rules.plain_responses, self._waiting, len(data)
        while waiting and end - position >= 2 * LENGTH_BYTES:
            length, correlation_id = _response_head(data, position)
            after = position + LENGTH_BYTES + length
            asked = waiting[0]
            if (
                after > end
                or not LENGTH_BYTES <= length <= _RUN_BYTES
                or asked[0] != correlation_id
                or asked[1] not in plain
            ):
                break
            waiting.popleft()
            ends.append(after)
            position = after
        return position

    def request(self, frame: bytes) -> Treatment:
        """Say what is done with a request, given all of it or its beginning."""
        rules = self._rules
        if len(frame) < HEAD_BYTES or (self._is_raw and not self._is_request_again(frame)):
            # No request: nothing is known of it, least of all that it is harmless.
            self._wait(_NO_REQUEST)
            return Plain.HIDE if rules.are_secret else Plain.KEEP
        _, api_key, version, correlation_id = _request_head(frame)
        self._wait((correlation_id, api_key, version))
        if rules.are_secret and not self._is_head(api_key, version):
            # A token where no handshake was: not even what would be its header is harmless.
            return Plain.HIDE
        if api_key == _API_VERSIONS:
            return self._introduce
        if api_key == SASL_HANDSHAKE and version == 0:
            self._is_raw = True
        if rules.are_secret:
            if api_key in SECRETS_OF_REQUESTS:
                return blank_request
            if api_key not in _KNOWN_KEYS:
                return Plain.BLANK
        return Plain.KEEP if rules.snap is None else rules.snap.of_request(api_key)

    @staticmethod
    def _is_head(api_key: int, version: int) -> bool:
        return 0 <= api_key < _NO_KEY_FROM and 0 <= version < _TEXT_FROM

    def response(self, frame: bytes) -> Treatment:
        """Say what is done with a response."""
        has_id = len(frame) >= 2 * LENGTH_BYTES
        asked = self._answered(_response_head(frame)[1] if has_id else None)
        rules = self._rules
        if asked is None:
            # Whoever answers what was not asked may tell anything.
            return Plain.BLANK if rules.are_secret else Plain.KEEP
        correlation_id, api_key, version = asked
        if rules.are_secret:
            if correlation_id is None:
                return Plain.HIDE
            if api_key in SECRETS_OF_RESPONSES:
                return partial(blank_response, api_key, version)
            if api_key not in _KNOWN_KEYS:
                return Plain.BLANK
        return Plain.KEEP if rules.snap is None else rules.snap.of_response(api_key, version)

    def _wait(self, asked: _Asked) -> None:
        self._waiting.append(asked)
        if len(self._waiting) > _MAX_WAITING:
            self._forget()

    def _forget(self) -> None:
        """Forget requests whose answers will hardly come: the older ones, the harmless first."""
        plain = self._rules.plain_responses
        waiting = list(self._waiting)
        recent = len(waiting) - _MAX_WAITING // 2
        kept = [each for each in waiting[:recent] if each[1] not in plain]
        self._waiting = deque(kept[-_MAX_WAITING // 4 :] + waiting[recent:])

    def _answered(self, correlation_id: int | None) -> _Asked | None:
        """Return which request is answered; None for one that nobody remembers."""
        waiting = self._waiting
        if not waiting:
            return None
        nth = 0
        if waiting[0][0] != correlation_id and correlation_id is not None:
            places = (nth for nth, each in enumerate(waiting) if each[0] == correlation_id)
            nth = next(places, 0)
        if nth == 0 and waiting[0][0] not in {correlation_id, None}:
            return None
        for _ in range(nth):
            waiting.popleft()
        return waiting.popleft()

    def _is_request_again(self, frame: bytes) -> bool:
        """Whether tokens have come to their end; a token is never a whole request by chance."""
        self._is_raw = not is_request(frame[LENGTH_BYTES:])
        return not self._is_raw

    def _introduce(self, frame: bytes) -> Treated:
        """Keep an ApiVersions request, and what the client says of itself in it."""
        try:
            header = request_header(frame[LENGTH_BYTES:])
            parse = codec.request_parser(header.api_key, header.api_version)
            message, _ = parse(frame, LENGTH_BYTES + header.start, len(frame))
        except (KeyError, *codec.PARSE_ERRORS):
            return frame, None
        if not message.client_software_name:
            return frame, None
        self.software = (message.client_software_name, message.client_software_version)
        note = PacketNote(software=self.software[0], software_version=self.software[1])
        return frame, note
