"""Judging: secrets are found by what was asked, whatever the order and the names of requests."""

from __future__ import annotations

from struct import pack
from typing import TYPE_CHECKING

import pytest

from kafkalite.capture.cutting import Cutter, Piece
from kafkalite.capture.judging import _MAX_WAITING, Judge, Rules
from kafkalite.capture.notes import PacketNote
from kafkalite.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kafkalite.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from kafkalite.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafkalite.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kafkalite.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from kafkalite.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
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
    """A connection whose both ways are cut and judged."""

    def __init__(self, *, keep_secrets: bool = False) -> None:
        self.judge = judge = Judge(Rules(None, keep_secrets=keep_secrets))
        raw = judge.keeps_raw
        self._there = Cutter(judge.plain_requests, judge.request, 12, keeps_raw=raw)
        self._back = Cutter(judge.plain_responses, judge.response, 8, keeps_raw=raw)

    def asks(self, *frames: bytes) -> list[Piece]:
        return _through(self._there, frames)

    def answers(self, *frames: bytes) -> list[Piece]:
        return _through(self._back, frames)


def _through(cutter: Cutter, frames: Sequence[bytes]) -> list[Piece]:
    out: list[Piece] = []
    for frame in frames:
        cutter.feed(frame, out)
    return out


def test_what_tells_no_secret_is_kept() -> None:
    talk = Talk()
    assert talk.asks(BEAT) == [(BEAT, None)]
    assert talk.answers(BEATEN) == [(BEATEN, None)]


def test_a_response_is_told_by_its_request_even_where_ids_are_all_alike() -> None:
    talk = Talk()
    talk.asks(BEAT, ASK_TOKENS, BEAT, BEAT)
    pieces = talk.answers(BEATEN, TOKENS, BEATEN, BEATEN)
    assert [note is not None for _, note in pieces] == [False, True, False, False]
    assert SECRET not in b"".join(data for data, _ in pieces)


def test_requests_that_are_never_answered_are_passed_over() -> None:
    talk = Talk()
    for number in range(3 * _MAX_WAITING):
        talk.asks(request_frame(HeartbeatRequest(group_id="g"), 4, correlation_id=number))
        if number == 5:
            talk.asks(ASK_TOKENS.replace(pack(">i", 9), pack(">i", -77)))
    assert len(talk.judge._waiting) <= _MAX_WAITING + 1
    ((data, note),) = talk.answers(TOKENS.replace(pack(">i", 9), pack(">i", -77)))
    assert SECRET not in data
    assert note is not None
    latest = response_frame(HeartbeatResponse(), 4, correlation_id=3 * _MAX_WAITING - 1)
    assert talk.answers(latest) == [(latest, None)]


def test_bytes_of_sasl_are_blanked_both_ways() -> None:
    talk = Talk()
    asked = talk.asks(request_frame(SaslAuthenticateRequest(auth_bytes=SECRET), 2))
    answered = talk.answers(response_frame(SaslAuthenticateResponse(auth_bytes=SECRET), 2))
    for (data, note), _ in zip((*asked, *answered), range(2), strict=True):
        assert SECRET not in data
        assert note == PacketNote(blanked=len(SECRET))


@pytest.mark.parametrize("size", [0, 1, len(SECRET), 70_000])
def test_tokens_behind_an_old_handshake_are_hidden_until_requests_come(size: int) -> None:
    token = framed((SECRET * (size // len(SECRET) + 1))[:size])
    talk = Talk()
    assert talk.asks(HANDSHAKE) == [(HANDSHAKE, None)]
    assert talk.answers(SHAKEN) == [(SHAKEN, None)]
    for _ in range(2):
        assert b"".join(data for data, _ in talk.asks(token)) == token[:4] + bytes(size)
        assert b"".join(data for data, _ in talk.answers(token)) == token[:4] + bytes(size)
    assert talk.asks(BEAT) == [(BEAT, None)]
    assert talk.answers(BEATEN) == [(BEATEN, None)]


def test_a_last_token_need_not_be_answered() -> None:
    talk = Talk()
    talk.asks(HANDSHAKE)
    talk.answers(SHAKEN)
    talk.asks(framed(SECRET))
    talk.asks(BEAT)
    assert talk.answers(BEATEN) == [(BEATEN, None)]


def test_part_of_a_token_is_hidden_too() -> None:
    talk = Talk()
    talk.asks(HANDSHAKE)
    out: list[Piece] = []
    talk._there.feed(framed(SECRET)[:-2], out)
    talk._there.finish(out)
    assert [data for data, _ in out] == [framed(SECRET)[:4] + bytes(len(SECRET) - 2)]


@pytest.mark.parametrize(
    "body", [SECRET, b"user\0user\0hunter2", b"\x60\x82" + SECRET, b"\0A\0pw123"]
)
def test_what_is_no_request_is_hidden_without_any_handshake(body: bytes) -> None:
    ((data, _),) = Talk().asks(framed(body))
    assert len(data) == len(framed(body))
    assert data[12:] == bytes(len(data) - 12)


def test_the_client_is_known_by_what_it_says() -> None:
    talk = Talk()
    asked = request_frame(
        ApiVersionsRequest(client_software_name="lib", client_software_version="1.2"), 3
    )
    assert talk.asks(asked) == [(asked, PacketNote(software="lib", software_version="1.2"))]
    assert talk.judge.software == ("lib", "1.2")
    assert talk.answers(response_frame(ApiVersionsResponse(), 3))[0][1] is None
    old = request_frame(ApiVersionsRequest(), 0)
    odd = framed(pack(">hhih", 18, 3, 1, -1) + b"\xff")
    assert talk.asks(old, odd) == [(old, None), (odd, None)]


def test_a_malformed_message_of_an_api_without_secrets_is_kept() -> None:
    odd = framed(pack(">hhih", 3, 9, 1, -1) + b"\xff" * 9)
    talk = Talk()
    assert talk.asks(odd) == [(odd, None)]
    assert talk.answers(framed(pack(">i", 1) + b"\xff")) == [
        (framed(pack(">i", 1) + b"\xff"), None)
    ]


def test_responses_without_requests_may_tell_anything() -> None:
    answer = response_frame(MetadataResponse(), 9, correlation_id=3)
    hidden = answer[:8] + bytes(len(answer) - 8), PacketNote(blanked=len(answer) - 8)
    talk = Talk()
    assert talk.answers(answer, framed(b"")) == [hidden, (framed(b""), None)]
    talk.asks(request_frame(MetadataRequest(topics=None), 9, correlation_id=4))
    assert talk.answers(answer) == [hidden]
    assert len(talk.judge._waiting) == 1
    assert Talk(keep_secrets=True).answers(answer) == [(answer, None)]


@pytest.mark.parametrize("step", [1, 3, 1000])
@pytest.mark.parametrize(
    "said",
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
def test_no_password_is_kept_wherever_it_comes(said: bytes, step: int) -> None:
    talk = Talk()
    cuts = [said[start : start + step] for start in range(0, len(said), step)]
    data = b"".join(data for data, _ in talk.asks(*cuts))
    assert len(data) == len(said)
    for start in range(len(b"hunter2-hunter2") - 2):
        assert b"hunter2-hunter2"[start : start + 3] not in data


def test_what_is_no_frame_still_tells_what_it_is_instead() -> None:
    asked = b"GET /hunter2 HTTP/1.1\r\n\r\n"
    ((data, note),) = Talk().asks(asked)
    assert data == asked[:5] + bytes(len(asked) - 5)
    assert note == PacketNote(blanked=len(asked) - 5)
    assert Talk(keep_secrets=True).asks(asked) == [(asked, None)]


def test_secrets_can_be_kept() -> None:
    talk = Talk(keep_secrets=True)
    asked = request_frame(SaslAuthenticateRequest(auth_bytes=SECRET), 2)
    assert talk.asks(HANDSHAKE, framed(SECRET), asked) == [
        (HANDSHAKE, None),
        (framed(SECRET), None),
        (asked, None),
    ]
    assert talk.answers(SHAKEN, framed(SECRET)) == [(SHAKEN, None), (framed(SECRET), None)]
