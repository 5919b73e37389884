"""`kafkalite topic`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from kafkalite.testing import Broker
    from tests.unit.cli.command import Shell


def test_topic_is_created_listed_described_and_deleted(cluster: Broker, shell: Shell) -> None:
    created = shell.run(
        "topic", "create", "orders", "--partitions", "2", "--config", "retention.ms=-1"
    )
    assert created == (0, "created topic orders\n", "")
    cluster.produce("orders", "value", partition=1)
    listed = shell.run("topic", "list")
    assert listed.cells[0] == ["TOPIC", "PARTITIONS", "REPLICAS"]
    assert ["orders", "2", "1"] in listed.cells
    described = shell.run("topic", "describe", "orders")
    title, inherited, config, header, *rows = described.lines
    assert title.startswith("orders (id ")
    assert inherited == "  min.insync.replicas=1"  # the setting of the cluster
    assert config == "  retention.ms=-1"
    assert header == "PARTITION  LEADER  REPLICAS  ISR  START  END"
    assert [row.split() for row in rows] == [list("011100"), list("111101")]
    assert shell.run("topic", "delete", "orders") == (0, "deleted topic orders\n", "")
    assert ["orders", "2", "1"] not in shell.run("topic", "list").cells


def test_output_can_be_json(shell: Shell) -> None:
    assert shell.run("topic", "create", "a", "b", "--json").json == {"created": ["a", "b"]}
    (a,) = [each for each in shell.run("topic", "list", "--json").json if each["topic"] == "a"]
    (described,) = shell.run("topic", "describe", "a", "--json").json
    assert described == {
        **a,
        "configs": {"min.insync.replicas": "1"},
        "partitions": [
            {
                "partition": 0,
                "leader": 1,
                "replicas": [1],
                "isr": [1],
                "start_offset": 0,
                "end_offset": 0,
            }
        ],
    }
    (described,) = shell.run("topic", "describe", "a", "--all-configs", "--json").json
    assert described["configs"]["retention.ms"] == "604800000"
    assert shell.run("topic", "delete", "a", "b", "--json").json == {"deleted": ["a", "b"]}


def test_topics_that_exist_or_are_gone_can_be_accepted(shell: Shell) -> None:
    for _ in range(2):
        assert shell.run("topic", "create", "same", "--if-not-exists").status == 0
    again = shell.run("topic", "create", "same")
    assert (again.status, "(TOPIC_ALREADY_EXISTS)" in again.error) == (1, True)
    for _ in range(2):
        assert shell.run("topic", "delete", "same", "--if-exists").status == 0


def test_internal_topics_are_listed_on_request(cluster: Broker, shell: Shell) -> None:
    assert cluster.bootstrap_servers
    shell.run("fence-producers", "any")
    names = [row[0] for row in shell.run("topic", "list", "--internal").cells]
    assert "__transaction_state" in names
    assert "__transaction_state" not in [row[0] for row in shell.run("topic", "list").cells]


@pytest.mark.parametrize(
    ("arguments", "status", "error"),
    [
        (["describe", "paymnets"], 1, "there is no topic 'paymnets'; similar names are payments"),
        (["delete", "paymnets"], 1, "there is no topic 'paymnets'; similar names are payments"),
        (["create", "x/y"], 1, "(INVALID_TOPIC_EXCEPTION)"),
        (["create", "x", "--config", "retention"], 2, "write KEY=VALUE"),
        (["create", "x", "--partitions", "0"], 2, "--partitions must be at least 1, not 0"),
        (["create", "x", "--partitions", "many"], 2, "'many' is not a whole number"),
        (["create"], 2, "required: TOPIC"),
        (["describe", "x", "--tls", "--command-config", "f"], 2, "--command-config and --tls"),
        (["describe", "x", "--command-config", "/none"], 2, "cannot read /none: no such file"),
        (["describe", "x", "--user", "ann"], 2, "--user is only valid with --sasl-mechanism"),
    ],
)
def test_error_is_one_sentence(shell: Shell, arguments: list[str], status: int, error: str) -> None:
    shell.run("topic", "create", "payments", "--if-not-exists")
    result = shell.run("topic", *arguments)
    assert (result.status, result.output) == (status, "")
    (line,) = result.error.splitlines()
    assert error in line
