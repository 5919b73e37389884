"""`kafka-console-producer`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from kafkalite.testing import Broker
    from tests.unit.docker.tools.tool import ToolRunner

ALL = ("--from-beginning", "--timeout-ms", "100", "--max-messages")


def test_lines_are_sent_in_turn_to_the_partitions(tools: ToolRunner) -> None:
    assert tools.send("a\nb\r\nc\nd", "--topic", "orders") == (0, [], "")
    read = tools.ask(
        "kafka-console-consumer", "--topic", "orders", "--partition", "0", "--offset", "earliest",
        "--max-messages", "2",
    )  # fmt: skip
    assert read.lines == ["a", "d"]
    assert sorted(
        tools.ask("kafka-console-consumer", "--topic", "orders", *ALL, "4").lines
    ) == ["a", "b", "c", "d"]  # fmt: skip


def test_keys_are_before_the_separator(tools: ToolRunner) -> None:
    sent = tools.send(
        "21:x\n21:y:z\n", "--topic", "orders", "--property", "parse.key=true",
        "--property", "key.separator=:",
    )  # fmt: skip
    assert sent.status == 0
    read = tools.ask(
        "kafka-console-consumer", "--topic", "orders", *ALL, "2", "--property", "print.key=true",
    )  # fmt: skip
    assert read.lines == ["21\tx", "21\ty:z"]


def test_a_refused_record_does_not_stop_those_after_it(broker: Broker, tools: ToolRunner) -> None:
    sent = tools.send(f"a\n{'x' * 1_100_000}\nb\n", "--topic", "orders", "--sync")
    assert sent.status == 0
    assert "with error: line 2: the record of 1,100,000 bytes is too large" in sent.error
    assert sorted(each.value or b"" for each in broker.records("orders")) == [b"a", b"b"]


def test_records_that_the_topic_does_not_allow_are_reported(
    broker: Broker, tools: ToolRunner
) -> None:
    created = ("--create", "--topic", "compacted", "--config", "cleanup.policy=compact")
    assert tools.ask("kafka-topics", *created).status == 0
    sent = tools.send("a\n", "--topic", "compacted")
    assert (sent.status, sent.lines) == (0, [])
    assert "ERROR Error when sending message to topic compacted with error: Compacted" in sent.error
    assert not list(broker.records("compacted"))


def test_lines_before_an_invalid_one_are_sent(broker: Broker, tools: ToolRunner) -> None:
    keyed = ("--property", "parse.key=true", "--property", "key.separator=:")
    sent = tools.send("21:x\ny\n", "--topic", "orders", *keyed)
    assert sent.status == 1
    assert "No key separator found on line number 2: 'y'" in sent.error
    assert [each.value for each in broker.records("orders")] == [b"x"]


def test_topic_is_created(tools: ToolRunner) -> None:
    assert tools.send("a\n", "--topic", "new", "--request-required-acks", "1").status == 0
    assert tools.ask("kafka-topics", "--list").lines == ["new", "orders"]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ([], 'Missing required argument "[topic]"'),
        (["--topic", "orders", "--property", "parse.all=true"], ("parse.all is not supported "
         "here; supported are parse.key, parse.headers")),
        (["--topic", "orders", "--property", "parse.key=true"], ("No key separator found on line "
         "number 1")),
        (["--topic", "orders", "--compression-codec", "zip"], "compression is one of none, gzip"),
        (["--topic", "orders", "--line-reader", "my.Reader"], "only LineMessageReader is"),
    ],
)  # fmt: skip
def test_unsupported_options_are_named(tools: ToolRunner, arguments: list[str], error: str) -> None:
    result = tools.send("a\n", *arguments)
    assert result.status == 1
    assert error in result.error
