"""Unit tests of the policy: secrets are found by the request, in any order of requests."""

from __future__ import annotations

from struct import pack
from typing import TYPE_CHECKING

import pytest

from kafkalite.capture.formats.comments import PacketNote
from kafkalite.capture.recording.frame_policy import _MAX_PENDING, FramePolicy, FrameRules
from kafkalite.capture.recording.frame_splitting import FrameSplitter, PacketPayload
from kafkalite.protocol._generated.messages.api_versions import (
    ApiVersionsRequest,
    ApiVersionsResponse,
)
from kafkalite.protocol._generated.messages.describe_delegation_token import (
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from kafkalite.protocol._generated.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafkalite.protocol._generated.messages.metadata import MetadataRequest, MetadataResponse
from kafkalite.protocol._generated.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from kafkalite.protocol._generated.messages.sasl_handshake import (
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from tests.unit.frames import framed, request_frame, response_frame

if TYPE_CHECKING:
    from collections.abc import Sequence

SECRET = b"\0alice\0hunter2-hunter2"
TOKENS = response_frame(
    DescribeDelegationTokenResponse(
        tokens=[DescribeDelegationTokenResponse.DescribedDelegationToken(hmac=SECRET)]
    ),
    1,
    correlation_id=9,
)
ASK_TOKENS = request_frame(DescribeDelegationTokenRequest(), 1, correlation_id=9)
BEAT = request_frame(HeartbeatRequest(group_id="g"), 4, correlation_id=9)
BEATEN = response_frame(HeartbeatResponse(), 4, correlation_id=9)
HANDSHAKE = request_frame(SaslHandshakeRequest(mechanism="PLAIN"), 0)
SHAKEN = response_frame(SaslHandshakeResponse(mechanisms=["PLAIN"]), 0)


class Talk:
    """A connection whose two directions are split and treated."""

    def __init__(self, *, keep_secrets: bool = False) -> None:
        self.policy = policy = FramePolicy(FrameRules(None, keep_secrets=keep_secrets))
        raw = policy.keeps_unframed
        self._requests = FrameSplitter(
            policy.skip_unchanged_requests, policy.request_treatment, 12, keeps_unframed=raw
        )
        self._responses = FrameSplitter(
            policy.skip_unchanged_responses, policy.response_treatment, 8, keeps_unframed=raw
        )

    def asks(self, *frames: bytes) -> list[PacketPayload]:
        return _through(self._requests, frames)

    def answers(self, *frames: bytes) -> list[PacketPayload]:
        return _through(self._responses, frames)


def _through(splitter: FrameSplitter, frames: Sequence[bytes]) -> list[PacketPayload]:
    out: list[PacketPayload] = []
    for frame in frames:
        splitter.feed(frame, out)
    return out


def test_frames_without_secrets_are_unchanged() -> None:
    talk = Talk()
    assert talk.asks(BEAT) == [(BEAT, None)]
    assert talk.answers(BEATEN) == [(BEATEN, None)]


def test_response_is_treated_by_its_request_even_with_equal_ids() -> None:
    talk = Talk()
    talk.asks(BEAT, ASK_TOKENS, BEAT, BEAT)
    pieces = talk.answers(BEATEN, TOKENS, BEATEN, BEATEN)
    assert [note is not None for _, note in pieces] == [False, True, False, False]
    assert SECRET not in b"".join(data for data, _ in pieces)


def test_unanswered_requests_are_dropped_but_secret_ones_last() -> None:
    talk = Talk()
    for number in range(3 * _MAX_PENDING):
        talk.asks(request_frame(HeartbeatRequest(group_id="g"), 4, correlation_id=number))
        if number == 5:
            talk.asks(ASK_TOKENS.replace(pack(">i", 9), pack(">i", -77)))
    assert len(talk.policy._pending) <= _MAX_PENDING + 1
    ((data, note),) = talk.answers(TOKENS.replace(pack(">i", 9), pack(">i", -77)))
    assert SECRET not in data
    assert note is not None
    latest = response_frame(HeartbeatResponse(), 4, correlation_id=3 * _MAX_PENDING - 1)
    assert talk.answers(latest) == [(latest, None)]


def test_sasl_bytes_are_blanked_in_both_directions() -> None:
    talk = Talk()
    request = talk.asks(request_frame(SaslAuthenticateRequest(auth_bytes=SECRET), 2))
    responses = talk.answers(response_frame(SaslAuthenticateResponse(auth_bytes=SECRET), 2))
    for (data, note), _ in zip((*request, *responses), range(2), strict=True):
        assert SECRET not in data
        assert note == PacketNote(blanked=len(SECRET))


@pytest.mark.parametrize("size", [0, 1, len(SECRET), 70_000])
def test_bare_tokens_after_old_handshake_are_hidden_until_requests_follow(size: int) -> None:
    token = framed((SECRET * (size // len(SECRET) + 1))[:size])
    talk = Talk()
    assert talk.asks(HANDSHAKE) == [(HANDSHAKE, None)]
    assert talk.answers(SHAKEN) == [(SHAKEN, None)]
    for _ in range(2):
        assert b"".join(data for data, _ in talk.asks(token)) == token[:4] + bytes(size)
        assert b"".join(data for data, _ in talk.answers(token)) == token[:4] + bytes(size)
    assert talk.asks(BEAT) == [(BEAT, None)]
    assert talk.answers(BEATEN) == [(BEATEN, None)]


def test_last_token_may_be_unanswered() -> None:
    talk = Talk()
    talk.asks(HANDSHAKE)
    talk.answers(SHAKEN)
    talk.asks(framed(SECRET))
    talk.asks(BEAT)
    assert talk.answers(BEATEN) == [(BEATEN, None)]


def test_incomplete_token_is_hidden() -> None:
    talk = Talk()
    talk.asks(HANDSHAKE)
    out: list[PacketPayload] = []
    talk._requests.feed(framed(SECRET)[:-2], out)
    talk._requests.finish(out)
    assert [data for data, _ in out] == [framed(SECRET)[:4] + bytes(len(SECRET) - 2)]


@pytest.mark.parametrize(
    "body", [SECRET, b"user\0user\0hunter2", b"\x60\x82" + SECRET, b"\0A\0pw123"]
)
def test_frame_that_is_no_request_is_hidden_without_handshake(body: bytes) -> None:
    ((data, _),) = Talk().asks(framed(body))
    assert len(data) == len(framed(body))
    assert data[12:] == bytes(len(data) - 12)


def test_client_software_is_noted() -> None:
    talk = Talk()
    request = request_frame(
        ApiVersionsRequest(client_software_name="lib", client_software_version="1.2"), 3
    )
    assert talk.asks(request) == [(request, PacketNote(software="lib", software_version="1.2"))]
    assert talk.policy.software == ("lib", "1.2")
    assert talk.answers(response_frame(ApiVersionsResponse(), 3))[0][1] is None
    old = request_frame(ApiVersionsRequest(), 0)
    malformed = framed(pack(">hhih", 18, 3, 1, -1) + b"\xff")
    assert talk.asks(old, malformed) == [(old, None), (malformed, None)]


def test_malformed_message_of_an_api_without_secrets_is_unchanged() -> None:
    malformed = framed(pack(">hhih", 3, 9, 1, -1) + b"\xff" * 9)
    talk = Talk()
    assert talk.asks(malformed) == [(malformed, None)]
    assert talk.answers(framed(pack(">i", 1) + b"\xff")) == [
        (framed(pack(">i", 1) + b"\xff"), None)
    ]


def test_responses_without_requests_are_blanked() -> None:
    answer = response_frame(MetadataResponse(), 9, correlation_id=3)
    hidden = answer[:8] + bytes(len(answer) - 8), PacketNote(blanked=len(answer) - 8)
    talk = Talk()
    assert talk.answers(answer, framed(b"")) == [hidden, (framed(b""), None)]
    talk.asks(request_frame(MetadataRequest(topics=None), 9, correlation_id=4))
    assert talk.answers(answer) == [hidden]
    assert len(talk.policy._pending) == 1
    assert Talk(keep_secrets=True).answers(answer) == [(answer, None)]


@pytest.mark.parametrize("step", [1, 3, 1000])
@pytest.mark.parametrize(
    "stream",
    [
        framed(SECRET),
        framed(b"\0a\0hunter2-hunter2"),
        framed(b"\0$\0hunter2-hunter2"),
        framed(b"n,,n=alice,r=hunter2-hunter2"),
        pack(">i", -5) + framed(SECRET),
        b"GET / HTTP/1.1\r\nAuthorization: Basic hunter2-hunter2\r\n\r\n",
        HANDSHAKE + BEAT + pack(">i", -1) + SECRET,
        request_frame(SaslHandshakeRequest(mechanism="PLAIN"), 1) + framed(SECRET),
    ],
)
def test_no_password_is_written_at_any_position(stream: bytes, step: int) -> None:
    talk = Talk()
    cuts = [stream[start : start + step] for start in range(0, len(stream), step)]
    data = b"".join(data for data, _ in talk.asks(*cuts))
    assert len(data) == len(stream)
    for start in range(len(b"hunter2-hunter2") - 2):
        assert b"hunter2-hunter2"[start : start + 3] not in data


def test_first_bytes_of_other_protocols_are_written() -> None:
    request = b"GET /hunter2 HTTP/1.1\r\n\r\n"
    ((data, note),) = Talk().asks(request)
    assert data == request[:5] + bytes(len(request) - 5)
    assert note == PacketNote(blanked=len(request) - 5)
    assert Talk(keep_secrets=True).asks(request) == [(request, None)]


def test_secrets_are_written_if_requested() -> None:
    talk = Talk(keep_secrets=True)
    request = request_frame(SaslAuthenticateRequest(auth_bytes=SECRET), 2)
    assert talk.asks(HANDSHAKE, framed(SECRET), request) == [
        (HANDSHAKE, None),
        (framed(SECRET), None),
        (request, None),
    ]
    assert talk.answers(SHAKEN, framed(SECRET)) == [(SHAKEN, None), (framed(SECRET), None)]
