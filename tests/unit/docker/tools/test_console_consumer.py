"""`kafka-console-consumer`."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING

import pytest

from kafkalite.client.epochs import TopicPartition
from kafkalite.client.producer import Producer

if TYPE_CHECKING:
    from kafkalite.testing import Broker
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
    assert result.lines == ["a", "b"]
    assert result.error.endswith("\nProcessed a total of 2 messages\n")


def test_records_are_printed_from_an_offset(filled: ToolRunner) -> None:
    arguments = ("--topic", "one", "--partition", "0", "--offset", "1", "--timeout-ms", "100")
    assert filled.ask(CONSUMER, *arguments).lines == ["b", "c"]


def test_new_records_are_awaited_for_the_timeout(filled: ToolRunner) -> None:
    result = filled.ask(CONSUMER, "--topic", "one", "--timeout-ms", "100")
    assert (result.status, result.lines) == (0, [])
    assert result.error.endswith("\nProcessed a total of 0 messages\n")


def test_properties_select_the_form(filled: ToolRunner) -> None:
    properties = ("print.key=true", "key.separator==", "print.value=false", "line.separator=;\n")
    options = [part for each in properties for part in ("--property", each)]
    result = filled.ask(
        CONSUMER, "--topic", "one", "--from-beginning", "--max-messages", "1", *options
    )
    assert result.lines == ["k;"]


def test_all_parts_of_a_record_are_printed(filled: ToolRunner) -> None:
    names = ("timestamp", "partition", "offset", "headers", "key")
    options = [part for each in names for part in ("--property", f"print.{each}=true")]
    result = filled.ask(
        CONSUMER, "--topic", "one", "--from-beginning", "--max-messages", "1", *options
    )
    (line,) = result.lines
    assert re.fullmatch(r"CreateTime:\d{13}\tPartition:0\tOffset:0\tNO_HEADERS\tk\ta", line)


def test_group_continues_after_what_was_printed(filled: ToolRunner) -> None:
    group = ("--topic", "one", "--group", "readers")
    first = filled.ask(CONSUMER, *group, "--from-beginning", "--max-messages", "2")
    assert (first.status, first.lines) == (0, ["a", "b"])
    property_ = ("--consumer-property", "group.id=readers")
    rest = filled.ask(CONSUMER, "--topic", "one", *property_, "--timeout-ms", "100")
    assert rest.lines == ["c"]


def test_records_depend_on_the_isolation(broker: Broker, filled: ToolRunner) -> None:
    asyncio.run(abort(broker.bootstrap_servers, b"aborted"))
    options = ("--topic", "one", "--from-beginning", "--timeout-ms", "100")
    assert filled.ask(CONSUMER, *options).lines == ["a", "b", "c", "aborted"]
    committed = filled.ask(CONSUMER, *options, "--isolation-level", "read_committed")
    assert committed.lines == ["a", "b", "c"]


async def abort(servers: str, value: bytes) -> None:
    async with Producer(servers, transactional_id="shop") as producer:
        await producer.begin()
        await producer.send(TopicPartition("one", 0), value)
        await producer.end(commits=False)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ([], "Exactly one of --include/--topic is required."),
        (["--topic", "one", "--offset", "3"], "The partition is required when offset is"),
        (["--topic", "one", "--partition", "0", "--offset", "x"], "The provided offset value 'x'"),
        (["--topic", "one", "--property", "print.all=true"], "print.all is not supported"),
        (["--include", "("], "( is an invalid regex"),
        (["--topic", "one", "--consumer-property", "group.protocol=x"], "one of classic, cons"),
        (["--topic", "one", "--isolation-level", "none"], "one of read_uncommitted, read_commit"),
        (["--topic", "one", "--group", "g", "--partition", "0"], "cannot be specified together"),
        (["--topic", "one", "--consumer-property", "auto.offset.reset=x"], "one of earliest, lat"),
    ],
)
def test_unsupported_options_are_named(tools: ToolRunner, arguments: list[str], error: str) -> None:
    result = tools.ask(CONSUMER, *arguments)
    assert result.status == 1
    assert error in result.error
