"""Schedules: several failures of one run, drawn at random, and the fewest that still fail."""

from __future__ import annotations

import shlex
from random import Random
from typing import TYPE_CHECKING, Final

from kafkalite.lab.sweep.cases import CaseError, parse_case

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kafkalite.lab.sweep.cases import Case

    Schedule = tuple[Case, ...]

MAX_FAILURES: Final = 5
"""The maximum number of failures of a random schedule."""
_SEPARATOR: Final = " + "
_EXAMPLE: Final = "'Produce#3 late + Fetch#1 request-lost'"


def schedule_text(schedule: Sequence[Case]) -> str:
    """Return the text form of a schedule, which `parse_schedule` reads."""
    return _SEPARATOR.join(map(str, schedule))


def parse_schedule(text: str) -> Schedule:
    """Return the failures in a text such as "Produce#3 late + Fetch#1 request-lost".

    Raises CaseError for another text.
    """
    found = tuple(map(parse_case, _parts(text)))
    if len({*found}) < len(found):
        raise CaseError(f"{text!r} has a case twice")
    return found


def _parts(text: str) -> list[str]:
    """Return the texts of the cases of a schedule; the id of a client may have a separator."""
    if _SEPARATOR not in text:
        return [text]
    try:
        words = shlex.split(text)
    except ValueError:
        raise CaseError(f"{text!r} is not cases such as {_EXAMPLE}") from None
    parts: list[list[str]] = [[]]
    for word in words:
        if word == _SEPARATOR.strip():
            parts.append([])
        else:
            parts[-1].append(word)
    return [shlex.join(part) for part in parts]


def random_schedules(cases: Sequence[Case], count: int, seed: int) -> Iterator[Schedule]:
    """Yield schedules of two to five failures of different requests; all follow from the seed."""
    random = Random(seed)  # noqa: S311 - not for secrets
    by_request: dict[tuple[object, ...], list[Case]] = {}
    for each in cases:
        by_request.setdefault((each.api, each.nth, each.client), []).append(each)
    requests = [*by_request.values()]
    largest = min(MAX_FAILURES, len(requests))
    for _ in range(count):
        size = random.randint(min(2, largest), largest)
        yield tuple(random.choice(each) for each in random.sample(requests, size))


def shrunk(schedule: Schedule, fails: Callable[[Schedule], bool]) -> Schedule:
    """Return a part of a failing schedule that fails, and does not without any of its failures.

    `fails(part)` runs a part. Halves are tried before single failures are removed.
    """
    size = (len(schedule) + 1) // 2
    while size and len(schedule) > 1:
        for start in range(0, len(schedule), size):
            part = schedule[:start] + schedule[start + size :]
            if part and fails(part):
                schedule = part
                size = min(size, (len(schedule) + 1) // 2)
                break
        else:
            size = size // 2
    return schedule
