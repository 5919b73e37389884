"""What a real Apache Kafka answered, asked of kafkalite again: no difference without a reason.

The captures are of Kafka 4.3.1, one for each client library; kafkalite is made warm as that Kafka
was. Differences that are known stand in `kafkalite.replay.explained`, those that no two runs share
in `kafkalite.replay.findings`: all others fail.
"""

from __future__ import annotations

import gzip
from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING, cast

import pytest

from kafkalite.capture.messages import is_known, parse_request, request_header
from kafkalite.replay.calls import replay
from kafkalite.replay.explained import EXPLAINED
from kafkalite.replay.findings import Severity
from kafkalite.replay.library import Library
from kafkalite.replay.loading import load
from kafkalite.replay.options import ReplayOptions
from kafkalite.replay.standin import Lenient
from kafkalite.replay.telling import replay_text
from kafkalite.testing import Broker
from tests.captures.record import CORPUS, path_of
from tests.captures.sessions import SESSIONS
from tests.captures.warmth import warm_up

if TYPE_CHECKING:
    from pathlib import Path

    from kafkalite.apis.context import RequestContext
    from kafkalite.replay.report import ReplayReport
    from tests.captures.sessions import Session


@pytest.fixture(params=SESSIONS, ids=lambda session: session.name)
def session(request: pytest.FixtureRequest) -> Session:
    found: Session = request.param
    return found


def replayed(session: Session, directory: Path, nodes: int = 1) -> ReplayReport:
    capture = directory / f"{session.name}.pcapng"
    capture.write_bytes(gzip.decompress(path_of(session).read_bytes()))
    with Broker(nodes, config=dict(session.config)) as broker:
        first = broker.bootstrap_servers.partition(",")[0]
        warm_up(first, is_alone=nodes == 1)
        return replay(capture, to=first, options=ReplayOptions(explained=EXPLAINED))


def test_kafkalite_answers_as_kafka_did(session: Session, tmp_path: Path) -> None:
    report = replayed(session, tmp_path)
    assert report.at_least(Severity.DIFFERENCE) == [], replay_text(report)
    assert report.responses > 40
    assert report.responses + sum(report.skipped.values()) >= 0.95 * report.requests
    # What was not sent was turned away by a Kafka that was not ready, and sent again later.
    assert sum(report.skipped.values()) <= 10, report.skipped
    assert _reasons(report) <= _known_reasons()


AT_ONCE = {"confluent-kafka-transactions", "java-share"}
"""Sessions that are replayed on three nodes in every run."""


@pytest.mark.parametrize(
    "session",
    [
        pytest.param(
            each, id=each.name, marks=() if each.name in AT_ONCE else pytest.mark.endurance
        )
        for each in SESSIONS
    ],
)
def test_three_nodes_answer_as_one_kafka_did(session: Session, tmp_path: Path) -> None:
    report = replayed(session, tmp_path, nodes=3)
    assert report.at_least(Severity.DIFFERENCE) == [], replay_text(report)
    assert report.responses > 40
    assert "the recorded cluster has 1 nodes, the target 3" in report.notes


def _reasons(report: ReplayReport) -> set[str]:
    return {found.reason for found in report.findings if found.severity is Severity.EXPLAINED}


@cache
def _known_reasons() -> frozenset[str]:
    return frozenset(row.reason for row in EXPLAINED)


def test_every_explanation_is_of_a_difference_that_there_is(tmp_path: Path) -> None:
    (admin,) = (session for session in SESSIONS if session.name == "java-admin")
    assert _reasons(replayed(admin, tmp_path)) == _known_reasons()


def test_whoever_stands_in_for_that_kafka_has_an_answer_to_all_it_was_asked() -> None:
    exchanges = sorted(load([CORPUS], lambda _: None), key=attrgetter("sent_ns"))
    lenient = Lenient(exchanges, Library.of(exchanges))
    asked = [
        each for each in exchanges if each.response and is_known(each.api_key, each.api_version)
    ]
    for exchange in asked:
        request, header = parse_request(exchange), request_header(exchange.request)
        assert lenient.answer(cast("RequestContext", None), header, request).response is not None
    assert len(asked) > 1900


def test_every_session_has_its_capture_and_every_capture_its_session() -> None:
    assert {path_of(session) for session in SESSIONS} == set(CORPUS.glob("*.pcapng.gz"))
