"""Records what real Kafka answers: `python -m tests.conformance.record [NAME]`.

NAME is a part of the names of scenarios, as of pytest's option `-k`. Without it, all are recorded.
"""

from __future__ import annotations

import os
import subprocess
import sys

from tests.conformance.recordings import RENEW

_MODULES = (
    "test_scenarios",
    "test_group_rules",
    "test_transactions",
    "test_later_versions",
)


def main(*names: str) -> int:
    """Run the comparisons with a real Kafka, which write what it answers."""
    paths = [f"tests/conformance/{module}.py" for module in _MODULES]
    selected = [option for name in names for option in ("-k", name)]
    command = [sys.executable, "-m", "pytest", *paths, "-m", "oracle", "-q", *selected]
    return subprocess.run(command, env={**os.environ, RENEW: "1"}, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
