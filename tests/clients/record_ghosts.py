"""Records what late requests do to clients of real Kafka: `python -m tests.clients.record_ghosts`.

Then it compares kafkalite with all of the table. `.ci/run` compares a part of it.
"""

from __future__ import annotations

import os
import subprocess
import sys

from tests.conformance.recordings import RENEW

# The comparisons with Kafka come first, because they record.
_COMMAND = (
    *(sys.executable, "-m", "pytest", "tests/clients/test_ghosts.py", "-m", "endurance", "-q"),
    *("-p", "no:randomly"),
)


if __name__ == "__main__":
    environment = {**os.environ, RENEW: "1"}
    done = subprocess.run([*_COMMAND, *sys.argv[1:]], env=environment, check=False)
    sys.exit(done.returncode)
