"""`kafka-configs`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.docker.credentials import Credential
from kafkalite.docker.files import ImageFiles
from kafkalite.testing import Broker
from tests.unit.docker.tools.tool import ToolRunner

if TYPE_CHECKING:
    from pathlib import Path

CONFIGS = "kafka-configs"
ORDERS = ("--entity-type", "topics", "--entity-name", "orders")


def test_configurations_of_a_topic_are_changed(tools: ToolRunner) -> None:
    changed = tools.ask(
        CONFIGS, "--alter", *ORDERS,
        "--add-config", "retention.ms=5,cleanup.policy=[compact,delete]",
    )  # fmt: skip
    assert changed.lines == ["Completed updating config for topic orders."]
    assert tools.ask(CONFIGS, "--describe", "--topic", "orders").lines == [
        "Dynamic configs for topic orders are:",
        (
            "  cleanup.policy=compact,delete sensitive=false synonyms={"
            "DYNAMIC_TOPIC_CONFIG:cleanup.policy=compact,delete, "
            "DEFAULT_CONFIG:log.cleanup.policy=delete}"
        ),
        "  retention.ms=5 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:retention.ms=5}",
    ]
    tools.ask(CONFIGS, "--alter", *ORDERS, "--delete-config", "retention.ms,cleanup.policy")
    assert len(tools.ask(CONFIGS, "--describe", *ORDERS).lines) == 1
    assert len(tools.ask(CONFIGS, "--describe", "--all", *ORDERS).lines) > 20


def test_configurations_of_brokers_are_changed(tools: ToolRunner) -> None:
    one = ("--entity-type", "brokers", "--entity-name", "1")
    every = ("--entity-type", "brokers", "--entity-default")
    assert tools.ask(CONFIGS, "--alter", *one, "--add-config", "log.retention.ms=7").status == 0
    assert tools.ask(CONFIGS, "--alter", *every, "--add-config", "log.retention.ms=8").lines == [
        "Completed updating default config for brokers in the cluster."
    ]
    heading, setting = tools.ask(CONFIGS, "--describe", *one).lines
    assert heading == "Dynamic configs for broker 1 are:"
    assert setting.startswith(
        "  log.retention.ms=7 sensitive=false synonyms={DYNAMIC_BROKER_CONFIG:"
    )
    assert tools.ask(CONFIGS, "--describe", *every).lines[:2] == [
        "Default configs for brokers in the cluster are:",
        (
            "  log.retention.ms=8 sensitive=false"
            " synonyms={DYNAMIC_DEFAULT_BROKER_CONFIG:log.retention.ms=8}"
        ),
    ]
    refused = tools.ask(CONFIGS, "--describe", "--entity-type", "brokers", "--entity-name", "9")
    assert refused.lines == ["The broker '9' doesn't exist and doesn't have dynamic config."]


def test_users_are_added(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def client(user: str, password: str) -> str:
        path = tmp_path / f"{user}.properties"
        path.write_text(
            "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-256\nsasl.jaas.config="
            f"a.ScramLoginModule required username={user} password={password};\n"
        )
        return str(path)

    with Broker(security="SASL_PLAINTEXT", users={"alice": "a"}) as broker:
        tools = ToolRunner(broker, capsys, monkeypatch)
        added = tools.ask(
            CONFIGS, "--command-config", client("alice", "a"), "--alter", "--entity-type", "users",
            "--entity-name", "bob", "--add-config", "SCRAM-SHA-256=[iterations=8192,password=b]",
        )  # fmt: skip
        assert added.lines == ["Completed updating config for user bob."]
        listed = tools.ask("kafka-topics", "--list", "--command-config", client("bob", "b"))
        assert listed.status == 0


def test_users_are_added_before_the_start(offline_tools: ToolRunner, tmp_path: Path) -> None:
    result = offline_tools.run(
        CONFIGS, "--zookeeper", "zookeeper:2181", "--alter", "--entity-type", "users",
        "--entity-name", "bob", "--add-config", "SCRAM-SHA-256=[iterations=8192,password=b]",
        environment={"KAFKALITE_ROOT": str(tmp_path)},
    )  # fmt: skip
    assert result == (0, ["Completed updating config for user bob."], "")
    users = ImageFiles(str(tmp_path)).formatted_users()
    assert users == [Credential("bob", "b", "SCRAM-SHA-256")]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["--alter", "--describe"], "Command must include exactly one action"),
        (["--describe"], "At least one entity type must be specified"),
        (["--alter", *ORDERS], "At least one of --add-config, --add-config-file"),
        (
            ["--alter", "--entity-type", "topics", "--add-config", "a=b"],
            "an entity name or default",
        ),
        (["--alter", "--client", "a", "--add-config", "rate=1"], "Only quota configs can be added"),
        (["--alter", "--ip-defaults", "--add-config", "a=1"], "Only connection quota configs"),
        (["--alter", "--user", "a", "--add-config", "request_percentage=x"], "Cannot parse quota"),
        (
            ["--alter", *ORDERS, "--add-config", "no.such.key=1"],
            "InvalidConfigurationException: Unknown topic config",
        ),
        (["--alter", "--user", "a", "--add-config", "rate=1"], "Unexpected config names: rate"),
        (["--alter", "--user", "a", "--add-config", "SCRAM-SHA-256=[iterations=1]"], "a password"),
        (
            ["--alter", "--user", "a", "--add-config", "SCRAM-SHA-256=[iterations=x,password=b]"],
            "iterations are a number, not 'x'",
        ),
        (
            [
                "--alter",
                "--user",
                "a",
                "--add-config",
                "SCRAM-SHA-256=[iterations=9999999,password=b]",
            ],
            "Iterations 9999999 is greater than the maximum 16384",
        ),
        (
            ["--alter", "--user-defaults", "--add-config", "SCRAM-SHA-256=[password=b]"],
            "The use of --entity-default or --user-defaults is not allowed",
        ),
        (["--zookeeper", "zk", "--alter", "--topic", "a", "--add-config", "b=c"], "no ZooKeeper"),
    ],
)
def test_unsupported_options_are_named(tools: ToolRunner, arguments: list[str], error: str) -> None:
    result = tools.ask(CONFIGS, *arguments)
    assert result.status == 1
    assert error in result.error
