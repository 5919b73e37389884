"""BrokerIdentity: the identity provider of a broker, from the test's thread."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Self

from kafkalite.control.commands.identity import (
    AddIdentityFailure,
    AddSigningKey,
    ChangeTokens,
    ClearIdentityFailures,
    PutClient,
    RemoveClient,
    RemoveIdentityFailure,
    RetireSigningKey,
    ShowIdentity,
)
from kafkalite.identity.errors import UnknownIdentityError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafkalite.control.command_table import Perform
    from kafkalite.control.commands.identity import FailureStatus


class IdentityFailure:
    """A failure of the provider; as a context manager it is removed at the end of the block."""

    def __init__(self, perform: Perform, state: FailureStatus) -> None:
        self._perform = perform
        self._last_state = state

    @property
    def id(self) -> str:
        """The id of the failure for other processes."""
        return self._last_state.id

    @property
    def firings(self) -> int:
        """The number of affected requests so far; after removal, the final number."""
        for state in self._perform(ShowIdentity()).failures:
            if state.id == self.id:
                self._last_state = state
        return self._last_state.firings

    def remove(self) -> None:
        """Remove the failure; does nothing if it was removed before."""
        with suppress(UnknownIdentityError):
            self._last_state = self._perform(RemoveIdentityFailure(self.id))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


class BrokerIdentity:
    """Controls the identity provider; usable from any thread but the broker's."""

    def __init__(self, perform: Perform) -> None:
        self._perform = perform

    @property
    def issuer(self) -> str:
        """The issuer of the tokens, which is the URL of the provider."""
        return self._perform(ShowIdentity()).issuer

    @property
    def token_endpoint(self) -> str:
        """The URL of the token endpoint."""
        return self._perform(ShowIdentity()).token_endpoint

    @property
    def jwks_endpoint(self) -> str:
        """The URL of the published keys."""
        return self._perform(ShowIdentity()).jwks_uri

    @property
    def client_ids(self) -> list[str]:
        """The ids of all clients."""
        return [client.id for client in self._perform(ShowIdentity()).clients]

    @property
    def key_ids(self) -> list[str]:
        """The ids of the published keys, oldest first; the last one signs."""
        return [key.id for key in self._perform(ShowIdentity()).keys]

    def add_client(
        self,
        client_id: str,
        secret: str | None = None,
        *,
        public_key: str | Mapping[str, object] | None = None,
        scopes: Sequence[str] | None = None,
        subjects: Sequence[str] = (),
        audience: str | None = None,
        token_lifetime_ms: int | None = None,
    ) -> None:
        """Let a client request tokens; a client with the same id is replaced.

        The client authenticates by `secret`, or by assertions that `public_key` verifies, PEM text
        or a JSON web key. It may request all scopes unless `scopes` lists them. Its assertions may
        name the principals in `subjects` in addition to its own id. `audience` and
        `token_lifetime_ms` apply to its tokens. Raises ValueError for invalid values.
        """
        self._perform(
            PutClient(
                client_id,
                secret,
                public_key=public_key if isinstance(public_key, str | None) else dict(public_key),
                scopes=None if scopes is None else tuple(scopes),
                subjects=tuple(subjects),
                audience=audience,
                token_lifetime_ms=token_lifetime_ms,
            )
        )

    def remove_client(self, client_id: str) -> None:
        """Remove a client; raises ValueError for an unknown id."""
        self._perform(RemoveClient(client_id))

    def add_key(self, algorithm: str = "RS256") -> str:
        """Sign with a new key from now on, and return its id; the other keys remain published.

        `algorithm` is "RS256" or "ES256"; raises ValueError for another one.
        """
        return self._perform(AddSigningKey(algorithm)).id

    def retire_key(self, key_id: str) -> None:
        """Publish a key no longer, so that its tokens become invalid.

        Raises ValueError for an unknown key, and for the only one.
        """
        self._perform(RetireSigningKey(key_id))

    def set_tokens(
        self, *, audience: str | None = None, token_lifetime_ms: int | None = None
    ) -> None:
        """Set the audience and the lifetime of tokens; raises ValueError for invalid values."""
        self._perform(ChangeTokens(audience, token_lifetime_ms))

    def fail(
        self,
        failure: str,
        *,
        endpoint: str = "token",
        client: str | None = None,
        times: int | None = None,
        delay_ms: int | None = None,
    ) -> IdentityFailure:
        """Let the requests to an endpoint fail from now on.

        `failure` is "expired", "wrong_audience", "wrong_issuer", "wrong_key", "http_500",
        "malformed" or "slow", which needs `delay_ms`. `endpoint` is "token" or "jwks". Only the
        requests of `client`, and only `times` of them, are affected if these are given. Raises
        ValueError, with one sentence, for invalid values.
        """
        state = self._perform(AddIdentityFailure(failure, endpoint, client, times, delay_ms))
        return IdentityFailure(self._perform, state)

    def clear_failures(self) -> None:
        """Remove all failures."""
        self._perform(ClearIdentityFailures())
