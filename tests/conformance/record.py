"""Records what real Kafka answers: `python -m tests.conformance.record [NAME]`.

NAME is a part of the names of scenarios, as of pytest's option `-k`. Without it, all are recorded.
"""

from __future__ import annotations

import os
import subprocess
import sys

from tests.conformance.recordings import RENEW

_TESTS = (
    "test_scenarios.py::test_kafkalite_answers_as_kafka_does",
    "test_group_rules.py::test_kafkalite_answers_as_kafka_does",
    "test_transactions.py::test_kafkalite_answers_as_kafka_does",
    "test_later_versions.py::test_kafkalite_answers_as_kafka_does",
    "test_nodes.py::test_both_clusters_give_the_same_answers",
    "test_releases.py::test_an_older_release_is_presented_like_kafka",
    "test_releases.py::test_what_4_0_removed_is_answered_as_by_3_9",
    "test_log_directories.py::test_two_log_directories_are_those_of_kafka",
    "test_quotas.py::test_quotas_are_administered_as_in_an_earlier_kafka",
)


def main(*names: str) -> int:
    """Run the comparisons with a real Kafka, which write what it answers."""
    paths = [f"tests/conformance/{test}" for test in _TESTS]
    selected = [option for name in names for option in ("-k", name)]
    command = [sys.executable, "-m", "pytest", *paths, "-m", "oracle", "-q", *selected]
    return subprocess.run(command, env={**os.environ, RENEW: "1"}, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
