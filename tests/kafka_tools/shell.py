"""The commands of the shell at a real Kafka, compared with Kafka's tools at the same broker."""

from __future__ import annotations

import json
import time
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from kafkalite.cli.main import main
from kafkalite.docker.programs import TOOLS
from tests.kafka_tools.case import Case
from tests.kafka_tools.own_side import captured

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.kafka_tools.sides import Result, Side

_TOPIC: Final = "shell"
_GROUP: Final = "shell-readers"
_TRANSACTIONAL_ID: Final = "shell-shop"
_LINES: Final = [f"key-{number}:value-{number}" for number in range(20)]
_PROPAGATION_S: Final = 10.0
_POLL_S: Final = 0.1
_RESETS: Final = {
    "--to earliest": "--to-earliest",
    "--to latest": "--to-latest",
    "--to 3": "--to-offset 3",
    "--to 99": "--to-offset 99",
    "--to 1970-01-01T00:00:00.010Z": "--to-datetime 1970-01-01T00:00:00.010Z",
    "--shift -2": "--shift-by -2",
    "--shift 99": "--shift-by 99",
}
"""Options of `kafkalite group reset` → those of kafka-consumer-groups."""

_IMAGE_COMMANDS: Final = (
    f"--describe --group {_GROUP}",
    f"--describe --group {_GROUP} --offsets",
    f"--describe --group {_GROUP} --state",
    f"--describe --group {_GROUP} --members",
    "--describe --group no-such-group",
    "--describe --group no-such-group --state",
    *(
        f"--reset-offsets --group {_GROUP} --all-topics {scenario} --dry-run"
        for scenario in (*_RESETS.values(), "--to-current", "--by-duration P1DT1H")
    ),
    f"--reset-offsets --group {_GROUP} --topic {_TOPIC}:0,1 --to-earliest",
    f"--reset-offsets --group {_GROUP} --topic no-such-topic --to-earliest --dry-run",
    f"--reset-offsets --group {_GROUP} --all-topics --to-earliest --export --dry-run",
    "--reset-offsets --group no-such-group --all-topics --to-earliest --dry-run",
    f"--reset-offsets --group {_GROUP} --topic {_TOPIC} --to-offset 1 --execute",
    f"--describe --group {_GROUP}",
    "--delete --group no-such-group",
)
"""Command lines of the image's kafka-consumer-groups that are compared with Kafka's tool.

The tool of the image changes offsets first, so Kafka's tool finds the result.
"""
_HEADERS: Final = ("GROUP", "TransactionalId", "CoordinatorId")
"""First cells of the headers of tables."""

Value = Any
"""The comparable content of an output."""


class ShellComparison:
    """Runs commands of the shell and Kafka's tools at one broker, and compares their results."""

    def __init__(self, tools: Side) -> None:
        self._tools = tools
        self.differences: list[str] = []

    def run(self, *arguments: str, text: str = "") -> str:
        """Run a command of the shell, and return its output; AssertionError if it fails."""
        words = [*arguments, "--bootstrap-server", self._tools.bootstrap]
        status, output, error = captured(lambda: main(words), text)
        assert not status, (arguments, error)
        return output

    def image_tool(self, name: str, command: str) -> Result:
        """Run a tool of the image, and return its result."""
        case = Case(name, command)
        words = [*self._tools.words(case), "--bootstrap-server", self._tools.bootstrap]
        tool = import_module(f"kafkalite.docker.tools.{TOOLS[name]}")
        status, output, error = captured(lambda: tool.main(name, words, {}))
        return self._tools.result(case, {"status": status, "stdout": output, "stderr": error})

    def kafka_tool(self, name: str, command: str) -> Result:
        """Run a tool of Kafka, and return its result."""
        result = self._tools.perform(Case(name, command))
        assert result is not None
        return result

    def json(self, *arguments: str) -> Value:
        """Return the output of a command as JSON."""
        return json.loads(self.run(*arguments, "--json"))

    def tool(self, name: str, command: str, text: str = "") -> list[str]:
        """Run a tool of Kafka, and return the lines of its output."""
        result = self._tools.perform(Case(name, command, text))
        assert result is not None
        return result.output

    def rows(self, name: str, command: str) -> list[list[str]]:
        """Return the cells of a table that a tool prints, without its header."""
        lines = [line.split() for line in self.tool(name, command)]
        first = next(at for at, line in enumerate(lines) if line[0] in _HEADERS)
        return lines[first + 1 :]

    def compare(self, title: str, ours: Callable[[], Value], theirs: Callable[[], Value]) -> None:
        """Compare two results; both are repeated, because the brokers learn with a delay."""
        deadline = time.monotonic() + _PROPAGATION_S
        while (found := ours()) != (expected := theirs()):
            if time.monotonic() > deadline:
                self.differences.append(f"{title}\n kafkalite: {found}\n tool:      {expected}")
                return
            time.sleep(_POLL_S)


def shell_differences(tools: Side) -> list[str]:
    """Return the differences between the shell and Kafka's tools at a real Kafka."""
    shell = ShellComparison(tools)
    # The last cases of the scoreboard leave a quota of few bytes a second.
    shell.tool("kafka-configs", "--alter --client-defaults --delete-config consumer_byte_rate")
    try:
        _compare_topics(shell)
        _compare_records(shell)
        _compare_groups(shell)
        _compare_transactions(shell)
    finally:
        shell.run("topic", "delete", _TOPIC, "--if-exists")
    shell.compare(
        "topic delete",
        lambda: _TOPIC in shell.run("topic", "list").split(),
        lambda: _TOPIC in shell.tool("kafka-topics", "--list"),
    )
    return shell.differences


def _compare_topics(shell: ShellComparison) -> None:
    configs = ["--config", "retention.ms=-1", "--config", "segment.bytes=1048576"]
    shell.run("topic", "create", _TOPIC, "--partitions", "3", *configs)

    def ours() -> Value:
        (topic,) = shell.json("topic", "describe", _TOPIC)
        yield_rows = [
            [str(row["partition"]), str(row["leader"]), _ids(row["replicas"]), _ids(row["isr"])]
            for row in topic["partitions"]
        ]
        return [topic["configs"], yield_rows]

    def theirs() -> Value:
        title, *lines = shell.tool("kafka-topics", f"--describe --topic {_TOPIC}")
        configs = dict(each.split("=") for each in title.partition("Configs: ")[2].split(","))
        return [configs, [_facts(line)[1:5] for line in lines]]

    shell.compare("topic describe", ours, theirs)
    shell.compare(
        "topic list",
        lambda: _TOPIC in [row.split()[0] for row in shell.run("topic", "list").splitlines()],
        lambda: _TOPIC in shell.tool("kafka-topics", "--list --exclude-internal"),
    )


def _ids(ids: list[int]) -> str:
    return ",".join(map(str, ids))


def _facts(line: str) -> list[str]:
    """Return the values of `Topic: a Partition: 0 Leader: 1 …`."""
    return line.split()[1::2]


def _compare_records(shell: ShellComparison) -> None:
    """Write the same records by both, and read those of both by both."""
    text = "".join(f"{line}\n" for line in _LINES)
    shell.run("produce", _TOPIC, "--key-separator", ":", "--header", "h=x", text=text)
    shell.tool(
        "kafka-console-producer",
        f"--topic {_TOPIC} --reader-property parse.key=true --reader-property key.separator=:",
        text,
    )
    records = [
        json.loads(line) for line in shell.run("consume", _TOPIC, "--format", "json").splitlines()
    ]
    partitions: dict[str, list[int]] = {}
    for each in records:
        partitions.setdefault(each["key"], []).append(each["partition"])
    # Both producers select the same partition for a key.
    shell.compare(
        "partitions of keys",
        lambda: {key: found for key, found in partitions.items() if len(set(found)) > 1},
        dict,
    )
    options = " ".join(
        f"--formatter-property print.{name}=true"
        for name in ("partition", "offset", "key", "headers")
    )
    shell.compare(
        "consume",
        lambda: sorted(map(_printed, records)),
        lambda: sorted(
            shell.tool(
                "kafka-console-consumer",
                f"--topic {_TOPIC} --from-beginning --max-messages {len(records)} {options}",
            )
        ),
    )


def _printed(record: dict[str, Any]) -> str:
    """Return a record as Kafka's console consumer prints it."""
    headers = ",".join(f"{each['key']}:{each['value']}" for each in record["headers"])
    return (
        f"Partition:{record['partition']} Offset:{record['offset']} {headers or 'NO_HEADERS'} "
        f"{record['key']} {record['value']}"
    )


def _compare_groups(shell: ShellComparison) -> None:
    read = shell.run("consume", _TOPIC, "--group", _GROUP, "--count", "7")
    assert len(read.splitlines()) == 7

    def ours() -> Value:
        (group,) = shell.json("group", "describe", _GROUP)
        names = ("topic", "partition", "offset", "end_offset", "lag")
        return [[str(row[name]) for name in names] for row in group["offsets"]]

    def theirs() -> Value:
        rows = shell.rows("kafka-consumer-groups", f"--describe --group {_GROUP}")
        return sorted(row[1:6] for row in rows)

    shell.compare("group describe", ours, theirs)
    shell.compare(
        "group list",
        lambda: sorted([each["group_id"], each["type"], each["protocol_type"]]
                       for each in shell.json("group", "list") if each["group_id"] == _GROUP),
        lambda: sorted([row[0], row[1].lower(), *row[2:]]
                       for row in shell.rows("kafka-groups", "--list") if row[0] == _GROUP),
    )  # fmt: skip
    for command in _IMAGE_COMMANDS:
        _compare_image_tool(shell, command)
    for options, tool_options in _RESETS.items():
        _compare_reset(shell, options, tool_options)
    shell.run("group", "reset", _GROUP, "--to", "1", "--execute")
    shell.compare("group describe after a reset", ours, theirs)
    shell.run("group", "delete", _GROUP)
    shell.compare(
        "group delete",
        lambda: _GROUP in [each["group_id"] for each in shell.json("group", "list")],
        lambda: _GROUP in shell.tool("kafka-consumer-groups", "--list"),
    )


def _compare_image_tool(shell: ShellComparison, command: str) -> None:
    tool = "kafka-consumer-groups"
    shell.compare(
        f"{tool} {command}",
        lambda: _without_exceptions(shell.image_tool(tool, command)),
        lambda: _without_exceptions(shell.kafka_tool(tool, command)),
    )


def _without_exceptions(result: Result) -> Result:
    """Leave out the exceptions that Java prints in addition to an error."""
    errors = [line for line in result.errors if not line.startswith(("java.", "org.apache."))]
    return result._replace(errors=errors)


def _compare_reset(shell: ShellComparison, options: str, tool_options: str) -> None:
    def ours() -> Value:
        planned = shell.json("group", "reset", _GROUP, *options.split())
        return [[each["topic"], str(each["partition"]), str(each["new_offset"])]
                for each in planned["offsets"]]  # fmt: skip

    def theirs() -> Value:
        command = f"--reset-offsets --group {_GROUP} --all-topics {tool_options} --dry-run"
        rows = shell.rows("kafka-consumer-groups", command)
        return sorted(row[1:4] for row in rows if row[0] == _GROUP)

    shell.compare(f"group reset {options}", ours, theirs)


def _compare_transactions(shell: ShellComparison) -> None:
    shell.run("produce", _TOPIC, "--transactional-id", _TRANSACTIONAL_ID, text="a\nb\n")

    def listed() -> Value:
        return [[each["transactional_id"], str(each["coordinator"]),
                 str(each["producer_id"]), each["state"]]
                for each in shell.json("transaction", "list")
                if each["transactional_id"] == _TRANSACTIONAL_ID]  # fmt: skip

    def listed_by_tool() -> Value:
        rows = shell.rows("kafka-transactions", "list")
        return [row[:4] for row in rows if row[0] == _TRANSACTIONAL_ID]

    shell.compare("transaction list", listed, listed_by_tool)

    def described() -> Iterator[str]:
        (found,) = shell.json("transaction", "describe", _TRANSACTIONAL_ID)
        for name in ("transactional_id", "producer_id", "producer_epoch", "state", "timeout_ms"):
            yield str(found[name])

    def described_by_tool() -> list[str]:
        command = f"describe --transactional-id {_TRANSACTIONAL_ID}"
        (row,) = shell.rows("kafka-transactions", command)
        return row[1:6]

    shell.compare("transaction describe", lambda: list(described()), described_by_tool)
    shell.run("transaction", "abort", _TRANSACTIONAL_ID)
    shell.compare("transaction abort", lambda: list(described()), described_by_tool)
