"""The quorum of a cluster with one controller, at brokers, at controllers and with tools."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from shutil import copytree
from typing import TYPE_CHECKING, Final, NamedTuple

import pytest

from kafkalite.protocol._generated.messages.api_versions import ApiVersionsRequest
from kafkalite.protocol._generated.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
)
from kafkalite.protocol._generated.messages.metadata import MetadataRequest
from kafkalite.protocol.error_codes import ErrorCode
from tests.conformance.compare import differences
from tests.conformance.raw import RawClient
from tests.conformance.scenario_cluster import ScenarioCluster
from tests.conformance.scenarios.quorum import (
    CONTROLLER_SCENARIOS,
    IGNORED,
    METADATA,
    SCENARIOS,
    fixed_voters_are_upgraded,
    quorum,
)
from tests.conformance.tool_runs import run_with_each, tool_sides
from tests.kafka_tools.case import Case
from tests.oracle.real_kafka import CLUSTER_ID, RealKafka
from tests.oracle.requirements import required
from tests.oracle.served_kafkalite import ServedKafkalite
from tests.oracle.target import COMMON_CONFIG, free_port

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from tests.conformance.scenario_cluster import Entry
    from tests.conformance.scenario_runs import Scenario
    from tests.kafka_tools.sides import JavaSide

pytestmark = [pytest.mark.oracle, pytest.mark.endurance]

_ELECTION_S: Final = 30.0
"""A limit for the time in which the controller of Kafka is elected again."""


class Quorum(NamedTuple):
    """A broker that is the controller, too."""

    broker: str
    controller: str

    def play(self, scenario: Scenario, attempt: int, *, at_controller: bool) -> list[Entry]:
        """Run a scenario at one of the listeners; return the transcript."""
        address = self.controller if at_controller else self.broker
        name = f"{scenario.__name__}-{attempt}"
        cluster = ScenarioCluster(int(address.rpartition(":")[2]), name, IGNORED)
        try:
            scenario(cluster)
        finally:
            cluster.close()
        return cluster.transcript


def start_kafkalite(
    directory: Path, config: Mapping[str, str], *more_options: str
) -> tuple[ServedKafkalite, Quorum]:
    """Return kafkalite with a listener for clients of the controller."""
    controller = f"127.0.0.1:{free_port()}"
    options = ("--controller-listen", controller, "--cluster-id", CLUSTER_ID, *more_options)
    kafkalite = ServedKafkalite(directory, config, options=options)
    kafkalite.start()
    return kafkalite, Quorum(kafkalite.bootstrap, controller)


@pytest.fixture(scope="module")
def quorums(
    real_kafka: RealKafka, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Quorum, Quorum]]:
    """Start kafkalite, and use the real Kafka, whose quorum can change."""
    emulated, quorum = start_kafkalite(tmp_path_factory.mktemp("kafkalite"), COMMON_CONFIG)
    yield Quorum(real_kafka.bootstrap, real_kafka.controller), quorum
    emulated.kill()


def assert_equal(
    quorums: tuple[Quorum, Quorum], scenario: Scenario, attempt: int, *, at_controller: bool
) -> None:
    """Run a scenario on both at the same time, because some scenarios wait."""
    with ThreadPoolExecutor(len(quorums)) as pool:
        real, emulated = pool.map(
            lambda each: each.play(scenario, attempt, at_controller=at_controller), quorums
        )
    lines = differences(real, emulated)
    assert not lines, "\n".join(lines)


@pytest.mark.parametrize("at_controller", [False, True], ids=["broker", "controller"])
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_both_listeners_answer_as_those_of_kafka(
    quorums: tuple[Quorum, Quorum], scenario: Scenario, attempt: int, *, at_controller: bool
) -> None:
    assert_equal(quorums, scenario, attempt, at_controller=at_controller)


@pytest.mark.parametrize("scenario", CONTROLLER_SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_the_listener_for_controllers_answers_as_that_of_kafka(
    quorums: tuple[Quorum, Quorum], scenario: Scenario, attempt: int
) -> None:
    assert_equal(quorums, scenario, attempt, at_controller=True)


def altered(address: str, name: str, operation: int) -> int:
    """Return the error code of a change of the settings of all brokers."""
    rows = IncrementalAlterConfigsRequest
    config = rows.AlterableConfig(name=name, config_operation=operation, value="4")
    resource = rows.AlterConfigsResource(resource_type=4, resource_name="", configs=[config])
    client = RawClient(int(address.rpartition(":")[2]))
    try:
        answer = client.call(rows(resources=[resource], validate_only=True), 1)
    finally:
        client.close()
    code: int = answer.responses[0].error_code
    return code


def leader_epoch(address: str) -> int:
    client = RawClient(int(address.rpartition(":")[2]))
    try:
        answer = client.call(quorum((METADATA, (0,))), 2)
    finally:
        client.close()
    epoch: int = answer.topics[0].partitions[0].leader_epoch
    return epoch


def test_settings_of_brokers_are_checked_at_the_controller(
    quorums: tuple[Quorum, Quorum],
) -> None:
    real, emulated = (each.controller for each in quorums)
    assert altered(real, "node.id", 0) == ErrorCode.NONE
    assert altered(emulated, "node.id", 0) == ErrorCode.INVALID_REQUEST
    epochs = [leader_epoch(address) for address in (real, emulated)]
    for address in (real, emulated):
        assert altered(address, "log.retention.ms", 7) == ErrorCode.UNKNOWN_SERVER_ERROR
    deadline = time.monotonic() + _ELECTION_S
    while code := altered(real, "log.retention.ms", 0):
        assert code == ErrorCode.NOT_CONTROLLER
        assert time.monotonic() < deadline
    assert altered(emulated, "log.retention.ms", 0) == ErrorCode.NONE
    assert leader_epoch(real) > epochs[0]
    assert leader_epoch(emulated) == epochs[1]


def kafka_with_fixed_voters(
    directory: Path, *format_options: str
) -> tuple[RealKafka, Mapping[str, str]]:
    """Return a real Kafka that is not started yet, and its settings."""
    config = dict(COMMON_CONFIG)
    kafka = RealKafka(directory, config, format_options=format_options)
    config["controller.quorum.voters"] = f"1@{kafka.controller}"
    config["controller.quorum.bootstrap.servers"] = ""
    return kafka, config


def test_fixed_voters_answer_as_those_of_kafka(tmp_path: Path, attempt: int) -> None:
    real, config = kafka_with_fixed_voters(tmp_path / "kafka")
    with ExitStack() as stopping:
        with required():
            real.start()
        stopping.callback(real.kill)
        emulated, quorum = start_kafkalite(tmp_path / "kafkalite", config)
        stopping.callback(emulated.kill)
        quorums = Quorum(real.bootstrap, real.controller), quorum
        assert_equal(quorums, fixed_voters_are_upgraded, attempt, at_controller=False)


def test_kafka_with_fixed_voters_starts_on_the_directory(tmp_path: Path) -> None:
    emulated, _ = start_kafkalite(tmp_path / "kafkalite", COMMON_CONFIG, "--topic", "stored:2")
    emulated.stop()
    real, _ = kafka_with_fixed_voters(tmp_path / "kafka", "--ignore-formatted")
    copytree(emulated.data, real.data)
    with required():
        real.start()
    try:
        client = RawClient(real.port)
        topics = client.call(MetadataRequest(topics=None), 12).topics
        assert [(topic.name, len(topic.partitions)) for topic in topics] == [("stored", 2)]
        request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
        features = {row.name for row in client.call(request, 4).finalized_features}
        client.close()
        assert "group.version" in features
        assert "kraft.version" not in features
    finally:
        real.kill()


@pytest.fixture(scope="module")
def sides(quorums: tuple[Quorum, Quorum]) -> Iterator[list[JavaSide]]:
    """Start the Java processes in which Kafka's tools run."""
    with required(), tool_sides(quorums) as sides:
        yield sides


_CONTROLLER: Final = "--bootstrap-controller {controller}"
_REMOVAL: Final = (
    "remove-controller --controller-id 1 --controller-directory-id AAECAwQFBgcICQoLDA0ODw"
)


@pytest.mark.parametrize(
    "case",
    [
        *(
            Case("kafka-metadata-quorum", f"{address} {command}".strip(), figures=True)
            for address in ("", _CONTROLLER)
            for command in ("describe --status", "describe --replication", _REMOVAL)
        ),
        *(
            Case("kafka-cluster", f"{command} {address}".strip())
            for address in ("", _CONTROLLER)
            for command in ("list-endpoints", "unregister-controller --id 1")
        ),
        Case("kafka-features", "describe"),
        Case("kafka-features", f"{_CONTROLLER} describe"),
    ],
    ids=lambda case: case.title[:60].replace(" ", "-"),
)
def test_the_tools_of_kafka_print_the_same(sides: list[JavaSide], case: Case) -> None:
    real, emulated = run_with_each(sides, case)
    assert real is not None
    assert real.output or real.errors
    assert emulated == real


def test_a_controller_is_not_added(sides: list[JavaSide], tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text(
        f"version=1\ncluster.id={CLUSTER_ID}\nnode.id=9\ndirectory.id=AAECAwQFBgcICQoLDA0ODw\n"
    )
    properties = tmp_path / "controller.properties"
    properties.write_text(
        "process.roles=controller\nnode.id=9\ncontroller.listener.names=CONTROLLER\n"
        f"listeners=CONTROLLER://127.0.0.1:1\nlog.dirs={tmp_path}\n"
    )
    command = f"--command-config {properties} add-controller"
    real, emulated = run_with_each(sides, Case("kafka-metadata-quorum", command))
    assert real is not None
    assert any("Aborted add voter operation" in line for line in real.errors), real
    assert emulated == real
