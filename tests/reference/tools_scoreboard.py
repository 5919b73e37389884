"""The page with the results of Kafka's command-line tools."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.kafka_tools.cases import CASES
from tests.kafka_tools.differences import DIFFERENCES
from tests.kafka_tools.own_differences import UNSUPPORTED_TOOLS, is_compared
from tests.kafka_tools.scripts import CLASSES_WITHOUT_SCRIPT, OTHER_SCRIPTS, SCRIPTS
from tests.reference.markdown import code, page, sentence, table

if TYPE_CHECKING:
    from collections.abc import Mapping

_INTRODUCTION = """\
Every script in `bin/` of Kafka 4.4.0 runs the command lines below with a real Kafka 4.4.0 and with
kafkalite. A test compares exit status, output and error output, without ids, times, addresses,
paths and measured figures. The address of the broker is added to a command line. `{bootstrap}` is
this address, `{controller}` that of a controller, `{sasl}` that of a listener with SASL, `{data}`
the data directory, `{files}` a directory with files for the tools and `{id}` an unknown id.

The column *Image* is about the tools of kafkalite's [image](images.md#tools), which need no Java.
It counts the command lines with which they print what Kafka's tools print at a real Kafka.

`kafka-metadata-shell` and `trogdor` are those of Kafka 4.3.1, because Maven Central does not have
them for 4.4.0. They run with the libraries of 4.4.0."""

_DIFFERENCES = """\
All other command lines have the output of Kafka. *Since* is the first release of Kafka whose output
differs."""


def tools_scoreboard_page() -> str:
    """Return the page of Kafka's tools."""
    commands = _commands()
    return page(
        "Kafka's tools",
        _INTRODUCTION,
        table(
            ("Script", "Command lines", "Equal", "Image"),
            [
                (
                    f"[{name}](#{name})",
                    str(len(titles)),
                    str(_count_equal(titles)),
                    _count_of_image(name, titles),
                )
                for name, titles in commands.items()
            ],
        ),
        f"## Differences\n\n{_DIFFERENCES}",
        table(
            ("Command line", "Reason", "Since"),
            [
                (code(title), difference.reason, difference.since)
                for title, difference in DIFFERENCES.items()
            ],
        ),
        "## Scripts that are not compared",
        table(
            ("Script", "Class", "Reason"),
            [
                (code(name), code(script.main_class or ""), script.reason)
                for name, script in OTHER_SCRIPTS.items()
            ],
        ),
        "These tools in Kafka's jars have no script:",
        table(
            ("Class", "Purpose"),
            [(code(name), sentence(purpose)) for name, purpose in CLASSES_WITHOUT_SCRIPT.items()],
        ),
        *(_section(name, titles) for name, titles in commands.items()),
    )


def _commands() -> Mapping[str, list[str]]:
    """Return the titles of the cases of each script, each once."""
    shown = dict.fromkeys((case.tool, case.title) for case in CASES if case.is_shown)
    return {name: [title for tool, title in shown if tool == name] for name in SCRIPTS}


def _count_of_image(name: str, titles: list[str]) -> str:
    """Return how many command lines of a tool of the image are equal; `-` without the tool."""
    if name in UNSUPPORTED_TOOLS:
        return "-"
    return str(sum(is_compared(name, title) for title in titles))


def _count_equal(titles: list[str]) -> int:
    return sum(title not in DIFFERENCES for title in titles)


def _section(name: str, titles: list[str]) -> str:
    rows = [
        (
            code(title),
            f"{DIFFERENCES[title].reason} Since Kafka {DIFFERENCES[title].since}."
            if title in DIFFERENCES
            else "equal",
        )
        for title in titles
    ]
    return f"## {name}\n\n`{SCRIPTS[name].main_class}`\n\n{table(('Command line', 'Result'), rows)}"
