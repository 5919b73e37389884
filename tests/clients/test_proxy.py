"""Clients work through the recording proxy, and all their requests are recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import AdminClient

from kafkalite.capture.model import ProblemKind
from kafkalite.capture.reading.captures import exchanges, read
from kafkalite.capture.reading.messages import is_known
from kafkalite.protocol.codec import API_VERSIONS_KEY
from tests.captures.sessions import SESSIONS, Scene
from tests.captures.warm_up import warm_up
from tests.clients.client_libraries import client_named
from tests.clients.client_scenario import (
    Group,
    group_reads_while_members_come_and_go,
    group_resumes_after_a_restart,
)
from tests.clients.observer import wait_until
from tests.clients.process import running_driver
from tests.clients.served_proxy import ServedProxy
from tests.oracle.real_kafka import RealKafka
from tests.oracle.requirements import required
from tests.oracle.served_kafkalite import ServedKafkalite

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from kafkalite.capture.model import Exchange, Problem
    from tests.captures.sessions import Session

pytestmark = [pytest.mark.client, pytest.mark.endurance]

NODES = {1, 2, 3}
PRODUCE, FETCH = 0, 1


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[ServedProxy]:
    """Start a proxy in front of three nodes."""
    upstream = ServedKafkalite(tmp_path / "upstream", brokers=len(NODES))
    upstream.start()
    served = ServedProxy(upstream, tmp_path)
    served.open()
    yield served
    served.close()
    upstream.kill()


def recorded_exchanges(proxy: ServedProxy) -> list[Exchange]:
    """Return the recorded exchanges so far, and check that they are valid.

    A client begins with its newest version of ApiVersions, which kafkalite may not know.
    """
    problems: list[Problem] = []
    recorded = list(exchanges(read([proxy.captures], problems.append), problems.append))
    assert {problem.kind for problem in problems} <= {ProblemKind.UNKNOWN_VERSION}
    assert {
        exchange.api_key
        for exchange in recorded
        if not is_known(exchange.api_key, exchange.api_version)
    } <= {API_VERSIONS_KEY}
    return recorded


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
def test_client_scenario_on_three_nodes_through_the_proxy(
    name: str, proxy: ServedProxy, tmp_path: Path
) -> None:
    client = client_named(name)
    with running_driver(client, proxy.bootstrap, tmp_path) as driver:
        for protocol in client.protocols:
            names = f"{name}-{protocol}"
            group = Group(driver, proxy, f"{names}-group", f"{names}-moving", protocol)
            group_reads_while_members_come_and_go(group)
    # Each node leads partitions, and all requests went through the proxy.
    for api_key in (PRODUCE, FETCH):
        nodes = {
            exchange.connection.node_id
            for exchange in recorded_exchanges(proxy)
            if exchange.api_key == api_key
        }
        assert nodes == NODES


@pytest.mark.endurance
def test_a_group_resumes_when_the_cluster_has_restarted_behind_the_proxy(
    proxy: ServedProxy, tmp_path: Path
) -> None:
    client = client_named("confluent-kafka")
    with running_driver(client, proxy.bootstrap, tmp_path) as driver:
        group_resumes_after_a_restart(Group(driver, proxy, "again", "resumed", "classic"))
    assert "no broker answers at" in proxy.log()


def test_clients_get_only_addresses_of_the_proxy(proxy: ServedProxy) -> None:
    admin = AdminClient({"bootstrap.servers": proxy.bootstrap})
    brokers = admin.list_topics(timeout=20).brokers
    assert set(brokers) == NODES
    described = admin.describe_cluster(request_timeout=20).result()
    ports = {node.port for node in described.nodes}
    assert ports == {broker.port for broker in brokers.values()}
    inside = range(proxy.upstream_port, proxy.upstream_port + len(NODES))
    assert not ports & set(inside)


def recorded_session(
    session: Session, upstream: RealKafka | ServedKafkalite, directory: Path
) -> None:
    """Run a session through a proxy in front of a running broker, and read the recording."""
    proxy = ServedProxy(upstream, directory)
    proxy.open()
    session.run(Scene(proxy, directory))
    proxy.close()
    assert "warning" not in proxy.log()
    assert "error" not in proxy.log()
    assert recorded_exchanges(proxy)


@pytest.fixture(scope="module")
def kafka_of(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Callable[[Session], RealKafka]]:
    """Return a function that returns a running Kafka without topics and groups.

    Sessions with the same settings share one. The session of the Java admin client changes
    settings of its own.
    """
    kafkas: dict[object, RealKafka] = {}

    def empty_kafka(session: Session) -> RealKafka:
        key = session.name == "java-admin", frozenset(session.config.items())
        if key in kafkas:
            remove_topics_and_groups(kafkas[key].bootstrap)
        else:
            kafkas[key] = RealKafka(tmp_path_factory.mktemp("kafka"), session.config)
            with required():
                kafkas[key].start()
            warm_up(kafkas[key].bootstrap)
        return kafkas[key]

    yield empty_kafka
    for kafka in kafkas.values():
        kafka.kill()


def remove_topics_and_groups(bootstrap: str) -> None:
    """Delete what the sessions before created; members that did not leave have to expire first."""
    admin = AdminClient({"bootstrap.servers": bootstrap})

    def are_deleted() -> bool:
        listed = admin.list_consumer_groups(request_timeout=20).result()
        groups = [group.group_id for group in listed.valid]
        if groups:
            deleted = admin.delete_consumer_groups(groups, request_timeout=20)
            return not any(future.exception() for future in deleted.values())
        return True

    wait_until(are_deleted, "empty groups", 90.0)
    topics = [name for name in admin.list_topics(timeout=20).topics if not name.startswith("__")]
    if topics:
        for future in admin.delete_topics(topics, request_timeout=20).values():
            future.result()


@pytest.mark.parametrize("session", SESSIONS, ids=lambda session: session.name)
@pytest.mark.endurance
@pytest.mark.oracle
def test_clients_of_a_real_kafka_work_through_the_proxy(
    session: Session, kafka_of: Callable[[Session], RealKafka], tmp_path: Path
) -> None:
    recorded_session(session, kafka_of(session), tmp_path)


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
    session = next(session for session in SESSIONS if session.name == name)
    upstream = ServedKafkalite(tmp_path / "upstream", session.config, brokers=len(NODES))
    upstream.start()
    try:
        recorded_session(session, upstream, tmp_path)
    finally:
        upstream.kill()
