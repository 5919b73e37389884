"""Exchanges as lines: what cannot be read is said so, and odd times and names are printable."""

from __future__ import annotations

import json
from dataclasses import replace

from kafkalite.capture.model import Connection, Endpoint, Exchange, Problem, ProblemKind
from kafkalite.cli.telling import Wish, decode, json_line, line, problem_line
from kafkalite.protocol.messages.fetch import FetchRequest, FetchResponse
from kafkalite.protocol.messages.metadata import MetadataRequest, MetadataResponse
from tests.unit.replay.recorded import Recording

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


def test_a_connection_of_no_node_yet_is_told_as_what_it_is() -> None:
    found = replace(UNKNOWN, connection=replace(UNKNOWN.connection, node_id=-1))
    assert " > [::1]:9092 (bootstrap)  " in line(decode(found))


def test_names_of_topics_are_learnt_on_the_way() -> None:
    recording = Recording()
    topic_id = bytes(range(16))
    shown = MetadataResponse.MetadataResponseTopic(name="orders", topic_id=topic_id)
    recording.say(MetadataRequest(topics=None), MetadataResponse(topics=[shown]), 12)
    asked = FetchRequest(topics=[FetchRequest.FetchTopic(topic_id=topic_id)])
    recording.say(asked, FetchResponse(), 16)
    names: dict[bytes, str] = {}
    lines = [line(decode(each, names)) for each in recording.exchanges]
    assert lines[1].endswith("  topics=orders\n")
    wish = Wish(None, None, None, "ord*", is_for_errors=False)
    assert [wish.fits(decode(each, names)) for each in recording.exchanges] == [True, True]


def test_an_unknown_api_is_told_by_its_number() -> None:
    assert line(decode(UNKNOWN)) == (
        "2023-11-14T22:13:20.000000Z  bad\\nname@[::1]:5 > [::1]:9092 (node 2)  API 999 v1  "
        "unanswered  an unknown version: API 999 v1\n"
    )
    shape = json.loads(json_line(decode(UNKNOWN), records=False))
    assert shape["unreadable"] == "an unknown version: API 999 v1"
    assert shape["request"] is shape["response"] is shape["latencyUs"] is None
    assert (shape["nodeId"], shape["listener"]) == (2, "SSL")


def test_a_malformed_message_says_which() -> None:
    malformed = replace(UNKNOWN, api_key=12, api_version=4, request=b"\x7f")
    assert "a malformed Heartbeat request v4" in line(decode(malformed))


def test_a_time_that_no_calendar_has_is_a_number() -> None:
    late = replace(UNKNOWN, sent_ns=2**64 * 10**9)
    assert line(decode(late)).startswith(f"{2**64 * 10**9} ns  ")


def test_a_problem_says_where_what_and_how_often() -> None:
    problem = Problem(
        kind=ProblemKind.GAP, file="a.pcap", offset=7, connection="c > b", detail="3", count=2
    )
    assert problem_line(problem, as_json=False) == "a.pcap:7  c > b  gap: 3  (2 times)\n"
    assert json.loads(problem_line(problem, as_json=True))["count"] == 2
