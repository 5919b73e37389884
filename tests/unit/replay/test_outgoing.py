"""Which recorded requests are sent, and what of long polls."""

from __future__ import annotations

import pytest

from kafkalite.protocol import codec
from kafkalite.protocol.errors import ProtocolViolation
from kafkalite.protocol.messages.fetch import FetchRequest, FetchResponse
from kafkalite.protocol.messages.heartbeat import HeartbeatRequest
from kafkalite.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kafkalite.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kafkalite.replay.mapping import Kind, Mapping
from kafkalite.replay.outgoing import Outgoing
from kafkalite.replay.refusals import TURNED_AWAY, WITHOUT_SECRETS
from tests.unit.replay.made import exchange


def test_secrets_are_not_sent() -> None:
    asked = exchange(SaslAuthenticateRequest(), None, 2)
    assert Outgoing(Mapping(), 0).why_not(asked) == WITHOUT_SECRETS


def test_what_was_turned_away_is_not_sent_and_all_else_is() -> None:
    outgoing = Outgoing(Mapping(), 0)
    refused = exchange(JoinGroupRequest(), JoinGroupResponse(error_code=15), 5)
    assert outgoing.why_not(refused) == TURNED_AWAY
    assert outgoing.why_not(exchange(JoinGroupRequest(), JoinGroupResponse(), 5)) is None
    assert outgoing.why_not(exchange(JoinGroupRequest(), None, 5)) is None


def waits(hurry: float, waited_ms: int) -> int:
    """Return for how long a poll of 500 ms, which took so long, may wait at the target."""
    asked = exchange(FetchRequest(max_wait_ms=500), FetchResponse(), 11, waited_ms)
    frame = Outgoing(Mapping(), hurry).frame(asked)
    request, _ = codec.request_parser(1, 11)(frame, asked.request_start, len(frame))
    assert isinstance(request.max_wait_ms, int)
    return request.max_wait_ms


def test_a_long_poll_that_ran_out_is_not_sat_through_again() -> None:
    assert waits(0, 502) == 1
    assert waits(10, 502) == 50
    assert waits(1, 502) == 500
    assert waits(0, 30) == 500


def test_bytes_stay_as_they_are_where_nothing_means_anything_else() -> None:
    beat = exchange(HeartbeatRequest(group_id="g", member_id="a-1"), None, 4)
    assert Outgoing(Mapping(), 0).frame(beat) is beat.request


def test_a_request_that_must_be_read_and_cannot_is_told() -> None:
    meaning = Mapping()
    meaning.tell(Kind.MEMBER, "a-1", "a-2")
    whole = exchange(HeartbeatRequest(group_id="g", member_id="a-1"), None, 4)
    cut = type(whole)(
        **{name: getattr(whole, name) for name in whole.__slots__ if name != "request"},
        request=whole.request[:-8],
    )
    with pytest.raises(ProtocolViolation):
        Outgoing(meaning, 0).frame(cut)
