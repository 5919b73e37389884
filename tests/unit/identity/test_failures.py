"""Failures of the identity provider: rules, counts and invalid values."""

from __future__ import annotations

import pytest

from kafkalite.identity.errors import IdentityError, UnknownIdentityError
from kafkalite.identity.failures import (
    MAX_FAILURES,
    OUTAGES,
    TOKEN_FAILURES,
    Endpoint,
    Failure,
    FailureKind,
    Failures,
    failure_of,
)


def test_json_is_parsed() -> None:
    assert failure_of({"failure": "expired"}) == Failure(FailureKind.EXPIRED)
    assert failure_of(
        {"failure": "slow", "endpoint": "jwks", "times": 2, "delay_ms": 500}
    ) == Failure(FailureKind.SLOW, Endpoint.JWKS, None, 2, 500)
    assert failure_of({"failure": "wrong_key", "client": "a"}).client_id == "a"


@pytest.mark.parametrize(
    "fields",
    [
        None,
        {},
        {"failure": "late"},
        {"failure": ["expired"]},
        {"failure": "expired", "color": 1},
        {"failure": "expired", "client": 1},
        {"failure": "expired", "client": "\ud800"},
        {"failure": "expired", "times": 0},
        {"failure": "expired", "times": True},
        {"failure": "expired", "delay_ms": 5},
        {"failure": "slow"},
        {"failure": "slow", "delay_ms": 10**9},
        {"failure": "expired", "endpoint": "jwks"},
        {"failure": "http_500", "endpoint": "jwks", "client": "a"},
        {"failure": "http_500", "endpoint": "x"},
    ],
)
def test_invalid_json_is_refused(fields: object) -> None:
    with pytest.raises(IdentityError):
        failure_of(fields)


def test_a_failure_fires_for_its_endpoint_its_client_and_its_number_of_requests() -> None:
    failures = Failures()
    failures.add(Failure(FailureKind.HTTP_500, client_id="a", times=2))
    fired = [
        len(failures.fire(endpoint, client, OUTAGES))
        for endpoint, client in (
            (Endpoint.JWKS, "a"),
            (Endpoint.TOKEN, "b"),
            (Endpoint.TOKEN, None),
            (Endpoint.TOKEN, "a"),
            (Endpoint.TOKEN, "a"),
            (Endpoint.TOKEN, "a"),
        )
    ]
    assert fired == [0, 0, 0, 1, 1, 0]
    assert failures.fire(Endpoint.TOKEN, "a", TOKEN_FAILURES) == []
    assert [state.firings for state in failures] == [2]


def test_failures_are_removed() -> None:
    failures = Failures()
    first, second = (failures.add(Failure(FailureKind.EXPIRED)) for _ in range(2))
    assert failures.remove(first.id) == first
    with pytest.raises(UnknownIdentityError):
        failures.remove(first.id)
    assert failures.clear() == [second]
    assert list(failures) == []


def test_there_is_a_maximum_number_of_failures() -> None:
    failures = Failures()
    for _ in range(MAX_FAILURES):
        failures.add(Failure(FailureKind.EXPIRED))
    with pytest.raises(IdentityError, match="remove one"):
        failures.add(Failure(FailureKind.EXPIRED))
