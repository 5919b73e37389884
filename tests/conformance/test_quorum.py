"""The quorum of a cluster with one controller, at brokers, at controllers and with tools."""

from __future__ import annotations

import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from shutil import copytree
from typing import TYPE_CHECKING, Final, NamedTuple

import pytest

from kafkalite.protocol._generated.messages.api_versions import ApiVersionsRequest
from kafkalite.protocol._generated.messages.metadata import MetadataRequest
from tests.conformance.compare import differences
from tests.conformance.raw import RawClient
from tests.conformance.scenarios.quorum import (
    CONTROLLER_SCENARIOS,
    IGNORED,
    SCENARIOS,
    fixed_voters_are_upgraded,
)
from tests.conformance.world import World
from tests.oracle.jars import java_command
from tests.oracle.real_kafka import CLUSTER_ID, RealKafka
from tests.oracle.requirements import required
from tests.oracle.served_kafkalite import ServedKafkalite
from tests.oracle.target import COMMON_CONFIG, free_port

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from tests.conformance.scenario_runs import Scenario
    from tests.conformance.world import Entry

pytestmark = [pytest.mark.oracle, pytest.mark.endurance]


class Quorum(NamedTuple):
    """A broker that is the controller, too."""

    broker: str
    controller: str

    def play(self, scenario: Scenario, *, at_controller: bool) -> list[Entry]:
        """Run a scenario at one of the listeners, and return the transcript."""
        address = self.controller if at_controller else self.broker
        world = World(int(address.rpartition(":")[2]), scenario.__name__, IGNORED)
        try:
            scenario(world)
        finally:
            world.close()
        return world.transcript


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
def quorums(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Quorum, Quorum]]:
    """Start a real Kafka with a quorum that can change, and kafkalite."""
    with required():
        real = RealKafka(tmp_path_factory.mktemp("kafka"))
        real.start()
    try:
        emulated, quorum = start_kafkalite(tmp_path_factory.mktemp("kafkalite"), COMMON_CONFIG)
        yield Quorum(real.bootstrap, real.controller), quorum
        emulated.kill()
    finally:
        real.kill()


def assert_equal(
    quorums: tuple[Quorum, Quorum], scenario: Scenario, *, at_controller: bool
) -> None:
    real, emulated = (each.play(scenario, at_controller=at_controller) for each in quorums)
    lines = differences(real, emulated)
    assert not lines, "\n".join(lines)


@pytest.mark.parametrize("at_controller", [False, True], ids=["broker", "controller"])
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_both_listeners_answer_as_those_of_kafka(
    quorums: tuple[Quorum, Quorum], scenario: Scenario, *, at_controller: bool
) -> None:
    assert_equal(quorums, scenario, at_controller=at_controller)


@pytest.mark.parametrize("scenario", CONTROLLER_SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_the_listener_for_controllers_answers_as_that_of_kafka(
    quorums: tuple[Quorum, Quorum], scenario: Scenario
) -> None:
    assert_equal(quorums, scenario, at_controller=True)


def test_fixed_voters_answer_as_those_of_kafka(tmp_path: Path) -> None:
    config = dict(COMMON_CONFIG)
    with required():
        real = RealKafka(tmp_path / "kafka", config, format_options=())
        config["controller.quorum.voters"] = f"1@{real.controller}"
        config["controller.quorum.bootstrap.servers"] = ""
        real.start()
    try:
        emulated, quorum = start_kafkalite(tmp_path / "kafkalite", config)
        quorums = Quorum(real.bootstrap, real.controller), quorum
        assert_equal(quorums, fixed_voters_are_upgraded, at_controller=False)
        emulated.kill()
    finally:
        real.kill()


def test_kafka_with_fixed_voters_starts_on_the_directory(tmp_path: Path) -> None:
    emulated, _ = start_kafkalite(tmp_path / "kafkalite", COMMON_CONFIG, "--topic", "stored:2")
    emulated.stop()
    config = dict(COMMON_CONFIG)
    with required():
        real = RealKafka(tmp_path / "kafka", config, format_options=("--ignore-formatted",))
        config["controller.quorum.voters"] = f"1@{real.controller}"
        config["controller.quorum.bootstrap.servers"] = ""
        copytree(emulated.data, real.data)
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


_QUORUM_TOOL: Final = "org.apache.kafka.tools.MetadataQuorumCommand"
_CLUSTER_TOOL: Final = "org.apache.kafka.tools.ClusterTool"
_FEATURES_TOOL: Final = "org.apache.kafka.tools.FeatureCommand"

_VOLATILE: Final = (
    (r"\d{13}", "TIME"),
    (r"127\.0\.0\.1:\d+", "ADDRESS"),
    (r"127\.0\.0\.1 +\d+", "ADDRESS"),
    (r"(?<=HighWatermark: {10})\d+", "OFFSET"),
    (r"(?<=LeaderEpoch: {12})\d+", "EPOCH"),
    (r"Epoch: \d+", "Epoch: N"),
    (r'(?<="directoryId": ")[\w-]{22}', "DIRECTORY"),
    (r"^(\d+\s+)[\w-]{22}\s+\d+\s+", r"\1DIRECTORY OFFSET "),
    (r"(?<=directoryId=)[\w-]{22}", "DIRECTORY"),
    (r"[ \t]+", " "),
)
"""Patterns of values that differ between clusters, and their replacements."""


def run_tool(
    quorum: Quorum, *, tool: str, arguments: Sequence[str], at_controller: bool
) -> tuple[int, str]:
    """Run a tool; return its status and what it prints, without values that differ."""
    option, address = (
        ("--bootstrap-controller", quorum.controller)
        if at_controller
        else ("--bootstrap-server", quorum.broker)
    )
    first, *others = arguments
    # The tool for the cluster has the option behind its command.
    command = (
        (first, *others, option, address)
        if tool == _CLUSTER_TOOL
        else (option, address, first, *others)
    )
    run = subprocess.run(
        java_command(tool, *command),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    lines = [
        line
        for line in run.stdout.splitlines()
        # Share groups of kafkalite have no dead-letter queues.
        if line.strip() and "share.version" not in line
    ]
    # The last part of a failure is a stack trace.
    lines += [line for line in run.stderr.splitlines() if "Exception: " in line][:1]
    for pattern, replacement in _VOLATILE:
        lines = [re.sub(pattern, replacement, line.rstrip()) for line in lines]
    return run.returncode, "\n".join(lines)


def run_tools(
    quorums: tuple[Quorum, Quorum], tool: str, *arguments: str, at_controller: bool
) -> list[tuple[int, str]]:
    """Run a tool for both clusters at the same time."""
    with ThreadPoolExecutor(len(quorums)) as pool:
        run = partial(run_tool, tool=tool, arguments=arguments, at_controller=at_controller)
        return list(pool.map(run, quorums))


@pytest.mark.parametrize("at_controller", [False, True], ids=["broker", "controller"])
@pytest.mark.parametrize(
    ("tool", "command"),
    [
        (_QUORUM_TOOL, "describe --status"),
        (_QUORUM_TOOL, "describe --replication"),
        (
            _QUORUM_TOOL,
            "remove-controller --controller-id 1 --controller-directory-id AAECAwQFBgcICQoLDA0ODw",
        ),
        (_CLUSTER_TOOL, "list-endpoints"),
        (_CLUSTER_TOOL, "unregister-controller --id 1"),
        (_FEATURES_TOOL, "describe"),
    ],
    ids=lambda value: value.rpartition(".")[2].replace(" ", "-")[:40],
)
def test_the_tools_of_kafka_print_the_same(
    quorums: tuple[Quorum, Quorum], tool: str, command: str, *, at_controller: bool
) -> None:
    real, emulated = run_tools(quorums, tool, *command.split(), at_controller=at_controller)
    assert emulated == real


def test_a_controller_is_not_added(quorums: tuple[Quorum, Quorum], tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text(
        f"version=1\ncluster.id={CLUSTER_ID}\nnode.id=9\ndirectory.id=AAECAwQFBgcICQoLDA0ODw\n"
    )
    properties = tmp_path / "controller.properties"
    properties.write_text(
        "process.roles=controller\nnode.id=9\ncontroller.listener.names=CONTROLLER\n"
        f"listeners=CONTROLLER://127.0.0.1:1\nlog.dirs={tmp_path}\n"
    )
    arguments = ("--command-config", str(properties), "add-controller")
    real, emulated = run_tools(quorums, _QUORUM_TOOL, *arguments, at_controller=False)
    assert "Aborted add voter operation" in real[1]
    assert emulated == real
