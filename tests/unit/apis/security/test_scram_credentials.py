"""Describing and altering the SCRAM credentials of users."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.apis.security.scram_credentials import (
    handle_alter_user_scram_credentials,
    handle_describe_user_scram_credentials,
    refuse_alter_user_scram_credentials,
)
from kafkalite.protocol._generated.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
)
from kafkalite.protocol._generated.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.rows import refusal
from kafkalite.security.sasl.scram_credentials import (
    SCRAM_MECHANISMS,
    SCRAM_SHA_256,
    SCRAM_SHA_512,
    salt_password,
)
from tests.cluster.sasl import SaslCluster

if TYPE_CHECKING:
    from kafkalite.security.sasl.scram_credentials import ScramMechanism

Deletion = AlterUserScramCredentialsRequest.ScramCredentialDeletion
Upsertion = AlterUserScramCredentialsRequest.ScramCredentialUpsertion
SALT = b"salt of a client"


def upsertion(name: str, mechanism: ScramMechanism, password: str = "pw") -> Upsertion:  # noqa: S107 - a test
    return Upsertion(
        name=name,
        mechanism=mechanism.number,
        iterations=8192,
        salt=SALT,
        salted_password=salt_password(mechanism, password, SALT, 8192),
    )


def alter(
    wire: SaslCluster, **changes: list[Deletion] | list[Upsertion]
) -> dict[str, tuple[int, str | None]]:
    request = AlterUserScramCredentialsRequest(**changes)  # type: ignore[arg-type]
    response = handle_alter_user_scram_credentials(wire.connect().context.latest_call, request)
    return {each.user: (each.error_code, each.error_message) for each in response.results}


def describe(wire: SaslCluster, *names: str) -> DescribeUserScramCredentialsResponse:
    users = [DescribeUserScramCredentialsRequest.UserName(name=name) for name in names]
    return handle_describe_user_scram_credentials(
        wire.connect().context.latest_call, DescribeUserScramCredentialsRequest(users=users or None)
    )


def infos(response: DescribeUserScramCredentialsResponse) -> dict[str, list[tuple[int, int]]]:
    assert all(each.error_code == 0 for each in response.results)
    return {
        each.user: [(info.mechanism, info.iterations) for info in each.credential_infos]
        for each in response.results
    }


def test_a_user_authenticates_with_new_credentials_until_they_are_deleted() -> None:
    wire = SaslCluster(users={})
    for mechanism in SCRAM_MECHANISMS:
        assert alter(wire, upsertions=[upsertion("bob", mechanism)]) == {"bob": (0, None)}
        client = wire.connect()
        assert client.log_in_by_scram(mechanism, "bob", "pw").error_code == 0
        assert client.context.principal == "User:bob"
        deleted = Deletion(name="bob", mechanism=mechanism.number)
        assert alter(wire, deletions=[deleted]) == {"bob": (0, None)}
        client = wire.connect()
        assert client.log_in_by_scram(mechanism, "bob", "pw") is None
        assert client.context.principal == "User:ANONYMOUS"


def test_credentials_are_described_without_keys() -> None:
    wire = SaslCluster(users={"bob": "x", "alice": "y"})
    alter(wire, upsertions=[upsertion("alice", SCRAM_SHA_512)])
    expected = {"alice": [(1, 4096), (2, 8192)], "bob": [(1, 4096), (2, 4096)]}
    assert infos(describe(wire)) == expected
    assert infos(describe(wire, "bob")) == {"bob": expected["bob"]}
    assert infos(describe(SaslCluster(users={}))) == {}


def test_unknown_users_and_duplicates_are_errors_of_their_own() -> None:
    response = describe(SaslCluster(), "alice", "bob", "carol", "carol")
    assert [
        (each.user, each.error_code, each.error_message, len(each.credential_infos))
        for each in response.results
    ] == [
        ("alice", ErrorCode.NONE, "", 2),
        (
            "bob",
            ErrorCode.RESOURCE_NOT_FOUND,
            "Attempt to describe a user credential that does not exist: bob",
            0,
        ),
        (
            "carol",
            ErrorCode.DUPLICATE_RESOURCE,
            "Cannot describe SCRAM credentials for the same user twice in a single request: carol",
            0,
        ),
    ]


def test_each_user_is_altered_or_refused() -> None:
    wire = SaslCluster()
    outcome = alter(
        wire,
        deletions=[Deletion(name="absent", mechanism=1)],
        upsertions=[upsertion("bob", SCRAM_SHA_256)],
    )
    assert outcome == {
        "bob": (ErrorCode.NONE, None),
        "absent": (
            ErrorCode.RESOURCE_NOT_FOUND,
            "Attempt to delete a user credential that does not exist",
        ),
    }


def test_a_refused_description_has_the_error_for_each_user() -> None:
    users = [DescribeUserScramCredentialsRequest.UserName(name="alice")]
    code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    for request in (DescribeUserScramCredentialsRequest(users=users), None):
        response = refusal(
            ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
            request or DescribeUserScramCredentialsRequest(users=None),
            code,
            None,
        )
        assert (response.error_code, response.error_message) == (code, None)
        assert [(each.user, each.error_code) for each in response.results] == (
            [] if request is None else [("", code)]
        )


def test_a_refused_change_has_the_error_for_each_user() -> None:
    request = AlterUserScramCredentialsRequest(
        deletions=[Deletion(name="bob", mechanism=1)],
        upsertions=[upsertion("bob", SCRAM_SHA_256), upsertion("alice", SCRAM_SHA_256)],
    )
    response = refuse_alter_user_scram_credentials(
        request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "no"
    )
    assert [(each.user, each.error_message) for each in response.results] == [
        ("alice", "no"),
        ("bob", "no"),
    ]
