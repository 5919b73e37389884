"""`kafkalite produce`."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalite.testing import Broker
    from tests.unit.cli.command import Shell


@pytest.fixture
def topic(cluster: Broker) -> Iterator[str]:
    """Return an empty topic with two partitions."""
    cluster.create_topic("orders", partitions=2)
    yield "orders"
    cluster.delete_topic("orders")


def values(cluster: Broker, partition: int | None = None) -> list[bytes | None]:
    return [each.value for each in cluster.records("orders", partition)]


def test_lines_are_values_in_turns(cluster: Broker, shell: Shell, topic: str) -> None:
    result = shell.run("produce", topic, "--json", text="a\nb\r\n\nc")
    assert (result.status, result.error) == (0, "")
    assert [json.loads(line) for line in result.lines] == [
        {"topic": topic, "partition": partition, "offset": offset}
        for offset in (0, 1)
        for partition in (0, 1)
    ]
    assert values(cluster, 0) == [b"a", b""]
    assert values(cluster, 1) == [b"b", b"c"]
    assert shell.run("produce", topic, text="") == (0, "", "")


def test_records_have_keys_headers_and_a_partition(
    cluster: Broker, shell: Shell, topic: str
) -> None:
    assert shell.run("produce", topic, "--key-separator", "::", text="k::a::b\n").status == 0
    (record,) = cluster.records(topic)
    assert (record.key, record.value) == (b"k", b"a::b")
    headers = ["--header", "source=test", "--header", "empty="]
    assert shell.run("produce", topic, *headers, "--partition", "1", text="x\n").status == 0
    record = cluster.records(topic, 1)[-1]
    assert (record.value, record.headers) == (b"x", (("source", b"test"), ("empty", b"")))


def test_records_can_have_a_timestamp(cluster: Broker, shell: Shell, topic: str) -> None:
    stamp = ["--timestamp", "2026-03-01T12:00:00Z"]
    assert shell.run("produce", topic, *stamp, text="a\n").status == 0
    line = '{"value": "b", "timestamp_ms": 5}'
    assert shell.run("produce", topic, "--format", "json", *stamp, text=line).status == 0
    assert {each.timestamp_ms for each in cluster.records(topic)} == {1_772_366_400_000}


def test_lines_can_be_json(cluster: Broker, shell: Shell, topic: str) -> None:
    lines = [
        {"key": "k", "value": None, "timestamp_ms": 5, "partition": 0},
        {
            "key_base64": "/w==",
            "value": "ü",
            "headers": [{"key": "h", "value": "v"}, {"key": "n"}],
            "partition": 0,
            # The fields of a consumed record have no effect.
            "topic": "other",
            "offset": 7,
            "timestamp_iso": "1970-01-01T00:00:00.005Z",
        },
    ]
    text = "".join(f"{json.dumps(line)}\n" for line in lines)
    assert shell.run("produce", topic, "--format", "json", "--header", "x=y", text=text).status == 0
    first, second = cluster.records(topic)
    assert (first.key, first.value, first.timestamp_ms) == (b"k", None, 5)
    assert first.headers == (("x", b"y"),)
    assert (second.key, second.value) == (b"\xff", "ü".encode())
    assert second.headers == (("h", b"v"), ("n", None), ("x", b"y"))


@pytest.mark.parametrize(
    ("encoding", "line"), [("hex", "00ff:6869"), ("base64", "AP8=:aGk="), ("text", "\0\xff:hi")]
)
def test_keys_and_values_can_be_encoded(
    cluster: Broker, shell: Shell, topic: str, encoding: str, line: str
) -> None:
    options = ["--format", encoding, "--key-separator", ":"]
    assert shell.run("produce", topic, *options, text=line.encode("latin-1")).status == 0
    (record,) = cluster.records(topic)
    assert (record.key, record.value) == (b"\0\xff", b"hi")


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_batches_have_acks_and_compression(
    cluster: Broker, shell: Shell, topic: str, compression: str
) -> None:
    cluster.requests.list()  # begins the log
    options = ["--compression", compression, "--acks", "1", "--partition", "0"]
    assert shell.run("produce", topic, *options, text="a" * 100 + "\n" + "b" * 100).status == 0
    assert values(cluster) == [b"a" * 100, b"b" * 100]
    cluster.requests.expect("Produce", topic=topic, fields={"acks": 1})


def test_lines_can_be_one_transaction(cluster: Broker, shell: Shell, topic: str) -> None:
    transaction = ["--transactional-id", "shop"]
    assert shell.run("produce", topic, *transaction, text="a\nb\nc\n").status == 0
    assert values(cluster) == [b"a", b"c", b"b"]
    assert all(each.is_transactional for each in cluster.records(topic))
    lines = b'{"value": "d"}\nnothing\n'
    failed = shell.run("produce", topic, *transaction, "--format", "json", text=lines)
    assert (failed.status, "line 2: this is not JSON" in failed.error) == (2, True)
    assert values(cluster) == [b"a", b"c", b"b"]
    uncommitted = cluster.records(topic, isolation="read_uncommitted")
    assert [each.is_aborted for each in uncommitted if each.value == b"d"] == [True]


def test_large_record_is_named_and_others_are_written(
    cluster: Broker, shell: Shell, topic: str
) -> None:
    text = b"a\n" + b"b" * 2_000_000 + b"\n"
    failed = shell.run("produce", topic, "--partition", "0", "--transactional-id", "s", text=text)
    assert failed.status == 1
    assert "line 2: the record of 2,000,000 bytes is too large for topic 'orders'" in failed.error
    assert values(cluster) == []
    assert shell.run("produce", topic, "--partition", "0", text=text).status == 1
    assert values(cluster) == [b"a"]


@pytest.mark.parametrize(
    ("arguments", "text", "expected"),
    [
        (["ordres"], "", (1, "there is no topic 'ordres'; similar names are orders")),
        (["orders", "--partition", "2"], "x", (1, "line 1: topic 'orders' has no partition 2")),
        (
            ["orders", "--key-separator", ":"],
            "a:b\nc",
            (2, "line 2 has no key: ':' does not occur"),
        ),
        (["orders", "--format", "hex"], "0g", (2, "line 1 is not hex: ")),
        (["orders", "--format", "base64"], "a", (2, "line 1 is not base64: ")),
        (["orders", "--format", "json"], "{}\n[]", (2, "line 2: a record must be ")),
        (
            ["orders", "--format", "json"],
            '{"valu": ""}',
            (2, "line 1: a record has no field 'valu'"),
        ),
        (
            ["orders", "--format", "json"],
            b'"\xff"',
            (2, "line 1: this is not JSON: it is not UTF-8"),
        ),
        (
            ["orders", "--format", "json"],
            "[" * 9_999,
            (2, "line 1: this is not JSON: it is too de"),
        ),
        (["orders", "--format", "json"], '{"partition": -1}', (2, "line 1: partition must be")),
        (["orders", "--format", "json", "--key-separator", ":"], "", (2, "use its field key")),
        (["orders", "--key-separator", ""], "", (2, "--key-separator is empty")),
        (["orders", "--timestamp", "soon"], "", (2, "'soon' is not a time")),
        (["orders", "--header", "x"], "", (2, "--header 'x': write KEY=VALUE")),
        (["orders", "--transactional-id", "t", "--acks", "1"], "", (2, "needs --acks all")),
    ],
)
def test_error_is_one_sentence(
    shell: Shell, topic: str, arguments: list[str], text: str | bytes, expected: tuple[int, str]
) -> None:
    assert topic
    status, error = expected
    result = shell.run("produce", *arguments, text=text)
    assert (result.status, result.output) == (status, "")
    (line,) = result.error.splitlines()
    assert error in line


def test_lines_before_an_invalid_one_are_written(cluster: Broker, shell: Shell, topic: str) -> None:
    text = b'{"value": "a", "partition": 0}\n{"value": "b", "partition": 0}\nnothing\n'
    result = shell.run("produce", topic, "--format", "json", "--json", text=text)
    assert (result.status, len(result.lines)) == (2, 2)
    assert values(cluster) == [b"a", b"b"]


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Let programs get SIGINT, also if this process ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_waiting_for_input_ends_with_an_interrupt(cluster: Broker, topic: str) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "kafkalite", "produce", topic, "--bootstrap-server",
         cluster.bootstrap_servers],
        stdin=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdin is not None
    process.stdin.write(b"a\n")
    process.stdin.flush()
    cluster.wait_for_records(topic, count=1, timeout=20)
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == 130
    process.stdin.close()
    assert process.stderr is not None
    assert process.stderr.read() == b""
    process.stderr.close()
