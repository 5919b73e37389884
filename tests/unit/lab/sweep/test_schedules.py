"""Schedules: their text form, what is drawn, and the fewest failures that matter."""

from __future__ import annotations

from itertools import combinations

import pytest

from kafkalite.lab.sweep.cases import Case, CaseError, cases_of
from kafkalite.lab.sweep.schedules import (
    MAX_FAILURES,
    parse_schedule,
    random_schedules,
    schedule_text,
    shrunk,
)
from kafkalite.protocol.api_keys import ApiKey
from tests.unit.lab.sweep.seen import CONTEXT, of_member, produce

FIVE = tuple(Case("Produce", number, "late") for number in range(1, 6))


def test_the_text_form_can_be_read() -> None:
    schedule = parse_schedule("Produce#3 orders-0 late + OffsetCommit#1 NOT_COORDINATOR")
    assert len(schedule) == 2
    assert parse_schedule(schedule_text(schedule)) == schedule


@pytest.mark.parametrize("client", ["a + b", " + ", "+", "it's + c", "\x1b + \n"])
def test_the_id_of_a_client_may_have_a_separator(client: str) -> None:
    one = (Case("Produce", 1, "late", client=client),)
    two = (*one, Case("Fetch", 2, "request-lost", client=f"{client}2"))
    assert schedule_text(parse_schedule(schedule_text(one))) == schedule_text(one)
    assert parse_schedule(schedule_text(two)) == two


@pytest.mark.parametrize("text", ["Produce#1 late + ", " + ", "Produce#1 'late + Fetch#1 late"])
def test_a_text_that_is_no_schedule_is_refused(text: str) -> None:
    with pytest.raises(CaseError, match="case"):
        parse_schedule(text)


def test_a_case_comes_once() -> None:
    with pytest.raises(CaseError, match="has a case twice"):
        parse_schedule("Produce#1 late + Produce#1 late")


def test_schedules_follow_from_the_seed() -> None:
    run = [produce() for _ in range(4)] + [of_member(ApiKey.HEARTBEAT) for _ in range(4)]
    cases = cases_of([run], CONTEXT)
    drawn = [*random_schedules(cases, 50, seed=7)]
    assert drawn == [*random_schedules(cases, 50, seed=7)]
    assert drawn != [*random_schedules(cases, 50, seed=8)]
    assert {len(each) for each in drawn} == {*range(2, MAX_FAILURES + 1)}
    for each in drawn:
        requests = [(case.api, case.nth) for case in each]
        assert len({*requests}) == len(requests), "a request has one failure"


def test_one_request_gives_schedules_of_one_failure() -> None:
    (schedule,) = random_schedules([FIVE[0]], 1, seed=1)
    assert schedule == FIVE[:1]


@pytest.mark.parametrize(
    "needed", [each for size in (1, 2, 3, 5) for each in combinations(range(5), size)]
)
def test_only_needed_failures_remain(needed: tuple[int, ...]) -> None:
    expected = {FIVE[each] for each in needed}
    runs = []

    def fails(part: tuple[Case, ...]) -> bool:
        runs.append(part)
        return expected <= {*part}

    assert {*shrunk(FIVE, fails)} == expected
    assert len(runs) < 20


def test_any_of_several_failures_is_enough() -> None:
    assert len(shrunk(FIVE, lambda part: bool({*FIVE[2:4]} & {*part}))) == 1
