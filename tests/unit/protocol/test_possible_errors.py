"""Possible errors: those that a real Kafka answered are possible, and each code is of some API."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from kafkalite.gateway.true_errors import HANDLED_DESPITE, TRUE_ERRORS
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.codec import api_name
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.possible_errors import OWN_ERRORS, possible_errors
from tests.conformance.recordings import RECORDED

if TYPE_CHECKING:
    from collections.abc import Iterator

BETWEEN_NODES = {
    "DUPLICATE_BROKER_REGISTRATION",
    "INCONSISTENT_VOTER_SET",
    "INELIGIBLE_REPLICA",
    "INVALID_FETCH_SIZE",
    "INVALID_REGISTRATION",
    "NETWORK_EXCEPTION",
    "NEW_LEADER_ELECTED",
    "POSITION_OUT_OF_RANGE",
    "PRINCIPAL_DESERIALIZATION_FAILURE",
    "SNAPSHOT_NOT_FOUND",
    "STALE_BROKER_EPOCH",
    "STALE_CONTROLLER_EPOCH",
    "UNKNOWN_CONTROLLER_ID",
}
"""Errors that nodes of Kafka return to each other, or that clients make themselves."""

_TITLE = re.compile(r'\["(\w+)Request v')
_CODE = re.compile(r'"(-?\d+) [A-Z_]{3,}"')


def recorded_errors() -> Iterator[tuple[ApiKey, ErrorCode]]:
    """Yield each error in the recorded answers of a real Kafka."""
    keys = {api_name(key): key for key in ApiKey}
    for path in RECORDED.rglob("*.jsonl"):
        for line in path.read_text().splitlines():
            title = _TITLE.match(line)
            if title is not None and title[1] in keys:
                for code in _CODE.findall(line):
                    if int(code):
                        yield keys[title[1]], ErrorCode(int(code))


def test_every_error_of_a_real_kafka_is_possible() -> None:
    found = set(recorded_errors())
    assert len(found) > 150
    assert [each for each in found if each[1] not in possible_errors(each[0])] == []


def test_each_error_that_clients_get_is_possible_for_an_api() -> None:
    """Add the errors of a new release to the APIs that return them."""
    found = set().union(*(possible_errors(key) for key in ApiKey))
    assert {code.name for code in ErrorCode if code not in found} == BETWEEN_NODES | {"NONE"}


@pytest.mark.parametrize("key", list(ApiKey), ids=api_name)
def test_no_api_has_an_error_twice(key: ApiKey) -> None:
    own = OWN_ERRORS.get(key, "").split()
    assert len(own) == len(set(own))
    assert ErrorCode.UNKNOWN_SERVER_ERROR in possible_errors(key)
    assert ErrorCode.NONE not in possible_errors(key)


def test_errors_that_can_be_made_true_are_possible_for_the_apis_that_name_what_changes() -> None:
    for code in TRUE_ERRORS:
        assert any(code in possible_errors(key) for key in ApiKey), code
    for code, keys in HANDLED_DESPITE.items():
        assert all(code in possible_errors(key) for key in keys)


@pytest.mark.parametrize(
    ("key", "code"),
    [
        (ApiKey.HEARTBEAT, "NOT_ENOUGH_REPLICAS"),
        (ApiKey.PRODUCE, "UNKNOWN_MEMBER_ID"),
        (ApiKey.FETCH, "TOPIC_ALREADY_EXISTS"),
        (ApiKey.END_TXN, "NOT_CONTROLLER"),
    ],
)
def test_errors_of_other_apis_are_impossible(key: ApiKey, code: str) -> None:
    assert ErrorCode[code] not in possible_errors(key)


@pytest.mark.parametrize(
    ("key", "code"),
    [
        (ApiKey.FIND_COORDINATOR, "TRANSACTION_ABORTABLE"),
        (ApiKey.ALTER_SHARE_GROUP_OFFSETS, "KAFKA_STORAGE_ERROR"),
        (ApiKey.DELETE_SHARE_GROUP_OFFSETS, "KAFKA_STORAGE_ERROR"),
    ],
)
def test_errors_that_only_the_message_definitions_document_are_possible(
    key: ApiKey, code: str
) -> None:
    assert ErrorCode[code] in possible_errors(key)
