"""CreateDelegationToken, RenewDelegationToken, ExpireDelegationToken and DescribeDelegationToken.

Only clients that authenticate may use them (KIP-48), and not those that authenticate by a token.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalite.config.broker import SECRET_KEY
from kafkalite.gateway.api import MAX_ELEMENTS_AT_ONCE, Api
from kafkalite.gateway.refusals import report_refusal_of_client
from kafkalite.metadata.delegation_tokens import TokenRequest
from kafkalite.ports.turns import ELEMENTS_PER_PAUSE, in_steps, pause
from kafkalite.protocol._generated.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from kafkalite.protocol._generated.messages.describe_delegation_token import (
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from kafkalite.protocol._generated.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from kafkalite.protocol._generated.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from kafkalite.protocol.acl_operations import Operation, Resource
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.versions import Versions
from kafkalite.security.delegation_tokens import DelegationToken, token_hmac
from kafkalite.security.listener_security import ANONYMOUS

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from kafkalite.gateway.call import Call

_USER: Final = "User"
_NO_TIME: Final = -1

_Described = DescribeDelegationTokenResponse.DescribedDelegationToken


def _may_request_tokens(call: Call) -> bool:
    """Return whether the client has authenticated, and not by a token.

    Clients of PLAINTEXT listeners are anonymous, and so are clients of SSL without a certificate.
    """
    if call.authenticator is not None:
        return not call.authenticator.is_token_authenticated
    return call.principal != ANONYMOUS


def _split(principal: str) -> tuple[str, str]:
    """Return the type and the name of a principal."""
    kind, _, name = principal.partition(":")
    return kind, name


# CreateDelegationToken


def handle_create_delegation_token(
    call: Call, request: CreateDelegationTokenRequest
) -> CreateDelegationTokenResponse:
    """Create a token for the client, or for another owner if the client may do that (KIP-373).

    Raises KafkaError for an owner without a type, and for too many renewers.
    """
    requester = owner = call.principal
    if request.owner_principal_name:
        if request.owner_principal_type is None:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
        owner = f"{request.owner_principal_type}:{request.owner_principal_name}"
    if not _may_request_tokens(call):
        code = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    elif owner != requester and not call.allows(Operation.CREATE_TOKENS, Resource.USER, owner):
        code = ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    elif any(each.principal_type != _USER for each in request.renewers):
        code = ErrorCode.INVALID_PRINCIPAL_TYPE
    else:
        return _create(call, request, owner)
    report_refusal_of_client(call, "CreateDelegationToken", KafkaError(code))
    return _creation_error(owner, requester, code)


def _create(
    call: Call, request: CreateDelegationTokenRequest, owner: str
) -> CreateDelegationTokenResponse:
    renewers = tuple(f"{_USER}:{each.principal_name}" for each in request.renewers)
    requested = TokenRequest(owner, call.principal, renewers, request.max_lifetime_ms)
    try:
        token = call.node.cluster.metadata.create_delegation_token(requested)
    except KafkaError as error:
        if error.code is not ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED:
            raise
        report_refusal_of_client(call, "CreateDelegationToken", error)
        # The controller of Kafka does not set the times of this response.
        return _creation_error(owner, call.principal, error.code, time_ms=0)
    owner_type, owner_name = _split(owner)
    requester_type, requester_name = _split(token.requester)
    return CreateDelegationTokenResponse(
        principal_type=owner_type,
        principal_name=owner_name,
        token_requester_principal_type=requester_type,
        token_requester_principal_name=requester_name,
        issue_timestamp_ms=token.issued_at_ms,
        expiry_timestamp_ms=token.expires_at_ms,
        max_timestamp_ms=token.max_timestamp_ms,
        token_id=token.token_id,
        hmac=token_hmac(_secret_key(call), token.token_id),
    )


def _creation_error(
    owner: str, requester: str, code: ErrorCode, *, time_ms: int = _NO_TIME
) -> CreateDelegationTokenResponse:
    owner_type, owner_name = _split(owner)
    requester_type, requester_name = _split(requester)
    return CreateDelegationTokenResponse(
        error_code=code,
        principal_type=owner_type,
        principal_name=owner_name,
        token_requester_principal_type=requester_type,
        token_requester_principal_name=requester_name,
        issue_timestamp_ms=time_ms,
        expiry_timestamp_ms=time_ms,
        max_timestamp_ms=time_ms,
    )


def _secret_key(call: Call) -> str:
    return call.node.config.str_or_none(SECRET_KEY) or ""


def refuse_create_delegation_token(
    request: CreateDelegationTokenRequest,  # noqa: ARG001 - the response does not depend on it
    code: ErrorCode,
    message: str | None,  # noqa: ARG001 - the response has no message
) -> CreateDelegationTokenResponse:
    """Return the response with an error, which names no principal, as in Kafka."""
    return _creation_error(ANONYMOUS, ANONYMOUS, code)


# RenewDelegationToken


def handle_renew_delegation_token(
    call: Call, request: RenewDelegationTokenRequest
) -> RenewDelegationTokenResponse:
    """Let a token expire later; raises KafkaError if the client may not renew it."""
    if not _may_request_tokens(call):
        code = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        report_refusal_of_client(call, "RenewDelegationToken", KafkaError(code))
        return RenewDelegationTokenResponse(error_code=code, expiry_timestamp_ms=_NO_TIME)
    expires_at_ms = call.node.cluster.metadata.renew_delegation_token(
        bytes(request.hmac), call.principal, request.renew_period_ms
    )
    return RenewDelegationTokenResponse(expiry_timestamp_ms=expires_at_ms)


# ExpireDelegationToken


def handle_expire_delegation_token(
    call: Call, request: ExpireDelegationTokenRequest
) -> ExpireDelegationTokenResponse:
    """Let a token expire earlier, or remove it; raises KafkaError if the client may not do that."""
    if not _may_request_tokens(call):
        code = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        report_refusal_of_client(call, "ExpireDelegationToken", KafkaError(code))
        return ExpireDelegationTokenResponse(error_code=code, expiry_timestamp_ms=_NO_TIME)
    expires_at_ms = call.node.cluster.metadata.expire_delegation_token(
        bytes(request.hmac), call.principal, request.expiry_time_period_ms
    )
    return ExpireDelegationTokenResponse(expiry_timestamp_ms=expires_at_ms)


# DescribeDelegationToken


def handle_describe_delegation_token(
    call: Call, request: DescribeDelegationTokenRequest
) -> DescribeDelegationTokenResponse:
    """Return the tokens of some owners, or all tokens, that the client may describe.

    These are its own ones, and those that ACLs allow. Raises KafkaError if the client may not
    request tokens.
    """
    if not _may_request_tokens(call):
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
    secret_key = _secret_key(call)
    if not secret_key:
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    owners = None
    if request.owners is not None:
        owners = {f"{o.principal_type}:{o.principal_name}" for o in request.owners}
    own = frozenset((call.principal,))
    described = []
    for token in in_steps(tuple(call.node.image.delegation_tokens.values())):
        if _is_shown(call, token, owners, own):
            described.append(_describe(token, secret_key))
        if len(token.renewers) > ELEMENTS_PER_PAUSE:
            pause()
    return DescribeDelegationTokenResponse(tokens=described)


def _is_shown(
    call: Call, token: DelegationToken, owners: AbstractSet[str] | None, own: AbstractSet[str]
) -> bool:
    if owners is not None and not token.belongs_to(owners):
        return False
    return (
        token.belongs_to(own)
        or call.allows(Operation.DESCRIBE, Resource.DELEGATION_TOKEN, token.token_id)
        or call.allows(Operation.DESCRIBE_TOKENS, Resource.USER, token.owner)
    )


def _describe(token: DelegationToken, secret_key: str) -> _Described:
    owner_type, owner_name = _split(token.owner)
    requester_type, requester_name = _split(token.requester)
    return _Described(
        principal_type=owner_type,
        principal_name=owner_name,
        token_requester_principal_type=requester_type,
        token_requester_principal_name=requester_name,
        issue_timestamp=token.issued_at_ms,
        expiry_timestamp=token.expires_at_ms,
        max_timestamp=token.max_timestamp_ms,
        token_id=token.token_id,
        hmac=token_hmac(secret_key, token.token_id),
        renewers=[
            DescribeDelegationTokenResponse.DescribedDelegationTokenRenewer(
                principal_type=kind, principal_name=name
            )
            for kind, name in map(_split, in_steps(token.renewers))
        ],
    )


APIS = (
    Api(
        key=CreateDelegationTokenRequest.API_KEY,
        other_pausing_lists=frozenset(("renewers",)),
        max_elements=MAX_ELEMENTS_AT_ONCE,
        versions=Versions(1, 3),
        handler=handle_create_delegation_token,
        refusal=refuse_create_delegation_token,
    ),
    Api(
        key=RenewDelegationTokenRequest.API_KEY,
        versions=Versions(1, 2),
        handler=handle_renew_delegation_token,
    ),
    Api(
        key=ExpireDelegationTokenRequest.API_KEY,
        versions=Versions(1, 2),
        handler=handle_expire_delegation_token,
    ),
    Api(
        key=DescribeDelegationTokenRequest.API_KEY,
        other_pausing_lists=frozenset(("owners",)),
        versions=Versions(1, 3),
        handler=handle_describe_delegation_token,
        inline_bytes=0,
    ),
)
