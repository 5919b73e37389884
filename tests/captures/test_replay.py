"""Replay of captures of Apache Kafka on kafkalite, without unexplained differences.

The captures are of Kafka 4.3.1, one per client library, and kafkalite emulates 4.3. The
coordinators of kafkalite are warmed up as those of that Kafka were.
`kafkalite.lab.replay.comparison` has tables of known differences and of differences caused by
timing. Any other difference fails a test.
"""

from __future__ import annotations

import gzip
from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING, cast

import pytest

from kafkalite.capture.reading.messages import is_known, parse_request, request_header
from kafkalite.lab.replay.comparison.findings import Severity
from kafkalite.lab.replay.comparison.known_differences import EXPLAINED
from kafkalite.lab.replay.loading import load
from kafkalite.lab.replay.options import ReplayOptions
from kafkalite.lab.replay.player.run import replay
from kafkalite.lab.replay.report_text import replay_text
from kafkalite.lab.replay.standin.recorded_cluster import RecordedCluster
from kafkalite.lab.replay.standin.standin import LenientMatcher
from kafkalite.testing import Broker
from tests.captures.record import CORPUS, path_of
from tests.captures.sessions import SESSIONS
from tests.captures.warm_up import warm_up

if TYPE_CHECKING:
    from pathlib import Path

    from kafkalite.gateway.call import ConnectionContext
    from kafkalite.lab.replay.report import ReplayReport
    from tests.captures.sessions import Session


@pytest.fixture(params=SESSIONS, ids=lambda session: session.name)
def session(request: pytest.FixtureRequest) -> Session:
    session: Session = request.param
    return session


RECORDED_RELEASE = "4.3"


def replay_session(
    session: Session, directory: Path, nodes: int = 1, *, release: str | None = RECORDED_RELEASE
) -> ReplayReport:
    capture = directory / f"{session.name}.pcapng"
    capture.write_bytes(gzip.decompress(path_of(session).read_bytes()))
    with Broker(nodes, config=dict(session.config), as_version=release) as broker:
        bootstrap = broker.bootstrap_servers.partition(",")[0]
        warm_up(bootstrap, is_alone=nodes == 1)
        return replay(capture, to=bootstrap, options=ReplayOptions(explained=EXPLAINED))


def test_kafkalite_responds_like_the_recorded_kafka(session: Session, tmp_path: Path) -> None:
    report = replay_session(session, tmp_path)
    assert report.at_least(Severity.DIFFERENCE) == [], replay_text(report)
    assert report.responses > 40
    assert report.responses + sum(report.skipped.values()) >= 0.95 * report.requests
    # Skipped requests were refused by a Kafka that was not ready yet, and were sent again later.
    assert sum(report.skipped.values()) <= 10, report.skipped
    assert _reasons_found(report) <= _known_reasons()


IN_EVERY_RUN = {"confluent-kafka-transactions", "java-share"}
"""Sessions that are replayed on three nodes in every run."""


@pytest.mark.parametrize(
    "session",
    [
        pytest.param(
            session,
            id=session.name,
            marks=() if session.name in IN_EVERY_RUN else pytest.mark.endurance,
        )
        for session in SESSIONS
    ],
)
def test_three_nodes_respond_like_one_recorded_node(session: Session, tmp_path: Path) -> None:
    report = replay_session(session, tmp_path, nodes=3)
    assert report.at_least(Severity.DIFFERENCE) == [], replay_text(report)
    assert report.responses > 40
    assert "the recorded cluster has 1 node, the target 3" in report.notes


def _reasons_found(report: ReplayReport) -> set[str]:
    return {finding.reason for finding in report.findings if finding.severity is Severity.EXPLAINED}


@cache
def _known_reasons() -> frozenset[str]:
    return frozenset(row.reason for row in EXPLAINED)


def test_every_explained_difference_occurs(tmp_path: Path) -> None:
    (admin,) = (session for session in SESSIONS if session.name == "java-admin")
    # Without an emulated release, a broker also serves older versions.
    reports = [
        replay_session(admin, tmp_path, release=release) for release in (RECORDED_RELEASE, None)
    ]
    assert set().union(*map(_reasons_found, reports)) == _known_reasons()


def test_stand_in_responds_to_every_recorded_request() -> None:
    exchanges = sorted(load([CORPUS], lambda _: None), key=attrgetter("sent_ns"))
    lenient = LenientMatcher(exchanges, RecordedCluster.from_exchanges(exchanges))
    answered = [
        exchange
        for exchange in exchanges
        if exchange.response and is_known(exchange.api_key, exchange.api_version)
    ]
    for exchange in answered:
        request, header = parse_request(exchange), request_header(exchange.request)
        assert lenient.answer(cast("ConnectionContext", None), header, request).response is not None
    assert len(answered) > 1900


def test_sessions_and_captures_correspond() -> None:
    assert {path_of(session) for session in SESSIONS} == set(CORPUS.glob("*.pcapng.gz"))
