"""The process around a broker: what the system lets it have."""

from __future__ import annotations

import subprocess
import sys

import pytest

resource = pytest.importorskip("resource")

PROGRAM = """
import resource, sys
from kafkalite.cli.process import allow_many_descriptors, keep_freed_memory
resource.setrlimit(resource.RLIMIT_NOFILE, (64, int(sys.argv[1])))
keep_freed_memory()
allow_many_descriptors()
print(*resource.getrlimit(resource.RLIMIT_NOFILE))
"""


def test_descriptors_are_taken_up_to_the_hard_limit() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 512 if hard == resource.RLIM_INFINITY else min(512, hard)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(wanted)], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == [str(wanted), str(wanted)]
