"""The tests of modules that use the operating system pass without what Windows lacks."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).parent
ROOT = HERE.parents[1]

CORE = (
    "apis",
    "cli",
    "client",
    "cluster",
    "control",
    "coordinator",
    "gateway",
    "groups",
    "metadata",
    "partitions",
    "ports",
    "server",
    "storage",
    "testing",
    "transactions",
    "wire",
)

HIDDEN = frozenset(("fcntl", "resource", "signal", "uvloop", "kafkalite.ports.system"))
"""What `sitecustomize.py` changes: modules, and the one that uses the hidden functions of `os`."""

ONLY_POSIX = ("O_CLOEXEC", "O_NOFOLLOW", "chown", "fork", "geteuid", "mkfifo", "statvfs", "uname")
"""Names in `os` that Windows lacks; hidden by one test, because libraries of others use them."""


@pytest.fixture(scope="module")
def portable_environment() -> Iterator[dict[str, str]]:
    """Return the environment of processes that lack what Windows lacks.

    They have their own directory for temporary files: processes of other tests lock directories
    before they name them, and would take a new directory of these processes for an abandoned one.
    """
    search_path = os.pathsep.join((str(HERE), str(ROOT)))
    # The paths of sockets are limited to about 100 bytes, which those of `tmp_path` exceed.
    with tempfile.TemporaryDirectory(prefix="portable-") as root:
        yield {**os.environ, "PYTHONPATH": search_path, "PYTEST_ADDOPTS": "", "TMPDIR": root}


def test_the_modules_are_hidden(portable_environment: dict[str, str]) -> None:
    program = (
        "import os, importlib.util, asyncio, kafkalite.ports.system as system\n"
        "from kafkalite.server import loop\n"
        "print(hasattr(os, 'pread'), system.pread is system.read_at, loop.uvloop)"
    )
    completed = subprocess.run(
        [sys.executable, "-c", program],
        env=portable_environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert completed.stdout.split() == ["False", "True", "None"]


def test_a_broker_with_tls_starts_without_functions_of_posix(
    portable_environment: dict[str, str],
) -> None:
    program = (
        f"import os, signal\nfor name in {ONLY_POSIX}: delattr(os, name)\n"
        "del signal.SIGHUP\n"
        "from kafkalite.testing import Broker\n"
        "with Broker(topics={'orders': 1}, security='SSL') as broker:\n"
        "    print(broker.client_config('librdkafka')['security.protocol'])\n"
    )
    completed = subprocess.run(
        [sys.executable, "-c", program],
        env=portable_environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (completed.stdout, completed.stderr) == ("SSL\n", "")


def imported(path: Path) -> set[str]:
    """Return the names of the modules that a module imports, and of what it imports from them."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.update((node.module, *(f"{node.module}.{alias.name}" for alias in node.names)))
    return names


def changed_modules() -> set[str]:
    """Return `HIDDEN` and the modules of ours between it and the core: those that import it."""
    changed = set(HIDDEN)
    for package in ("ports", "server", "cli"):
        for path in (ROOT / "kafkalite" / package).rglob("*.py"):
            if not imported(path).isdisjoint(HIDDEN):
                changed.add(".".join(path.relative_to(ROOT).with_suffix("").parts))
    return changed


def files_of_tests_that_use_the_system() -> list[Path]:
    """Return the test modules of the core that import a changed module, or whose module does."""
    changed = changed_modules()
    found = []
    for package in CORE:
        for test in sorted((ROOT / "tests" / "unit" / package).rglob("test_*.py")):
            place = test.relative_to(ROOT / "tests" / "unit")
            module = ROOT / "kafkalite" / place.with_name(test.name.removeprefix("test_"))
            name = ".".join(module.relative_to(ROOT).with_suffix("").parts)
            names = {name, *imported(test), *(imported(module) if module.exists() else ())}
            if not names.isdisjoint(changed):
                found.append(test.relative_to(ROOT))
    return found


@pytest.mark.endurance
@pytest.mark.timeout(900)
def test_the_core_passes(portable_environment: dict[str, str]) -> None:
    tests = files_of_tests_that_use_the_system()
    assert Path("tests/unit/storage/test_segment.py") in tests
    # asyncio leaks the transport of a socket that it accepted just before its server was closed.
    warnings = ["-W", "ignore::pytest.PytestUnraisableExceptionWarning"]
    options = ["-q", "-p", "no:cacheprovider", *warnings]
    completed = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *map(str, tests)],
        cwd=ROOT,
        env=portable_environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert completed.returncode == 0, completed.stdout[-8000:]
