"""`kafkalite transaction`."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from kafkalite.client.epochs import TopicPartition
from kafkalite.client.producer import Producer

if TYPE_CHECKING:
    from kafkalite.testing import Broker
    from tests.unit.cli.command import Shell


async def begin(servers: str, transactional_id: str) -> None:
    async with Producer(servers, transactional_id=transactional_id) as producer:
        await producer.begin()
        await producer.send(TopicPartition("orders", 0), b"a")


@pytest.fixture
def opened(cluster: Broker) -> str:
    """Return a transactional id with an open transaction."""
    if "orders" not in cluster.topics():
        cluster.create_topic("orders")
    asyncio.run(begin(cluster.bootstrap_servers, "open"))
    return "open"


def test_transactions_are_listed_and_described(shell: Shell, opened: str) -> None:
    assert shell.run("produce", "orders", "--transactional-id", "done", text="x\n").status == 0
    listed = shell.run("transaction", "list")
    assert listed.cells[0] == ["TRANSACTIONAL-ID", "STATE", "PRODUCER-ID", "COORDINATOR"]
    assert [row[:2] for row in listed.cells[1:]] == [
        ["done", "CompleteCommit"],
        [opened, "Ongoing"],
    ]
    (only,) = shell.run("transaction", "list", "--open", "--json").json
    assert (only["transactional_id"], only["state"]) == (opened, "Ongoing")
    described = shell.run("transaction", "describe", opened, "done")
    assert described.cells[1][:2] == [opened, "Ongoing"]
    assert described.cells[1][-1] == "orders-0"
    assert described.cells[2][-1] == "-"
    (shape,) = shell.run("transaction", "describe", opened, "--json").json
    assert shape["partitions"] == [{"topic": "orders", "partition": 0}]
    assert shape["timeout_ms"] == 60_000


def test_transactions_are_aborted(cluster: Broker, shell: Shell, opened: str) -> None:
    assert shell.run("transaction", "abort", opened) == (0, f"aborted and fenced {opened}\n", "")
    records = cluster.records("orders", isolation="read_uncommitted")
    assert records[-1].is_aborted
    asyncio.run(begin(cluster.bootstrap_servers, opened))
    assert shell.run("transaction", "abort", opened, "--json").json == {"aborted": [opened]}


def test_transaction_that_hangs_is_aborted(cluster: Broker, shell: Shell, opened: str) -> None:
    assert opened
    record = cluster.records("orders", isolation="read_uncommitted")[-1]
    place = ["--topic", "orders", "--partition", "0", "--start-offset", str(record.offset)]
    aborted = shell.run("transaction", "abort", *place)
    producer = record.producer_id
    line = f"aborted the transaction of producer {producer} in orders-0\n"
    assert aborted == (0, line, "")
    assert cluster.records("orders", isolation="read_uncommitted")[-1].is_aborted


@pytest.mark.parametrize(
    ("arguments", "status", "error"),
    [
        (["describe", "opne"], 1, "there is no transactional id 'opne'; similar names are open"),
        (["abort", "opne"], 1, "there is no transactional id 'opne'; similar names are open"),
        (["abort"], 2, "needs either an ID or --topic, --partition and --start-offset"),
        (["abort", "open", "--topic", "orders"], 2, "needs either an ID or --topic"),
        (["abort", "--topic", "orders"], 2, "are needed together"),
    ],
)
def test_error_is_one_sentence(
    shell: Shell, opened: str, arguments: list[str], status: int, error: str
) -> None:
    assert opened
    result = shell.run("transaction", *arguments)
    assert (result.status, result.output) == (status, "")
    (line,) = result.error.splitlines()
    assert error in line
