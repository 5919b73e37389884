"""Cases: their text form, which requests give which, their selection and order."""

from __future__ import annotations

import pytest

from kafkalite.gateway.fault_rules import rule_of
from kafkalite.lab.sweep.cases import Case, CaseError, cases_of, ordered, parse_case, selected
from kafkalite.lab.sweep.failures import FAILURES
from kafkalite.lab.sweep.requests import Partition, SeenRequest
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.possible_errors import possible_errors
from tests.unit.lab.sweep.seen import CONTEXT, ORDERS, of_member, produce


@pytest.mark.parametrize("client", [None, "", "shop-*", "it's my shop", "orders-0", "client=a"])
def test_the_text_form_of_a_case_can_be_read(client: str | None) -> None:
    for failure in FAILURES:
        error = FAILURES[failure].action.get("error")
        if error is not None and ErrorCode[error] not in possible_errors(ApiKey.PRODUCE):
            continue
        for partition in (None, Partition("a.b_c-d", 12)):
            case = Case("Produce", 12, failure, partition, client)
            assert parse_case(str(case)) == case


def test_the_text_form_is_short() -> None:
    assert str(parse_case("Produce#3 orders-0 late")) == "Produce#3 orders-0 late"
    named = Case("Produce", 3, "late", ORDERS, "my shop")
    assert str(named) == "Produce#3 client='my shop' orders-0 late"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "is not a case such as"),
        ("Produce#3", "is not a case such as"),
        ("Produce late", "must begin with an API and a number, such as Produce#3"),
        ("Produce#0 late", "must begin with an API and a number"),
        ("Prduce#3 late", "there is no API Prduce; similar names are Produce"),
        ("Produce#3 lat", "there is no failure 'lat'; similar names are late"),
        ("Produce#3 qqqqqqq", "the failures are answer-lost, "),
        ("Produce#3 orders late", "'orders' is not a partition such as orders-0"),
        ("Produce#3 orders-0 orders-1 late", "has more words than"),
        ("Produce#3 'orders-0 late", "is not a case such as"),
        ("Heartbeat#1 orders-0 late", "requests of Heartbeat have no partitions"),
        ("Fetch#1 NOT_COORDINATOR", "Kafka never answers Fetch with NOT_COORDINATOR"),
    ],
)
def test_a_text_that_is_no_case_is_refused(text: str, reason: str) -> None:
    with pytest.raises(CaseError, match="case") as refused:
        parse_case(text)
    assert reason in str(refused.value)


def texts(*runs: list[SeenRequest], failure: str) -> list[str]:
    found = cases_of(runs, CONTEXT)
    return [str(each) for each in found if each.failure == failure]


def test_requests_are_numbered_by_partition() -> None:
    other = Partition("orders", 1)
    run = [produce(), produce(partition=other), produce()]
    assert texts(run, failure="late") == [
        "Produce#1 orders-0 late",
        "Produce#1 orders-1 late",
        "Produce#2 orders-0 late",
    ]


def test_a_client_is_named_if_several_send_such_requests() -> None:
    run = [produce("shop"), produce("bank")]
    assert texts(run, failure="late") == [
        "Produce#1 client=shop orders-0 late",
        "Produce#1 client=bank orders-0 late",
    ]


def test_a_request_that_a_run_does_not_send_gives_no_case() -> None:
    assert texts([produce(), produce()], [produce()], [produce(), produce()], failure="late") == [
        "Produce#1 orders-0 late"
    ]


def test_generated_parts_of_client_ids_are_left_out() -> None:
    runs = [[produce(f"shop-{number}"), produce("bank")] for number in (17, 18)]
    assert texts(*runs, failure="late") == [
        "Produce#1 client='shop-*' orders-0 late",
        "Produce#1 client=bank orders-0 late",
    ]


def test_the_whole_request_fails_once_and_each_partition_by_itself() -> None:
    both = (ORDERS, Partition("bills", 0))
    request = produce()
    context = CONTEXT.__class__(nodes=3, in_sync=dict.fromkeys(both, 3))
    request = request.__class__(api_key=ApiKey.PRODUCE, client_id="", partitions=both, acks=-1)
    found = [str(each) for each in cases_of([[request]], context)]
    assert "Produce#1 bills-0 late" not in found
    assert {
        "Produce#1 orders-0 late",
        "Produce#1 orders-0 NOT_LEADER_OR_FOLLOWER",
        "Produce#1 bills-0 NOT_LEADER_OR_FOLLOWER",
    } <= {*found}


def test_every_case_is_a_valid_fault() -> None:
    run = [produce(), *(of_member(key) for key in (ApiKey.HEARTBEAT, ApiKey.OFFSET_COMMIT))]
    cases = cases_of([run], CONTEXT)
    assert len(cases) > 20
    for each in cases:
        assert rule_of(each.fault_fields()).match.api is each.api_key


def test_patterns_select_cases() -> None:
    cases = cases_of([[produce(), of_member(ApiKey.HEARTBEAT)]], CONTEXT)
    assert {each.api for each in selected(cases, ["Produce"], [])} == {"Produce"}
    lost = selected(cases, ["*-lost"], ["Heartbeat"])
    assert [str(each) for each in lost] == [
        "Produce#1 orders-0 answer-lost",
        "Produce#1 orders-0 request-lost",
    ]
    assert selected(cases, [], ["*"]) == []


def test_each_failure_of_each_api_comes_first() -> None:
    run = [produce() for _ in range(4)] + [of_member(ApiKey.HEARTBEAT) for _ in range(4)]
    cases = cases_of([run], CONTEXT)
    in_order = ordered(cases, seed=7)
    assert sorted(map(str, in_order)) == sorted(map(str, cases))
    kinds = {(each.api, each.failure) for each in cases if not each.kind.stalls}
    assert {(each.api, each.failure) for each in in_order[: len(kinds)]} == kinds
    assert str(in_order[0]) == "Produce#1 orders-0 answer-lost"
    assert in_order[-1].kind.stalls
    assert ordered(cases, seed=7) == in_order
    assert ordered(cases, seed=8) != in_order
