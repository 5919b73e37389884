"""ExchangeSummary: clients, groups, errors, slow requests and rebalance storms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkalite.capture.model import Connection, Endpoint, Exchange
from kafkalite.cli.exchange_summary import ExchangeSummary
from kafkalite.cli.exchange_text import DecodedExchange
from kafkalite.ports.units import NANOSECONDS_PER_MILLISECOND, NANOSECONDS_PER_SECOND
from kafkalite.protocol._generated.messages.api_versions import ApiVersionsRequest
from kafkalite.protocol._generated.messages.fetch import FetchRequest, FetchResponse
from kafkalite.protocol._generated.messages.find_coordinator import FindCoordinatorRequest
from kafkalite.protocol._generated.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafkalite.protocol._generated.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterable

BROKER = Endpoint("10.0.0.1", 9092)
START_NS = 1_700_000_000 * NANOSECONDS_PER_SECOND


def exchanged(  # noqa: PLR0917 - the columns of a table
    key: ApiKey,
    request: Any,  # noqa: ANN401 - any message
    response: Any = None,  # noqa: ANN401 - as above
    at_s: float = 0,
    latency_ms: int | None = 1,
    client: str = "reader",
) -> DecodedExchange:
    """Return an exchange of a client, which has one connection."""
    sent_ns = START_NS + int(at_s * NANOSECONDS_PER_SECOND)
    exchange = Exchange(
        connection=Connection(
            number=1, client=Endpoint("10.0.0.2", 40_000), broker=BROKER, opened_ns=None
        ),
        position=0,
        api_key=int(key),
        api_version=0,
        correlation_id=0,
        client_id=client,
        sent_ns=sent_ns,
        answered_ns=None
        if latency_ms is None
        else sent_ns + latency_ms * NANOSECONDS_PER_MILLISECOND,
        request=b"",
        request_start=0,
        response=b"",
        response_start=0,
    )
    return DecodedExchange(exchange, request, response, None)


def lines_of(exchanges: Iterable[DecodedExchange]) -> list[str]:
    summary = ExchangeSummary()
    for each in exchanges:
        summary.add(each)
    return [*summary.lines()]


def joined(generation: int, at_s: float) -> DecodedExchange:
    return exchanged(
        ApiKey.JOIN_GROUP,
        JoinGroupRequest(group_id="shop"),
        JoinGroupResponse(generation_id=generation),
        at_s,
    )


def row_of(lines: list[str], name: str) -> list[str]:
    (row,) = (line.split() for line in lines if line.startswith(f"{name} "))
    return row


def test_a_client_has_its_software_requests_and_errors() -> None:
    refused = HeartbeatResponse(error_code=int(ErrorCode.UNKNOWN_MEMBER_ID))
    lines = lines_of(
        (
            exchanged(
                ApiKey.API_VERSIONS,
                ApiVersionsRequest(client_software_name="rd", client_software_version="2.0"),
            ),
            exchanged(ApiKey.HEARTBEAT, HeartbeatRequest(group_id="shop"), refused, at_s=2),
            exchanged(ApiKey.HEARTBEAT, HeartbeatRequest(group_id="shop"), latency_ms=None),
        )
    )
    assert lines[0] == (
        "3 requests in 2.0 s from 2023-11-14T22:13:20.000000Z, 1 without a response"
    )
    assert row_of(lines, "reader") == ["reader", "10.0.0.2", "rd", "2.0", "1", "3", "1"]
    assert row_of(lines, "shop") == ["shop", "1", "2", "1", "0", "-"]
    assert row_of(lines, "Heartbeat") == [
        "Heartbeat", "UNKNOWN_MEMBER_ID", "1", "2023-11-14T22:13:22.000000Z",
    ]  # fmt: skip


def test_the_slowest_requests_are_not_those_that_wait() -> None:
    lines = lines_of(
        (
            exchanged(ApiKey.FETCH, FetchRequest(), FetchResponse(), latency_ms=500),
            *(
                exchanged(
                    ApiKey.HEARTBEAT, HeartbeatRequest(), HeartbeatResponse(), latency_ms=number
                )
                for number in range(1, 9)
            ),
        )
    )
    begin = lines.index("slowest:") + 2
    assert [line.split()[0] for line in lines[begin:]] == [
        "8.000", "7.000", "6.000", "5.000", "4.000",
    ]  # fmt: skip


def test_many_rebalances_within_a_minute_are_a_storm() -> None:
    calm = lines_of(joined(number, at_s=20 * number) for number in range(8))
    storm = lines_of(joined(number, at_s=5 * number) for number in range(8))
    assert row_of(calm, "shop")[4:] == ["8", "-"]
    assert row_of(storm, "shop")[4:] == ["8", "yes"]


def test_a_transactional_id_is_no_group() -> None:
    request = FindCoordinatorRequest(key="payments", key_type=1)
    lines = lines_of((exchanged(ApiKey.FIND_COORDINATOR, request),))
    assert not any(line.startswith(("payments", "groups:")) for line in lines)


def test_long_tables_are_cut() -> None:
    lines = lines_of(
        exchanged(ApiKey.HEARTBEAT, HeartbeatRequest(), client=f"client-{number}")
        for number in range(23)
    )
    assert "and 3 more" in lines


def test_a_capture_without_requests_has_no_summary() -> None:
    assert lines_of(()) == []
