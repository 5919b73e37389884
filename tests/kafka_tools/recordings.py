"""The recorded results of Kafka's tools at a real Kafka, as lines of JSON."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.kafka_tools.cases import CASES
from tests.kafka_tools.sides import Result

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tests.kafka_tools.case import Case

RENEW: Final = "KAFKALITE_RECORD"
"""The environment variable with which the comparison with a real Kafka writes the recording."""

COMMAND: Final = (
    "KAFKALITE_RECORD=1 .venv/bin/pytest -m oracle tests/kafka_tools/test_scoreboard.py"
)
_RECORDED: Final = Path(__file__).with_name("recorded.jsonl")


def numbered_cases(cases: Sequence[Case] = CASES) -> Iterator[tuple[str, Case]]:
    """Yield the shown cases with results, with keys: the title, and which one of that title."""
    counts: dict[str, int] = {}
    for case in cases:
        number = counts[case.title] = counts.get(case.title, 0) + 1
        yield case.title if number == 1 else f"{case.title} #{number}", case


@cache
def recorded_results() -> Mapping[str, Result]:
    """Return the recorded results by the keys of their cases."""
    rows = map(json.loads, _RECORDED.read_text().splitlines())
    return {key: Result(status, output, errors) for key, status, output, errors in rows}


def record(results: Mapping[str, Result]) -> None:
    """Write the results of all cases."""
    rows = ([key, *result] for key, result in results.items())
    _RECORDED.write_text("".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows))
    recorded_results.cache_clear()
