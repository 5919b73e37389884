"""SCRAM credentials in the metadata log: validation, records, and restarts."""

from __future__ import annotations

import pytest

from kafkalite.metadata.scram_credentials import (
    MAX_CHANGES_PER_REQUEST,
    ScramDeletion,
    ScramUpsertion,
)
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.security.sasl.scram_credentials import (
    SCRAM_SHA_256,
    credential_of_password,
    salt_password,
)
from tests.cluster.metadata import MetadataCluster

SALT = b"a salt"
SALTED = salt_password(SCRAM_SHA_256, "pw", SALT, 4096)


def upsertion(user: str = "alice", mechanism: int = 1, iterations: int = 4096) -> ScramUpsertion:
    return ScramUpsertion(user, mechanism, iterations, SALT, SALTED)


def alter(
    cluster: MetadataCluster, *changes: ScramDeletion | ScramUpsertion
) -> dict[str, tuple[ErrorCode, str | None] | None]:
    outcome = cluster.controller.alter_scram_credentials(
        [change for change in changes if isinstance(change, ScramDeletion)],
        [change for change in changes if isinstance(change, ScramUpsertion)],
    )
    return {
        user: None if error is None else (error.code, error.message)
        for user, error in outcome.items()
    }


def test_keys_are_derived_and_stored_in_place_of_the_password() -> None:
    cluster = MetadataCluster()
    assert alter(cluster, upsertion()) == {"alice": None}
    expected = credential_of_password(SCRAM_SHA_256, "pw", SALT)
    assert cluster.image.scram_credentials == {(1, "alice"): expected}
    assert not any(SALTED in (value or b"") for _, value in cluster.log.entries)


def test_credentials_are_loaded_after_a_restart() -> None:
    cluster = MetadataCluster()
    alter(cluster, upsertion("alice"), upsertion("bob", 2))
    alter(cluster, upsertion("alice", iterations=5000))
    alter(cluster, ScramDeletion("bob", 2))
    credentials = cluster.restart(1).image.scram_credentials
    assert credentials == cluster.image.scram_credentials
    assert {key: each.iterations for key, each in credentials.items()} == {(1, "alice"): 5000}


@pytest.mark.parametrize(
    ("change", "code", "message"),
    [
        (upsertion(""), ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"),
        (ScramDeletion("", 1), ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"),
        (upsertion(mechanism=0), ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"),
        (upsertion(mechanism=3), ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"),
        (
            ScramDeletion("alice", -1),
            ErrorCode.UNSUPPORTED_SASL_MECHANISM,
            "Unknown SCRAM mechanism",
        ),
        (upsertion(iterations=4095), ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations"),
        (upsertion(iterations=16385), ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations"),
    ],
)
def test_an_invalid_change_is_refused(
    change: ScramDeletion | ScramUpsertion, code: ErrorCode, message: str
) -> None:
    cluster = MetadataCluster()
    entries = len(cluster.log.entries)
    assert alter(cluster, change) == {change.user: (code, message)}
    assert len(cluster.log.entries) == entries


@pytest.mark.parametrize(
    "changes",
    [
        (ScramDeletion("alice", 1), ScramDeletion("alice", 1)),
        (ScramDeletion("alice", 1), upsertion(mechanism=2)),
        (upsertion(), upsertion(mechanism=2)),
        (upsertion(), upsertion(), upsertion()),
    ],
)
def test_a_user_that_is_named_twice_is_not_changed(
    changes: tuple[ScramDeletion | ScramUpsertion, ...],
) -> None:
    cluster = MetadataCluster()
    alter(cluster, upsertion(iterations=6000))
    before = cluster.image.scram_credentials
    message = "A user credential cannot be altered twice in the same request"
    assert alter(cluster, *changes, upsertion("bob")) == {
        "bob": None,
        "alice": (ErrorCode.DUPLICATE_RESOURCE, message),
    }
    assert cluster.image.scram_credentials.items() >= before.items()
    assert (1, "bob") in cluster.image.scram_credentials


def test_the_limits_of_iterations_are_accepted() -> None:
    cluster = MetadataCluster()
    assert alter(cluster, upsertion(iterations=16384)) == {"alice": None}


def test_too_many_changes_are_refused_as_a_whole() -> None:
    cluster = MetadataCluster()
    changes = [ScramDeletion(f"u{n}", 1) for n in range(MAX_CHANGES_PER_REQUEST)]
    with pytest.raises(KafkaError) as refused:
        alter(cluster, *changes, upsertion())
    assert refused.value.code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert cluster.image.scram_credentials == {}
    assert alter(cluster, *changes[1:], upsertion())["alice"] is None


def test_other_changes_keep_the_same_mapping_of_credentials() -> None:
    cluster = MetadataCluster()
    alter(cluster, upsertion())
    before = cluster.image.scram_credentials
    cluster.controller.allocate_producer_ids(1)
    assert cluster.image.scram_credentials is before


def test_the_text_of_a_change_has_no_password() -> None:
    assert repr(upsertion()) == "ScramUpsertion('alice', 1, 4096)"
