"""Runs Kafka's integration tests: `python -m tests.kafka_integration [CLASS...]`.

Stores the counts of each class in `results.tsv`, and prints every failure. Without a name, it runs
all classes that are not excluded. A class that is not finished in its time is an error.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from tests.kafka_integration.suites import (
    integration_classes,
    run_suite,
    store_results,
    stored_results,
)

_CLASS_TIMEOUT_S: Final = 1_800


def main(names: list[str]) -> None:
    """Run these classes, named with or without their package, each in a JVM of its own."""
    excluded = {result.name for result in stored_results().values() if result.note}
    for name in integration_classes():
        if names and not {name, name.rpartition(".")[2]} & set(names):
            continue
        if not names and name in excluded:
            continue
        with TemporaryDirectory() as directory:
            try:
                run = run_suite([name], Path(directory), _CLASS_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                sys.stdout.write(f"{name}: not finished in {_CLASS_TIMEOUT_S} s\n")
                continue
        for result in run.results:
            sys.stdout.write(
                f"{result.name}: {result.passed} passed, {result.failed} failed,"
                f" {result.skipped} skipped\n"
            )
        for failure in run.failures:
            sys.stdout.write(f"  {failure}\n")
        store_results(run.results)


main(sys.argv[1:])
