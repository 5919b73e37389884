"""What a machine lacks, and what it should have given us: the two reasons a judge is silent.

A machine without Java cannot run a Java client; that is nobody's fault and the test is skipped.
A machine with Java on which the client could not be fetched or built has a fault, and
`KAFKALITE_REQUIRE_CLIENTS=1` (set by `.ci/run`) makes it count.
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


class LackingError(Exception):
    """The machine has no such program."""


class UnavailableError(Exception):
    """The machine has the program, but something it needs could not be fetched or built."""


def program(name: str) -> str:
    """Where a program is; raises LackingError on a machine that has none."""
    path = shutil.which(name)
    if path is None:
        raise LackingError(f"{name} is not installed")
    return path


def cache_dir() -> Path:
    """Where jars, node modules and built helpers stay between runs."""
    chosen = os.environ.get(CACHE)
    return Path(chosen) if chosen else Path.home() / ".cache" / "kafkalite-tests"


@contextmanager
def required() -> Iterator[None]:
    """Skip the test when the machine lacks what is set up inside, fail it when it should not."""
    try:
        yield
    except LackingError as lacking:
        pytest.skip(str(lacking))
    except UnavailableError as unavailable:
        if os.environ.get(REQUIRE_CLIENTS) == "1":
            pytest.fail(f"required and not skippable: {unavailable}")
        pytest.skip(str(unavailable))
