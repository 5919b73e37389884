"""The tools of the image print what Kafka's tools printed at a real Kafka."""

from __future__ import annotations

import re
from difflib import unified_diff
from typing import TYPE_CHECKING, Final

import pytest

from kafkalite.docker import files
from kafkalite.docker.programs import TOOLS
from kafkalite.docker.tools.absent import REASONS
from tests.kafka_tools.brokers import kafkalite_side
from tests.kafka_tools.own_differences import is_compared
from tests.kafka_tools.own_side import OwnSide
from tests.kafka_tools.recordings import numbered_cases, recorded_results
from tests.kafka_tools.scripts import OTHER_SCRIPTS, SCRIPTS

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kafka_tools.case import Case
    from tests.kafka_tools.sides import Result

pytestmark = [pytest.mark.endurance, pytest.mark.timeout(600)]


def shown_difference(key: str, case: Case, recorded: Result, own: Result) -> str:
    """Return the difference of two results; empty if they are equal."""
    lines = unified_diff(
        _lines(recorded, case), _lines(own, case), "kafka", "own", lineterm="", n=1
    )
    found = "\n".join(lines)
    return f"{key}\n{found}" if found else ""


# Trogdor, which is not in the image, creates these.
_OF_TROGDOR: Final = re.compile(r"\b(bench|idle|round-trip)")


def _lines(result: Result, case: Case) -> list[str]:
    # A tool that SIGTERM ends has no status of its own in the process of all Java tools.
    status = [] if case.stops else [f"status {result.status}"]
    lines = [*status, *result.output, "stderr:", *result.errors]
    return [line for line in lines if not _OF_TROGDOR.search(line)]


def test_the_tools_of_the_image_print_what_those_of_kafka_print(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # kafka-storage stores the id of the cluster for the start of the image.
    monkeypatch.setattr(files, "_CLUSTER_ID_FILE", str(tmp_path / "cluster-id").lstrip("/"))
    recorded = recorded_results()
    unexpected: list[str] = []
    with kafkalite_side(tmp_path, OwnSide) as side:
        for key, case in numbered_cases():
            if not side.supports(case):
                continue
            result = side.perform(case)
            if result is None or not case.is_shown:
                continue
            difference = shown_difference(key, case, recorded[key], result)
            if difference and is_compared(case.tool, case.title):
                unexpected.append(difference)
    assert not unexpected, "\n\n".join(unexpected)


def test_every_script_of_kafka_is_in_the_image_or_prints_why_not() -> None:
    assert {*SCRIPTS, *OTHER_SCRIPTS} <= TOOLS.keys()
    assert REASONS.keys() == {name for name, module in TOOLS.items() if module == "absent"}
