"""`kafka-console-consumer`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.unit.docker.tools.tool import ToolRunner

CONSUMER = "kafka-console-consumer"


@pytest.fixture
def filled(tools: ToolRunner) -> ToolRunner:
    """Return a runner whose broker has three records in one partition."""
    tools.ask("kafka-topics", "--create", "--topic", "one")
    keyed = ("--property", "parse.key=true", "--property", "key.separator=:")
    tools.send("k:a\nk:b\nk:c\n", "--topic", "one", *keyed)
    return tools


def test_records_are_printed_from_the_beginning(filled: ToolRunner) -> None:
    result = filled.ask(CONSUMER, "--topic", "one", "--from-beginning", "--max-messages", "2")
    assert result == (0, ["a", "b"], "Processed a total of 2 messages\n")


def test_records_are_printed_from_an_offset(filled: ToolRunner) -> None:
    arguments = ("--topic", "one", "--partition", "0", "--offset", "1", "--timeout-ms", "100")
    assert filled.ask(CONSUMER, *arguments).lines == ["b", "c"]


def test_new_records_are_awaited_for_the_timeout(filled: ToolRunner) -> None:
    result = filled.ask(CONSUMER, "--topic", "one", "--timeout-ms", "100")
    assert result == (0, [], "Processed a total of 0 messages\n")


def test_properties_select_the_form(filled: ToolRunner) -> None:
    properties = ("print.key=true", "key.separator==", "print.value=false", "line.separator=;\n")
    options = [part for each in properties for part in ("--property", each)]
    result = filled.ask(
        CONSUMER, "--topic", "one", "--from-beginning", "--max-messages", "1", *options
    )
    assert result.lines == ["k;"]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ([], "--topic is missing"),
        (["--topic", "one", "--offset", "3"], "--offset needs --partition"),
        (["--topic", "one", "--offset", "x"], "--offset is earliest, latest or a number, not 'x'"),
        (["--topic", "one", "--property", "print.headers=true"], "print.headers is not supported"),
        (["--topic", "one", "--group", "g"], "--group g is not supported here"),
    ],
)
def test_unsupported_options_are_named(tools: ToolRunner, arguments: list[str], error: str) -> None:
    result = tools.ask(CONSUMER, *arguments)
    assert result.status == 1
    assert error in result.error
