"""Rules about the source code, checked on its syntax trees."""

from __future__ import annotations

import ast
import subprocess
import sys
from time import perf_counter
from typing import TYPE_CHECKING

import pytest

from tests.architecture.source import (
    PACKAGE,
    ROOT,
    hand_written_modules,
    layer_of,
    module_name,
    nodes_of,
    tree_of,
)
from tests.perf.first_answer import wait_for_answer

if TYPE_CHECKING:
    from pathlib import Path

FUNCTION_LINES = 50
MAY_READ_VERSIONS = {"wire", "protocol"}
MAY_READ_VERSIONS_MODULES = {
    PACKAGE / "gateway" / "gateway.py",
    PACKAGE / "gateway" / "api.py",
    PACKAGE / "gateway" / "route.py",
    PACKAGE / "gateway" / "fault_selection.py",  # a test names the versions
    PACKAGE / "apis" / "api_versions.py",
}
LOWER_HALF = ("ports", "protocol", "config", "wire", "storage", "coordinator", "metadata",
              "groups", "partitions", "shares", "gateway")  # fmt: skip


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


MOST_MODULES_OF_A_START = 204
"""Maximum number of modules of the package that are loaded until the first Metadata response."""


def test_every_module_has_a_docstring() -> None:
    undocumented = [
        relative(path) for path in hand_written_modules() if not ast.get_docstring(tree_of(path))
    ]
    assert undocumented == []


def test_functions_have_a_limited_length() -> None:
    long = {
        f"{relative(path)}:{node.name}": length
        for path in hand_written_modules()
        for node in nodes_of(path)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (length := (node.end_lineno or node.lineno) - node.lineno + 1) > FUNCTION_LINES
    }
    assert long == {}


def test_api_versions_are_looked_up_and_not_compared() -> None:
    """Differences between API versions are data: eras, lifts and lowers."""
    comparisons = []
    for path in hand_written_modules():
        if layer_of(path) in MAY_READ_VERSIONS or path in MAY_READ_VERSIONS_MODULES:
            continue
        for node in nodes_of(path):
            operands: list[ast.expr] = []
            if isinstance(node, ast.Compare):
                operands = [node.left, *node.comparators]
            elif isinstance(node, ast.Match):
                operands = [node.subject]
            comparisons += [
                f"{relative(path)}:{operand.lineno}"
                for operand in operands
                if is_api_version(operand, layer_of(path))
            ]
    assert comparisons == []


def is_api_version(node: ast.expr, layer: str) -> bool:
    """Whether a node is an API version. Below the APIs, `version` has other meanings."""
    if isinstance(node, ast.Attribute):
        return node.attr == "api_version"
    names = {"api_version", "version"} if layer in {"apis", "gateway"} else {"api_version"}
    return isinstance(node, ast.Name) and node.id in names


def test_machines_and_handlers_are_synchronous() -> None:
    """A coroutine could be suspended in the middle of a decision."""
    waiting = [
        f"{relative(path)}:{node.lineno}"
        for path in hand_written_modules()
        if layer_of(path) in LOWER_HALF or layer_of(path) == "apis"
        for node in nodes_of(path)
        if isinstance(node, ast.AsyncFunctionDef | ast.Await | ast.AsyncFor | ast.AsyncWith)
    ]
    assert waiting == []


def test_time_randomness_and_disk_are_accessed_through_ports() -> None:
    banned = {"time", "random", "secrets", "uuid", "datetime"}
    paths = [path for path in hand_written_modules() if layer_of(path) in {*LOWER_HALF, "apis"}]
    violations = []
    for path in paths:
        if layer_of(path) == "ports":
            continue
        for node in nodes_of(path):
            if isinstance(node, ast.Import) and {alias.name for alias in node.names} & banned:
                violations.append(f"{relative(path)}:{node.lineno} imports a clock or randomness")
            if isinstance(node, ast.ImportFrom) and node.module in banned:
                violations.append(f"{relative(path)}:{node.lineno} imports a clock or randomness")
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "open":
                violations.append(f"{relative(path)}:{node.lineno} opens a file")
    assert violations == []


OWN_TIME = {
    "lab/replay/player/pacing.py": "waits for recorded delays on real clocks",
    "ports/background.py": "measures how long a step of work blocks the event loop",
    "ports/clock.py": "implements the broker's clock",
    "ports/memory.py": "limits how long the garbage collector is disabled",
    "ports/memory_files.py": "has the times of the last changes of files, as a disk has",
    "ports/temporary.py": "limits how long the process waits for a slow disk at its end",
    "ports/system.py": "waits until other programs of the system have closed a file",
    "control/connection.py": "limits how long an HTTP client may take to send a request",
    "client/fencing.py": "has a client-side timeout",
    "client/client.py": "has a client-side request timeout",
    "client/connection.py": "has client-side timeouts for connecting and closing",
    "client/exchanges.py": "has a client-side timeout for responses of the target",
    "lab/proxy/proxied_connection.py": "measures real peers",
    "lab/proxy/reachability.py": "connects to real peers, and limits lines about them",
    "docker/member_start.py": "prints the time of its start, as Kafka does",
    "docker/primary.py": "notices containers that are silent, and clients that say nothing",
    "docker/relay.py": "tries again to connect, and shows the primary that it is alive",
    "docker/tools/log_directory_moves.py": "waits for replicas to move, as Kafka's tool does",
    "docker/tools/verifiable_consumer.py": "leaves its group within --close-timeout",
    "cli/process.py": "schedules garbage collection",
    "cli/sweep.py": "limits how long a sweep takes",
    "lab/sweep/commands.py": "limits how long the command of a user takes",
    "ports/signals.py": "wakes the event loop for signals on Windows",
    "ports/turns.py": "limits how long one request is served before others",
    "server/memory_queue.py": "limits how long a client may hold memory that others wait for",
    "server/time_skipping.py": "measures how long clients have waited in real time",
    "server/virtual_clusters.py": "notices clusters whose real clients have left",
    "server/scheduler.py": "limits how long one connection is served before others",
    "server/connection.py": "limits how long a closing socket waits for its last bytes",
    "server/cluster_routing.py": "limits how long a client may take for its first request",
    "server/tls_transport.py": "limits how long a client may take for its TLS handshake",
    "server/delayed_handshakes.py": "delays real handshakes, also with a manual clock",
    "server/node_servers.py": "limits how long the process waits for connections at its end",
    "control/commands/records.py": "limits how long a command waits for records of real clients",
    "control/console/app.py": "limits how often the page of a real browser is made",
    "control/console/schema_registry.py": "limits how long a real schema registry may take",
    "testing/data.py": "limits how long a test waits for records of real clients",
    "control/waiting.py": "limits how long a command waits, and when idle streams send something",
}
"""Modules that may use the event loop's or the system's time → the reason."""


def test_delays_use_the_clock_of_the_broker() -> None:
    """Tests can drive the broker's clock, but not a delay of the event loop."""
    delays = {"call_later", "timeout", "timeout_at", "wait_for"}
    violations = []
    for path in hand_written_modules():
        name = path.relative_to(PACKAGE).as_posix()
        for node in nodes_of(path):
            imported = getattr(node, "module", None) if isinstance(node, ast.ImportFrom) else None
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if "time" in {imported, *names} and name not in OWN_TIME:
                violations.append(f"{name}:{getattr(node, 'lineno', 0)} imports time")
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            called = node.func.attr
            is_delay = called in delays or (called == "sleep" and ast.unparse(node.args[0]) != "0")
            if is_delay and name not in OWN_TIME:
                violations.append(f"{name}:{node.lineno} calls {called}")
    assert violations == []


def test_modules_have_specific_names() -> None:
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
    of_pipeline: bool,  # noqa: FBT001 - the pipeline, or all other modules
) -> None:
    """Each module is imported first, which fails for import cycles."""
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
    completed = subprocess.run(
        [sys.executable, "-c", program, *names], capture_output=True, text=True, check=False
    )
    assert completed.returncode == 0, completed.stderr[-2000:]


HEAVY = frozenset((
    "construct", "rich", "yaml", "javaproperties", "re2", "cramjam", "crc32c", "structlog",
    "shutil", "tempfile", "pathlib", "secrets", "kafkalite.groups.shard",
    "kafkalite.shares.shard", "numpy", "numba", "kafkalite.protocol.api_keys",
    "kafkalite.protocol.catalogue", "cryptography",
))  # fmt: skip


def test_the_start_path_imports_nothing_heavy() -> None:
    program = "import sys, kafkalite.server.broker, kafkalite.cli.main; print(*sys.modules)"
    completed = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    imported = set(completed.stdout.split())
    assert "kafkalite.server.broker" in imported
    assert imported & HEAVY == set()


def test_a_start_loads_few_modules() -> None:
    """More modules make each start slower; a module that few tests need is imported when used."""
    command = [sys.executable, "-X", "importtime", "-m", "kafkalite", "serve", "--memory"]
    with subprocess.Popen(
        [*command, "--listen", "127.0.0.1:0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    ) as process:
        assert process.stdout is not None
        ready, _, port = process.stdout.readline().rpartition(":")
        assert "ready" in ready
        assert wait_for_answer(int(port), perf_counter() + 60)
        process.terminate()
        _, times = process.communicate(timeout=60)
    loaded = [line.rpartition("|")[2].strip() for line in times.splitlines() if "|" in line]
    ours = [name for name in loaded if name.startswith("kafkalite")]
    assert "kafkalite.protocol.catalogue" not in ours, "a first Metadata needs no catalogue"
    assert 0 < len(ours) <= MOST_MODULES_OF_A_START


def test_named_tuples_are_those_that_are_created_fast() -> None:
    modules = [
        relative(path)
        for path in hand_written_modules()
        if path.name != "named_tuples.py"
        for node in nodes_of(path)
        if isinstance(node, ast.ImportFrom) and node.module == "typing"
        if "NamedTuple" in {alias.name for alias in node.names}
    ]
    assert modules == []


def test_only_the_pipeline_and_large_captures_import_columnar_libraries() -> None:
    """Brokers, recorders, `show` and replay neither need nor import the columnar libraries."""
    libraries = ("numpy", "numba", "pyarrow", "pyspark", "duckdb")
    columnar = (
        *libraries,
        "kafkalite.lab.columnar",
        "kafkalite.lab.spark",
        "kafkalite.lab.replay.columnar_loading",
    )
    # These import them in functions, when a user needs them.
    exempt = {
        PACKAGE / path_in_package
        for path_in_package in (
            "cli/audit.py",
            "lab/replay/columnar_loading.py",
            "lab/replay/loading.py",
        )
    }
    violations = []
    for path in hand_written_modules():
        if layer_of(path) in {"lab.columnar", "lab.spark"} or path in exempt:
            continue
        for node in nodes_of(path):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                names = [f"{node.module}.{alias.name}" for alias in node.names]
            violations += [
                f"{relative(path)} imports {name}"
                for name in names
                if any(f"{name}.".startswith(f"{library}.") for library in columnar)
            ]
    assert violations == []
