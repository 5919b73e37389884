"""`kafkalite consume`."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalite.testing import Broker
    from tests.unit.cli.command import Shell

HOUR_MS = 3_600_000


@pytest.fixture
def topic(cluster: Broker) -> Iterator[str]:
    """Return a topic with two partitions and five records, one an hour."""
    cluster.create_topic("orders", partitions=2, config={"retention.ms": "-1"})
    for number in range(5):
        cluster.produce(
            "orders",
            f"value-{number}",
            key=f"key-{number}",
            headers={"number": str(number)},
            partition=number % 2,
            timestamp=number * HOUR_MS,
        )
    yield "orders"
    cluster.delete_topic("orders")


def consumed(shell: Shell, *arguments: str) -> list[str]:
    """Return the numbers of the records that are printed, in the order of partitions."""
    result = shell.run("consume", "orders", *arguments)
    assert (result.status, result.error) == (0, "")
    return sorted(line.rpartition("-")[2] for line in result.lines)


@pytest.mark.parametrize(
    ("arguments", "numbers"),
    [
        ([], "01234"),
        (["--from", "earliest"], "01234"),
        (["--from", "latest"], ""),
        (["--from", "1"], "234"),
        (["--from", "99"], ""),
        (["--from", "1970-01-01T02:30:00Z"], "34"),
        (["--from", "1971-01-01T00:00:00Z"], ""),
        (["--partition", "1"], "13"),
        (["--partition", "1", "--partition", "0", "--from", "2"], "4"),
        (["--where", "key=key-3"], "3"),
        (["--where", "value~value", "--where", "partition=0"], "024"),
        (["--where", "header.number=4"], "4"),
        (["--where", "offset=1"], "23"),
        (["--where", "key=none"], ""),
        (["--partition", "0", "--count", "2"], "02"),
        (["--partition", "0", "--where", "value~-", "--count", "1", "--from", "1"], "2"),
        (["--follow", "--count", "5", "--from", "earliest"], "01234"),
        (["--isolation", "read_uncommitted"], "01234"),
    ],
)
def test_records_are_selected(shell: Shell, topic: str, arguments: list[str], numbers: str) -> None:
    assert topic
    assert consumed(shell, *arguments) == list(numbers)


def test_json_has_every_field_and_is_input_of_produce(
    cluster: Broker, shell: Shell, topic: str
) -> None:
    cluster.produce(topic, b"\xff", key=None, headers=[("h", None), ("b", b"\xfe")], partition=1)
    cluster.produce(topic, None, key="gone", partition=1)
    result = shell.run("consume", topic, "--format", "json")
    shapes = [json.loads(line) for line in result.lines]
    assert shapes[1] == {
        "topic": "orders",
        "partition": 0,
        "offset": 1,
        "timestamp_ms": 2 * HOUR_MS,
        "timestamp_iso": "1970-01-01T02:00:00.000Z",
        "key": "key-2",
        "value": "value-2",
        "headers": [{"key": "number", "value": "2"}],
    }
    assert shapes[-2]["key"] is None
    assert shapes[-2]["value_base64"] == "/w=="
    assert shapes[-2]["headers"] == [
        {"key": "h", "value": None},
        {"key": "b", "value_base64": "/g=="},
    ]
    assert (shapes[-1]["key"], shapes[-1]["value"]) == ("gone", None)
    cluster.create_topic("copy", partitions=2, config={"retention.ms": "-1"})
    assert shell.run("produce", "copy", "--format", "json", text=result.output).status == 0
    copied = shell.run("consume", "copy", "--format", "json")
    assert copied.output == result.output.replace("orders", "copy")
    cluster.delete_topic("copy")


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--key-separator", "/"], "key-0/value-0"),
        (["--format", "hex"], b"value-0".hex()),
        (["--format", "base64", "--key-separator", ":"], "a2V5LTA=:dmFsdWUtMA=="),
    ],
)
def test_lines_have_keys_and_encodings(
    shell: Shell, topic: str, arguments: list[str], line: str
) -> None:
    result = shell.run("consume", topic, "--partition", "0", "--count", "1", *arguments)
    assert result.output == f"{line}\n"


def test_transactions_depend_on_the_isolation(shell: Shell, topic: str) -> None:
    transaction = ["produce", topic, "--partition", "0", "--transactional-id", "shop"]
    assert shell.run(*transaction, text="a-committed").status == 0
    failed = shell.run(*transaction, "--format", "json", text='{"value": "b-aborted"}\nnothing')
    assert failed.status == 2
    assert shell.run(*transaction, text="c-committed").status == 0
    options = ["consume", topic, "--partition", "0", "--from", "3"]
    assert shell.run(*options).lines == ["a-committed", "c-committed"]
    uncommitted = shell.run(*options, "--isolation", "read_uncommitted")
    assert uncommitted.lines == ["a-committed", "b-aborted", "c-committed"]


def test_group_continues_after_what_was_printed(cluster: Broker, shell: Shell, topic: str) -> None:
    group = ["--group", "shop"]
    first = shell.run("consume", topic, *group, "--count", "2")
    rest = shell.run("consume", topic, *group)
    assert len(first.lines) == 2
    assert sorted(first.lines + rest.lines) == [f"value-{number}" for number in range(5)]
    assert shell.run("consume", topic, *group).lines == []
    # A start has an effect only without committed offsets.
    assert shell.run("consume", topic, *group, "--from", "earliest").lines == []
    latest = ["--group", "late", "--from", "latest"]
    assert shell.run("consume", topic, *latest).lines == []
    cluster.produce(topic, "value-5")
    assert shell.run("consume", topic, *latest).lines == ["value-5"]


def test_end_of_waiting_is_an_error(shell: Shell, topic: str) -> None:
    result = shell.run("consume", topic, "--follow", "--timeout", "1ms")
    assert result == (1, "", "kafkalite: no record has arrived for 1ms\n")


@pytest.mark.parametrize(
    ("arguments", "status", "error"),
    [
        (["ordres"], 1, "there is no topic 'ordres'; similar names are orders"),
        (["orders", "--partition", "7"], 2, "topic 'orders' has no partition 7, but 0 to 1"),
        (["orders", "--from", "soon"], 2, "'soon' is not earliest, latest, an offset or a time"),
        (["orders", "--from", "9" * 20], 2, "is too large for an offset"),
        (["orders", "--where", "kye=1"], 2, "no field 'kye', but key, value, partition, offset"),
        (["orders", "--where", "key"], 2, "write FIELD=TEXT or FIELD~TEXT"),
        (["orders", "--count", "0"], 2, "--count must be at least 1, not 0"),
        (["orders", "--timeout", "1s"], 2, "--timeout is only valid with --follow"),
        (["orders", "--follow", "--timeout", "soon"], 2, "'soon' is not a duration"),
        (["orders", "--group", "g", "--partition", "0"], 2, "--group and --partition cannot be"),
        (["orders", "--format", "json", "--key-separator", ":"], 2, "has no effect"),
    ],
)
def test_error_is_one_sentence(
    shell: Shell, topic: str, arguments: list[str], status: int, error: str
) -> None:
    assert topic
    result = shell.run("consume", *arguments)
    assert (result.status, result.output) == (status, "")
    (line,) = result.error.splitlines()
    assert error in line


def test_terminal_gets_no_control_characters(
    cluster: Broker, shell: Shell, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.produce(topic, b"\x1b[2J\xff", partition=1)

    class Terminal(io.TextIOWrapper):
        def isatty(self) -> bool:
            return True

    terminal = Terminal(io.BytesIO())
    monkeypatch.setattr("sys.stdout", terminal)
    shell.run("consume", topic, "--partition", "1", "--from", "2")
    assert terminal.buffer.getvalue() == b"\\x1b[2J\\xff\n"  # type: ignore[attr-defined]


def test_output_without_a_reader_ends_silently(cluster: Broker, topic: str) -> None:
    for _ in range(200):
        cluster.produce(topic, "x" * 10_000)
    read, write = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-m", "kafkalite", "consume", topic, "--bootstrap-server",
         cluster.bootstrap_servers],
        stdout=write, stderr=subprocess.PIPE,
    )  # fmt: skip
    os.close(write)
    os.read(read, 1)
    os.close(read)
    assert process.stderr is not None
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait() == 0
