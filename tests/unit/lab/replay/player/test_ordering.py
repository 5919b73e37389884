"""Requests that a target might read before earlier requests."""

from __future__ import annotations

import pytest

from kafkalite.client.exchanges import PendingResponse
from kafkalite.lab.replay.player.ordering import RequestOrdering

PRODUCE, COMMIT, JOIN, HEARTBEAT, LEAVE = 0, 8, 11, 12, 13
ONE, TWO = 1, 2
NODE, OTHER = 5, 6


def send_join(ordering: RequestOrdering, connection: int = ONE) -> PendingResponse:
    pending = PendingResponse(7)
    ordering.add_sent(JOIN, NODE, connection, pending)
    return pending


@pytest.mark.parametrize("api_key", [COMMIT, JOIN, HEARTBEAT, LEAVE])
def test_request_of_a_group_may_overtake_a_join(api_key: int) -> None:
    ordering = RequestOrdering()
    send_join(ordering)
    assert ordering.may_overtake(api_key, NODE, TWO)


def test_only_group_requests_of_other_connections_on_the_node_may_overtake() -> None:
    ordering = RequestOrdering()
    send_join(ordering)
    assert not ordering.may_overtake(HEARTBEAT, OTHER, TWO)
    assert not ordering.may_overtake(PRODUCE, NODE, TWO)
    assert ordering.may_overtake(HEARTBEAT, NODE, TWO)
    assert not ordering.may_overtake(HEARTBEAT, NODE, ONE)


def test_check_for_the_same_connection_keeps_the_request() -> None:
    ordering = RequestOrdering()
    send_join(ordering)
    assert not ordering.may_overtake(LEAVE, NODE, ONE)
    assert ordering.may_overtake(HEARTBEAT, NODE, TWO)


def test_answered_or_read_request_cannot_be_overtaken() -> None:
    ordering = RequestOrdering()
    send_join(ordering).resolve(b"")
    assert not ordering.may_overtake(HEARTBEAT, NODE, TWO)
    send_join(ordering)
    ordering.mark_read(NODE)
    assert not ordering.may_overtake(HEARTBEAT, NODE, TWO)
    send_join(ordering)
    assert ordering.may_overtake(HEARTBEAT, NODE, TWO)


def test_request_without_effect_on_groups_is_not_stored() -> None:
    ordering = RequestOrdering()
    ordering.add_sent(HEARTBEAT, NODE, ONE, PendingResponse(7))
    assert not ordering.may_overtake(JOIN, NODE, TWO)
