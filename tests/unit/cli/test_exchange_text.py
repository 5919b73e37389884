"""Exchanges as lines: unreadable messages, unusual times and names."""

from __future__ import annotations

import json
from dataclasses import replace

from kafkalite.capture.model import Connection, Endpoint, Exchange, Problem, ProblemKind
from kafkalite.cli.exchange_text import (
    ExchangeFilter,
    decode,
    exchange_line,
    json_line,
    problem_line,
)
from kafkalite.protocol._generated.messages.fetch import FetchRequest, FetchResponse
from kafkalite.protocol._generated.messages.metadata import MetadataRequest, MetadataResponse
from tests.unit.lab.replay.recording import Recording

UNKNOWN = Exchange(
    connection=Connection(
        number=4,
        client=Endpoint("::1", 5),
        broker=Endpoint("::1", 9092),
        opened_ns=None,
        node_id=2,
        listener="SSL",
    ),
    position=0,
    api_key=999,
    api_version=1,
    correlation_id=3,
    client_id="bad\nname",
    sent_ns=1_700_000_000_000_000_001,
    answered_ns=None,
    request=b"",
    request_start=0,
    response=None,
    response_start=0,
)


def test_connection_to_the_bootstrap_address_is_marked() -> None:
    found = replace(UNKNOWN, connection=replace(UNKNOWN.connection, node_id=-1))
    assert " > [::1]:9092 (bootstrap)  " in exchange_line(decode(found))


def test_topic_names_come_from_earlier_exchanges() -> None:
    recording = Recording()
    topic_id = bytes(range(16))
    shown = MetadataResponse.MetadataResponseTopic(name="orders", topic_id=topic_id)
    recording.add(MetadataRequest(topics=None), MetadataResponse(topics=[shown]), 12)
    asked = FetchRequest(topics=[FetchRequest.FetchTopic(topic_id=topic_id)])
    recording.add(asked, FetchResponse(), 16)
    names: dict[bytes, str] = {}
    lines = [exchange_line(decode(each, names)) for each in recording.exchanges]
    assert lines[1].endswith("  topics=orders\n")
    selection = ExchangeFilter(None, None, None, "ord*", only_errors=False, offsets=frozenset())
    assert [selection.matches(decode(each, names)) for each in recording.exchanges] == [True, True]


def test_unknown_api_is_shown_by_its_key() -> None:
    assert exchange_line(decode(UNKNOWN)) == (
        "2023-11-14T22:13:20.000000Z  bad\\nname@[::1]:5 > [::1]:9092 (node 2)  API 999 v1  "
        "unanswered  unknown version: API 999 v1\n"
    )
    shape = json.loads(json_line(decode(UNKNOWN), records=False))
    assert shape["unreadable"] == "unknown version: API 999 v1"
    assert shape["request"] is shape["response"] is shape["latencyUs"] is None
    assert (shape["nodeId"], shape["listener"]) == (2, "SSL")


def test_malformed_message_is_named() -> None:
    malformed = replace(UNKNOWN, api_key=12, api_version=4, request=b"\x7f")
    assert "malformed Heartbeat request v4" in exchange_line(decode(malformed))


def test_time_outside_of_the_calendar_is_shown_in_nanoseconds() -> None:
    late = replace(UNKNOWN, sent_ns=2**64 * 10**9)
    assert exchange_line(decode(late)).startswith(f"{2**64 * 10**9} ns  ")


def test_problem_line_has_position_kind_and_count() -> None:
    problem = Problem(
        kind=ProblemKind.GAP, file="a.pcap", offset=7, connection="c > b", detail="3", count=2
    )
    assert problem_line(problem, as_json=False) == "a.pcap:7  c > b  gap: 3  (2 times)\n"
    assert json.loads(problem_line(problem, as_json=True))["count"] == 2
