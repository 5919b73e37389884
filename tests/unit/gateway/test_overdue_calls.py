"""Requests that wait for overdue calls: which, and for how long."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from kafkalite.apis.table import find_api
from kafkalite.gateway.overdue_calls import MAX_REQUEST_BYTES, after_overdue_calls
from kafkalite.ports.waiting import Waiting
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.catalogue import ROWS, AnsweringNode

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalite.gateway.call import Call

SENT_BY_MEMBERS = {
    ApiKey.OFFSET_COMMIT,
    ApiKey.SYNC_GROUP,
    ApiKey.HEARTBEAT,
    ApiKey.LEAVE_GROUP,
    ApiKey.TXN_OFFSET_COMMIT,
    ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE,
}
"""Requests that show that their member is alive."""
JOINS = {
    ApiKey.JOIN_GROUP,
    ApiKey.CONSUMER_GROUP_HEARTBEAT,
    ApiKey.SHARE_GROUP_HEARTBEAT,
    ApiKey.STREAMS_GROUP_HEARTBEAT,
}
"""Requests that wait only if a member joins; the handlers decide."""
ABOUT_OFFSETS = {ApiKey.OFFSET_FETCH, ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS}
"""Requests whose answers do not depend on other members."""


def test_all_other_requests_about_groups_see_ended_sessions() -> None:
    waiting = {
        key
        for key, row in ROWS.items()
        if row.node is AnsweringNode.GROUP_COORDINATOR or key == ApiKey.LIST_GROUPS
    } - (SENT_BY_MEMBERS | JOINS | ABOUT_OFFSETS)
    assert waiting
    for key in waiting:
        api = find_api(key)
        assert api is not None
        assert hasattr(api.handler, "__wrapped__"), f"{api.name} needs sees_ended_sessions"


class OverdueClock:
    """A clock whose loop has not made the due calls yet, or has made all of them."""

    def __init__(self, *, is_late: bool) -> None:
        self.is_late = is_late
        self.calls: list[Callable[[], None]] = []

    def after_due_calls(self, callback: Callable[[], None]) -> OverdueClock | None:
        if not self.is_late:
            return None
        self.calls.append(callback)
        return self

    def cancel(self) -> None:
        self.calls.clear()


def call_at(clock: OverdueClock, request_bytes: int = 100) -> Any:  # noqa: ANN401 - a fake
    call = SimpleNamespace(node=SimpleNamespace(clock=clock), request_bytes=request_bytes)
    call.without_pauses = lambda: call
    return call


def handle(call: Call, request: str) -> str:
    del call
    return f"answer to {request}"


def test_a_request_waits_for_due_calls() -> None:
    clock = OverdueClock(is_late=True)
    answer = after_overdue_calls(call_at(clock), "q", handle)
    assert isinstance(answer, Waiting)
    assert not answer.is_resolved
    (resume,) = clock.calls
    resume()
    assert answer.value == "answer to q"


def test_a_request_whose_client_disconnects_is_dropped() -> None:
    clock = OverdueClock(is_late=True)
    answer = after_overdue_calls(call_at(clock), "q", handle)
    assert isinstance(answer, Waiting)
    answer.abandon()
    assert not clock.calls


@pytest.mark.parametrize(
    ("is_late", "request_bytes"), [(False, 100), (True, MAX_REQUEST_BYTES + 1)]
)
def test_a_request_is_handled_at_once(*, is_late: bool, request_bytes: int) -> None:
    clock = OverdueClock(is_late=is_late)
    assert after_overdue_calls(call_at(clock, request_bytes), "q", handle) == "answer to q"
    assert not clock.calls
