"""Several containers are one cluster: no acknowledged record is lost while they come and go."""

from __future__ import annotations

import re
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.containers.containers import READY, wait_for_line
from tests.containers.recipes import Project, recipes
from tests.oracle.requirements import required
from tests.oracle.target import free_port
from tests.unit.docker.cluster_environments import CLUSTER_FORMS, ClusterForm

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from tests.containers.engine import Engine

pytestmark = pytest.mark.container

CLUSTER = "docker/compose.cluster.yaml"
_PARTITIONS = 6
_TIMEOUT_S = 60.0
_PAUSE_S = 0.01


@pytest.fixture
def cluster(engine: Engine, image: str, tmp_path: Path) -> Iterator[Project]:
    """Start three containers, and remove them after the test."""
    assert image
    recipe = next(each for each in recipes() if each.name == CLUSTER)
    project = Project.create(engine, recipe, tmp_path)
    with required():
        project.run("version")
    try:
        # The primary last: the others wait for it.
        for service in ("kafka-3", "kafka-2", "kafka-1"):
            project.up(service)
        for service in ("kafka-1", "kafka-2", "kafka-3"):
            project.wait_until_healthy(service)
        yield project
    finally:
        project.remove()


class Traffic(threading.Thread):
    """A producer that writes numbers until it is stopped."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__()
        self.acknowledged: set[int] = set()
        self.failed: list[str] = []
        self._stopped = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "acks": "all",
                "enable.idempotence": True,
                "log_level": 0,
                "topic.metadata.refresh.interval.ms": 500,
                "socket.timeout.ms": 5000,
            }
        )

    def run(self) -> None:
        number = 0
        while not self._stopped.wait(_PAUSE_S):
            self._producer.produce(
                "orders", f"{number}", on_delivery=self._report(number), partition=number % 6
            )
            self._producer.poll(0)
            number += 1
        assert self._producer.flush(_TIMEOUT_S) == 0

    def _report(self, number: int) -> Callable[[object, object], None]:
        def report(error: object, _: object) -> None:
            if error is None:
                self.acknowledged.add(number)
            else:
                self.failed.append(str(error))

        return report

    def stop(self) -> None:
        """Wait until all records are acknowledged."""
        self._stopped.set()
        self.join(_TIMEOUT_S)

    def wait_for_more(self, count: int) -> None:
        """Wait until so many more records are acknowledged."""
        target = len(self.acknowledged) + count
        _until(lambda: len(self.acknowledged) >= target)


def _until(condition: Callable[[], bool]) -> None:
    end_s = time.monotonic() + _TIMEOUT_S
    while not condition():
        assert time.monotonic() < end_s
        time.sleep(0.1)


def _leaders(bootstrap: str) -> set[int]:
    """Return the nodes that lead partitions of the topic, by one node's answer."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    partitions = admin.list_topics("orders", timeout=_TIMEOUT_S).topics["orders"].partitions
    return {partition.leader for partition in partitions.values()}


def _in_sync(bootstrap: str) -> set[int]:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    partitions = admin.list_topics("orders", timeout=_TIMEOUT_S).topics["orders"].partitions
    return set.intersection(*(set(partition.isrs) for partition in partitions.values()))


def _read(bootstrap: str) -> list[int]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "readers", "log_level": 0})
    values = []
    for index in range(_PARTITIONS):
        partition = TopicPartition("orders", index, 0)
        _, end = consumer.get_watermark_offsets(partition, timeout=_TIMEOUT_S)
        consumer.assign([partition])
        for message in consumer.consume(end, _TIMEOUT_S):
            assert message.error() is None
            values.append(int(message.value() or b""))
    consumer.close()
    return values


class Member(NamedTuple):
    """A container of a cluster: its name, its node, and its address for clients of the host."""

    container: str
    node_id: int
    address: str


def _check_traffic(engine: Engine, members: Sequence[Member]) -> None:
    """Stop, kill, pause and restart containers other than the first while records are written."""
    primary, second, third, *_ = members
    first = primary.address
    everyone = {each.node_id for each in members}
    others = ",".join(each.address for each in members if each is not second)
    assert _leaders(first) == everyone
    traffic = Traffic(f"{others},{second.address}")
    traffic.start()
    try:
        traffic.wait_for_more(30)
        engine.run("stop", "--time=30", second.container)
        assert engine.inspect(second.container)["State"]["ExitCode"] == 0
        assert _leaders(others) == everyone - {second.node_id}
        traffic.wait_for_more(30)
        engine.run("start", second.container)
        _until(lambda: _in_sync(first) == everyone)

        engine.run("kill", "--signal=KILL", third.container)
        _until(lambda: third.node_id not in _leaders(first))
        traffic.wait_for_more(30)
        engine.run("start", third.container)
        _until(lambda: _in_sync(first) == everyone)

        engine.run("pause", second.container)
        _until(lambda: second.node_id not in _in_sync(first) | _leaders(first))
        traffic.wait_for_more(30)
        engine.run("unpause", second.container)
        _until(lambda: _in_sync(first) == everyone)
        engine.run("restart", "--time=30", second.container)
        _until(lambda: _in_sync(first) == everyone)
        traffic.wait_for_more(30)
    finally:
        traffic.stop()
    assert traffic.failed == []
    found = _read(first)
    assert sorted(found) == sorted(traffic.acknowledged)


def test_no_acknowledged_record_is_lost_while_containers_come_and_go(
    engine: Engine, cluster: Project
) -> None:
    members = [
        Member(cluster.container(f"kafka-{node_id}"), node_id, f"localhost:{cluster.port + offset}")
        for offset, node_id in enumerate((1, 2, 3))
    ]
    _check_traffic(engine, members)
    second = members[1].container
    nodes = cluster.exec("kafka-1", "kafkalite", "node", "list")
    assert nodes.count("running") == 3
    engine.run("stop", "--time=30", cluster.container("kafka-1"))
    log = engine.try_run("logs", second)
    assert "the cluster has ended with its primary kafka-1" in log.output + log.errors
    engine.run("stop", "--time=30", second)
    assert engine.inspect(second)["State"]["ExitCode"] == 0


def _with_outside(form: ClusterForm) -> tuple[ClusterForm, dict[str, int]]:
    """Return a form with a listener for the host, and its ports by container; inside it is 9092."""
    first = free_port(len(form.containers))
    ports = {host: first + offset for offset, host in enumerate(form.containers)}
    containers = {}
    for host, environment in form.containers.items():
        inside = environment.get("KAFKA_ADVERTISED_LISTENERS", "")
        outside = f"localhost:{ports[host]}"
        containers[host] = {
            **environment,
            **(
                {"KAFKA_ADVERTISED_LISTENERS": re.sub(r"localhost:\d+", outside, inside)}
                if inside
                else {
                    "KAFKA_CFG_LISTENERS": "PLAINTEXT://:29092,CONTROLLER://:9093,EXTERNAL://:9092",
                    "KAFKA_CFG_ADVERTISED_LISTENERS": (
                        f"PLAINTEXT://{host}:29092,EXTERNAL://{outside}"
                    ),
                    "KAFKA_CFG_LISTENER_SECURITY_PROTOCOL_MAP": (
                        "CONTROLLER:PLAINTEXT,EXTERNAL:PLAINTEXT,PLAINTEXT:PLAINTEXT"
                    ),
                }
            ),
        }
    return form._replace(containers=containers), ports


@pytest.fixture
def outside_members(
    request: pytest.FixtureRequest, engine: Engine, image: str, network: str
) -> Iterator[list[Member]]:
    """Start the containers of a form with ports of the host; the primary is the first member."""
    form, ports = _with_outside(request.param)
    with _running(engine, image, network, form, ports):
        primary_first = sorted(form.containers, key=lambda host: host != form.primary)
        yield [
            Member(host, int("".join(filter(str.isdecimal, host))), f"localhost:{ports[host]}")
            for host in primary_first
        ]


TRAFFIC_FORMS = [
    form for form in CLUSTER_FORMS if form.name in {"bitnami", "confluent, four nodes"}
]


@pytest.mark.parametrize(
    "outside_members", TRAFFIC_FORMS, ids=lambda form: form.name, indirect=True
)
def test_no_acknowledged_record_is_lost_in_clusters_of_other_images(
    engine: Engine, outside_members: list[Member]
) -> None:
    admin = AdminClient({"bootstrap.servers": outside_members[0].address, "log_level": 0})
    topic = NewTopic("orders", _PARTITIONS, replication_factor=len(outside_members))
    admin.create_topics([topic])["orders"].result(_TIMEOUT_S)
    _check_traffic(engine, outside_members)


@pytest.fixture
def form_containers(
    request: pytest.FixtureRequest, engine: Engine, image: str, network: str
) -> Iterator[ClusterForm]:
    """Start the containers of a form, and remove them after the test."""
    form: ClusterForm = request.param
    with _running(engine, image, network, form, {}):
        yield form


@contextmanager
def _running(
    engine: Engine, image: str, network: str, form: ClusterForm, ports: Mapping[str, int]
) -> Iterator[None]:
    """Run the containers of a form, the primary started last; `ports` of the host are published."""
    names = sorted(form.containers, key=lambda host: host == form.primary)
    try:
        for host in names:
            variables = [f"--env={name}={value}" for name, value in form.containers[host].items()]
            # As in compose files without `hostname`, the host name is that of the engine.
            engine.run(
                "run", "--detach", f"--name={host}", f"--network={network}",
                f"--network-alias={host}", *variables,
                *((f"--publish=127.0.0.1:{ports[host]}:9092",) if host in ports else ()), image,
            )  # fmt: skip
        for host in names:
            wait_for_line(engine, host, READY)
        yield
    finally:
        for host in names:
            engine.run("rm", "--force", "--ignore", "--time=0", host)


FORMS = [form for form in CLUSTER_FORMS if form.primary != "kafka-1" and form not in TRAFFIC_FORMS]
"""All forms but those whose containers are stopped while records are written."""


@pytest.mark.parametrize("form_containers", FORMS, ids=lambda form: form.name, indirect=True)
def test_containers_of_each_image_are_one_cluster(
    engine: Engine, form_containers: ClusterForm
) -> None:
    form = form_containers
    replicas = min(3, len(form.brokers))
    hosts = [host for host, each in form.containers.items() if _is_broker(each)]
    bootstrap = _inside_address(form, hosts[-1], engine)
    topics = ("exec", hosts[0], "kafka-topics", "--bootstrap-server", bootstrap)
    engine.run(*topics, "--create", "--topic", "t", "--partitions", "12",
               "--replication-factor", f"{replicas}")  # fmt: skip
    described = engine.run(*topics, "--describe", "--topic", "t")
    assert {int(leader) for leader in re.findall(r"Leader: (\d+)", described)} == form.brokers
    for host, environment in form.containers.items():
        engine.run("healthcheck", "run", host)
        if "controller" in environment.get("KAFKA_PROCESS_ROLES", ""):
            (port,) = re.findall(r"CONTROLLER://.*?:(\d+)", environment["KAFKA_LISTENERS"])
            quorum = engine.run(
                "exec", hosts[0], "kafka-metadata-quorum", "--bootstrap-controller",
                f"{host}:{port}", "describe", "--status",
            )  # fmt: skip
            assert re.search(rf"LeaderId: +{min(form.brokers)}\n", quorum)
    stopped = next(host for host in hosts if host not in {form.primary, hosts[-1]})
    engine.run("stop", "--time=30", stopped)
    described = engine.run(*topics[:1], hosts[-1], *topics[2:], "--describe", "--topic", "t")
    assert len({*re.findall(r"Leader: (\d+)", described)}) == len(form.brokers) - 1


def _is_broker(environment: Mapping[str, str]) -> bool:
    return environment.get("KAFKA_PROCESS_ROLES") != "controller"


def _inside_address(form: ClusterForm, host: str, engine: Engine) -> str:
    """Return the address of a container for other containers."""
    listeners = form.containers[host].get("KAFKA_ADVERTISED_LISTENERS")
    if listeners is None:
        return f"{engine.inspect(host)['Config']['Hostname']}:9092"
    return listeners.partition(",")[0].partition("://")[2]
