"""The tests of packages that use the operating system pass without what Windows lacks."""

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

SYSTEM_MODULES = frozenset(
    ("asyncio", "fcntl", "os", "pathlib", "signal", "socket", "subprocess", "tempfile", "threading")
)
"""Modules through which a package meets the operating system; the others rely on such packages."""

NEEDS_POSIX = {
    "tests/unit/cli/test_recording.py": "recorded traffic is shared through descriptors",
}
"""Test modules of features that do not exist on Windows, with the reasons."""


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


def meets_the_system(package: str) -> bool:
    """Return whether a module of the package imports one of `SYSTEM_MODULES` when it is loaded."""
    for path in (ROOT / "kafkalite" / package).rglob("*.py"):
        for statement in ast.parse(path.read_bytes()).body:
            if isinstance(statement, ast.Import):
                names = [alias.name for alias in statement.names]
            elif isinstance(statement, ast.ImportFrom):
                names = [statement.module or ""]
            else:
                continue
            if not SYSTEM_MODULES.isdisjoint(name.partition(".")[0] for name in names):
                return True
    return False


@pytest.mark.endurance
@pytest.mark.timeout(900)
def test_the_core_passes(portable_environment: dict[str, str]) -> None:
    packages = [f"tests/unit/{package}" for package in CORE if meets_the_system(package)]
    assert "tests/unit/storage" in packages
    excluded = [f"--ignore={path}" for path in NEEDS_POSIX]
    # asyncio leaks the transport of a socket that it accepted just before its server was closed.
    warnings = ["-W", "ignore::pytest.PytestUnraisableExceptionWarning"]
    options = ["-q", "-p", "no:cacheprovider", *warnings, *excluded]
    completed = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *packages],
        cwd=ROOT,
        env=portable_environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert completed.returncode == 0, completed.stdout[-8000:]
