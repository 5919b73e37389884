"""`kafka-console-producer`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
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
