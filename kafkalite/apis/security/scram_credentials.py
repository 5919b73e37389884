"""DescribeUserScramCredentials and AlterUserScramCredentials: the SCRAM credentials of users."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from kafkalite.gateway.api import MAX_ELEMENTS_AT_ONCE, Api
from kafkalite.metadata.scram_credentials import (
    MECHANISM_NUMBERS,
    ScramDeletion,
    ScramUpsertion,
)
from kafkalite.ports.turns import in_steps
from kafkalite.protocol._generated.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
)
from kafkalite.protocol._generated.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.versions import Versions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalite.gateway.call import Call
    from kafkalite.metadata.image import ScramKey
    from kafkalite.security.sasl.scram_credentials import ScramCredential

_Described = DescribeUserScramCredentialsResponse.DescribeUserScramCredentialsResult


def handle_describe_user_scram_credentials(
    call: Call, request: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse:
    """Return the mechanisms and iterations of the users in the request, or of all users."""
    credentials = call.node.image.scram_credentials
    counts = Counter(user.name for user in request.users or ())
    if not counts:
        counts = Counter({user: 1 for _, user in sorted(credentials)})
    return DescribeUserScramCredentialsResponse(
        results=[
            _duplicate(user) if count > 1 else _describe(user, credentials)
            for user, count in in_steps(counts.items())
        ],
    )


def _duplicate(user: str) -> _Described:
    return _Described(
        user=user,
        error_code=ErrorCode.DUPLICATE_RESOURCE,
        error_message=(
            f"Cannot describe SCRAM credentials for the same user twice in a single request: {user}"
        ),
    )


def _describe(user: str, credentials: Mapping[ScramKey, ScramCredential]) -> _Described:
    infos = [
        DescribeUserScramCredentialsResponse.CredentialInfo(
            mechanism=mechanism, iterations=credentials[mechanism, user].iterations
        )
        for mechanism in MECHANISM_NUMBERS
        if (mechanism, user) in credentials
    ]
    if infos:
        return _Described(user=user, credential_infos=infos)
    return _Described(
        user=user,
        error_code=ErrorCode.RESOURCE_NOT_FOUND,
        error_message=f"Attempt to describe a user credential that does not exist: {user}",
    )


def handle_alter_user_scram_credentials(
    call: Call, request: AlterUserScramCredentialsRequest
) -> AlterUserScramCredentialsResponse:
    """Set and remove credentials; each user succeeds or fails on its own.

    Raises KafkaError if there are too many.
    """
    outcome = call.node.cluster.metadata.alter_scram_credentials(
        [ScramDeletion(each.name, each.mechanism) for each in request.deletions],
        [
            ScramUpsertion(
                each.name,
                each.mechanism,
                each.iterations,
                bytes(each.salt),
                bytes(each.salted_password),
            )
            for each in request.upsertions
        ],
    )
    return AlterUserScramCredentialsResponse(
        results=[
            AlterUserScramCredentialsResponse.AlterUserScramCredentialsResult(
                user=user,
                error_code=ErrorCode.NONE if error is None else error.code,
                error_message=None if error is None else error.message,
            )
            for user, error in in_steps(outcome.items())
        ]
    )


def refuse_alter_user_scram_credentials(
    request: AlterUserScramCredentialsRequest, code: ErrorCode, message: str | None
) -> AlterUserScramCredentialsResponse:
    """Return the response with an error for each user in the request."""
    users = {each.name for each in request.deletions}
    users.update(each.name for each in request.upsertions)
    return AlterUserScramCredentialsResponse(
        results=[
            AlterUserScramCredentialsResponse.AlterUserScramCredentialsResult(
                user=user, error_code=code, error_message=message or code.message
            )
            for user in in_steps(sorted(users))
        ]
    )


APIS = (
    Api(
        key=DescribeUserScramCredentialsRequest.API_KEY,
        versions=Versions(0, 0),
        handler=handle_describe_user_scram_credentials,
        inline_bytes=0,
    ),
    Api(
        key=AlterUserScramCredentialsRequest.API_KEY,
        other_pausing_lists=frozenset(("deletions", "upsertions")),
        max_elements=MAX_ELEMENTS_AT_ONCE,
        versions=Versions(0, 0),
        handler=handle_alter_user_scram_credentials,
        refusal=refuse_alter_user_scram_credentials,
    ),
)
