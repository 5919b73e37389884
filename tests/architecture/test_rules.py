"""Rules of taste that a syntax tree can check; each names the rot it stops."""

from __future__ import annotations

import ast
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.architecture.source import (
    PACKAGE,
    ROOT,
    hand_written_modules,
    module_name,
    storey_of,
    tree_of,
)

if TYPE_CHECKING:
    from pathlib import Path

MODULE_LINES = 400
FUNCTION_LINES = 50
MAY_READ_VERSIONS = {"wire", "protocol"}
MAY_READ_VERSIONS_MODULES = {
    PACKAGE / "apis" / "dispatch.py",
    PACKAGE / "apis" / "contract.py",
    PACKAGE / "apis" / "versions_api.py",
}
LOWER_HALF = ("ports", "protocol", "config", "wire", "storage", "coordinator", "metadata",
              "groups", "partitions", "shares")  # fmt: skip


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_every_module_says_which_idea_it_is_the_home_of() -> None:
    silent = [
        relative(path) for path in hand_written_modules() if not ast.get_docstring(tree_of(path))
    ]
    assert silent == []


def test_a_module_is_one_idea_small_enough_to_read() -> None:
    long = {
        relative(path): lines
        for path in hand_written_modules()
        if (lines := len(path.read_text(encoding="utf-8").splitlines())) > MODULE_LINES
    }
    assert long == {}


def test_a_function_fits_on_a_screen() -> None:
    long = {
        f"{relative(path)}:{node.name}": length
        for path in hand_written_modules()
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (length := (node.end_lineno or node.lineno) - node.lineno + 1) > FUNCTION_LINES
    }
    assert long == {}


def test_a_version_is_looked_up_and_never_compared() -> None:
    """A comparison on a version is a ladder's first rung; eras, lifts and lowers are data."""
    ladders = []
    for path in hand_written_modules():
        if storey_of(path) in MAY_READ_VERSIONS or path in MAY_READ_VERSIONS_MODULES:
            continue
        for node in ast.walk(tree_of(path)):
            operands: list[ast.expr] = []
            if isinstance(node, ast.Compare):
                operands = [node.left, *node.comparators]
            elif isinstance(node, ast.Match):
                operands = [node.subject]
            ladders += [
                f"{relative(path)}:{operand.lineno}"
                for operand in operands
                if is_api_version(operand, storey_of(path))
            ]
    assert ladders == []


def is_api_version(node: ast.expr, storey: str) -> bool:
    """Below the APIs a plain `version` is another thing's: an image's, a subscription's."""
    if isinstance(node, ast.Attribute):
        return node.attr == "api_version"
    names = {"api_version", "version"} if storey == "apis" else {"api_version"}
    return isinstance(node, ast.Name) and node.id in names


def test_a_decision_never_waits() -> None:
    """Nothing below the server is a coroutine, so nobody sees the middle of a decision."""
    waiting = [
        f"{relative(path)}:{node.lineno}"
        for path in hand_written_modules()
        if storey_of(path) in LOWER_HALF or storey_of(path) == "apis"
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.AsyncFunctionDef | ast.Await | ast.AsyncFor | ast.AsyncWith)
    ]
    assert waiting == []


def test_time_chance_and_disk_come_in_by_the_door() -> None:
    banned = {"time", "random", "secrets", "uuid", "datetime"}
    inside = [path for path in hand_written_modules() if storey_of(path) in {*LOWER_HALF, "apis"}]
    found = []
    for path in inside:
        if storey_of(path) == "ports":
            continue
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.Import) and {alias.name for alias in node.names} & banned:
                found.append(f"{relative(path)}:{node.lineno} imports the outside world")
            if isinstance(node, ast.ImportFrom) and node.module in banned:
                found.append(f"{relative(path)}:{node.lineno} imports the outside world")
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "open":
                found.append(f"{relative(path)}:{node.lineno} opens a file by itself")
    assert found == []


OWN_TIME = {
    "replay/lanes.py": "a client of any Kafka: how long an answer of the target is waited for",
    "replay/pace.py": "what was recorded goes by the machine's time, unless the target's is driven",
    "ports/clock.py": "the one clock",
    "control/fencing.py": "a client of any Kafka: its patience is its own, not the broker's",
    "control/kafka_client.py": "what carries that client's requests, and is as patient",
    "proxy/link.py": "it stands between real peers, who know no other time",
    "server/connection.py": "how long a socket that closes lingers for its last bytes",
    "server/broker.py": "how long the end of the process waits for connections to close",
}
"""Modules that may ask the loop or the machine for a delay, and what for."""


def test_every_deadline_goes_by_the_one_clock() -> None:
    """A delay asked of the event loop is one that nobody can drive."""
    delays = {"call_later", "timeout", "timeout_at", "wait_for"}
    found = []
    for path in hand_written_modules():
        name = path.relative_to(PACKAGE).as_posix()
        for node in ast.walk(tree_of(path)):
            imported = getattr(node, "module", None) if isinstance(node, ast.ImportFrom) else None
            names = [each.name for each in node.names] if isinstance(node, ast.Import) else []
            if "time" in {imported, *names} and name not in OWN_TIME:
                found.append(f"{name}:{getattr(node, 'lineno', 0)} imports time")
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            asked = node.func.attr
            is_delay = asked in delays or (asked == "sleep" and ast.unparse(node.args[0]) != "0")
            if is_delay and name not in OWN_TIME:
                found.append(f"{name}:{node.lineno} calls {asked}")
    assert found == []


def test_no_thing_is_called_a_manager_or_a_helper() -> None:
    vague = {"utils", "util", "manager", "helpers", "misc", "common"}
    assert [relative(path) for path in hand_written_modules() if path.stem in vague] == []


@pytest.mark.parametrize(
    "of_pipeline",
    [
        pytest.param(False, marks=pytest.mark.endurance),
        pytest.param(True, marks=pytest.mark.spark),
    ],
)
def test_each_module_can_be_imported_alone(
    of_pipeline: bool,  # noqa: FBT001 - what the extra is for, or all else
) -> None:
    """Importing does nothing but define, so any order works; a cycle shows here."""
    names = [
        module_name(path)
        for path in hand_written_modules()
        if path.stem != "__main__" and ("spark" in path.parts) is of_pipeline
    ]
    program = (
        "import importlib, sys\n"
        "for name in sys.argv[1:]:\n"
        "    for loaded in [m for m in sys.modules if m.partition('.')[0] == 'kafkalite']:\n"
        "        del sys.modules[loaded]\n"
        "    importlib.import_module(name)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *names], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]


HEAVY = (
    "construct", "rich", "yaml", "javaproperties", "re2", "cramjam", "crc32c", "structlog",
    "shutil", "tempfile", "pathlib", "secrets", "kafkalite.groups.shard",
    "kafkalite.shares.shard", "numpy", "numba",
)  # fmt: skip


@pytest.mark.parametrize("heavy", HEAVY)
def test_the_start_path_imports_nothing_heavy(heavy: str) -> None:
    program = (
        "import sys, kafkalite.server.broker, kafkalite.cli.main\n"
        f"sys.exit({heavy!r} in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr or f"{heavy} is imported at start"


def test_only_the_pipeline_and_large_captures_work_in_columns() -> None:
    """Whoever serves, records, shows or replays needs none of its libraries, nor waits for one."""
    libraries = ("numpy", "numba", "pyarrow", "pyspark")
    columns = (*libraries, "kafkalite.columnar", "kafkalite.spark", "kafkalite.replay.columns")
    # They import columns when they are asked for what takes them.
    may = {PACKAGE / each for each in ("cli/audit.py", "replay/columns.py", "replay/loading.py")}
    found = []
    for path in hand_written_modules():
        if storey_of(path) in {"columnar", "spark"} or path in may:
            continue
        for node in ast.walk(tree_of(path)):
            names = [each.name for each in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                names = [f"{node.module}.{each.name}" for each in node.names]
            found += [
                f"{relative(path)} imports {name}"
                for name in names
                if any(f"{name}.".startswith(f"{each}.") for each in columns)
            ]
    assert found == []
