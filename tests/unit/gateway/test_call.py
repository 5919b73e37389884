"""The contexts of requests: each has the facts of its own request."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from kafkalite.gateway.call import Call, ConnectionContext
from kafkalite.protocol.acl_operations import Operation, Resource


@pytest.fixture
def context() -> ConnectionContext:
    return ConnectionContext(
        node=cast("Any", SimpleNamespace()), listener="A", client_host="/h", client_id="first"
    )


def facts(call: Call) -> tuple[object, ...]:
    return call.api_version, call.era, call.request_bytes, call.client_id


def test_the_context_of_a_request_does_not_change_with_later_requests(
    context: ConnectionContext,
) -> None:
    first = context.call(1, "old", 10)
    second = context.call(2, "new", 20)
    context.set_client_id("second", b"second")
    third = context.call(2, "new", 20)
    assert [facts(each) for each in (first, second, third)] == [
        (1, "old", 10, "first"),
        (2, "new", 20, "first"),
        (2, "new", 20, "second"),
    ]


def test_equal_requests_in_a_row_have_one_context(context: ConnectionContext) -> None:
    call = context.call(1, "era", 10)
    assert context.call(1, "era", 10) is call
    for other in ((2, "era", 10), (1, "other", 10), (1, "era", 11)):
        assert context.call(*other) is not call


def test_a_request_that_is_handled_later_has_no_pauses_but_the_same_facts(
    context: ConnectionContext,
) -> None:
    in_worker = Call(context, api_version=3, era="era", request_bytes=5, may_pause=True)
    context.set_client_id("second", b"second")
    later = in_worker.without_pauses()
    assert (in_worker.may_pause, later.may_pause) == (True, False)
    assert facts(later) == facts(in_worker) == (3, "era", 5, "first")
    assert later.without_pauses() is later


def test_quotas_belong_to_one_request(context: ConnectionContext) -> None:
    call = context.call(1, "era", 10)
    quota = cast("Any", object())
    measured = call.with_quotas(quota, quota)
    assert (measured.mutation_quota, measured.fetch_quota) == (quota, quota)
    assert (call.mutation_quota, call.fetch_quota) == (None, None)
    assert facts(measured) == facts(call)


def test_a_client_may_do_what_its_permissions_allow(context: ConnectionContext) -> None:
    call = context.call(1, None, 5)
    question = (Operation.READ, Resource.TOPIC, "t")
    assert call.allows(*question)
    asked = []

    def allows(*question: object) -> bool:
        asked.append(question)
        return False

    context.permissions = cast("Any", SimpleNamespace(allows=allows))
    assert not call.allows(*question)
    assert asked == [question]
