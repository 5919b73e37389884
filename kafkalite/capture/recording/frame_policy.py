"""`FramePolicy`: decides whether a frame is written unchanged, truncated or blanked.

The treatment of a response depends on its request. Responses come in the order of their requests,
so pending requests are stored in a queue. A request that gets no response, such as Produce with
acks=0, is dropped when a later one is answered. Most frames are written unchanged; consecutive ones
are handled in a fast loop.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from struct import Struct
from typing import TYPE_CHECKING, Final

from kafkalite.capture.formats.comments import PacketNote
from kafkalite.capture.formats.tcp_packets import SEGMENT_BYTES
from kafkalite.capture.reading.messages import is_request, request_header
from kafkalite.capture.recording.frame_splitting import (
    LENGTH_BYTES,
    MIN_REQUEST_BYTES,
    TREATMENT_PREFIX_BYTES,
    SimpleTreatment,
)
from kafkalite.capture.recording.record_truncation import (
    TRUNCATED_REQUESTS,
    TRUNCATED_RESPONSES,
    RecordTruncation,
)
from kafkalite.capture.recording.redaction import (
    SECRETS_OF_REQUESTS,
    SECRETS_OF_RESPONSES,
    redact_request,
    redact_response,
)
from kafkalite.protocol import codec
from kafkalite.protocol.api_keys import ApiKey

if TYPE_CHECKING:
    from kafkalite.capture.formats.pcapng import Buffer
    from kafkalite.capture.recording.frame_splitting import TreatedFrame, Treatment

_API_VERSIONS: Final = int(ApiKey.API_VERSIONS)
_SASL_HANDSHAKE: Final = int(ApiKey.SASL_HANDSHAKE)
_KNOWN_KEYS: Final = frozenset(codec.api_keys())
_MIN_INVALID_VERSION: Final = 0x20
"""The lowest invalid version: from here on, the bytes may be text, such as a password."""

_MIN_INVALID_KEY: Final = 1024
"""The lowest API key that counts as invalid."""

_MAX_PENDING: Final = 16_384
_MAX_UNCHANGED_BYTES: Final = SEGMENT_BYTES - LENGTH_BYTES
_unpack_request_start = Struct(">ihhi").unpack_from
_unpack_response_start = Struct(">ii").unpack_from
_PendingRequest = tuple[int | None, int, int]
"""A request that has no response yet: correlation id, API key and version. The correlation id is
None for a SASL token without a request header, whose response has no correlation id either."""

_TOKEN_REQUEST: Final[_PendingRequest] = (None, -1, -1)


class FrameRules:
    """Rules for writing frames, for all connections of a recording."""

    __slots__ = (
        "hides_secrets",
        "truncation",
        "unchanged_requests",
        "unchanged_responses",
    )

    def __init__(self, max_field_bytes: int | None, *, keep_secrets: bool) -> None:
        self.truncation = None if max_field_bytes is None else RecordTruncation(max_field_bytes)
        self.hides_secrets = not keep_secrets
        requests, responses = set(_KNOWN_KEYS) - {_API_VERSIONS, _SASL_HANDSHAKE}, set(_KNOWN_KEYS)
        if self.hides_secrets:
            requests -= SECRETS_OF_REQUESTS.keys()
            responses -= SECRETS_OF_RESPONSES.keys()
        if self.truncation is not None:
            requests -= TRUNCATED_REQUESTS.keys()
            responses -= TRUNCATED_RESPONSES.keys()
        self.unchanged_requests = frozenset(requests)
        """APIs whose requests are written unchanged and do not affect later frames."""
        self.unchanged_responses = frozenset(responses)


class FramePolicy:
    """Chooses the treatment of one connection's frames, in the order in which they were sent."""

    __slots__ = ("_may_receive_token", "_pending", "_rules", "software")

    def __init__(self, rules: FrameRules) -> None:
        self._rules = rules
        self._may_receive_token = False
        """Whether the next request may be a bare SASL token, as after SaslHandshake v0."""
        self._pending: deque[_PendingRequest] = deque()
        self.software: tuple[str, str] | None = None
        """Name and version of the client library."""

    @property
    def keeps_unframed(self) -> bool:
        """Whether bytes that are not frames are written unchanged."""
        return not self._rules.hides_secrets

    def skip_unchanged_requests(self, data: Buffer, position: int, ends: list[int]) -> int:
        """Skip complete requests that are written unchanged; append their ends to `ends`.

        Returns the position of the first byte after them.
        """
        if self._may_receive_token:
            return position
        unchanged, add_pending, end = (
            self._rules.unchanged_requests,
            self._pending.append,
            len(data),
        )
        while end - position >= TREATMENT_PREFIX_BYTES:
            length, api_key, version, correlation_id = _unpack_request_start(data, position)
            after = position + LENGTH_BYTES + length
            if (
                after > end
                or not MIN_REQUEST_BYTES <= length <= _MAX_UNCHANGED_BYTES
                or api_key not in unchanged
                or not 0 <= version < _MIN_INVALID_VERSION
            ):
                break
            add_pending((correlation_id, api_key, version))
            ends.append(after)
            position = after
        if len(self._pending) > _MAX_PENDING:
            self._drop_oldest()
        return position

    def skip_unchanged_responses(self, data: Buffer, position: int, ends: list[int]) -> int:
        """Skip complete responses that are written unchanged, as `skip_unchanged_requests` does."""
        unchanged, pending, end = self._rules.unchanged_responses, self._pending, len(data)
        while pending and end - position >= 2 * LENGTH_BYTES:
            length, correlation_id = _unpack_response_start(data, position)
            after = position + LENGTH_BYTES + length
            request = pending[0]
            if (
                after > end
                or not LENGTH_BYTES <= length <= _MAX_UNCHANGED_BYTES
                or request[0] != correlation_id
                or request[1] not in unchanged
            ):
                break
            pending.popleft()
            ends.append(after)
            position = after
        return position

    def request_treatment(self, frame: bytes) -> Treatment:
        """Return the treatment of a request, given its bytes or their beginning."""
        rules = self._rules
        if len(frame) < TREATMENT_PREFIX_BYTES or (
            self._may_receive_token and not self._ends_tokens(frame)
        ):
            # Not a request: its content is unknown and may be secret.
            self._add_pending(_TOKEN_REQUEST)
            return SimpleTreatment.HIDE if rules.hides_secrets else SimpleTreatment.KEEP
        _, api_key, version, correlation_id = _unpack_request_start(frame)
        self._add_pending((correlation_id, api_key, version))
        if rules.hides_secrets and not self._is_plausible_header(api_key, version):
            # A SASL token without a handshake may be secret from its first byte on.
            return SimpleTreatment.HIDE
        if api_key == _API_VERSIONS:
            return self._annotate_software
        if api_key == _SASL_HANDSHAKE and version == 0:
            self._may_receive_token = True
        if rules.hides_secrets:
            if api_key in SECRETS_OF_REQUESTS:
                return redact_request
            if api_key not in _KNOWN_KEYS:
                return SimpleTreatment.BLANK
        return (
            SimpleTreatment.KEEP
            if rules.truncation is None
            else rules.truncation.request_treatment(api_key)
        )

    @staticmethod
    def _is_plausible_header(api_key: int, version: int) -> bool:
        return 0 <= api_key < _MIN_INVALID_KEY and 0 <= version < _MIN_INVALID_VERSION

    def response_treatment(self, frame: bytes) -> Treatment:
        """Return the treatment of a response."""
        has_correlation_id = len(frame) >= 2 * LENGTH_BYTES
        pending = self._pop_request(
            _unpack_response_start(frame)[1] if has_correlation_id else None
        )
        rules = self._rules
        if pending is None:
            # A response without a known request may contain secrets.
            return SimpleTreatment.BLANK if rules.hides_secrets else SimpleTreatment.KEEP
        correlation_id, api_key, version = pending
        if rules.hides_secrets:
            if correlation_id is None:
                return SimpleTreatment.HIDE
            if api_key in SECRETS_OF_RESPONSES:
                return partial(redact_response, api_key, version)
            if api_key not in _KNOWN_KEYS:
                return SimpleTreatment.BLANK
        return (
            SimpleTreatment.KEEP
            if rules.truncation is None
            else rules.truncation.response_treatment(api_key, version)
        )

    def _add_pending(self, pending: _PendingRequest) -> None:
        self._pending.append(pending)
        if len(self._pending) > _MAX_PENDING:
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        """Drop the oldest pending requests, first those whose responses need no treatment."""
        unchanged = self._rules.unchanged_responses
        pending = list(self._pending)
        recent_start = len(pending) - _MAX_PENDING // 2
        remaining = [request for request in pending[:recent_start] if request[1] not in unchanged]
        self._pending = deque(remaining[-_MAX_PENDING // 4 :] + pending[recent_start:])

    def _pop_request(self, correlation_id: int | None) -> _PendingRequest | None:
        """Remove the request of a response from the queue, and return it; None if unknown."""
        pending = self._pending
        if not pending:
            return None
        index = 0
        if pending[0][0] != correlation_id and correlation_id is not None:
            indexes = (
                index for index, request in enumerate(pending) if request[0] == correlation_id
            )
            index = next(indexes, 0)
        if index == 0 and pending[0][0] not in {correlation_id, None}:
            return None
        for _ in range(index):
            pending.popleft()
        return pending.popleft()

    def _ends_tokens(self, frame: bytes) -> bool:
        """Whether a frame is a request, which ends the SASL tokens; update `_may_receive_token`."""
        self._may_receive_token = not is_request(frame[LENGTH_BYTES:])
        return not self._may_receive_token

    def _annotate_software(self, frame: bytes) -> TreatedFrame:
        """Write an ApiVersions request unchanged, with the client library's name in a note."""
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
