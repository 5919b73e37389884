"""Every command line of the scoreboard has the output of a real Kafka, or a listed difference."""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from difflib import unified_diff
from typing import TYPE_CHECKING, Final

import pytest

from tests.kafka_tools.brokers import kafka_side, kafkalite_side
from tests.kafka_tools.differences import DIFFERENCES
from tests.kafka_tools.own_differences import UNSUPPORTED_TOOLS
from tests.kafka_tools.recordings import (
    COMMAND,
    RENEW,
    numbered_cases,
    record,
    recorded_results,
)
from tests.kafka_tools.shell import shell_differences
from tests.kafka_tools.sides import JavaSide
from tests.oracle.requirements import required

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kafka_tools.case import Case
    from tests.kafka_tools.sides import Result, Side

pytestmark = [pytest.mark.oracle, pytest.mark.endurance, pytest.mark.timeout(900)]

_PROPAGATION_S: Final = 10.0


class Comparison:
    """Run the cases with both brokers at the same time."""

    def __init__(self, kafka: Side, kafkalite: Side, pool: ThreadPoolExecutor) -> None:
        self._sides = (kafka, kafkalite)
        self._pool = pool
        self.results: dict[str, Result] = {}
        """The results with Kafka, by the keys of recordings."""

    def difference(self, key: str, case: Case) -> str:
        """Return the difference of the results, empty if they are equal.

        The nodes of Kafka learn changes of metadata with a delay, so reading is repeated.
        """
        deadline = time.monotonic() + _PROPAGATION_S
        while True:
            expected, actual = self._pool.map(lambda side: side.perform(case), self._sides)
            is_repeated = case.reads and case.title not in DIFFERENCES
            if expected == actual or not is_repeated or time.monotonic() > deadline:
                break
        if expected is not None and case.is_shown:
            self.results[key] = expected
        return "" if expected == actual else _shown(case, expected, actual)


def _shown(case: Case, expected: Result | None, actual: Result | None) -> str:
    lines = unified_diff(_lines(expected), _lines(actual), "kafka", "kafkalite", lineterm="", n=1)
    return "\n".join((case.title, *lines))


def _lines(result: Result | None) -> list[str]:
    if result is None:
        return []
    return [f"status {result.status}", *result.output, "stderr:", *result.errors]


def test_every_command_line_has_the_output_of_kafka(tmp_path: Path) -> None:
    with (
        ThreadPoolExecutor(2) as pool,
        required(),
        kafka_side(tmp_path / "kafka") as kafka,
        kafkalite_side(tmp_path / "kafkalite", JavaSide) as kafkalite,
    ):
        comparison = Comparison(kafka, kafkalite, pool)
        differences: dict[str, str] = {}
        for key, case in numbered_cases():
            difference = comparison.difference(key, case)
            if case.is_shown and difference:
                differences[case.title] = difference
        # These share the brokers, and come last because the cases list all topics and groups.
        differences_of_shell = shell_differences(kafka)
    unexpected = [text for title, text in differences.items() if title not in DIFFERENCES]
    assert not unexpected, "\n\n".join(unexpected)
    outdated = DIFFERENCES.keys() - differences.keys()
    assert not outdated, f"these are equal now; remove them from DIFFERENCES: {sorted(outdated)}"
    assert not differences_of_shell, "\n\n".join(differences_of_shell)
    _check_recording(comparison.results)


def _check_recording(results: dict[str, Result]) -> None:
    """Compare the results with the recorded ones, or record them."""
    compared = {
        key: result for key, result in results.items() if key.split()[0] not in UNSUPPORTED_TOOLS
    }
    if os.environ.get(RENEW):
        record(compared)
    changed = [key for key, result in compared.items() if recorded_results().get(key) != result]
    assert not changed, f"the recording differs; {COMMAND} renews it: {changed}"
