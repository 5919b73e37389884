"""Skips of tests on machines without required tools, and failures where tools are required.

A test with a Java client is skipped on a machine without Java. If Java exists, but the client
cannot be fetched or built, the test is skipped as well, unless `KAFKALITE_REQUIRE_CLIENTS=1` (set
by `.ci/run`) makes it fail.
"""

from __future__ import annotations

import os
import shutil
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

REQUIRE_CLIENTS = "KAFKALITE_REQUIRE_CLIENTS"
CACHE = "KAFKALITE_TEST_CACHE"


class MissingProgramError(Exception):
    """A required program is not installed."""


class UnavailableError(Exception):
    """The program is installed, but a dependency could not be fetched or built."""


def program(name: str) -> str:
    """Return the path of a program; raises MissingProgramError if it is not installed."""
    path = shutil.which(name)
    if path is None:
        raise MissingProgramError(f"{name} is not installed")
    return path


def cache_dir() -> Path:
    """Return the cache directory of jars, node modules and built programs."""
    directory = os.environ.get(CACHE)
    return Path(directory) if directory else Path.home() / ".cache" / "kafkalite-tests"


@contextmanager
def required() -> Iterator[None]:
    """Skip or fail the test if the body raises MissingProgramError or UnavailableError."""
    try:
        yield
    except MissingProgramError as missing:
        pytest.skip(str(missing))
    except UnavailableError as unavailable:
        if os.environ.get(REQUIRE_CLIENTS) == "1":
            pytest.fail(f"required by {REQUIRE_CLIENTS}=1: {unavailable}")
        pytest.skip(str(unavailable))
