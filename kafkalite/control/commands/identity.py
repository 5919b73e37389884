"""Commands to the identity provider of a broker: its tokens, clients, keys and failures."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, ClassVar, Final

from kafkalite.config.typed_json import About, to_json
from kafkalite.control.command_table import CommandError, Family, Row, Words, one_line
from kafkalite.identity.errors import UnknownIdentityError
from kafkalite.ports.times import duration_ms

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalite.identity.clients import OAuthClient
    from kafkalite.identity.failures import FailureState
    from kafkalite.identity.provider import IdentityProvider
    from kafkalite.identity.signing_keys import KeyPair, SigningKey
    from kafkalite.server.broker import Broker

_MAX_FILE_LENGTH: Final = 16 * 1024
_STDIN: Final = "-"
FAILURE_KINDS: Final = (
    "expired", "wrong_audience", "wrong_issuer", "wrong_key", "http_500", "malformed", "slow",
)  # fmt: skip
ENDPOINTS: Final = ("token", "jwks")
_ALGORITHMS: Final = ("RS256", "ES256")


def _text_of(path: str) -> str:
    """Return the text of a file; raises ValueError if it cannot be read."""
    try:
        if path == _STDIN:
            return sys.stdin.read(_MAX_FILE_LENGTH)
        with open(path, encoding="utf-8") as file:  # noqa: PTH123 - pathlib is slow to import
            return file.read(_MAX_FILE_LENGTH)
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise ValueError(f"cannot read {path}: {reason.lower()}") from error


def _first_line(path: str) -> str:
    """Return the first line of a file with a secret; raises ValueError."""
    return _text_of(path).partition("\n")[0].rstrip("\r")


def _lifetime(text: str) -> About:
    return About(text, alias="token_lifetime", parse=duration_ms, metavar="DURATION")


@dataclass(frozen=True, slots=True)
class ClientStatus:
    """A client of the identity provider, without its secret."""

    id: Annotated[str, About("Id of the client.")]
    has_secret: Annotated[bool, About("Whether it can authenticate by a secret.")]
    has_public_key: Annotated[bool, About("Whether it can authenticate by assertions.")]
    scopes: Annotated[tuple[str, ...] | None, About("Scopes that it may request; null for all.")]
    subjects: Annotated[
        tuple[str, ...], About("Principals that its assertions may name in addition to its id.")
    ]
    audience: Annotated[str | None, About("Audience of its tokens; null for that of the provider.")]
    token_lifetime_ms: Annotated[
        int | None, About("Lifetime of its tokens; null for that of the provider.")
    ]


@dataclass(frozen=True, slots=True)
class KeyStatus:
    """A signing key of the identity provider."""

    id: Annotated[str, About("Id of the key, `kid` in the tokens.")]
    algorithm: Annotated[str, About("`RS256` or `ES256`.")]
    signs: Annotated[bool, About("Whether new tokens are signed by it.")]


@dataclass(frozen=True, slots=True)
class FailureStatus:
    """A failure of the identity provider."""

    id: Annotated[str, About("Id with which the failure can be removed.")]
    failure: Annotated[str, About("Kind of the failure.")]
    endpoint: Annotated[str, About("`token` or `jwks`.")]
    client: Annotated[str | None, About("Client that it applies to; null for all.")]
    times: Annotated[int | None, About("Number of requests that it applies to; null for all.")]
    delay_ms: Annotated[int, About("Delay of `slow`, else 0.")]
    firings: Annotated[int, About("Number of affected requests.")]


@dataclass(frozen=True, slots=True)
class FailureList:
    """Failures of the identity provider that were removed."""

    failures: Annotated[tuple[FailureStatus, ...], About("The failures with their final counts.")]


@dataclass(frozen=True, slots=True)
class IdentityStatus:
    """The identity provider of the broker."""

    issuer: Annotated[
        str, About("Issuer of the tokens, and URL of the provider on the broker's machine.")
    ]
    token_endpoint: Annotated[str, About("URL of the token endpoint on the broker's machine.")]
    jwks_uri: Annotated[str, About("URL of the published keys on the broker's machine.")]
    audience: Annotated[str, About("Audience of the tokens.")]
    token_lifetime_ms: Annotated[int, About("Lifetime of the tokens.")]
    clients: Annotated[tuple[ClientStatus, ...], About("All clients.")]
    keys: Annotated[tuple[KeyStatus, ...], About("Published keys, oldest first.")]
    failures: Annotated[
        tuple[FailureStatus, ...], About("Failures in the order in which they were added.")
    ]


@dataclass(frozen=True, slots=True)
class ShowIdentity:
    """Return the identity provider of `--oidc`."""

    async def perform(self, broker: Broker) -> IdentityStatus:
        """Return the provider."""
        return _status(_provider(broker))


@dataclass(frozen=True, slots=True)
class ChangeTokens:
    """Change the audience or the lifetime of the tokens of all clients without their own."""

    AT_LEAST_ONE: ClassVar = True

    audience: Annotated[str | None, About("audience of the tokens", metavar="NAME")] = None
    token_lifetime_ms: Annotated[int | None, _lifetime("lifetime, such as 5m")] = None

    async def perform(self, broker: Broker) -> IdentityStatus:
        """Change the tokens, and return the provider; raises IdentityError."""
        provider = _provider(broker)
        provider.change(self.audience, self.token_lifetime_ms)
        return _status(provider)


@dataclass(frozen=True, slots=True)
class PutClient:
    """Add or replace a client. It has a secret or a public key."""

    id: Annotated[str, About("id of the client, without colon", metavar="ID")]
    secret: Annotated[
        str | None,
        About(
            "secret of the client",
            help="file whose first line is the secret; - reads it from stdin",
            parse=_first_line,
            is_secret=True,
            option="secret-file",
            metavar="FILE",
        ),
    ] = field(default=None, repr=False)
    public_key: Annotated[
        object,
        About(
            "key that verifies its assertions: PEM text, or a JSON web key; RSA of 2048 bits or "
            "more, or P-256, P-384, P-521",
            help="PEM file with the key that verifies its assertions",
            parse=_text_of,
            schema={"type": ["string", "object", "null"]},
            metavar="FILE",
        ),
    ] = field(default=None, repr=False)
    scopes: Annotated[
        tuple[str, ...] | None,
        About(
            "scopes that it may request; without them, all",
            help="scope that it may request; repeatable [all]",
            option="scope",
            metavar="NAME",
        ),
    ] = None
    subjects: Annotated[
        tuple[str, ...],
        About(
            "principals that its assertions may name, in addition to its id",
            help="principal that its assertions may name, in addition to its id; repeatable",
            option="subject",
            metavar="NAME",
        ),
    ] = ()
    audience: Annotated[str | None, About("audience of its tokens", metavar="NAME")] = None
    token_lifetime_ms: Annotated[int | None, _lifetime("lifetime of its tokens")] = None

    async def perform(self, broker: Broker) -> ClientStatus:
        """Add the client; raises IdentityError."""
        from kafkalite.identity.clients import client_of  # noqa: PLC0415 - only with --oidc

        provider = _provider(broker)
        return _client_status(provider.put_client(client_of(to_json(self))))


@dataclass(frozen=True, slots=True)
class RemoveClient:
    """Remove a client, and return it."""

    client_id: Annotated[str, About("id of the client", metavar="ID")]

    async def perform(self, broker: Broker) -> ClientStatus:
        """Remove the client; raises UnknownIdentityError."""
        return _client_status(_provider(broker).remove_client(self.client_id))


@dataclass(frozen=True, slots=True)
class AddSigningKey:
    """Make a key that signs from now on."""

    algorithm: Annotated[str, About("algorithm [RS256]", choices=_ALGORITHMS)] = "RS256"

    async def perform(self, broker: Broker) -> KeyStatus:
        """Make the key; raises IdentityError."""
        provider = _provider(broker)
        provider.keys.check_addition(self.algorithm)
        key = await _new_key(self.algorithm)
        return _key_status(provider, provider.keys.add(self.algorithm, key))


@dataclass(frozen=True, slots=True)
class RetireSigningKey:
    """Publish a key no longer, and return it. Its tokens become invalid."""

    key_id: Annotated[str, About("id of the key", metavar="ID")]

    async def perform(self, broker: Broker) -> KeyStatus:
        """Retire the key; raises UnknownIdentityError, or IdentityError for the only one."""
        provider = _provider(broker)
        return _key_status(provider, provider.keys.retire(self.key_id))


@dataclass(frozen=True, slots=True)
class AddIdentityFailure:
    """Let requests to the provider fail from now on."""

    failure: Annotated[
        str,
        About(
            "what is wrong with the responses. Tokens have expired an hour ago (`expired`), name "
            "another audience or issuer, or are signed by a key that is not published "
            "(`wrong_key`). Responses have status 500 and no body, are not JSON (`malformed`), or "
            "are delayed (`slow`)",
            choices=FAILURE_KINDS,
        ),
    ]
    endpoint: Annotated[
        str,
        About("endpoint that fails [token]; jwks only with the last three", choices=ENDPOINTS),
    ] = ENDPOINTS[0]
    client: Annotated[str | None, About("only for this client [all]", metavar="ID")] = None
    times: Annotated[int | None, About("at most for N requests [all]", metavar="N")] = None
    delay_ms: Annotated[
        int | None,
        About(
            "with slow: the delay, by the broker's clock",
            alias="delay",
            parse=duration_ms,
            metavar="DURATION",
        ),
    ] = None

    async def perform(self, broker: Broker) -> FailureStatus:
        """Add the failure; raises IdentityError."""
        from kafkalite.identity.failures import FailureKind, failure_of  # noqa: PLC0415 - as above
        from kafkalite.identity.signing_keys import DEFAULT_ALGORITHM  # noqa: PLC0415 - as above

        provider = _provider(broker)
        failure = failure_of(to_json(self))
        if failure.kind is FailureKind.WRONG_KEY:
            provider.keys.set_unpublished(DEFAULT_ALGORITHM, await _new_key(DEFAULT_ALGORITHM))
        return _failure_status(provider.failures.add(failure))


@dataclass(frozen=True, slots=True)
class RemoveIdentityFailure:
    """Remove a failure; return it with its final count."""

    failure_id: Annotated[str, About("id that `fail` and `show` print", metavar="ID")]

    async def perform(self, broker: Broker) -> FailureStatus:
        """Remove the failure; raises UnknownIdentityError."""
        return _failure_status(_provider(broker).failures.remove(self.failure_id))


@dataclass(frozen=True, slots=True)
class ClearIdentityFailures:
    """Remove all failures; return them with their final counts."""

    async def perform(self, broker: Broker) -> FailureList:
        """Remove all failures."""
        removed = _provider(broker).failures.clear()
        return FailureList(tuple(map(_failure_status, removed)))


async def _new_key(algorithm: str) -> KeyPair:
    """Make a key in a thread: a key of RSA takes long, and clients are served meanwhile."""
    from kafkalite.identity.signing_keys import new_key  # noqa: PLC0415 - as above

    return await asyncio.to_thread(new_key, algorithm)


def _provider(broker: Broker) -> IdentityProvider:
    if broker.identity is None:
        raise CommandError("the broker has no identity provider: start it with --oidc")
    return broker.identity


def _status(provider: IdentityProvider) -> IdentityStatus:
    return IdentityStatus(
        issuer=provider.issuer,
        token_endpoint=provider.token_endpoint,
        jwks_uri=provider.jwks_endpoint,
        audience=provider.audience,
        token_lifetime_ms=provider.token_lifetime_ms,
        clients=tuple(map(_client_status, provider.clients)),
        keys=tuple(_key_status(provider, key) for key in provider.keys),
        failures=tuple(map(_failure_status, provider.failures)),
    )


def _client_status(client: OAuthClient) -> ClientStatus:
    return ClientStatus(
        id=client.id,
        has_secret=client.secret is not None,
        has_public_key=client.public_key is not None,
        scopes=client.scopes,
        subjects=client.subjects,
        audience=client.audience,
        token_lifetime_ms=client.token_lifetime_ms,
    )


def _key_status(provider: IdentityProvider, key: SigningKey) -> KeyStatus:
    return KeyStatus(key.id, key.algorithm, key.id == provider.keys.current.id)


def _failure_status(state: FailureState) -> FailureStatus:
    failure = state.failure
    return FailureStatus(
        id=state.id,
        failure=failure.kind.value,
        endpoint=failure.endpoint.value,
        client=failure.client_id,
        times=failure.times,
        delay_ms=failure.delay_ms,
        firings=state.firings,
    )


def _lines(provider: IdentityStatus, _: object) -> Iterator[str]:
    yield (
        f"issuer {provider.issuer}, audience {provider.audience}, "
        f"lifetime {provider.token_lifetime_ms} ms"
    )
    yield from map(_client_line, provider.clients)
    yield from map(_key_line, provider.keys)
    yield from map(_failure_line, provider.failures)


def _client_line(client: ClientStatus) -> str:
    parts = (
        *(("secret",) if client.has_secret else ()),
        *(("public key",) if client.has_public_key else ()),
        "all scopes" if client.scopes is None else f"scopes {' '.join(client.scopes)}",
    )
    return f"client {client.id}: {', '.join(parts)}"


def _key_line(key: KeyStatus) -> str:
    return f"key {key.id}: {key.algorithm}{', signs' if key.signs else ''}"


def _failure_line(failure: FailureStatus) -> str:
    parts = (
        failure.failure,
        f"endpoint {failure.endpoint}",
        *(() if failure.client is None else (f"client {failure.client}",)),
        *(() if failure.times is None else (f"{failure.times} times",)),
        *((f"{failure.delay_ms} ms",) if failure.delay_ms else ()),
    )
    return f"failure {failure.id}: {', '.join(parts)} ({failure.firings} fired)"


_PATH = "/v1/identity"

COMMANDS = Family(
    (
        Row(
            ShowIdentity,
            IdentityStatus,
            "GET",
            _PATH,
            (Words("identity show", "Print the provider, its clients, keys and failures."),),
            _lines,
        ),
        Row(
            ChangeTokens,
            IdentityStatus,
            "POST",
            _PATH,
            (Words("identity set", "Set the audience and the lifetime of tokens."),),
            _lines,
            {"token_lifetime": "5m"},
        ),
        Row(
            PutClient,
            ClientStatus,
            "POST",
            f"{_PATH}/clients",
            (Words("identity add-client", "Add or replace a client.", ("id",)),),
            one_line(_client_line),
            {"id": "a", "secret": "s"},
            201,
        ),
        Row(
            RemoveClient,
            ClientStatus,
            "DELETE",
            f"{_PATH}/clients/{{client_id}}",
            (Words("identity remove-client", "Remove a client.", ("client_id",)),),
            one_line(_client_line),
            not_found=UnknownIdentityError,
        ),
        Row(
            AddSigningKey,
            KeyStatus,
            "POST",
            f"{_PATH}/keys",
            (Words("identity add-key", "Make a signing key, which signs the tokens from now on."),),
            one_line(_key_line),
            {"algorithm": "ES256"},
            201,
        ),
        Row(
            RetireSigningKey,
            KeyStatus,
            "DELETE",
            f"{_PATH}/keys/{{key_id}}",
            (
                Words(
                    "identity retire-key",
                    "Publish a signing key no longer. Its tokens become invalid.",
                    ("key_id",),
                ),
            ),
            one_line(_key_line),
            not_found=UnknownIdentityError,
        ),
        Row(
            AddIdentityFailure,
            FailureStatus,
            "POST",
            f"{_PATH}/failures",
            (Words("identity fail", "Let token requests fail.", ("failure",)),),
            one_line(_failure_line),
            {"failure": "expired"},
            201,
        ),
        Row(
            RemoveIdentityFailure,
            FailureStatus,
            "DELETE",
            f"{_PATH}/failures/{{failure_id}}",
            (Words("identity repair", "Remove one failure or all failures.", ("failure_id",)),),
            one_line(_failure_line),
            not_found=UnknownIdentityError,
        ),
        Row(
            ClearIdentityFailures,
            FailureList,
            "DELETE",
            f"{_PATH}/failures",
            (Words("identity repair", "remove all failures", flag="all"),),
            lambda removed, _: [*map(_failure_line, removed.failures)] or ["no failures"],
        ),
    ),
    {"identity": "Control the identity provider of a running broker."},
)
