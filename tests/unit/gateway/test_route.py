"""Routes: their variants, and the first bytes of repeated requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.gateway.api import Api
from kafkalite.gateway.route import Route, create_route, unsupported_version_route
from kafkalite.ports import turns
from kafkalite.protocol._generated.messages.heartbeat import HeartbeatResponse
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.versions import Versions
from tests.unit.frames import header
from tests.unit.gateway.served import HEARTBEAT, alive, refuse

if TYPE_CHECKING:
    from kafkalite.gateway.steps import Handler


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


def test_long_requests_of_an_api_without_bounds_need_a_worker() -> None:
    with pytest.raises(turns.NeedsWorkerError):
        composed(heartbeat(), 4).for_short_lists()


def test_later_versions_are_refused_without_parsing() -> None:
    route = unsupported_version_route(heartbeat()._replace(key=18), 99)
    assert (route.version, route.is_flexible) == (99, True)
    request, _ = route.parse(bytearray(b"unknown!"), 0, 8)
    assert request is None
    assert route.handler(None, request) == HeartbeatResponse(error_code=35)  # type: ignore[arg-type]
