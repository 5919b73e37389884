"""Commands to the identity provider of a running broker, as data, and their execution."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from kafkalite.control.commands import CommandError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kafkalite.identity.clients import OAuthClient
    from kafkalite.identity.failures import FailureState
    from kafkalite.identity.provider import IdentityProvider
    from kafkalite.identity.signing_keys import KeyPair, SigningKey
    from kafkalite.server.broker import Broker


@dataclass(frozen=True, slots=True)
class ShowIdentity:
    """Return the state of the provider."""


@dataclass(frozen=True, slots=True)
class ChangeTokens:
    """Set the audience and the lifetime of the tokens of all clients without their own."""

    audience: str | None = None
    token_lifetime_ms: int | None = None


@dataclass(frozen=True, slots=True)
class PutClient:
    """Add or replace a client; `fields` are those of OAuthClient."""

    fields: Mapping[str, object]

    def __repr__(self) -> str:
        """Return a text without the secret."""
        return f"PutClient({', '.join(self.fields)})"


@dataclass(frozen=True, slots=True)
class RemoveClient:
    """Remove the client with this id."""

    client_id: str


@dataclass(frozen=True, slots=True)
class AddSigningKey:
    """Make a key that signs from now on."""

    algorithm: str = "RS256"


@dataclass(frozen=True, slots=True)
class RetireSigningKey:
    """Publish a key no longer."""

    key_id: str


@dataclass(frozen=True, slots=True)
class AddIdentityFailure:
    """Let requests fail from now on; `fields` describe the failure."""

    fields: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class RemoveIdentityFailure:
    """Remove the failure with this id."""

    failure_id: str


@dataclass(frozen=True, slots=True)
class ClearIdentityFailures:
    """Remove all failures."""


IdentityCommand = (
    ShowIdentity
    | ChangeTokens
    | PutClient
    | RemoveClient
    | AddSigningKey
    | RetireSigningKey
    | AddIdentityFailure
    | RemoveIdentityFailure
    | ClearIdentityFailures
)


class IdentityStatus(NamedTuple):
    """The provider, and the clients, keys and failures that a command concerns: by default all."""

    provider: IdentityProvider
    clients: Sequence[OAuthClient] = ()
    keys: Sequence[SigningKey] = ()
    failures: Sequence[FailureState] = ()


async def perform_identity_command(broker: Broker, command: IdentityCommand) -> IdentityStatus:
    """Carry out a command, and return what it has added, changed or removed.

    Raises CommandError if the broker has no identity provider, and IdentityError for an invalid
    command.
    """
    provider = broker.identity
    if provider is None:
        raise CommandError("the broker has no identity provider: start it with --oidc")
    change = _CHANGES.get(type(command))
    if change is not None:
        return change(provider, command)
    if isinstance(command, AddSigningKey):
        return await _add_key(provider, command)
    if isinstance(command, AddIdentityFailure):
        return await _add_failure(provider, command)
    if isinstance(command, ChangeTokens):
        provider.change(command.audience, command.token_lifetime_ms)
    return IdentityStatus(
        provider, provider.clients, tuple(provider.keys), tuple(provider.failures)
    )


def _put_client(provider: IdentityProvider, command: PutClient) -> IdentityStatus:
    from kafkalite.identity.clients import client_of  # noqa: PLC0415 - only with --oidc

    return IdentityStatus(provider, clients=(provider.put_client(client_of(dict(command.fields))),))


async def _add_key(provider: IdentityProvider, command: AddSigningKey) -> IdentityStatus:
    provider.keys.check_addition(command.algorithm)
    key = await _new_key(command.algorithm)
    return IdentityStatus(provider, keys=(provider.keys.add(command.algorithm, key),))


async def _add_failure(provider: IdentityProvider, command: AddIdentityFailure) -> IdentityStatus:
    from kafkalite.identity.failures import FailureKind, failure_of  # noqa: PLC0415 - see above
    from kafkalite.identity.signing_keys import DEFAULT_ALGORITHM  # noqa: PLC0415 - see above

    failure = failure_of(dict(command.fields))
    if failure.kind is FailureKind.WRONG_KEY:
        provider.keys.set_unpublished(DEFAULT_ALGORITHM, await _new_key(DEFAULT_ALGORITHM))
    return IdentityStatus(provider, failures=(provider.failures.add(failure),))


async def _new_key(algorithm: str) -> KeyPair:
    """Make a key in a thread: a key of RSA takes long, and clients are served meanwhile."""
    from kafkalite.identity.signing_keys import new_key  # noqa: PLC0415 - only with --oidc

    return await asyncio.to_thread(new_key, algorithm)


_CHANGES: Mapping[type, Callable[[IdentityProvider, Any], IdentityStatus]] = {
    PutClient: _put_client,
    RemoveClient: lambda provider, command: IdentityStatus(
        provider, clients=(provider.remove_client(command.client_id),)
    ),
    RetireSigningKey: lambda provider, command: IdentityStatus(
        provider, keys=(provider.keys.retire(command.key_id),)
    ),
    RemoveIdentityFailure: lambda provider, command: IdentityStatus(
        provider, failures=(provider.failures.remove(command.failure_id),)
    ),
    ClearIdentityFailures: lambda provider, _: IdentityStatus(
        provider, failures=provider.failures.clear()
    ),
}
"""Command → the function that carries it out, for commands that do not wait."""
