"""The fenced code blocks of the documentation, each with a kind that defines its test.

A comment before the block names the kind, and the reason if the block is not run:

    <!-- block: script -->
    <!-- block: syntax; needs a Docker engine -->
"""

from __future__ import annotations

import re
import textwrap
from enum import Enum
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from tests.architecture.source import ROOT

if TYPE_CHECKING:
    from pathlib import Path

DOCS = ROOT / "docs"
GENERATED = DOCS / "reference"
"""Pages that a program writes; a test compares them with the code."""

_FENCE = re.compile(r"^( *)```(\w+)[^\n]*\n(.*?)^\1```$", re.DOTALL | re.MULTILINE)
_MARKER = re.compile(
    r"<!-- (?:block: (?P<kind>[\w-]+)(?:; (?P<reason>.+?))?|(?P<command>run|test)-command) -->"
    r"(?:\s*<!-- [\w-]+ -->)*\s*$"
)


class Kind(Enum):
    """How a block is tested."""

    SCRIPT = "script"
    """A Python program for the broker at localhost:9092, run with a broker of the test."""
    SCRIPT_CAPTURES = "script-captures"
    """A Python program for the captures in the directory `captures`."""
    TEST = "test"
    """A Python module with tests, run by pytest."""
    TEST_CAPTURES = "test-captures"
    """The same, for the captures in the directory `captures`."""
    COMPILE = "compile"
    """Python that is compiled only."""
    SHELL = "shell"
    """Command lines, each run at a broker of the test; servers are started and stopped."""
    CONSOLE = "console"
    """Lines that begin with `$ ` and the output of each, compared; `…` is any text in a line."""
    SYNTAX = "syntax"
    """Command lines that are parsed only, including the options of kafkalite."""
    COMPOSE = "compose"
    """A compose file, validated by its schema."""
    GITHUB_WORKFLOW = "github-workflow"
    """A workflow of GitHub Actions, validated by its schema."""
    GITLAB_CI = "gitlab-ci"
    """A pipeline of GitLab, validated by its schema."""
    CIRCLECI = "circleci"
    """A configuration of CircleCI, validated by its schema."""
    OUTPUT = "output"
    """The standard output of the block before it, compared exactly."""
    EXAMPLE = "example"
    """Text that is not tested, with a reason."""
    COMMAND = "command"
    """The commands that start a broker and run the tests; `.ci/run` runs the latter."""
    KCAT = "kcat"
    """Command lines with kcat."""
    KAFKA_TOOLS = "kafka-tools"
    """Command lines with Kafka's own tools."""
    NODE = "node"
    """A JavaScript program."""
    JAVA = "java"
    """Statements of a Java method."""
    JAVA_TEST = "java-test"
    """A Java class, compiled with the modules for Java; its tests are run."""
    GO_TEST = "go-test"
    """A file with a test in Go, run in the package of the example."""
    NODE_TEST = "node-test"
    """A file with a test in JavaScript, run in the package of the example."""
    GO = "go"
    """Statements of a Go function, which are formatted only."""
    SPARK = "spark"
    """Command lines or Python that need the extra `spark`."""


NEEDS_REASON = {Kind.COMPILE, Kind.SYNTAX, Kind.EXAMPLE, Kind.GO}
"""Kinds of blocks that are not run; the marker must have a reason."""


class Block(NamedTuple):
    """One fenced block: its position, language, kind and text."""

    page: str
    line: int
    language: str
    kind: Kind | None
    reason: str
    text: str

    @property
    def name(self) -> str:
        """The block's position, such as `docs/tutorial.md:20`."""
        return f"{self.page}:{self.line}"


def pages() -> list[Path]:
    """Return the documents in the root, and each hand-written page of the site and the examples."""
    guides = [path for path in sorted(DOCS.rglob("*.md")) if not path.is_relative_to(GENERATED)]
    return [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "examples").rglob("*.md")), *guides]


@cache
def all_blocks() -> tuple[Block, ...]:
    """Return the blocks of all pages, in the order of the pages."""
    return tuple(block for page in pages() for block in _blocks_of(page))


def blocks_of(*kinds: Kind) -> list[Block]:
    """Return the blocks of some kinds."""
    return [block for block in all_blocks() if block.kind in kinds]


def output_after(block: Block) -> str | None:
    """Return the text of the OUTPUT block directly after a block, if there is one."""
    blocks = all_blocks()
    index = blocks.index(block) + 1
    if index == len(blocks) or blocks[index].page != block.page:
        return None
    return blocks[index].text if blocks[index].kind is Kind.OUTPUT else None


def _blocks_of(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    blocks = []
    for fence in _FENCE.finditer(text):
        marker = _MARKER.search(text, 0, fence.start())
        kind, reason = None, ""
        if marker is not None and marker["command"]:
            kind = Kind.COMMAND
        elif marker is not None:
            kind, reason = Kind(marker["kind"]), marker["reason"] or ""
        line = text.count("\n", 0, fence.start()) + 1
        body = textwrap.dedent(fence[3])
        name = str(page.relative_to(ROOT))
        blocks.append(Block(name, line, fence[2], kind, reason, body))
    return blocks
