"""Clients that meet a cluster by the recording proxy: they notice nothing, nothing is missed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import AdminClient

from kafkalite.capture.messages import is_known
from kafkalite.capture.model import ProblemKind
from kafkalite.capture.reading import exchanges, read
from kafkalite.wire.headers import API_VERSIONS_KEY
from tests.captures.sessions import SESSIONS, Scene
from tests.captures.warmth import warm_up
from tests.clients.process import visiting
from tests.clients.roster import client_named
from tests.clients.served_proxy import ServedProxy
from tests.clients.story import (
    Group,
    group_reads_while_members_come_and_go,
    group_resumes_after_a_restart,
)
from tests.oracle.real_kafka import RealKafka
from tests.oracle.requirements import required
from tests.oracle.served_kafkalite import ServedKafkalite

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kafkalite.capture.model import Exchange, Problem
    from tests.captures.sessions import Session

pytestmark = pytest.mark.client

NODES = {1, 2, 3}
PRODUCE, FETCH = 0, 1


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[ServedProxy]:
    """Start a proxy in front of three nodes."""
    upstream = ServedKafkalite(tmp_path / "upstream", brokers=len(NODES))
    upstream.start()
    made = ServedProxy(upstream, tmp_path)
    made.open()
    yield made
    made.close()
    upstream.kill()


def heard(proxy: ServedProxy) -> list[Exchange]:
    """Return what the proxy has recorded so far, in which nothing is wrong.

    A client may be newer than we are, and asks first in the newest version of ApiVersions it knows.
    """
    problems: list[Problem] = []
    found = list(exchanges(read([proxy.captures], problems.append), problems.append))
    assert {each.kind for each in problems} <= {ProblemKind.UNKNOWN_VERSION}
    assert {each.api_key for each in found if not is_known(each.api_key, each.api_version)} <= {
        API_VERSIONS_KEY
    }
    return found


@pytest.mark.parametrize(
    "name",
    [
        "confluent-kafka",
        "aiokafka",
        pytest.param("kafka-python", marks=pytest.mark.endurance),
        pytest.param("kafkajs", marks=pytest.mark.endurance),
        pytest.param("java", marks=pytest.mark.endurance),
    ],
)
def test_a_client_lives_its_life_on_three_nodes_by_the_proxy(
    name: str, proxy: ServedProxy, tmp_path: Path
) -> None:
    client = client_named(name)
    with visiting(client, proxy.bootstrap, tmp_path) as driver:
        for protocol in client.protocols:
            names = f"{name}-{protocol}"
            group = Group(driver, proxy, f"{names}-group", f"{names}-moving", protocol)
            group_reads_while_members_come_and_go(group)
    # Each node leads partitions, and nobody went there but by the proxy.
    for api_key in (PRODUCE, FETCH):
        nodes = {each.connection.node_id for each in heard(proxy) if each.api_key == api_key}
        assert nodes == NODES


@pytest.mark.endurance
def test_a_group_resumes_when_the_cluster_has_restarted_behind_the_proxy(
    proxy: ServedProxy, tmp_path: Path
) -> None:
    client = client_named("confluent-kafka")
    with visiting(client, proxy.bootstrap, tmp_path) as driver:
        group_resumes_after_a_restart(Group(driver, proxy, "again", "resumed", "classic"))
    assert "no broker answers at" in proxy.log()


def test_clients_are_told_of_the_proxy_alone(proxy: ServedProxy) -> None:
    admin = AdminClient({"bootstrap.servers": proxy.bootstrap})
    brokers = admin.list_topics(timeout=20).brokers
    assert set(brokers) == NODES
    described = admin.describe_cluster(request_timeout=20).result()
    ports = {node.port for node in described.nodes}
    assert ports == {broker.port for broker in brokers.values()}
    inside = range(proxy.upstream_port, proxy.upstream_port + len(NODES))
    assert not ports & set(inside)


def lived(session: Session, upstream: RealKafka | ServedKafkalite, directory: Path) -> None:
    """Have a session by a proxy in front of a broker, and read what is recorded."""
    upstream.start()
    try:
        if isinstance(upstream, RealKafka):
            warm_up(upstream.bootstrap)
        proxy = ServedProxy(upstream, directory)
        proxy.open()
        session.live(Scene(proxy, directory))
        proxy.close()
        assert "warning" not in proxy.log()
        assert "error" not in proxy.log()
        assert heard(proxy)
    finally:
        upstream.kill()


@pytest.mark.parametrize("session", SESSIONS, ids=lambda session: session.name)
@pytest.mark.endurance
@pytest.mark.oracle
def test_clients_of_a_real_kafka_notice_nothing(session: Session, tmp_path: Path) -> None:
    with required():
        lived(session, RealKafka(tmp_path / "kafka", session.config), tmp_path)


@pytest.mark.parametrize(
    "name",
    [
        "kafka-python-transactions",
        pytest.param("java-share", marks=pytest.mark.endurance),
        pytest.param("java-streams", marks=pytest.mark.endurance),
        pytest.param("java-transactions", marks=pytest.mark.endurance),
    ],
)
def test_coordinators_of_every_kind_are_found_on_three_nodes(name: str, tmp_path: Path) -> None:
    session = next(each for each in SESSIONS if each.name == name)
    upstream = ServedKafkalite(tmp_path / "upstream", session.config, brokers=len(NODES))
    lived(session, upstream, tmp_path)
