"""Control paths of the identity provider: its clients, keys and failures as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

from starlette.responses import JSONResponse

from kafkalite.control.access_checks import ControlRoute
from kafkalite.control.commands import CommandError
from kafkalite.control.identity_commands import (
    AddIdentityFailure,
    AddSigningKey,
    ChangeTokens,
    ClearIdentityFailures,
    PutClient,
    RemoveClient,
    RemoveIdentityFailure,
    RetireSigningKey,
    ShowIdentity,
    perform_identity_command,
)
from kafkalite.control.times import duration_ms
from kafkalite.identity.errors import UnknownIdentityError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from starlette.requests import Request

    from kafkalite.control.identity_commands import IdentityCommand, IdentityStatus
    from kafkalite.identity.clients import OAuthClient
    from kafkalite.identity.failures import FailureState
    from kafkalite.identity.signing_keys import SigningKey
    from kafkalite.server.broker import Broker


IDENTITY_PATHS = {
    "/v1/identity": 'GET: the identity provider; POST: {"audience"} or {"token_lifetime": "5m"}',
    "/v1/identity/clients": 'POST: {"id": "billing", "secret": "s"}',
    "/v1/identity/clients/ID": "DELETE: remove a client",
    "/v1/identity/keys": 'POST: {} or {"algorithm": "ES256"}: a key that signs from now on',
    "/v1/identity/keys/ID": "DELETE: retire a key",
    "/v1/identity/failures": 'POST: {"failure": "expired"}; DELETE: remove all failures',
    "/v1/identity/failures/ID": "DELETE: remove a failure",
}


class ClientJson(TypedDict):
    """A client of the identity provider, without its secret."""

    id: str
    """Id of the client."""
    has_secret: bool
    """Whether it can authenticate by a secret."""
    has_public_key: bool
    """Whether it can authenticate by assertions."""
    scopes: Sequence[str] | None
    """Scopes that it may request; null for all."""
    subjects: Sequence[str]
    """Principals that its assertions may name in addition to its id."""
    audience: str | None
    """Audience of its tokens; null for that of the provider."""
    token_lifetime_ms: int | None
    """Lifetime of its tokens; null for that of the provider."""


class KeyJson(TypedDict):
    """A signing key of the identity provider."""

    id: str
    """Id of the key, `kid` in the tokens."""
    algorithm: str
    """`RS256` or `ES256`."""
    signs: bool
    """Whether new tokens are signed by it."""


class FailureJson(TypedDict):
    """A failure of the identity provider."""

    id: str
    """Id with which the failure can be removed."""
    failure: str
    """Kind of the failure."""
    endpoint: str
    """`token` or `jwks`."""
    client: str | None
    """Client that it applies to; null for all."""
    times: int | None
    """Number of requests that it applies to; null for all."""
    delay_ms: int
    """Delay of `slow`, else 0."""
    firings: int
    """Number of affected requests."""


class FailuresJson(TypedDict):
    """Failures of the identity provider that were removed."""

    failures: Sequence[FailureJson]
    """The failures with their final counts."""


class IdentityJson(TypedDict):
    """The identity provider of the broker."""

    issuer: str
    """Issuer of the tokens, and URL of the provider on the broker's machine."""
    token_endpoint: str
    """URL of the token endpoint on the broker's machine."""
    jwks_uri: str
    """URL of the published keys on the broker's machine."""
    audience: str
    """Audience of the tokens."""
    token_lifetime_ms: int
    """Lifetime of the tokens."""
    clients: Sequence[ClientJson]
    """All clients."""
    keys: Sequence[KeyJson]
    """Published keys, oldest first."""
    failures: Sequence[FailureJson]
    """Failures in the order in which they were added."""


def identity_to_json(status: IdentityStatus) -> IdentityJson:
    """Return the JSON representation of a provider."""
    provider = status.provider
    return {
        "issuer": provider.issuer,
        "token_endpoint": provider.token_endpoint,
        "jwks_uri": provider.jwks_endpoint,
        "audience": provider.audience,
        "token_lifetime_ms": provider.token_lifetime_ms,
        "clients": [client_to_json(client) for client in status.clients],
        "keys": [key_to_json(status, key) for key in status.keys],
        "failures": [failure_to_json(failure) for failure in status.failures],
    }


def client_to_json(client: OAuthClient) -> ClientJson:
    """Return the JSON representation of a client."""
    return {
        "id": client.id,
        "has_secret": client.secret is not None,
        "has_public_key": client.public_key is not None,
        "scopes": client.scopes,
        "subjects": client.subjects,
        "audience": client.audience,
        "token_lifetime_ms": client.token_lifetime_ms,
    }


def key_to_json(status: IdentityStatus, key: SigningKey) -> KeyJson:
    """Return the JSON representation of a signing key."""
    signs = key.id == status.provider.keys.current.id
    return {"id": key.id, "algorithm": key.algorithm, "signs": signs}


def failure_to_json(state: FailureState) -> FailureJson:
    """Return the JSON representation of a failure."""
    failure = state.failure
    return {
        "id": state.id,
        "failure": failure.kind.value,
        "endpoint": failure.endpoint.value,
        "client": failure.client_id,
        "times": failure.times,
        "delay_ms": failure.delay_ms,
        "firings": state.firings,
    }


def tokens_command(body: object) -> ChangeTokens:
    """Parse a body of POST /v1/identity; raises ValueError, with one sentence, if it is invalid."""
    fields = _object(body, {"audience", "token_lifetime", "token_lifetime_ms"})
    text = fields.pop("token_lifetime", None)
    if text is not None:
        if not isinstance(text, str) or "token_lifetime_ms" in fields:
            raise CommandError('token_lifetime must be text such as "5m", and only one is given')
        fields["token_lifetime_ms"] = duration_ms(text)
    if not fields:
        raise CommandError("the body must have audience, token_lifetime or token_lifetime_ms")
    return ChangeTokens(**fields)  # type: ignore[arg-type]  # the provider checks the types


def key_command(body: object) -> AddSigningKey:
    """Parse a body of POST /v1/identity/keys; raises CommandError if it is invalid."""
    fields = _object(body, {"algorithm"})
    if not fields:
        return AddSigningKey()
    algorithm = fields["algorithm"]
    if not isinstance(algorithm, str):
        raise CommandError("algorithm must be text")
    return AddSigningKey(algorithm)


def _object(body: object, names: set[str]) -> dict[str, object]:
    if not isinstance(body, dict) or not body.keys() <= names:
        raise CommandError(f"the body must be an object; its fields are {', '.join(sorted(names))}")
    return dict(body)


class IdentityRoutes:
    """Handlers of the control paths; `read_body` returns the JSON of a request's body."""

    def __init__(self, broker: Broker, read_body: Callable[[Request], Awaitable[object]]) -> None:
        self._broker = broker
        self._read_body = read_body

    def routes(self) -> tuple[ControlRoute, ...]:
        """Return the routes."""
        return (
            ControlRoute("/v1/identity", self._identity, ("GET", "POST")),
            ControlRoute("/v1/identity/clients", self._clients, ("POST",)),
            ControlRoute("/v1/identity/clients/{id:path}", self._client, ("DELETE",)),
            ControlRoute("/v1/identity/keys", self._keys, ("POST",)),
            ControlRoute("/v1/identity/keys/{id:path}", self._key, ("DELETE",)),
            ControlRoute("/v1/identity/failures", self._failures, ("POST", "DELETE")),
            ControlRoute("/v1/identity/failures/{id:path}", self._failure, ("DELETE",)),
        )

    async def _perform(self, command: IdentityCommand) -> IdentityStatus:
        return await perform_identity_command(self._broker, command)

    async def _identity(self, request: Request) -> object:
        command: IdentityCommand = ShowIdentity()
        if request.method == "POST":
            command = tokens_command(await self._read_body(request))
        return identity_to_json(await self._perform(command))

    async def _clients(self, request: Request) -> object:
        body = await self._read_body(request)
        if not isinstance(body, dict):
            raise CommandError('the body must be an object, such as {"id": "a", "secret": "s"}')
        (added,) = (await self._perform(PutClient(body))).clients
        return JSONResponse(client_to_json(added), 201)

    async def _client(self, request: Request) -> object:
        return await self._removal(
            RemoveClient(request.path_params["id"]),
            lambda status: client_to_json(status.clients[0]),
        )

    async def _keys(self, request: Request) -> object:
        status = await self._perform(key_command(await self._read_body(request)))
        return JSONResponse(key_to_json(status, status.keys[0]), 201)

    async def _key(self, request: Request) -> object:
        return await self._removal(
            RetireSigningKey(request.path_params["id"]),
            lambda status: key_to_json(status, status.keys[0]),
        )

    async def _failures(self, request: Request) -> object:
        if request.method == "DELETE":
            removed = (await self._perform(ClearIdentityFailures())).failures
            return {"failures": [failure_to_json(each) for each in removed]}
        body = await self._read_body(request)
        if not isinstance(body, dict):
            raise CommandError('the body must be an object, such as {"failure": "expired"}')
        (added,) = (await self._perform(AddIdentityFailure(body))).failures
        return JSONResponse(failure_to_json(added), 201)

    async def _failure(self, request: Request) -> object:
        return await self._removal(
            RemoveIdentityFailure(request.path_params["id"]),
            lambda status: failure_to_json(status.failures[0]),
        )

    async def _removal(
        self, command: IdentityCommand, to_json: Callable[[IdentityStatus], object]
    ) -> object:
        try:
            return to_json(await self._perform(command))
        except UnknownIdentityError as unknown:
            return JSONResponse({"error": str(unknown)}, 404)
