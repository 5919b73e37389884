"""Routes: their variants, and the first bytes of repeated requests."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest

from kafkalite.gateway.api import Api
from kafkalite.gateway.route import Route, create_route, unsupported_version_route
from kafkalite.gateway.steps import ConditionalStep
from kafkalite.ports import turns
from kafkalite.protocol._generated.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.versions import Versions
from tests.unit.frames import header
from tests.unit.gateway.served import HEARTBEAT, alive, refuse

if TYPE_CHECKING:
    from kafkalite.gateway.call import Call
    from kafkalite.gateway.steps import Condition, Handler


def heartbeat(*, is_repeated: bool = False, is_inline_with_short_lists: bool = False) -> Api:
    return Api(HEARTBEAT, Versions(0, 4), alive, refuse, is_repeated=is_repeated,
               is_inline_with_short_lists=is_inline_with_short_lists)  # fmt: skip


def composed(api: Api, version: int) -> Route:
    route = create_route(api, version)
    route.compose(())
    return route


class RefusingStep:
    """A step that refuses every request."""

    def wrap(self, api: Api, version: int, handler: Handler) -> Handler:
        del version, handler
        return lambda _, request: api.refuse(request, ErrorCode.NOT_COORDINATOR, None)


class StepForAGroup(RefusingStep, ConditionalStep):
    """A step that refuses the requests of one group."""

    def condition(self, api: Api) -> Condition:
        del api
        return lambda _, request: request.group_id == "g"


@pytest.mark.parametrize("version", [0, 4])
def test_the_first_bytes_of_repeated_requests_are_their_header(version: int) -> None:
    route = composed(heartbeat(is_repeated=True), version)
    assert route.repeated_prefix == header(HEARTBEAT, version)[:4]
    assert composed(heartbeat(), version).repeated_prefix == b""


def test_all_variants_of_a_route_are_composed() -> None:
    route = composed(heartbeat(is_repeated=True, is_inline_with_short_lists=True), 4)
    twins = [route, route.for_short_lists(), route.for_long_messages()]
    route.compose((RefusingStep(),))
    assert {each.repeated_prefix for each in twins} == {b""}
    assert {each.handler for each in twins} == {route.handler}
    assert route.handler is not alive
    route.compose(())
    assert {each.handler for each in twins} == {alive}
    assert {each.repeated_prefix for each in twins} == {header(HEARTBEAT, 4)[:4]}


def test_requests_that_need_no_conditional_step_are_repeated() -> None:
    route = composed(heartbeat(is_repeated=True, is_inline_with_short_lists=True), 4)
    route.compose((StepForAGroup(),))
    undisturbed = route.undisturbed_route
    assert undisturbed is not None
    assert (undisturbed.handler, undisturbed.repeated_prefix) == (
        alive,
        header(HEARTBEAT, 4)[:4],
    )
    assert route.handler is not alive
    assert route.for_short_lists().undisturbed_route is undisturbed
    route.compose((StepForAGroup(), RefusingStep()))
    assert undisturbed.repeated_prefix == b""  # a connection may refer to it
    assert route.undisturbed_route is not None
    assert route.undisturbed_route.handler is not alive
    route.compose(())
    assert route.undisturbed_route is None


def test_an_api_without_repetitions_has_one_route() -> None:
    route = composed(heartbeat(), 4)
    route.compose((StepForAGroup(),))
    assert route.undisturbed_route is None


def test_one_of_several_conditions_is_enough() -> None:
    route = composed(heartbeat(is_repeated=True), 4)
    route.compose((StepForAGroup(), StepForAGroup()))
    assert route.is_disturbed is not None
    call = cast("Call", None)
    assert route.is_disturbed(call, HeartbeatRequest(group_id="g"))
    assert not route.is_disturbed(call, HeartbeatRequest(group_id="h"))


def test_long_requests_of_an_api_without_bounds_need_a_worker() -> None:
    with pytest.raises(turns.NeedsWorkerError):
        composed(heartbeat(), 4).for_short_lists()


def test_later_versions_are_refused_without_parsing() -> None:
    route = unsupported_version_route(heartbeat()._replace(key=18), 99)
    assert (route.version, route.is_flexible) == (99, True)
    request, _ = route.parse(bytearray(b"unknown!"), 0, 8)
    assert request is None
    assert route.handler(None, request) == HeartbeatResponse(error_code=35)  # type: ignore[arg-type]
